// What several screens are made of.

import { add, button, el, fill, icon, iconButton } from "./dom.js";
import { has, t } from "./texts.js";

// ---- messages ----

const tray = () => document.getElementById("toasts");

// Whoever looks at a modal dialog can neither see nor reach anything outside of it: messages go into the topmost one.
function moveMessages() {
    const place = [...document.querySelectorAll("dialog:modal")].at(-1) ?? document.body;
    if (tray().parentNode !== place) place.prepend(tray(), document.getElementById("announcer"));
}

// A short message at the edge. With an action it stays longer; `gone` is called when it leaves without that.
export function toast(message, { action = "", act = null, gone = null, kind = "", seconds = act ? 8 : 5 } = {}) {
    let timer = 0,
        done = false;
    const leave = (acted) => {
        if (done) return;
        done = true;
        box.remove();
        wait();
        if (acted) act();
        else gone?.();
    };
    const box = el("div", { class: `toast ${kind}` },
        el("span", {}, message),
        act && button(action, () => leave(true), { kind: "quiet" }),
        iconButton(t("close"), "close", () => leave(false), { kind: "quiet small" }),
    );
    const wait = () => clearTimeout(timer);
    const run = () => {
        wait();
        timer = setTimeout(leave, seconds * 1000, false);
    };
    for (const name of ["pointerenter", "focusin"]) box.addEventListener(name, wait);
    for (const name of ["pointerleave", "focusout"]) box.addEventListener(name, run);
    tray().append(box);
    run();
    return () => leave(false);
}

// Says it to those who listen instead of looking.
export function announce(message) {
    document.getElementById("announcer").textContent = message;
}

// What went wrong, in our words where there are some, else in those of the service.
export function explain(error) {
    if (has(`problem.${error.code}`)) return t(`problem.${error.code}`, { detail: error.detail });
    return error.detail || error.reason || error.title || error.message || t("problem.unknown");
}

export function fail(error) {
    if (error?.name !== "AbortError") toast(explain(error), { kind: "bad", seconds: 8 });
}

// Runs what may fail; the button that began it cannot be pressed twice meanwhile.
export function busily(f) {
    return async (event) => {
        const pressed = event?.currentTarget;
        pressed?.setAttribute("aria-busy", "true");
        if (pressed) pressed.disabled = true;
        try {
            await f(event);
        } catch (error) {
            fail(error);
        } finally {
            pressed?.removeAttribute("aria-busy");
            if (pressed) pressed.disabled = false;
        }
    };
}

// ---- dialogs ----

const over = []; // what lies over the screen, from the lowest on
let isFirst = true; // whether Back would leave this page

addEventListener("hashchange", () => {
    isFirst = false;
});

// Shows a dialog above everything else until it is closed.
export function showModal(box) {
    document.body.append(box);
    box.showModal();
    moveMessages();
    box.addEventListener("close", () => {
        moveMessages();
        box.remove();
    });
}

// Shows a dialog over the screen until it is closed. Back closes it, by `leave`, before it leaves the screen.
export function cover(box, leave = () => box.close()) {
    if (isFirst) history.pushState(null, "");
    isFirst = false;
    over.push({ box, leave, address: location.href });
    box.addEventListener("close", () => {
        over.splice(over.findIndex((one) => one.box === box), 1);
    });
    // Whoever follows a link to a screen wants to see that one.
    box.addEventListener("click", (event) => event.target.closest("a[href^='#']") && leave());
    showModal(box);
}

// Back has been pressed: the address is again what it was, and what lies on top goes instead.
addEventListener("popstate", () => {
    const top = over.findLast((one) => one.box.open);
    if (!top) return;
    history.pushState(null, "", top.address);
    top.leave();
});

// A modal window. `build` gets what closes it; what it returns is shown. Resolves when it is closed, with what was
// given to close.
export function dialog(title, build, { kind = "" } = {}) {
    return new Promise((resolve) => {
        let result;
        const close = (value) => {
            result = value;
            box.close();
        };
        const id = `dialog-${crypto.randomUUID()}`;
        const box = el("dialog", { class: kind, "aria-labelledby": id });
        add(box,
            el("header", {},
                el("h2", { id }, title),
                iconButton(t("close"), "close", () => close(), { kind: "quiet" }),
            ),
            build(close),
        );
        box.addEventListener("close", () => resolve(result));
        box.addEventListener("click", (event) => event.target === box && close());
        cover(box);
    });
}

export function confirm(title, message, yes, kind = "danger") {
    return dialog(title, (close) => [
        el("p", {}, message),
        el("footer", {}, button(t("cancel"), () => close(false)), button(yes, () => close(true), { kind })),
    ]);
}

// ---- fields ----

let fields = 0;

// A label, its control and a line about it. The control gets the id.
export function field(label, control, { hint = "", kind = "" } = {}) {
    const id = control.id || `field-${++fields}`;
    control.id = id;
    if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
    return el("div", { class: `field ${kind}` },
        el("label", { for: id }, label),
        control,
        hint && el("p", { class: "hint", id: `${id}-hint` }, hint),
    );
}

// What is wrong with a control's value, beside it; "": nothing.
export function complain(control, message) {
    const id = `${control.id}-wrong`,
        told = control.parentNode.querySelector(".wrong"),
        others = (control.getAttribute("aria-describedby") ?? "").split(" ").filter((one) => one && one !== id);
    if ((told?.textContent ?? "") === message) return;
    told?.remove();
    if (message) {
        control.after(el("p", { class: "wrong", id }, message));
        others.unshift(id);
        control.setAttribute("aria-invalid", "true");
    } else {
        control.removeAttribute("aria-invalid");
    }
    if (others.length) control.setAttribute("aria-describedby", others.join(" "));
    else control.removeAttribute("aria-describedby");
}

export function toggle(label, checked, onchange, { hint = "" } = {}) {
    const input = el("input", { type: "checkbox", role: "switch", checked, onchange: () => onchange(input.checked) });
    const line = el("label", { class: "toggle" }, input, el("span", {}, label));
    return hint ? el("div", { class: "field" }, line, el("p", { class: "hint" }, hint)) : line;
}

// choices: [{ value, label }]
export function select(choices, value, onchange) {
    const box = el("select", { onchange: () => onchange(box.value) },
        choices.map((one) => el("option", { value: one.value, disabled: Boolean(one.refused) }, one.label)),
    );
    box.value = value;
    return box;
}

// One of a few, side by side: radio buttons. What is refused cannot be chosen and says why.
export function choice(name, legend, choices, value, onchange, kind = "") {
    const parts = choices.map((one) => {
        const input = el("input", {
            type: "radio",
            name,
            value: one.value,
            checked: one.value === value,
            disabled: Boolean(one.refused),
            onchange: () => onchange(one.value),
        });
        return el("label", { class: "option", title: one.refused || one.title || null },
            input,
            el("span", {}, one.glyph ?? null, one.label, one.small && el("small", {}, one.small)),
        );
    });
    return el("fieldset", { class: `choice ${kind}` },
        el("legend", {}, legend),
        el("div", { class: "options" }, parts),
    );
}

// ---- parts of a screen ----

export function card(title, ...content) {
    return el("section", { class: "card" }, el("h2", {}, title), content);
}

// In a list of them.
export function fact(name, ...value) {
    return [el("dt", {}, name), el("dd", {}, value)];
}

// ---- states of a screen ----

export function empty(symbol, title, text, ...actions) {
    return el("div", { class: "empty" },
        icon(symbol, "large"),
        el("h2", {}, title),
        el("p", {}, text),
        actions.length ? el("div", { class: "row" }, actions) : null,
    );
}

export function failure(error, again) {
    return el("div", { class: "empty bad", role: "alert" },
        icon("warning", "large"),
        el("h2", {}, t("error.title")),
        el("p", {}, explain(error)),
        again && button(t("again"), again, { symbol: "again" }),
    );
}

export function loading() {
    return el("div", { class: "loading", role: "status" },
        el("span", { class: "unseen" }, t("loading")),
        el("i"),
        el("i"),
        el("i"),
    );
}

// Shows a place's content when it is there, and what went wrong if not.
export async function load(place, f) {
    fill(place, loading());
    try {
        fill(place, await f());
    } catch (error) {
        fill(place, failure(error, () => load(place, f)));
    }
}

export function note(message, severity = "info") {
    const symbol = severity === "info" ? "info" : "warning";
    return el("p", { class: `note ${severity}` }, icon(symbol), el("span", {}, message));
}

// What the service notes, in our words where there are some.
export function notes(list) {
    return list.map(({ code, message, severity }) => note(has(`note.${code}`) ? t(`note.${code}`) : message, severity));
}

export function meter(fraction, label) {
    const range = { "aria-valuemin": "0", "aria-valuemax": "100" };
    const bar = el("div", { class: "meter", role: "progressbar", "aria-label": label, ...range }, el("i"));
    setMeter(bar, fraction);
    return bar;
}

export function setMeter(bar, fraction) {
    bar.setAttribute("aria-valuenow", String(Math.round(fraction * 100)));
    bar.firstChild.style.transform = `scaleX(${fraction})`;
}
