// Two pictures in one place, with a line between them that can be moved.

import { el } from "./dom.js";
import { t } from "./texts.js";
import { dialog } from "./ui.js";
import { nameOf } from "./parts.js";

export function compare(a, b) {
    const slider = el("input", {
        type: "range",
        min: "0",
        max: "100",
        step: "1",
        value: "50",
        "aria-label": t("compare.slider"),
    });
    const over = el("img", { src: b.content_url, alt: nameOf(b), class: "over", draggable: "false" });
    const line = el("i", { class: "line" });
    const frame = el("div", { class: "compare" },
        el("img", { src: a.content_url, alt: nameOf(a), draggable: "false" }),
        over,
        line,
    );
    frame.style.setProperty("--ratio", `${b.width} / ${b.height}`);
    frame.style.setProperty("--aspect", b.width / b.height);
    const move = () => frame.style.setProperty("--at", `${slider.value}%`);
    const follow = (event) => {
        if (!event.buttons && event.type === "pointermove") return;
        const box = frame.getBoundingClientRect();
        slider.value = String(Math.round(((event.clientX - box.left) / box.width) * 100));
        move();
    };
    slider.addEventListener("input", move);
    frame.addEventListener("pointerdown", (event) => {
        frame.setPointerCapture(event.pointerId);
        follow(event);
    });
    frame.addEventListener("pointermove", follow);
    move();
    return dialog(
        t("compare.title"),
        () => [frame, slider, el("div", { class: "row names" }, el("span", {}, nameOf(a)), el("span", {}, nameOf(b)))],
        { kind: "wide" },
    );
}
