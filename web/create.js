// Create: what is wanted on one side, what becomes of it on the other.

import { order } from "./api.js";
import { add, button, el, fill, icon, iconButton } from "./dom.js";
import {
    changedPicture,
    draftOf,
    emptyDraft,
    hasFixedSize,
    keepDraft,
    keepJob,
    keptDraft,
    keptJob,
    requestOf,
    SHAPES,
    wrongOf,
} from "./draft.js";
import { bytes, dots, duration, ratio, size } from "./format.js";
import { ACCEPT, contentOf, inspect, knownInputs, upload, uploadItem } from "./pictures.js";
import { planOf } from "./plan.js";
import { makeStage } from "./stage.js";
import { state, takeJob, watch } from "./state.js";
import { t } from "./texts.js";
import { announce, busily, choice, complain, explain, fail, field, note, notes, select, toast, toggle } from "./ui.js";
import { editArea } from "./editor.js";
import { itemActions, recentStrip } from "./parts.js";

const PLAN_PAUSE_MS = 200,
    PLAN_AGAIN_MS = 2000;
const EXAMPLES = ["example.1", "example.2", "example.3"];
// What the service calls the fields that it finds something wrong with.
const POINTERS = {
    "/prompt": "prompt",
    "/negative_prompt": "negative",
    "/size/width": "width",
    "/size/height": "height",
    "/sampler": "sampler",
};

let draft = keptDraft(),
    current = null;

// ---- from other screens ----

export async function useRequest(request) {
    const ids = (request.inputs ?? []).map((one) => one.input_id);
    const known = await knownInputs(ids);
    draft = draftOf(request, known);
    keepDraft(draft);
    if (known.size < new Set(ids).size) toast(t("create.inputs_gone"), { kind: "warn" });
    current?.rebuild();
    if (!current) location.hash = "#/create";
}

export async function usePicture(item) {
    await takePicture(await uploadItem(item));
    if (!current) location.hash = "#/create";
}

async function takePicture(picture) {
    if (!draft.pictures.some((one) => one.id === picture.id)) draft.pictures.push(picture);
    keepDraft(draft);
    current?.rebuild();
}

// ---- what is possible ----

const limits = () => state.capabilities?.limits ?? {};
const can = (kind) => state.capabilities?.kinds.includes(kind) ?? false;

function mostPictures() {
    return Math.max(limits().max_reference_images ?? 0, can("inpaint") || can("outpaint") ? 1 : 0);
}

// A picture alone says nothing to a model that only changes parts of one.
function needsArea() {
    return draft.pictures.length > 0 && !can("edit") && !changedPicture(draft);
}

// ---- the screen ----

export function open(place, detail, header) {
    // What is wrong with a field is said here, not by the browser.
    const form = el("form", {
        class: "composer card",
        onsubmit: submit,
        novalidate: true,
        "aria-label": t("create.form"),
    });
    const stage = makeStage({ actions: itemActions, idle });
    const strip = recentStrip();
    const parts = {},
        carried = el("div", { class: "carried" });
    let pause = 0,
        planning = null,
        verdict = null,
        controls = {}, // of the fields in which something may be wrong, by their names in the draft
        turn = 0;

    add(place, form, el("div", { class: "seen" }, stage.element, strip.element));
    add(header, button(t("create.new"), startAnew, { symbol: "plus", kind: "quiet" }));

    function startAnew() {
        const before = draft,
            offer = [...carried.childNodes];
        turn++;
        draft = emptyDraft();
        fill(carried);
        rebuild();
        controls.prompt.focus();
        if (before.prompt || before.pictures.length || offer.length)
            toast(t("create.cleared"), {
                action: t("undo"),
                act: () => {
                    draft = before;
                    fill(carried, offer);
                    rebuild();
                },
            });
    }

    function idle() {
        return el("div", { class: "empty" },
            icon("picture", "large"),
            el("h2", {}, t("create.idle")),
            el("p", {}, t("create.idle_text")),
            el("div", { class: "examples" },
                EXAMPLES.map((key) =>
                    button(
                        t(key),
                        () => {
                            draft.prompt = controls.prompt.value = t(key);
                            changed();
                            controls.prompt.focus();
                        },
                        { kind: "quiet" },
                    ),
                ),
            ),
        );
    }

    // ---- the form ----

    function rebuild() {
        const prompt = el("textarea", {
            rows: 4,
            value: draft.prompt,
            placeholder: t("create.placeholder"),
            spellcheck: "true",
            oninput: () => edit("prompt", prompt.value),
            onkeydown: (event) => {
                if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
            },
        });
        controls = { prompt };
        parts.verdict = el("div", { class: "verdict", "aria-live": "polite" });
        parts.go = el("button", { type: "submit", class: "btn primary wide" },
            icon("create"),
            el("span", {}, t("create.go")),
        );
        fill(form,
            field(t("create.prompt"), prompt),
            carried,
            pictureFields(),
            shapeFields(),
            advanced(),
            el("div", { class: "foot" }, parts.verdict, parts.go),
        );
        changed();
    }

    function edit(name, value) {
        draft[name] = value;
        changed();
    }

    // A change that makes other fields come or go.
    function editAll(name, value) {
        const focused = document.activeElement?.getAttribute("name"),
            chosen = document.activeElement?.value;
        draft[name] = value;
        rebuild();
        if (focused) [...form.querySelectorAll(`[name="${focused}"]`)].find((one) => one.value === chosen)?.focus();
    }

    function pictureFields() {
        const most = mostPictures();
        if (!most && !draft.pictures.length) return null;
        const pick = el("input", {
            type: "file",
            accept: ACCEPT,
            multiple: most > 1,
            hidden: true,
            onchange: () => takeFiles([...pick.files]),
        });
        const full = draft.pictures.length >= most;
        parts.drop = el("div", { class: "pictures" },
            draft.pictures.map(pictureCard),
            el(
                "button",
                {
                    type: "button",
                    class: "slot",
                    disabled: full,
                    onclick: () => pick.click(),
                    id: "add-picture",
                    title: full ? t("pictures.full", { n: most }) : null,
                },
                icon("plus"),
                el("span", {}, draft.pictures.length ? t("pictures.more") : t("pictures.add")),
            ),
            pick,
        );
        return el("fieldset", { class: "field" },
            el("legend", {}, t("pictures.title")),
            parts.drop,
            el("p", { class: "hint" },
                needsArea()
                    ? t("pictures.needs_area")
                    : can("edit")
                      ? t("pictures.hint", { n: most })
                      : t("pictures.hint_area"),
            ),
        );
    }

    function pictureCard(picture, i) {
        const many = draft.pictures.length > 1,
            changedOne = changedPicture(draft) === picture;
        const state = changedOne ? t(draft.extend ? "pictures.extended" : "pictures.painted") : "";
        const about = el("p", { class: "small" }, state || size(picture.width, picture.height));
        const image = el("img", {
            src: contentOf(picture.id),
            alt: picture.name,
            draggable: "false",
            decoding: "async",
        });
        const card = el(
            "div",
            {
                class: `picture ${changedOne ? "changed" : ""}`,
                draggable: many ? "true" : null,
                role: "group",
                "aria-label": t("pictures.one", { n: i + 1, name: picture.name }),
            },
            image,
            many && el("b", { class: "number" }, String(i + 1)),
            el("div", { class: "tools" },
                can("inpaint") &&
                    iconButton(t("pictures.paint"), "brush", () => editPicture(picture, "paint"), { kind: "small" }),
                can("outpaint") &&
                    iconButton(t("pictures.extend"), "extend", () => editPicture(picture, "extend"), { kind: "small" }),
                many &&
                    iconButton(t("pictures.earlier_in_order"), "left", () => move(i, -1), {
                        kind: "small",
                        disabled: i === 0,
                    }),
                many &&
                    iconButton(t("pictures.later_in_order"), "right", () => move(i, 1), {
                        kind: "small",
                        disabled: i === draft.pictures.length - 1,
                    }),
                iconButton(t("pictures.remove"), "close", () => drop(picture), { kind: "small" }),
            ),
            about,
        );
        image.addEventListener("error", () => {
            image.replaceWith(el("span", { class: "gone" }, icon("warning", "large")));
            fill(about, t("pictures.gone"));
        });
        card.addEventListener("dragstart", (event) => event.dataTransfer.setData("text/x-kuno-order", String(i)));
        card.addEventListener(
            "dragover",
            (event) => event.dataTransfer.types.includes("text/x-kuno-order") && event.preventDefault(),
        );
        card.addEventListener("drop", (event) => {
            const from = event.dataTransfer.getData("text/x-kuno-order");
            if (from === "") return;
            event.preventDefault();
            event.stopPropagation();
            move(Number(from), i - Number(from));
        });
        return card;
    }

    function move(i, by) {
        const [one] = draft.pictures.splice(i, 1);
        draft.pictures.splice(i + by, 0, one);
        rebuild();
        announce(t("pictures.moved", { name: one.name, n: i + by + 1 }));
    }

    function drop(picture) {
        draft.pictures = draft.pictures.filter((one) => one !== picture);
        if (draft.area?.picture === picture.id) draft.area = null;
        if (draft.extend?.picture === picture.id) draft.extend = null;
        rebuild();
        form.querySelector("#add-picture")?.focus();
    }

    async function editPicture(picture, mode) {
        const result = await editArea(picture, mode, draft).catch(fail);
        if (!result) return;
        draft.area = result.mask ? { picture: picture.id, mask: result.mask } : null;
        draft.extend = result.extend ? { picture: picture.id, ...result.extend } : null;
        draft.feather = result.feather;
        rebuild();
        // The button that opened it was made anew.
        const card = form.querySelectorAll(".picture")[draft.pictures.indexOf(picture)];
        card?.querySelector(`[aria-label="${t(`pictures.${mode}`)}"]`)?.focus();
    }

    async function takeFiles(files) {
        const own = turn,
            taken = [],
            left = [],
            refused = [];
        if (!files.length) return;
        for (const file of files) {
            if (draft.pictures.length >= mostPictures()) {
                left.push(file);
                continue;
            }
            const picture = await upload(file).catch(fail);
            if (own !== turn) return; // begun anew meanwhile
            if (picture) await takePicture(picture);
            if (picture) taken.push(picture.name);
            else refused.push(file);
        }
        if (taken.length) announce(t("pictures.added", { n: draft.pictures.length }));
        const found = refused.includes(files[0]) ? null : await inspect(files[0]);
        if (own !== turn) return;
        if (found) offerSettings(found);
        // One that only tells its settings needs no room.
        if (found && left[0] === files[0]) left.shift();
        if (left.length)
            toast(
                [
                    taken.length && t("pictures.taken", { names: taken.join(", ") }),
                    t("pictures.left", { n: left.length }),
                    mostPictures() ? t("pictures.full", { n: mostPictures() }) : t("pictures.none"),
                ]
                    .filter(Boolean)
                    .join(" "),
                { kind: "warn", seconds: 8 },
            );
    }

    // The picture says how it was made.
    function offerSettings(found) {
        const { recipe, references_needed: needed, unsupported } = found,
            model = state.status?.active_profile,
            isOther = recipe?.profile && recipe.profile !== model;
        const use = async () => {
            await useRequest(recipe);
            leave();
        };
        const leave = () => {
            fill(carried);
            controls.prompt.focus();
        };
        fill(carried,
            el("div", { class: "offer", role: "status" },
                el("p", {},
                    el("strong", {}, t("carried.title", { source: t(`carried.${found.source}`) })),
                    " ",
                    recipe?.prompt ?? t("carried.impossible"),
                ),
                notes([...unsupported, ...found.notes]),
                recipe && needed > 0 && note(t("carried.references", { n: needed })),
                isOther && note(t("carried.model", { name: recipe.profile, model })),
                el("div", { class: "row" },
                    recipe && button(t("carried.use"), busily(use), { kind: "small primary" }),
                    button(t(recipe ? "carried.no" : "close"), leave, { kind: "small" }),
                ),
            ),
        );
    }

    function shapeFields() {
        const changedOne = changedPicture(draft);
        const presets = (state.capabilities?.presets ?? []).map((one) => ({
            value: one.id,
            label: t(`preset.${one.id}`),
            small: t("preset.pixels", { n: megapixels(one.target_pixels) }),
        }));
        const preset = draft.preset || state.settings?.default_preset || "fast";
        const shapes = [
            { value: "", label: draft.pictures.length ? t("shape.source") : t("shape.usual"), glyph: glyph(1) },
            ...SHAPES.map((shape) => ({ value: shape, label: shape, glyph: glyph(ratio(shape)) })),
        ];
        parts.presets = choice("preset", t("create.preset"), presets, preset, (value) => edit("preset", value));
        parts.shapes =
            !changedOne &&
            ["custom", "source"].every((mode) => mode !== draft.sizeMode) &&
            choice("shape", t("create.shape"), shapes, draft.shape, (value) => edit("shape", value), "shapes");
        const most = Math.max(limits().max_batch ?? 1, 1);
        const counts = [1, 2, 3, 4, 6, 8].filter((n) => n <= most).map((n) => ({ value: String(n), label: String(n) }));
        return [
            parts.presets,
            parts.shapes,
            choice("batch", t("create.batch"), counts, String(draft.batch), (value) => edit("batch", Number(value))),
        ];
    }

    function glyph(shape) {
        const box = el("i", { class: "glyph" });
        box.style.setProperty("--w", Math.min(1, shape));
        box.style.setProperty("--h", Math.min(1, 1 / shape));
        return box;
    }

    // ---- what few people need ----

    function advanced() {
        const caps = state.capabilities,
            formats = caps?.output_formats ?? ["png"];
        const seed = el("input", {
            type: "text",
            inputmode: "numeric",
            autocomplete: "off",
            spellcheck: "false",
            value: draft.seed,
            placeholder: t("create.seed_random"),
            maxlength: "100", // more than any has: what was cut off would be another seed
            oninput: () => edit("seed", seed.value.trim()),
        });
        controls.seed = seed;
        const negative = (controls.negative = el("textarea", {
            rows: 2,
            value: draft.negative,
            oninput: () => edit("negative", negative.value),
        }));
        const sizes = ["preset", "1k", "1.5k", "2k", ...(draft.pictures.length ? ["source"] : []), "custom"].map(
            (mode) => ({ value: mode, label: t(`size.${mode}`) }),
        );
        const samplers = [
            { value: "", label: t("create.usual") },
            ...(caps?.samplers ?? []).map((one) => ({ value: one, label: one })),
        ];
        const factors = [0, 1.5, 2, 3, 4].map((n) => ({
            value: String(n),
            label: n ? `${n}×` : t("create.no_enlarging"),
        }));
        const upscalers = [
            { value: "", label: t("create.usual") },
            ...(caps?.upscalers ?? [])
                .filter((one) => one.installed)
                .map((one) => ({ value: one.id, label: one.title })),
        ];
        parts.sizes = changedPicture(draft)
            ? null
            : select(sizes, draft.sizeMode, (value) => editAll("sizeMode", value));
        parts.samplers = controls.sampler = select(samplers, draft.sampler, (value) => edit("sampler", value));
        parts.factors = hasFixedSize(draft)
            ? null
            : select(factors, String(draft.factor), (value) => editAll("factor", Number(value)));
        parts.more = el(
            "details",
            { class: "advanced", open: parts.more?.open ?? wrongOf(draft, limits()).size > 0, ontoggle: probe },
            el("summary", {}, icon("down"), t("create.advanced")),
            el("div", { class: "pair" },
                field(t("create.seed"), seed, { hint: t("create.seed_hint") }),
                field(t("create.sampler"), parts.samplers),
            ),
            parts.sizes && field(t("create.size"), parts.sizes),
            parts.sizes &&
                draft.sizeMode === "custom" &&
                el("div", { class: "pair" },
                    field(t("create.width"), side("width")),
                    field(t("create.height"), side("height")),
                ),
            parts.factors &&
                el("div", { class: "pair" },
                    field(t("create.enlarge"), parts.factors),
                    draft.factor > 0 &&
                        field(t("create.upscaler"),
                            select(upscalers, draft.upscaler, (value) => edit("upscaler", value)),
                        ),
                ),
            field(t("create.negative"), negative, { hint: t("create.negative_hint") }),
            formats.length > 1 &&
                el("div", { class: "pair" },
                    field(t("create.format"),
                        select(
                            formats.map((one) => ({ value: one, label: one.toUpperCase() })),
                            draft.format,
                            (value) => editAll("format", value),
                        ),
                    ),
                    draft.format !== "png" && field(t("create.quality"), number("quality", 1, 100)),
                ),
            toggle(t("create.transparent"), draft.transparent, (on) => edit("transparent", on)),
            toggle(t("create.metadata"), draft.metadata, (on) => edit("metadata", on)),
            draft.pictures.length > 0 && toggle(t("create.hdr"), draft.hdr, (on) => edit("hdr", on)),
            toggle(t("create.save"), draft.save, (on) => edit("save", on)),
        );
        return parts.more;
    }

    function number(name, min, max) {
        const input = el("input", {
            type: "number",
            min: String(min),
            max: String(max),
            value: String(draft[name]),
            oninput: () => edit(name, input.value && Number(input.value)), // as it is written, whatever it is
        });
        controls[name] = input;
        return input;
    }

    const side = (name) => number(name, limits().min_side, limits().max_side);

    // ---- what the planner says ----

    function changed() {
        keepDraft(draft);
        clearTimeout(pause);
        planning?.abort();
        const wrong = [...wrongOf(draft, limits())].map(([name, [key, values]]) => [name, t(key, values)]);
        if (wrong.length) {
            const refusals = wrong.map(([name, why]) => t("create.wrong", { name: t(`create.${name}`), why }));
            verdict = { plan: null, refusal: refusals.join(" ") };
            showVerdict();
        } else {
            pause = setTimeout(plan, PLAN_PAUSE_MS);
        }
        showWrong(new Map(wrong));
        setGo();
    }

    function showWrong(wrong) {
        for (const [name, control] of Object.entries(controls)) complain(control, wrong.get(name) ?? "");
    }

    async function plan() {
        const own = new AbortController();
        planning = own;
        try {
            // What is known to be refused need not be asked.
            verdict = needsArea()
                ? { plan: null, refusal: t("pictures.needs_area") }
                : await planOf(requestOf(draft), own.signal);
            if (own.signal.aborted) return;
            showVerdict();
            showWrong(new Map([[POINTERS[verdict.pointer], verdict.refusal]]));
            setGo();
            await probe();
        } catch (error) {
            if (error.name === "AbortError") return;
            verdict = null;
            fill(parts.verdict, note(explain(error), "error"));
            // Nobody tells when the way to the service is free again.
            if (error.status === 0 && !own.signal.aborted) pause = setTimeout(plan, PLAN_AGAIN_MS);
        }
    }

    function showVerdict() {
        const { plan, refusal } = verdict;
        if (refusal) {
            fill(parts.verdict, note(refusal, "error"));
            return;
        }
        const time =
            plan.estimated_seconds === null
                ? t("plan.unmeasured")
                : t("plan.time", { time: duration(plan.estimated_seconds) });
        const memory =
            plan.memory.estimate_bytes === null
                ? ""
                : plan.memory.budget_bytes === null
                  ? t("plan.needs", { needs: bytes(plan.memory.estimate_bytes) })
                  : t("plan.memory", {
                        needs: bytes(plan.memory.estimate_bytes),
                        most: bytes(plan.memory.budget_bytes),
                    });
        const drawn = plan.working_width !== plan.result_width || plan.working_height !== plan.result_height;
        fill(parts.verdict,
            el("p", { class: "plan" },
                el("strong", {}, size(plan.result_width, plan.result_height)),
                ["", t(`kind.${plan.kind}`), t("plan.steps", { n: plan.steps }), time].join(" · "),
            ),
            el("p", { class: "small muted" },
                dots(drawn && t("plan.drawn", { size: size(plan.working_width, plan.working_height) }), memory),
            ),
            draft.prompt.trim() ? notes(plan.notes) : note(t("create.no_prompt")),
        );
    }

    function setGo() {
        const refusal = draft.prompt.trim() ? (verdict?.refusal ?? "") : t("create.no_prompt");
        parts.go.disabled = Boolean(refusal);
        parts.go.title = refusal;
    }

    // What the planner would refuse is not offered: each choice is tried as it would be with all else as it is.
    async function probe() {
        const own = planning,
            open = parts.more.open;
        if (!verdict || !own) return;
        for (const [group, name] of [
            [parts.presets, "preset"],
            [parts.shapes, "shape"],
            [open && parts.samplers, "sampler"],
            [open && parts.sizes, "sizeMode"],
            [open && parts.factors, "factor"],
        ]) {
            const options = group ? [...group.querySelectorAll("input, option")] : [];
            for (const option of options) {
                const value = name === "factor" ? Number(option.value) : option.value;
                if (value === draft[name] || (name === "sizeMode" && value === "custom")) continue;
                // Where nothing goes yet, it is not this choice that is wrong; and the words do not matter.
                const found = verdict.refusal
                    ? {}
                    : isTooLarge(name, value)
                      ? { refusal: t("enlarge.most", { n: limits().max_side }) }
                      : await planOf(requestOf({ ...draft, prompt: "", [name]: value }), own.signal).catch(() => null);
                if (own.signal.aborted || !found) return;
                const refusal = found.refusal;
                option.disabled = Boolean(refusal);
                (option.closest("label") ?? option).title = refusal ?? "";
            }
        }
    }

    function isTooLarge(name, value) {
        const { working_width: width, working_height: height } = verdict.plan;
        return name === "factor" && Math.max(width, height) * value > limits().max_side;
    }

    async function submit(event) {
        event.preventDefault();
        if (parts.go.disabled) return;
        await busily(async () => {
            const made = await order("jobs", requestOf(draft));
            takeJob(made);
            keepJob(made.id);
            stage.show(made);
            stage.element.scrollIntoView({ block: "nearest" });
        })({ currentTarget: parts.go });
        setGo();
    }

    // ---- pictures from outside ----

    function onpaste(event) {
        const files = [...event.clipboardData.files];
        if (!files.length || document.querySelector("dialog[open]")) return;
        event.preventDefault();
        takeFiles(files);
    }

    const isForUs = (event) => event.dataTransfer?.types.includes("Files") && !document.querySelector("dialog[open]");

    function ondragover(event) {
        if (!isForUs(event)) return;
        event.preventDefault();
        event.dataTransfer.dropEffect = "copy";
        form.classList.add("over");
    }

    function ondragleave(event) {
        if (!event.relatedTarget) form.classList.remove("over");
    }

    function ondrop(event) {
        form.classList.remove("over");
        if (!isForUs(event)) return;
        event.preventDefault();
        takeFiles([...event.dataTransfer.files]);
    }

    const listeners = { paste: onpaste, dragover: ondragover, dragleave: ondragleave, drop: ondrop };
    for (const [name, f] of Object.entries(listeners)) document.addEventListener(name, f);
    const ends = [watch("models", rebuild), watch("settings everything", changed)];
    current = { rebuild };
    rebuild();
    stage.show(state.jobs.get(keptJob()));
    return () => {
        current = null;
        clearTimeout(pause);
        planning?.abort();
        ends.forEach((end) => end());
        stage.close();
        strip.close();
        for (const [name, f] of Object.entries(listeners)) document.removeEventListener(name, f);
    };
}

function megapixels(pixels) {
    const n = pixels / 1e6;
    return n >= 0.95 ? n.toFixed(n < 9.5 && n % 1 > 0.05 ? 1 : 0) : n.toFixed(2);
}
