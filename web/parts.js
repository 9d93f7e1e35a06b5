// What can be done with a picture of the gallery, wherever it is shown.

import { call, get, order, remove } from "./api.js";
import { button, el, fill, iconButton } from "./dom.js";
import { dots, fileName } from "./format.js";
import { state, takeJob, tell, watch } from "./state.js";
import { t } from "./texts.js";
import { busily, choice, dialog, explain, fail, field, select, toast } from "./ui.js";

const RECENT = 12;

// One size everywhere: each is made once.
export const thumbnail = (item) => `${item.thumbnail_url}?size=320`;
export const nameOf = (item) => item.title || item.prompt || t(`kind.${item.kind}`);

// ---- deleting, which can be taken back for some seconds ----

const waiting = new Map(); // what is to be deleted, by id

export const isGoing = (id) => waiting.has(id);

function deleteNow(id, keepalive = false) {
    waiting.delete(id);
    return remove(`gallery/${id}`, { keepalive });
}

export function deleteItem(item) {
    waiting.set(item.id, item);
    tell("gallery", { deleted: item.id });
    const back = () => {
        waiting.delete(item.id);
        tell("gallery", { added: item });
    };
    toast(t("gallery.deleted"), {
        action: t("undo"),
        act: back,
        gone: () =>
            deleteNow(item.id).catch((error) => {
                fail(error);
                tell("gallery", { added: item });
            }),
    });
}

// Who leaves has meant it.
addEventListener("pagehide", () => [...waiting.keys()].forEach((id) => deleteNow(id, true).catch(() => {})));

// ---- the rest ----

export const setFavourite = (item, on) =>
    call("PATCH", `gallery/${item.id}`, { json: { favorite: on } }).then(
        (now) => (tell("gallery", { updated: now }), now),
    );

export function downloadLink(item) {
    return el(
        "a",
        {
            class: "btn square",
            href: item.content_url,
            download: fileName(item),
            "aria-label": t("download"),
            title: t("download"),
        },
        iconButton("", "download", null).firstChild,
    );
}

// Larger: which upscaler, and how much. What would be larger than is allowed is not offered.
export function enlarge(item) {
    const upscalers = (state.capabilities?.upscalers ?? []).filter((one) => one.installed),
        most = state.capabilities?.limits.max_side ?? Infinity;
    let upscaler = upscalers.some((one) => one.id === state.settings?.upscaler)
        ? state.settings.upscaler
        : upscalers[0]?.id;
    const factors = [1.5, 2, 3, 4, 8].map((n) => ({
        value: String(n),
        label: `${n}×`,
        small: `${Math.round(item.width * n)} × ${Math.round(item.height * n)}`,
        refused: Math.max(item.width, item.height) * n > most ? t("enlarge.most", { n: most }) : "",
    }));
    let factor =
        factors.find((one) => !one.refused && one.value === "2")?.value ?? factors.find((one) => !one.refused)?.value;
    return dialog(t("enlarge.title"), (close) => [
        choice("enlarge", t("enlarge.factor"), factors, factor, (value) => (factor = value)),
        field(t("create.upscaler"),
            select(
                upscalers.map((one) => ({
                    value: one.id,
                    label: dots(one.title, one.license, one.experimental && t("experimental")),
                })),
                upscaler,
                (value) => (upscaler = value),
            ),
        ),
        el("footer", {},
            button(t("cancel"), () => close()),
            button(
                t("enlarge.go"),
                busily(async () => {
                    const job = await order("upscale", {
                        gallery_item: item.id,
                        upscale: { upscaler, factor: Number(factor) },
                    });
                    takeJob(job);
                    close(job);
                    toast(t("enlarge.queued"), { action: t("queue.open"), act: () => (location.hash = "#/queue") });
                }),
                { kind: "primary", disabled: !factor },
            ),
        ),
    ]);
}

// What can be done with a result of a job, in short.
export function itemActions(result) {
    if (!result.gallery_item) return [downloadLink({ ...result, id: result.sha256 ?? "picture", kind: "picture" })];
    const item = { ...result, id: result.gallery_item };
    const use = busily(async () => (await import("./create.js")).usePicture(await get(`gallery/${item.id}`)));
    const editable = (state.capabilities?.kinds ?? []).some((kind) => ["edit", "inpaint", "outpaint"].includes(kind));
    return [
        editable && iconButton(t("picture.edit"), "edit", use),
        iconButton(t("picture.enlarge"), "enlarge", () => enlarge(item)),
        downloadLink({ ...item, kind: "picture" }),
    ];
}

// The newest pictures in a row.
export function recentStrip() {
    const row = el("div", { class: "strip-row" });
    const element = el("section", { class: "strip", hidden: true },
        el("header", { class: "row" }, el("h2", {}, t("strip.title")), el("a", { href: "#/gallery" }, t("strip.all"))),
        row,
    );
    let items = [];
    const show = () => {
        const shown = items.filter((item) => !isGoing(item.id)).slice(0, RECENT);
        element.hidden = !shown.length;
        fill(row,
            shown.map((item) =>
                el(
                    "a",
                    { href: `#/gallery/${item.id}`, title: nameOf(item) },
                    el("img", { src: thumbnail(item), alt: nameOf(item), loading: "lazy", decoding: "async" }),
                ),
            ),
        );
    };
    const read = () =>
        get(`gallery?limit=${RECENT}`).then(
            (page) => {
                items = page.items;
                show();
            },
            (error) => fill(row, el("p", { class: "muted" }, explain(error))),
        );
    const ends = [
        watch("everything", read),
        watch("gallery", ({ added, updated, deleted }) => {
            if (added)
                items = [added, ...items.filter((item) => item.id !== added.id)].sort((a, b) => (a.id < b.id ? 1 : -1));
            if (updated) items = items.map((item) => (item.id === updated.id ? updated : item));
            if (deleted && !isGoing(deleted)) items = items.filter((item) => item.id !== deleted);
            show();
        }),
    ];
    read();
    return { element, close: () => ends.forEach((end) => end()) };
}
