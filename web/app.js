// The page: who may, the frame around the screens, and which of them is shown.

import { askBy, begin, isKnown, takeLink } from "./session.js";
import { add, bringIcons, button, el, fill, icon } from "./dom.js";
import { language, t } from "./texts.js";
import { isOver, state, watch } from "./state.js";
import { start } from "./live.js";
import { explain, toast } from "./ui.js";
import { applyTheme } from "./look.js";
import { guideIfNew } from "./guide.js";
import * as create from "./create.js";
import * as queue from "./queue.js";
import * as gallery from "./gallery.js";
import * as models from "./models.js";
import * as settings from "./settings.js";
import * as diagnostics from "./diagnostics.js";

const screens = { create, queue, gallery, models, settings, diagnostics };
let leave = null,
    shown = "";

// ---- who may ----

function askForToken() {
    return new Promise((resolve) => {
        const input = el("input", {
            type: "password",
            id: "token",
            autocomplete: "current-password",
            spellcheck: "false",
            required: true,
            minlength: "32",
            maxlength: "256",
            "aria-describedby": "token-hint token-error",
        });
        const error = el("p", { class: "note error", id: "token-error", role: "alert", hidden: true });
        const say = (text) => {
            error.textContent = text;
            error.hidden = !text;
        };
        const submit = async (event) => {
            event.preventDefault();
            say("");
            try {
                await begin(input.value.trim());
                box.remove();
                document.getElementById("app").inert = false;
                resolve();
            } catch (problem) {
                say(problem.status === 401 || problem.status === 422 ? t("session.wrong") : explain(problem));
                input.select();
            }
        };
        const box = el("div", { class: "gate", role: "dialog", "aria-modal": "true", "aria-labelledby": "gate-title" },
            el("form", { class: "card", onsubmit: submit, novalidate: true },
                icon("key", "large"),
                el("input", { type: "text", autocomplete: "username", value: t("brand"), hidden: true }),
                el("h1", { id: "gate-title" }, t("session.title")),
                el("p", {}, t("session.text")),
                el("div", { class: "field" },
                    el("label", { for: "token" }, t("session.token")),
                    input,
                    el("p", { class: "hint", id: "token-hint" }, t("session.where")),
                ),
                el("pre", {}, "cat ~/.local/state/kuno/control-token"),
                error,
                el("button", { class: "btn primary wide", type: "submit" }, t("session.enter")),
            ),
        );
        document.getElementById("app").inert = true;
        document.body.append(box);
        input.focus();
    });
}

async function takeSession() {
    const code = takeLink();
    if (code !== undefined)
        await begin(code, true).catch((problem) =>
            toast([401, 422].includes(problem.status) ? t("session.link_gone") : explain(problem), {
                kind: "warn",
                seconds: 30,
            }),
        );
    if (!isKnown()) await askForToken();
}

// ---- the frame ----

const links = {};

function frame() {
    const nav = el("nav", { class: "nav", "aria-label": t("nav.label") },
        el("a", { class: "brand", href: "#/create", "aria-label": t("brand") },
            el("img", { src: "/web/icon.svg", alt: "" }),
            el("span", {}, t("brand")),
        ),
        Object.keys(screens).map((name) => {
            links[name] = el(
                "a",
                { href: `#/${name}`, data: { name } },
                icon(name),
                el("span", {}, t(`${name}.title`)),
                el("b", { class: "badge", hidden: true }),
            );
            return links[name];
        }),
    );
    const main = el("main", { id: "main", tabindex: "-1" });
    const lost = el("div", { class: "lost", id: "lost", role: "status", hidden: true });
    fill(
        document.getElementById("app"),
        button(t("skip"), () => main.focus(), { kind: "skip" }),
        nav,
        el("div", { class: "body" }, lost, main),
    );
}

function showCounts() {
    const open = [...state.jobs.values()].filter((job) => !isOver(job)).length;
    const badge = links.queue.querySelector(".badge");
    badge.textContent = open ? String(open) : "";
    badge.hidden = !open;
    links.queue.setAttribute("aria-label", open ? t("queue.link", { n: open }) : t("queue.title"));
}

function showConnection() {
    const lost = document.getElementById("lost");
    lost.hidden = state.connection !== "lost";
    fill(lost, icon("warning"), el("span", {}, lost.hidden ? "" : t("connection.lost")));
}

// A file that falls where nothing takes it must not become the page.
function refuseFile(event) {
    if (event.defaultPrevented || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
}

// ---- which screen ----

function show(isFirst = false) {
    const [, name = "", detail = ""] = location.hash.split("/");
    const wanted = name in screens ? name : "create";
    if (wanted === shown && screens[wanted].turnTo?.(detail)) return;
    leave?.();
    shown = wanted;
    document.body.dataset.screen = wanted;
    for (const [key, link] of Object.entries(links))
        link.toggleAttribute("aria-current", key === wanted) && link.setAttribute("aria-current", "page");
    const title = t(`${wanted}.title`);
    document.title = `${title} – ${t("brand")}`;
    const main = fill(document.getElementById("main"));
    const heading = el("h1", { tabindex: "-1" }, title);
    const place = el("div", { class: `screen ${wanted}` });
    add(main, el("header", { class: "top" }, heading), place);
    leave = screens[wanted].open(place, detail, main.firstChild) ?? null;
    if (!isFirst) heading.focus({ preventScroll: true });
    scrollTo(0, 0);
}

document.documentElement.lang = language;
applyTheme();
bringIcons();
frame();
askBy(askForToken);
watch("jobs everything", showCounts);
watch("connection", showConnection);
await takeSession();
await start();
show(true);
// Not where Back has closed what lay over the screen, which leaves the address as it was (ui.js).
addEventListener("hashchange", (event) => event.newURL === location.href && show());
for (const name of ["dragover", "drop"]) addEventListener(name, refuseFile);
guideIfNew();
