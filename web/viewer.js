// One picture, large, with all that is known of it and all that can be done with it.

import { call, get } from "./api.js";
import { button, el, fill, icon, iconButton } from "./dom.js";
import { bytes, date, size } from "./format.js";
import { deleteItem, downloadLink, enlarge, nameOf, setFavourite } from "./parts.js";
import { usePicture, useRequest } from "./create.js";
import { compare } from "./compare.js";
import { state, watch } from "./state.js";
import { locale, t } from "./texts.js";
import { announce, busily, complain, fact, fail, field, showModal, toast } from "./ui.js";

// What of a recipe is a request that can be made again. Another model would choose another size, so it is said.
export function requestOfRecipe(recipe, model) {
    const { steps, guidance, working_width: width, working_height: height, profile, ...request } = recipe;
    const isOpen = width && !request.inputs?.length && !request.upscale && request.size?.mode !== "custom";
    if (isOpen && profile !== model) request.size = { mode: "custom", width, height };
    return { ...request, batch: 1 };
}

// What of it is no part of a request.
function lossOf({ profile, steps }, active) {
    const isOther = profile && profile !== active?.name;
    return [
        isOther && t("carried.model", { name: profile, model: active?.name ?? t("unknown") }),
        (isOther || steps !== active?.defaults.steps) && t("note.steps_by_model"),
    ].filter(Boolean);
}

// neighbour(item, step): the one before or after, if there is one. left(item): it was closed.
export function openViewer(first, { neighbour, left }) {
    let item = first,
        gone = null;
    const view = el("div", { class: "viewer-picture" }),
        facts = el("div", { class: "viewer-facts" });
    const box = el("dialog", { class: "viewer whole", "aria-label": t("viewer.label") }, view, facts);

    function copy(text) {
        navigator.clipboard.writeText(text).then(() => toast(t("copied")), fail);
    }

    function go(step) {
        const next = neighbour(item, step);
        if (next) turnTo(next);
    }

    function turnTo(next) {
        item = next;
        history.replaceState(null, "", `#/gallery/${item.id}`);
        show();
        announce(nameOf(item));
    }

    function leaveFor(f) {
        return busily(async () => {
            await f();
            box.close();
            location.hash = "#/create";
        });
    }

    async function reuse() {
        const active = state.models.find((one) => one.active),
            loss = lossOf(item.recipe, active);
        await useRequest(requestOfRecipe(item.recipe, active?.name));
        if (loss.length) toast(loss.join(" "), { kind: "warn", seconds: 8 });
    }

    async function source() {
        const id = item.source_inputs?.[0];
        if (id)
            await compare({ ...item, content_url: `/api/v1/inputs/${id}/content`, title: t("compare.before") }, item);
    }

    function show() {
        const before = neighbour(item, -1),
            after = neighbour(item, 1);
        const kinds = state.capabilities?.kinds ?? [];
        const image = el("img", { src: item.content_url, width: item.width, height: item.height, alt: nameOf(item) });
        image.style.setProperty("--width", item.width);
        image.style.setProperty("--height", item.height);
        image.addEventListener("error", () =>
            fill(view, el("div", { class: "empty bad" }, icon("warning", "large"), el("p", {}, t("viewer.missing")))),
        );
        fill(view,
            image,
            before && iconButton(t("viewer.before"), "left", () => go(-1), { kind: "turn before" }),
            after && iconButton(t("viewer.after"), "right", () => go(1), { kind: "turn after" }),
        );
        const star = iconButton(
            t(item.favorite ? "gallery.unfavourite" : "gallery.favourite"),
            "star",
            () => setFavourite(item, !item.favorite).catch(fail),
            { "aria-pressed": String(item.favorite) },
        );
        const title = el("input", {
            type: "text",
            maxlength: "200",
            value: item.title ?? "",
            placeholder: t("viewer.untitled"),
            onchange: () => change(title, { title: title.value.trim() || null }),
        });
        const tags = el("input", {
            type: "text",
            value: item.tags.join(", "),
            placeholder: t("viewer.no_tags"),
            onchange: () =>
                change(tags, { tags: tags.value.split(",").map((one) => one.trim()).filter(Boolean) }),
        });
        fill(facts,
            el("header", { class: "row" },
                el("span", { class: "muted" }, t(`kind.${item.kind}`)),
                el("span", { class: "row" },
                    star,
                    downloadLink(item),
                    iconButton(t("delete"), "trash", leaveOut, { class: "btn square delete" }),
                    iconButton(t("close"), "close", () => box.close()),
                ),
            ),
            item.prompt && el("p", { class: "prompt" }, item.prompt),
            item.recipe_unreadable &&
                el("p", { class: "muted" }, t("viewer.unreadable", { file: `gallery/${item.id}.json` })),
            el("div", { class: "viewer-actions" },
                item.recipe?.prompt &&
                    button(t("viewer.reuse"), leaveFor(reuse), { symbol: "again", kind: "primary" }),
                ["edit", "inpaint", "outpaint"].some((kind) => kinds.includes(kind)) &&
                    button(t("picture.edit"), leaveFor(() => usePicture(item)), { symbol: "edit" }),
                button(t("picture.enlarge"), () => enlarge(item), { symbol: "enlarge" }),
                item.source_inputs?.length > 0 &&
                    button(t("compare.source"), () => source().catch(fail), { symbol: "compare" }),
            ),
            el("dl", {},
                fact(t("fact.size"), `${size(item.width, item.height)} · ${bytes(item.bytes)}`),
                item.seed &&
                    fact(
                        t("fact.seed"),
                        el("code", {}, item.seed),
                        iconButton(t("copy_seed"), "copy", () => copy(item.seed), { kind: "small quiet" }),
                    ),
                item.profile && fact(t("fact.model"), modelName(item.profile)),
                item.recipe?.steps &&
                    fact(t("fact.steps"), t("plan.steps", { n: item.recipe.steps }), " · ", item.recipe.sampler),
                item.recipe?.negative_prompt && fact(t("create.negative"), item.recipe.negative_prompt),
                fact(t("fact.date"), date(item.created_at, locale)),
            ),
            field(t("viewer.title"), title),
            field(t("viewer.tags"), tags, { hint: t("viewer.tags_hint") }),
            item.prompt && button(t("viewer.copy_prompt"), () => copy(item.prompt), { symbol: "copy", kind: "quiet" }),
        );
    }

    // Another one comes into its place, or it itself again, and whoever deletes goes on there.
    function leaveOut() {
        const next = neighbour(item, 1) ?? neighbour(item, -1);
        gone = item;
        if (next) item = next;
        else box.close();
        deleteItem(gone);
        if (next) goOn(next);
    }

    function goOn(to) {
        turnTo(to);
        facts.querySelector(".delete").focus();
    }

    const change = (control, patch) =>
        call("PATCH", `gallery/${item.id}`, { json: patch }).then(
            (now) => {
                complain(control, "");
                if (now.id === item.id) item = now;
            },
            (error) => {
                complain(control, t("viewer.unsaved"));
                fail(error);
            },
        );

    box.addEventListener("keydown", (event) => {
        if (["INPUT", "TEXTAREA"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey)
            return;
        const keys = {
            ArrowLeft: () => go(-1),
            ArrowRight: () => go(1),
            f: () => setFavourite(item, !item.favorite).catch(fail),
        };
        if (event.key in keys) {
            event.preventDefault();
            keys[event.key]();
        }
    });
    const end = watch("gallery", ({ added, updated, deleted }) => {
        if (added && added.id === gone?.id) goOn(added);
        if (updated?.id === item.id) {
            item = updated;
            if (!facts.contains(document.activeElement) || document.activeElement.tagName !== "INPUT") show();
        }
        if (deleted === item.id) box.close();
    });
    show();
    showModal(box);
    box.addEventListener("close", () => {
        end();
        left(item);
    });
    // Whoever comes by a link of its own may have a list that does not hold it: what it is now, the service says.
    get(`gallery/${item.id}`).then(
        (now) => {
            if (now.id === item.id) item = now;
        },
        () => {},
    );
    return { close: () => box.open && box.close() };
}

export function modelName(profile) {
    const known = state.models.find((one) => one.name === profile);
    return known?.title ? `${known.title} (${profile})` : profile;
}
