// Models: what is installed, what lies in a folder, and what can be fetched.

import { call, get, order, post, remove } from "./api.js";
import { add, button, el, fill, icon, iconButton } from "./dom.js";
import { bytes, dots, duration } from "./format.js";
import { readModels } from "./live.js";
import { state, tell, watch } from "./state.js";
import { t } from "./texts.js";
import {
    announce,
    busily,
    confirm,
    dialog,
    empty,
    explain,
    fact,
    failure,
    field,
    loading,
    meter,
    note,
    select,
    setMeter,
    toast,
} from "./ui.js";

const ROLES = ["diffusion", "text_encoder", "vision_encoder", "vae", "tokenizer"];
const MODELS = ["qwen-image-2.1", "qwen-image", "krea2", "z-image"];
const GOING = new Set(["queued", "running", "verifying", "paused"]);

const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);

// ---- profiles ----

const activation = (profile) =>
    busily(async () => {
        await post(`models/${profile.name}/activate`);
        await readModels();
        announce(t("models.activated", { name: profile.title ?? profile.name }));
    });

function profileCard(profile) {
    const missing = profile.files.filter((file) => !file.present);
    const total = profile.files.reduce((sum, file) => sum + (file.bytes ?? 0), 0);
    const forget = busily(async () => {
        if (await confirm(t("models.remove"), t("models.remove_text", { name: profile.name }), t("models.remove")))
            await remove(`models/${profile.name}`).then(readModels);
    });
    return el("article", { class: `card model ${profile.active ? "active" : ""}` },
        el("header", { class: "row" },
            el("div", {},
                el("h3", {}, profile.title ?? profile.name),
                el("p", { class: "small muted" },
                    dots(profile.name, profile.variant, profile.source === "official" ? t("models.built_in") : ""),
                ),
            ),
            profile.active
                ? el("span", { class: "chip good" }, t("models.active"))
                : el("span", { class: `chip ${profile.ready ? "" : "bad"}` },
                      t(profile.ready ? "models.ready" : "models.incomplete"),
                  ),
        ),
        el("p", { class: "small" },
            dots(
                profile.defaults?.steps && t("plan.steps", { n: profile.defaults.steps }),
                profile.defaults?.width && `${profile.defaults.width} × ${profile.defaults.height}`,
                total > 0 && bytes(total),
                profile.license,
            ),
        ),
        missing.map((file) =>
            note([t("models.missing", { role: t(`role.${file.role}`) }), " ", el("code", {}, file.path)], "error"),
        ),
        profile.files.length > 0 &&
            el("details", {},
                el("summary", {}, icon("down"), t("models.files", { n: profile.files.length })),
                el("ul", { class: "files" },
                    profile.files.map((file) =>
                        el("li", {},
                            el("span", {}, t(`role.${file.role}`)),
                            el("code", {}, file.path),
                            el("span", { class: "muted" },
                                dots(bytes(file.bytes), file.quantization, file.verified && t("models.verified")),
                            ),
                        ),
                    ),
                ),
            ),
        el("footer", { class: "row" },
            !profile.active &&
                button(t("models.activate"), activation(profile), {
                    kind: "small",
                    disabled: !profile.ready,
                    title: profile.ready ? "" : t("models.incomplete"),
                }),
            profile.source === "user" && iconButton(t("models.remove"), "trash", forget, { kind: "quiet" }),
        ),
    );
}

// ---- a folder ----

function scanForm(place) {
    const input = el("input", {
        type: "text",
        spellcheck: "false",
        autocomplete: "off",
        required: true,
        placeholder: "/home/you/models",
        value: state.settings?.model_directory ?? "",
    });
    const result = el("div", { class: "stack" });
    const scan = busily(async () => {
        fill(result, loading());
        try {
            showFiles(result, await post("models/scan", { directory: input.value.trim() }));
        } catch (error) {
            fill(result, failure(error));
        }
    });
    const go = button(t("models.scan"), scan, { symbol: "search" });
    fill(place,
        el("h2", {}, t("models.folder")),
        el("p", { class: "muted" }, t("models.folder_text")),
        el(
            "form",
            {
                class: "with-button",
                onsubmit: (event) => {
                    event.preventDefault();
                    go.click();
                },
            },
            field(t("models.directory"), input),
            go,
        ),
        result,
    );
}

function showFiles(place, { files, truncated }) {
    const roles = new Map();
    const make = button(t("models.make"), () => makeProfile(roles), { kind: "primary small", disabled: true });
    const rows = files.map((file) =>
        el("li", {},
            el("div", {},
                el("p", { class: "path" }, el("strong", {}, baseName(file.path))),
                el("p", { class: "small muted" }, dots(bytes(file.bytes), file.model, file.quantization, file.reason)),
            ),
            select(
                [
                    { value: "", label: t("models.not_used") },
                    ...ROLES.map((role) => ({ value: role, label: t(`role.${role}`) })),
                ],
                file.usable && file.role ? choose(file.path, file.role) : "",
                (role) => {
                    choose(file.path, role);
                    make.disabled = !roles.size;
                },
            ),
        ),
    );
    rows.forEach((row, i) =>
        row.querySelector("select").setAttribute("aria-label", t("models.role_of", { name: baseName(files[i].path) })),
    );
    function choose(path, role) {
        if (role) roles.set(path, role);
        else roles.delete(path);
        return role;
    }
    make.disabled = !roles.size;
    fill(place,
        files.length
            ? [
                  el("p", { class: "muted", role: "status" }, t("models.found", { n: files.length })),
                  el("ul", { class: "files choose" }, rows),
                  truncated && note(t("models.truncated"), "warning"),
                  el("div", {}, make),
              ]
            : empty("folder", t("models.no_files"), t("models.no_files_text")),
    );
}

function makeProfile(roles) {
    const models = [...new Set([...state.models.map((one) => one.model), ...MODELS])];
    const name = el("input", {
        type: "text",
        required: true,
        maxlength: "64",
        spellcheck: "false",
        placeholder: "my-model",
    });
    const title = el("input", { type: "text", maxlength: "200" });
    const problem = el("p", { class: "note error", role: "alert", hidden: true });
    let model = models[0];
    return dialog(t("models.make"), (close) => [
        field(t("models.name"), name, { hint: t("models.name_hint") }),
        field(t("viewer.title"), title),
        field(t("models.kind"),
            select(models.map((one) => ({ value: one, label: one })), model, (value) => (model = value)),
        ),
        problem,
        el("footer", {},
            button(t("cancel"), () => close()),
            button(
                t("models.save"),
                busily(async () => {
                    try {
                        if (!/^[a-z0-9._-]+$/.test(name.value.trim())) throw new Error(t("models.name_hint"));
                        const files = [...roles].map(([path, role]) => ({ role, path }));
                        await call("PUT", `models/${encodeURIComponent(name.value.trim())}`, {
                            json: { model, files, ...(title.value.trim() && { title: title.value.trim() }) },
                        });
                        await readModels();
                        close(true);
                        toast(t("models.saved"));
                    } catch (error) {
                        problem.textContent = explain(error);
                        problem.hidden = false;
                    }
                }),
                { kind: "primary" },
            ),
        ),
    ]);
}

// ---- downloads ----

// Opened by people only; nothing is asked of another host before.
const outside = (address, text) => el("a", { href: address, target: "_blank", rel: "noreferrer" }, text);

function acceptLicences(title, entries) {
    const licences = [...new Map(entries.map((one) => [one.license, one.license_page]))];
    return dialog(title, (close) => {
        const go = button(t("models.fetch"), () => close(true), {
            kind: "primary",
            disabled: true,
            symbol: "download",
        });
        const box = el("input", { type: "checkbox", onchange: () => (go.disabled = !box.checked) });
        return [
            el("dl", {},
                licences.map(([name, page]) => fact(t("models.licence"), outside(page, name))),
                fact(t("models.size"), bytes(sizeOf(entries))),
                entries.map((one) => [
                    fact(t("models.for"), t(`role.${one.role}`)),
                    fact("SHA-256", el("code", { class: "break" }, one.sha256)),
                ]),
            ),
            el("label", { class: "toggle" }, box,
                el("span", {}, t("models.agree", { licence: licences.map(([name]) => name).join(", ") })),
            ),
            el("footer", {}, button(t("cancel"), () => close(false)), go),
        ];
    });
}

const neededBy = ({ collections }) =>
    collections.length > 0 && t("models.needed", { names: collections.map((one) => one.title).join(", ") });

// What a download has made usable, as far as it still is.
const usableBy = (download) =>
    state.models.filter((profile) => profile.ready && download.profiles.includes(profile.name));

const usableRow = (profile) =>
    el("div", { class: "row" },
        icon("check"),
        el("span", {}, t("download.usable", { name: profile.title ?? profile.name })),
        profile.active
            ? el("span", { class: "chip good" }, t("models.active"))
            : button(t("models.activate"), activation(profile), { kind: "small" }),
    );

function downloadRow(download) {
    const bar = meter(0, t("models.progress"));
    const facts = el("p", { class: "small muted" });
    const title = el("p", { class: "job-title" });
    const tools = el("div", { class: "row" }),
        problem = el("div"),
        usable = el("div");
    // What comes of it is told by events, which may be here before the answer.
    const act = (what) => busily(() => post(`downloads/${download.id}/${what}`));
    const forget = busily(async () => {
        await remove(`downloads/${download.id}`);
        state.downloads.delete(download.id);
        row.remove();
    });
    const row = el("li", { class: "job" },
        icon("download"),
        el("div", { class: "job-text" }, title, facts, bar, problem, usable),
        tools,
    );
    let shown = "";

    // Also when it is told which profiles there are.
    function showUsable() {
        fill(usable, usableBy(download).map(usableRow));
    }

    function update(now) {
        download = now;
        const left =
            now.bytes_per_second > 0 && now.state === "running"
                ? (now.bytes_total - now.bytes_done) / now.bytes_per_second
                : null;
        title.textContent = now.title;
        facts.textContent = dots(
            t(`download.${now.state}`),
            `${bytes(now.bytes_done)} / ${bytes(now.bytes_total)}`,
            now.state === "running" &&
                now.bytes_per_second !== null &&
                now.bytes_per_second !== undefined &&
                (now.bytes_per_second > 0 ? `${bytes(now.bytes_per_second)}/s` : t("download.stalled")),
            left !== null && t("job.remaining", { time: duration(left) }),
            neededBy(now),
        );
        setMeter(bar, now.bytes_total ? now.bytes_done / now.bytes_total : 0);
        if (shown === now.state) return;
        shown = now.state;
        bar.hidden = !GOING.has(now.state);
        showUsable();
        const page = now.error?.manual_page;
        fill(problem,
            now.error &&
                note([now.error.message, " ", page && outside(page, t("download.by_hand"))], "error"),
        );
        fill(tools,
            ["queued", "running"].includes(now.state) && iconButton(t("download.pause"), "pause", act("pause")),
            ["paused", "failed"].includes(now.state) && iconButton(t("download.resume"), "play", act("resume")),
            GOING.has(now.state)
                ? iconButton(t("cancel"), "stop", act("cancel"))
                : iconButton(t("queue.forget"), "close", forget, { kind: "quiet" }),
        );
    }

    update(download);
    return { row, update, showUsable };
}

// The artifacts that are being fetched, or will be.
const onTheWay = () => [...state.downloads.values()].filter((one) => GOING.has(one.state)).map((one) => one.artifact);

const sizeOf = (entries) => entries.reduce((sum, one) => sum + one.bytes, 0);

async function fetchAll(title, entries) {
    const strange = entries.filter((one) => !one.license_accepted);
    if (strange.length && !(await acceptLicences(title, strange))) return;
    for (const entry of entries) {
        const download = await order("downloads", { artifact: entry.id, accept_license: true });
        if (state.downloads.has(download.id)) continue; // an event was faster, and may know more
        state.downloads.set(download.id, download);
        tell("downloads", download);
    }
}

// What is there of these entries, and what brings the rest.
function catalogRow(title, facts, entries, label, offline) {
    const going = onTheWay(),
        lacking = entries.filter((one) => !one.installed),
        wanted = lacking.filter((one) => !going.includes(one.id));
    return el("li", {},
        el("div", {}, el("p", {}, el("strong", {}, title)), el("p", { class: "small muted" }, facts)),
        !lacking.length
            ? el("span", { class: "chip good" }, t("models.installed"))
            : !offline &&
                  button(label, busily(() => fetchAll(title, wanted)), {
                      symbol: "download",
                      kind: "small",
                      disabled: !wanted.length,
                  }),
    );
}

// First what draws a picture when all of it is there, then every file.
function catalogRows({ items, offline }) {
    const collections = new Map();
    for (const entry of items)
        for (const { id, title } of entry.collections) {
            if (!collections.has(id)) collections.set(id, { title, parts: [] });
            collections.get(id).parts.push(entry);
        }
    return [
        ...[...collections.values()].map(({ title, parts }) =>
            catalogRow(
                title,
                dots(t("models.files", { n: parts.length }), bytes(sizeOf(parts))),
                parts,
                t("models.fetch_all"),
                offline,
            ),
        ),
        ...items.map((entry) =>
            catalogRow(
                entry.title,
                dots(t(`role.${entry.role}`), bytes(entry.bytes), entry.license, neededBy(entry)),
                [entry],
                t("models.fetch"),
                offline,
            ),
        ),
    ];
}

// ---- the screen ----

export function open(place) {
    const profiles = el("div", { class: "cards" }),
        folder = el("section", { class: "card" });
    const fetching = el("ul", { class: "jobs" }),
        catalog = el("div", { class: "stack" });
    const rows = new Map();
    add(place,
        el("section", {}, el("h2", { class: "unseen" }, t("models.profiles")), profiles),
        el("section", { class: "card" }, el("h2", {}, t("models.fetching")), fetching, catalog),
        folder,
    );

    function showProfiles() {
        fill(profiles, state.models.length ? state.models.map(profileCard) : loading());
        for (const one of rows.values()) one.showUsable();
    }

    function showDownloads(change) {
        if (change && rows.has(change.id)) {
            rows.get(change.id).update(change);
            return;
        }
        rows.clear();
        fetching.hidden = !state.downloads.size;
        fill(fetching,
            [...state.downloads.values()]
                .sort((a, b) => (a.id < b.id ? 1 : -1))
                .map((one) => {
                    rows.set(one.id, downloadRow(one));
                    return rows.get(one.id).row;
                }),
        );
    }

    async function readCatalog() {
        try {
            const found = await get("catalog");
            fill(catalog,
                found.offline && note(t("models.offline")),
                found.items.length
                    ? el("ul", { class: "files" }, catalogRows(found))
                    : el("p", { class: "muted" }, t("models.no_catalog")),
            );
        } catch (error) {
            fill(catalog,
                error.isMissing ? el("p", { class: "muted" }, t("models.not_here")) : failure(error, readCatalog),
            );
        }
    }

    let going = onTheWay().join();

    // What can be fetched is another thing whenever something begins, ends, fails or is taken up again.
    function followDownloads(change) {
        showDownloads(change);
        const now = onTheWay().join();
        if (now === going) return;
        going = now;
        readCatalog();
    }

    scanForm(folder);
    showProfiles();
    showDownloads();
    fill(catalog, loading());
    readCatalog();
    const ends = [watch("models everything", showProfiles), watch("downloads", followDownloads)];
    return () => ends.forEach((end) => end());
}
