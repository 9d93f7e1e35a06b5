// What is to be made next, as it stands on the screen, and the request that it becomes. Pure but for what is kept from
// one visit to the next.

import { isSeed, ratio } from "./format.js";

const KEPT = "kuno.draft",
    JOB = "kuno.job";
export const SHAPES = ["1:1", "4:3", "3:2", "16:9", "3:4", "2:3", "9:16"];
export const SIDES = ["left", "right", "top", "bottom"];
const FIXED_SIZES = ["1k", "1.5k", "2k"];

export function emptyDraft() {
    return {
        prompt: "",
        negative: "",
        preset: "",
        shape: "",
        sizeMode: "preset",
        width: 1024,
        height: 1024,
        batch: 1,
        seed: "",
        sampler: "",
        format: "png",
        quality: 95,
        transparent: false,
        metadata: true,
        hdr: true,
        save: true,
        upscaler: "",
        factor: 0,
        pictures: [], // { id, name, width, height } in order
        area: null, // { picture, mask } ids: only what is white in the mask changes
        extend: null, // { picture, left, right, top, bottom }: pixels added to it
        feather: null, // pixels over which either passes into what stays; null: the usual
    };
}

// The picture that an area was painted on, or that grows.
export function changedPicture(draft) {
    const id = draft.extend?.picture ?? draft.area?.picture;
    return draft.pictures.find((one) => one.id === id) ?? null;
}

function inputsOf(draft) {
    const changed = changedPicture(draft);
    const inputs = draft.pictures.map((one) => ({ input_id: one.id, role: one === changed ? "source" : "reference" }));
    inputs.sort((a, b) => (b.role === "source") - (a.role === "source"));
    if (draft.area && changed) inputs.push({ input_id: draft.area.mask, role: "mask" });
    return inputs;
}

function sizeOf(draft) {
    if (changedPicture(draft)) return null; // it keeps its own
    if (draft.sizeMode === "custom") return { mode: "custom", width: draft.width, height: draft.height };
    if (draft.sizeMode === "source") return { mode: "source" };
    const mode = FIXED_SIZES.includes(draft.sizeMode) ? draft.sizeMode : "auto";
    return mode === "auto" && !draft.shape ? null : { mode, ...(draft.shape && { aspect_ratio: draft.shape }) };
}

function outputOf(draft) {
    const output = {};
    if (draft.format !== "png") Object.assign(output, { format: draft.format, quality: draft.quality });
    if (draft.transparent) output.transparent = true;
    if (!draft.metadata) output.embed_metadata = false;
    if (!draft.hdr) output.keep_hdr = false;
    if (!draft.save) output.save_to_gallery = false;
    return Object.keys(output).length ? output : null;
}

// Whether it is said to the pixel how large the result is: then it is not enlarged beyond that.
export function hasFixedSize(draft) {
    return changedPicture(draft) !== null || draft.sizeMode === "custom" || draft.sizeMode === "source";
}

// The job's request: what is left at its usual is not said.
export function requestOf(draft) {
    const inputs = inputsOf(draft),
        size = sizeOf(draft),
        output = outputOf(draft);
    return {
        prompt: draft.prompt.trim(),
        ...(draft.negative.trim() && { negative_prompt: draft.negative.trim() }),
        ...(draft.preset && { preset: draft.preset }),
        ...(size && { size }),
        ...(inputs.length && { inputs }),
        ...(draft.extend &&
            changedPicture(draft) && {
                outpaint: Object.fromEntries(
                    SIDES.filter((side) => draft.extend[side] > 0).map((side) => [side, draft.extend[side]]),
                ),
            }),
        ...(changedPicture(draft) && draft.feather !== null && { feather: draft.feather }),
        ...(isSeed(draft.seed) && { seed: draft.seed }),
        ...(draft.batch > 1 && { batch: draft.batch }),
        ...(draft.sampler && { sampler: draft.sampler }),
        ...(draft.factor > 0 &&
            !hasFixedSize(draft) && {
                upscale: { factor: draft.factor, ...(draft.upscaler && { upscaler: draft.upscaler }) },
            }),
        ...(output && { output }),
    };
}

// ---- what cannot be as it is written ----

const isWhole = (n, min, max) => Number.isInteger(n) && n >= min && n <= max;

// By the names of the fields that are seen: what is to be said of each, as t() takes it.
export function wrongOf(draft, limits) {
    const wrong = new Map(),
        longest = (limits.max_prompt_bytes ?? Infinity) / 4, // of a character
        sides = { min: limits.min_side ?? 1, max: limits.max_side ?? Infinity };
    for (const name of ["prompt", "negative"])
        if (draft[name].length > longest && [...draft[name].trim()].length > longest)
            wrong.set(name, ["create.too_long", { max: longest }]);
    if (draft.seed && !isSeed(draft.seed)) wrong.set("seed", ["create.bad_seed"]);
    if (draft.sizeMode === "custom" && !changedPicture(draft))
        for (const name of ["width", "height"])
            if (!isWhole(draft[name], sides.min, sides.max)) wrong.set(name, ["number.wrong", sides]);
    if (draft.format !== "png" && !isWhole(draft.quality, 1, 100))
        wrong.set("quality", ["number.wrong", { min: 1, max: 100 }]);
    return wrong;
}

// The nearest of the shapes that are offered, or none.
function shapeLike(text) {
    return SHAPES.find((shape) => Math.abs(ratio(shape) - ratio(text)) < 0.01) ?? "";
}

// A draft that asks for the same again. known: of its inputs, those that the service still has, by id.
export function draftOf(request, known = new Map()) {
    const draft = emptyDraft(),
        size = request.size ?? {},
        output = request.output ?? {};
    const seen = (request.inputs ?? []).filter((one) => known.has(one.input_id));
    draft.prompt = request.prompt ?? "";
    draft.negative = request.negative_prompt ?? "";
    draft.preset = request.preset ?? "";
    draft.seed = request.seed ?? "";
    draft.batch = request.batch ?? 1;
    draft.sampler = request.sampler ?? "";
    draft.sizeMode = size.mode === "auto" || !size.mode ? "preset" : size.mode;
    draft.shape = size.aspect_ratio ? shapeLike(size.aspect_ratio) : "";
    draft.width = size.width ?? draft.width;
    draft.height = size.height ?? draft.height;
    draft.format = output.format ?? "png";
    draft.quality = output.quality ?? 95;
    draft.transparent = output.transparent ?? false;
    draft.metadata = output.embed_metadata ?? true;
    draft.hdr = output.keep_hdr ?? true;
    draft.save = output.save_to_gallery ?? true;
    draft.upscaler = request.upscale?.upscaler ?? "";
    draft.factor = request.upscale?.factor ?? 0;
    draft.pictures = seen.filter((one) => one.role !== "mask").map((one) => known.get(one.input_id));
    const source = seen.find((one) => one.role === "source"),
        mask = seen.find((one) => one.role === "mask");
    if (source && request.outpaint)
        draft.extend = { picture: source.input_id, left: 0, right: 0, top: 0, bottom: 0, ...request.outpaint };
    draft.feather = request.feather ?? null;
    if (source && mask) draft.area = { picture: source.input_id, mask: mask.input_id };
    return draft;
}

// ---- from one visit to the next ----

export function keepDraft(draft) {
    try {
        localStorage.setItem(KEPT, JSON.stringify(draft));
    } catch {
        /* then it is gone with the page */
    }
}

export function keptDraft() {
    try {
        return { ...emptyDraft(), ...JSON.parse(localStorage.getItem(KEPT) ?? "{}") };
    } catch {
        return emptyDraft();
    }
}

// The last job of this tab, which is shown again when the page is.
let job = "";

export function keepJob(id) {
    job = id;
    try {
        sessionStorage.setItem(JOB, id);
    } catch {
        /* as above */
    }
}

export function keptJob() {
    try {
        return job || sessionStorage.getItem(JOB);
    } catch {
        return job;
    }
}
