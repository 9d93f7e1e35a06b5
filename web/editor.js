// The canvas: paints the area of a picture that is to change, or says how far it grows.

import { call } from "./api.js";
import { add, button, el, fill, icon, iconButton } from "./dom.js";
import { requestOf, SIDES } from "./draft.js";
import { size } from "./format.js";
import { drawStroke, drawStrokes, feather as fade, fitView, makeHistory, toPicture, zoomView } from "./mask.js";
import { contentOf } from "./pictures.js";
import { planOf } from "./plan.js";
import { state } from "./state.js";
import { t } from "./texts.js";
import { announce, busily, confirm, cover, field, toast } from "./ui.js";

const SHOWN_PIXELS = 4e6; // of the mask while it is painted; what is sent has all of them
const ZOOM_MOST = 16,
    FEATHER = { paint: { usual: 4, most: 64 }, extend: { usual: 40, most: 128 } },
    PLAN_PAUSE_MS = 200;

const painted = new Map(); // strokes of masks made here, by the mask's id

function loadImage(source) {
    return new Promise((resolve, reject) => {
        const image = new Image();
        image.onload = () => resolve(image);
        image.onerror = () => reject(new Error(t("editor.no_picture")));
        image.src = source;
    });
}

function sheetOf(width, height) {
    const canvas = el("canvas", { width, height });
    return canvas;
}

// A mask of black and white as one whose white alone is there.
async function strokeOfMask(id, width, height) {
    const image = await loadImage(contentOf(id)),
        sheet = sheetOf(width, height),
        context = sheet.getContext("2d");
    context.drawImage(image, 0, 0, width, height);
    const data = context.getImageData(0, 0, width, height),
        at = data.data;
    for (let i = 0; i < at.length; i += 4) at[i + 3] = at[i] >= 128 ? 255 : 0;
    context.putImageData(data, 0, 0);
    return { image: sheet };
}

// The mask as the service wants it: of the picture's size, white where something may change.
async function sendMask(picture, strokes, grow) {
    const { width, height } = picture,
        sheet = sheetOf(width, height),
        context = sheet.getContext("2d");
    context.fillStyle = context.strokeStyle = "#fff";
    drawStrokes(context, strokes, { scale: 1, width, height, grow });
    const { data } = context.getImageData(0, 0, width, height);
    let some = false;
    for (let i = 3; i < data.length && !some; i += 4) some = data[i] >= 128;
    if (!some) return null;
    context.globalCompositeOperation = "destination-over";
    context.fillStyle = "#000";
    context.fillRect(0, 0, width, height);
    const file = await new Promise((resolve) => sheet.toBlob(resolve, "image/png"));
    const input = await call("POST", "inputs", { body: file, type: "image/png" });
    painted.set(input.input_id, { strokes: [...strokes], grow });
    return input.input_id;
}

// Resolves with { mask } or { extend }, or with neither when nothing was to be changed, and { feather }; undefined:
// cancelled.
export async function editArea(picture, mode, draft) {
    const image = await loadImage(contentOf(picture.id));
    const own = draft.area?.picture === picture.id ? draft.area.mask : null,
        kept = painted.get(own);
    const earlier = kept ? kept.strokes : own ? [await strokeOfMask(own, picture.width, picture.height)] : [];
    return new Promise((resolve) => show({ picture, image, mode, draft, earlier, grow: kept?.grow ?? 0, resolve }));
}

function show({ picture, image, mode, draft, earlier, grow: firstGrow, resolve }) {
    const { width, height } = picture,
        paints = mode === "paint";
    const scale = Math.min(1, Math.sqrt(SHOWN_PIXELS / (width * height)));
    const sheet = sheetOf(Math.round(width * scale), Math.round(height * scale)),
        ink = sheet.getContext("2d", { willReadFrequently: true });
    const own = (mode === "paint" ? draft.area : draft.extend)?.picture === picture.id;
    const history = makeHistory(earlier);
    const sides = { left: 0, right: 0, top: 0, bottom: 0, ...(draft.extend?.picture === picture.id && draft.extend) };
    const pointers = new Map(),
        most = state.capabilities.limits.max_side,
        widest = Math.ceil(Math.max(width, height) / 4);
    let tool = "brush",
        // so that a dot is never lost between the cells that the model draws in
        radius = Math.min(widest, Math.max(state.capabilities.limits.grid, Math.round(Math.min(width, height) / 16))),
        grow = firstGrow,
        feather = (own ? draft.feather : null) ?? FEATHER[mode].usual;
    let view = null,
        stroke = null,
        hold = null,
        cursor = null,
        frame = 0,
        result,
        pause = 0,
        space = false;

    // ---- what is seen ----

    const canvas = el("canvas", {
        class: "paper",
        tabindex: "0",
        role: "application",
        "aria-label": t(paints ? "editor.paint_label" : "editor.extend_label"),
        "aria-describedby": "editor-help",
    });
    const context = canvas.getContext("2d");
    const accent = getComputedStyle(document.documentElement).getPropertyValue("--mask").trim();

    const soon = () => {
        frame ||= requestAnimationFrame(draw);
    };
    const frameBox = () => ({
        x: -sides.left,
        y: -sides.top,
        width: width + sides.left + sides.right,
        height: height + sides.top + sides.bottom,
    });
    const windowSize = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });

    function fit() {
        view = fitView(windowSize(), paints ? { width, height } : frameBox(), canvas.clientWidth < 600 ? 12 : 32);
        soon();
    }

    function redrawInk() {
        ink.fillStyle = ink.strokeStyle = accent;
        if (paints) say("");
        drawStrokes(ink, history.strokes, { scale, width, height, grow });
        if (stroke) drawStroke(ink, stroke, { scale, width, height, grow });
        else soften();
        soon();
    }

    // What is painted is shown as it will be laid over the picture; while the brush is down, as it is painted.
    function soften() {
        const seen = ink.getImageData(0, 0, sheet.width, sheet.height);
        fade(seen.data, sheet.width, sheet.height, feather * scale);
        ink.putImageData(seen, 0, 0);
    }

    function draw() {
        frame = 0;
        const sharp = devicePixelRatio || 1,
            box = windowSize();
        if (!box.width) return;
        if (canvas.width !== Math.round(box.width * sharp) || canvas.height !== Math.round(box.height * sharp)) {
            canvas.width = Math.round(box.width * sharp);
            canvas.height = Math.round(box.height * sharp);
        }
        view ??= fitView(box, paints ? { width, height } : frameBox(), box.width < 600 ? 12 : 32);
        context.setTransform(sharp, 0, 0, sharp, 0, 0);
        context.clearRect(0, 0, box.width, box.height);
        context.setTransform(sharp * view.scale, 0, 0, sharp * view.scale, sharp * view.x, sharp * view.y);
        if (!paints) drawFrame();
        context.imageSmoothingEnabled = view.scale < 4;
        context.drawImage(image, 0, 0, width, height);
        if (!paints) drawFading();
        if (paints) {
            context.globalAlpha = 0.55;
            context.drawImage(sheet, 0, 0, width, height);
            context.globalAlpha = 1;
            drawCursor();
        }
    }

    function drawFrame() {
        const box = frameBox(),
            line = 1.5 / view.scale;
        context.globalAlpha = 0.18;
        context.fillStyle = accent;
        context.fillRect(box.x, box.y, box.width, box.height);
        context.globalAlpha = 1;
        context.strokeStyle = accent;
        context.lineWidth = line;
        context.setLineDash([6 / view.scale, 4 / view.scale]);
        context.strokeRect(box.x, box.y, box.width, box.height);
        context.setLineDash([]);
        context.fillStyle = accent;
        for (const [x, y] of Object.values(handles())) {
            context.beginPath();
            context.arc(x, y, 7 / view.scale, 0, 7);
            context.fill();
        }
    }

    // Where what is added passes into the picture.
    function drawFading() {
        const wide = Math.min(feather, (Math.min(width, height) - 1) / 2);
        context.globalAlpha = 0.3;
        context.fillStyle = accent;
        if (sides.left) context.fillRect(0, 0, wide, height);
        if (sides.right) context.fillRect(width - wide, 0, wide, height);
        if (sides.top) context.fillRect(0, 0, width, wide);
        if (sides.bottom) context.fillRect(0, height - wide, width, wide);
        context.globalAlpha = 1;
    }

    function drawCursor() {
        if (!cursor || tool === "hand") return;
        context.beginPath();
        context.arc(cursor[0], cursor[1], radius, 0, 7);
        for (const [colour, line] of [["#000", 3], ["#fff", 1.5]]) {
            context.strokeStyle = colour;
            context.lineWidth = line / view.scale;
            context.stroke();
        }
    }

    const handles = () => {
        const box = frameBox();
        return {
            left: [box.x, box.y + box.height / 2],
            right: [box.x + box.width, box.y + box.height / 2],
            top: [box.x + box.width / 2, box.y],
            bottom: [box.x + box.width / 2, box.y + box.height],
        };
    };

    // ---- hands ----

    const placeOf = (event) => {
        const box = canvas.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
    };

    function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
        const least = Math.min(fitView(windowSize(), frameBox()).scale / 2, 1);
        view = zoomView(view, factor, x, y, { least, most: ZOOM_MOST });
        soon();
    }

    function begin(event) {
        const [x, y] = placeOf(event),
            at = toPicture(view, x, y);
        canvas.setPointerCapture(event.pointerId);
        pointers.set(event.pointerId, [x, y]);
        if (pointers.size === 2) {
            // two fingers move and zoom; what one of them began is not meant
            stroke = hold = null;
            redrawInk();
        } else if (tool === "hand" || space || event.button === 1) {
            hold = { kind: "pan" };
        } else if (!paints) {
            const near = Object.entries(handles()).find(
                ([, h]) => Math.hypot(h[0] - at[0], h[1] - at[1]) * view.scale < 24,
            );
            hold = near ? { kind: "side", side: near[0] } : { kind: "pan" };
        } else if (event.button === 0) {
            stroke = { erase: tool === "eraser", radius, points: [...at] };
            redrawInk();
        }
    }

    function pinch(event, x, y) {
        const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
        const [ox, oy] = pointers.get(event.pointerId),
            before = Math.hypot(ox - other[0], oy - other[1]);
        const after = Math.hypot(x - other[0], y - other[1]);
        view = { ...view, x: view.x + (x - ox) / 2, y: view.y + (y - oy) / 2 };
        zoom(before > 0 ? after / before : 1, (x + other[0]) / 2, (y + other[1]) / 2);
    }

    function move(event) {
        const [x, y] = placeOf(event),
            known = pointers.get(event.pointerId);
        cursor = toPicture(view, x, y);
        if (known && pointers.size === 2) pinch(event, x, y);
        else if (known && hold?.kind === "pan") view = { ...view, x: view.x + x - known[0], y: view.y + y - known[1] };
        else if (known && hold?.kind === "side") drag(hold.side, cursor);
        else if (known && stroke) extend(event);
        if (known) pointers.set(event.pointerId, [x, y]);
        soon();
    }

    function extend(event) {
        const from = stroke.points.length - 2;
        for (const one of event.getCoalescedEvents?.() ?? [event])
            stroke.points.push(...toPicture(view, ...placeOf(one)));
        drawStroke(ink, { ...stroke, points: stroke.points.slice(from) }, { scale, width, height, grow });
    }

    function finish(event) {
        pointers.delete(event.pointerId);
        if (stroke && !pointers.size) history.add(stroke);
        if (!pointers.size) {
            if (hold?.kind === "side") fit();
            stroke = hold = null;
            redrawInk();
            showTools();
        }
    }

    function drag(side, [x, y]) {
        const reach = { left: -x, right: x - width, top: -y, bottom: y - height }[side];
        setSide(side, Math.round(reach / 16) * 16);
    }

    function setSide(side, pixels) {
        sides[side] = Math.min(most, Math.max(0, Math.round(pixels) || 0));
        parts[side].value = String(sides[side]);
        soon();
        verdict();
    }

    // ---- keys ----

    function act(name) {
        const acts = {
            undo: () => history.undo(),
            redo: () => history.redo(),
            clear: () => history.clear(),
            invert: () => history.add({ invert: true }),
        };
        acts[name]();
        redrawInk();
        showTools();
    }

    function paintAtCursor(key) {
        cursor ??= [width / 2, height / 2];
        const step = Math.max(1, radius / 2),
            from = [...cursor];
        const by = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[key] ?? [
            0, 0,
        ];
        cursor = [Math.min(width, Math.max(0, cursor[0] + by[0])), Math.min(height, Math.max(0, cursor[1] + by[1]))];
        if (space || key === "Enter") {
            history.add({ erase: tool === "eraser", radius, points: [...from, ...cursor] });
            redrawInk();
            showTools();
        }
        soon();
    }

    function onkeydown(event) {
        const keys = {
            b: () => setTool("brush"),
            e: () => setTool("eraser"),
            h: () => setTool("hand"),
            "[": () => setRadius(radius / 1.2),
            "]": () => setRadius(radius * 1.2),
            "+": () => zoom(1.25),
            "=": () => zoom(1.25),
            "-": () => zoom(0.8),
            0: fit,
            x: () => act("invert"),
        };
        if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") act(event.shiftKey ? "redo" : "undo");
        else if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
        else if (event.target === canvas && paints && (event.key.startsWith("Arrow") || event.key === "Enter"))
            paintAtCursor(event.key);
        else if (event.target === canvas && event.key === " ") space = true;
        else if (event.key in keys && (paints || "+-=0".includes(event.key))) keys[event.key]();
        else return;
        event.preventDefault();
    }

    // ---- tools ----

    const parts = {};

    function setTool(name) {
        tool = name;
        showTools();
        announce(t(`editor.${name}`));
    }

    function setRadius(pixels) {
        radius = Math.min(Math.max(width, height) / 2, Math.max(1, Math.round(pixels)));
        parts.radius.show(radius);
        soon();
    }

    function showTools() {
        for (const name of ["brush", "eraser", "hand"])
            parts[name]?.setAttribute("aria-pressed", String(tool === name));
        if (!paints) return;
        parts.undo.disabled = !history.canUndo;
        parts.redo.disabled = !history.canRedo;
        parts.clear.disabled = !history.canUndo;
        canvas.dataset.tool = tool;
    }

    const toolButton = (name, symbol, f) => {
        parts[name] = iconButton(t(`editor.${name}`), symbol, f);
        return parts[name];
    };
    // A number of pixels by a slider, and what it is.
    const range = (name, min, max, value, chosen) => {
        const input = el("input", { type: "range", min: String(min), max: String(max) });
        const told = el("output", { class: "small muted" });
        const show = (n) => {
            input.value = String(n);
            told.value = t("editor.pixels", { n });
            input.setAttribute("aria-valuetext", told.value);
        };
        input.addEventListener("input", () => {
            show(Number(input.value));
            chosen(Number(input.value));
        });
        show(value);
        parts[name] = { show };
        return add(field(t(`editor.${name}`), input, { kind: "inline" }), told);
    };
    const featherRange = (then) =>
        range("feather", 0, FEATHER[mode].most, feather, (n) => {
            feather = n;
            then();
        });

    function paintTools() {
        return [
            el("div", { class: "row group", role: "group", "aria-label": t("editor.tools") },
                ["brush", "eraser", "hand"].map((name) => toolButton(name, name, () => setTool(name))),
            ),
            range("radius", 1, widest, radius, setRadius),
            range("grow", 0, 64, grow, (n) => {
                grow = n;
                redrawInk();
            }),
            featherRange(redrawInk),
            el("div", { class: "row group" },
                toolButton("undo", "undo", () => act("undo")),
                toolButton("redo", "redo", () => act("redo")),
                toolButton("invert", "invert", () => act("invert")),
                toolButton("clear", "trash", () => act("clear")),
            ),
        ];
    }

    function extendTools() {
        return [
            SIDES.map((side) => {
                parts[side] = el("input", {
                    type: "number",
                    min: "0",
                    max: String(most),
                    step: "16",
                    value: String(sides[side]),
                    onchange: () => {
                        setSide(side, Number(parts[side].value));
                        fit();
                    },
                });
                return field(t(`editor.${side}`), parts[side], { kind: "inline" });
            }),
            button(
                t("editor.all_sides"),
                () => {
                    SIDES.forEach((side) =>
                        setSide(
                            side,
                            sides[side] +
                                Math.round((side === "left" || side === "right" ? width : height) / 4 / 16) * 16,
                        ),
                    );
                    fit();
                },
                { kind: "small" },
            ),
            featherRange(soon),
        ];
    }

    function say(text, isBad = false) {
        fill(parts.verdict, text);
        parts.verdict.classList.toggle("bad", isBad);
    }

    // Why nothing can be drawn by this mask, which can be mended here only.
    async function refusalOf(mask) {
        const wish = requestOf({ ...draft, area: { picture: picture.id, mask }, extend: null });
        const found = await planOf(wish).catch(() => null);
        const at = wish.inputs.findIndex((one) => one.role === "mask");
        return found?.pointer === `/inputs/${at}/input_id` ? found.refusal : "";
    }

    // What the planner says to it, before it is used.
    function verdict() {
        clearTimeout(pause);
        if (paints) return;
        pause = setTimeout(async () => {
            const grows = SIDES.some((side) => sides[side] > 0);
            const wish = { ...draft, area: null, extend: grows ? { picture: picture.id, ...sides } : null };
            const { width: wide, height: high } = frameBox();
            const found = !grows
                ? null
                : Math.max(wide, high) > most
                  ? { refusal: t("enlarge.most", { n: most }) } // which need not be asked
                  : await planOf(requestOf(wish)).catch(() => null);
            if (found?.plan) say(t("editor.result", { size: size(found.plan.result_width, found.plan.result_height) }));
            else say(found?.refusal ?? "", true);
            parts.use.disabled = Boolean(found?.refusal);
        }, PLAN_PAUSE_MS);
    }

    const use = busily(async () => {
        if (paints) {
            const mask = await sendMask(picture, history.strokes, grow);
            if (!mask && history.strokes.length) toast(t("editor.nothing"), { kind: "warn" });
            const refusal = mask && (await refusalOf(mask));
            if (refusal) {
                say(t("editor.refused", { why: refusal }), true);
                return;
            }
            result = { mask };
        } else {
            result = { extend: SIDES.some((side) => sides[side] > 0) ? sides : null };
        }
        result.feather = feather === FEATHER[mode].usual ? null : feather;
        box.close();
    });

    // What was painted in minutes is not to be lost by one key.
    const isKept = () => !paints || history.strokes.at(-1) === earlier.at(-1);
    const warn = (event) => !isKept() && event.preventDefault();
    async function leave() {
        if (isKept() || (await confirm(t("editor.leave"), t("editor.leave_text"), t("editor.leave_yes")))) box.close();
    }

    parts.verdict = el("p", { class: "small", role: "status" });
    parts.use = button(t("editor.use"), use, { kind: "primary" });
    const box = el("dialog", { class: "editor whole", "aria-label": t(paints ? "pictures.paint" : "pictures.extend") },
        el("header", { class: "editor-bar" },
            el("h2", {}, icon(paints ? "brush" : "extend"), t(paints ? "pictures.paint" : "pictures.extend")),
            el("span", { class: "row" }, parts.verdict, button(t("cancel"), leave, { kind: "quiet" }), parts.use),
        ),
        canvas,
        el("footer", { class: "editor-bar" },
            paints ? paintTools() : extendTools(),
            el("div", { class: "row group" },
                iconButton(t("editor.smaller"), "minus", () => zoom(0.8)),
                iconButton(t("editor.fit"), "fit", fit),
                iconButton(t("editor.larger"), "plus", () => zoom(1.25)),
            ),
        ),
        el("p", { class: "unseen", id: "editor-help" }, t(paints ? "editor.paint_help" : "editor.extend_help")),
    );

    canvas.addEventListener("pointerdown", begin);
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", finish);
    canvas.addEventListener("pointercancel", finish);
    canvas.addEventListener("pointerleave", () => {
        cursor = null;
        soon();
    });
    canvas.addEventListener(
        "wheel",
        (event) => {
            event.preventDefault();
            zoom(Math.exp(-event.deltaY / 400), ...placeOf(event));
        },
        { passive: false },
    );
    box.addEventListener("keydown", onkeydown);
    box.addEventListener("keyup", (event) => {
        space = event.key === " " ? false : space;
    });
    const observer = new ResizeObserver(() => {
        view = null;
        soon();
    });
    box.addEventListener("cancel", (event) => {
        event.preventDefault();
        leave();
    });
    box.addEventListener("close", () => {
        observer.disconnect();
        cancelAnimationFrame(frame);
        clearTimeout(pause);
        removeEventListener("beforeunload", warn);
        resolve(result);
    });
    addEventListener("beforeunload", warn);
    cover(box, leave);
    canvas.focus();
    observer.observe(canvas);
    showTools();
    redrawInk();
    verdict();
    if (state.connection === "lost") toast(t("connection.lost"), { kind: "warn" });
}
