// The pictures that a job works on: sent to the service once, and known by what they are from then on.

import { blob, call, get } from "./api.js";
import { bytes } from "./format.js";
import { state } from "./state.js";
import { t } from "./texts.js";
import { explain } from "./ui.js";

const TYPES = ["image/png", "image/jpeg", "image/webp"];
const HEADS = [/^\x89PNG\r\n\x1a\n/, /^\xff\xd8\xff/, /^RIFF....WEBP/s];
export const ACCEPT = TYPES.join(",");

export const contentOf = (id) => `/api/v1/inputs/${id}/content`;

function shown(input, name) {
    return { id: input.input_id, name, width: input.width, height: input.height };
}

// By what it begins with; its name may say anything. "": none that is taken here.
async function typeOf(file) {
    const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
    return TYPES.find((type, i) => HEADS[i].test(head)) ?? "";
}

// What the service says of a file is the end of a sentence, or a sentence.
const refusal = (name, why) =>
    t(/^(is|has|cannot) /.test(why) ? "pictures.refused" : "pictures.refused_since", { name, why });

// Sends a file; what it is, the service says. What is known before is not asked.
export async function upload(file, name = file.name || t("pictures.pasted")) {
    const most = state.capabilities?.limits.max_input_bytes ?? Infinity;
    if (!file.size) throw new Error(t("pictures.empty", { name }));
    if (file.size > most) throw new Error(t("pictures.large", { name, most: bytes(most) }));
    const type = await typeOf(file);
    if (!type) throw new Error(t("pictures.type", { name }));
    try {
        return shown(await call("POST", "inputs", { body: file, type }), name);
    } catch (error) {
        throw error.code === "input_invalid" ? new Error(refusal(name, explain(error))) : error;
    }
}

// A picture of the gallery becomes one that a job can work on.
export async function uploadItem(item) {
    return upload(await blob(item.content_url), item.title || item.prompt || item.kind);
}

// Which of these inputs the service still has.
export async function knownInputs(ids) {
    const answers = await Promise.allSettled(ids.map((id) => get(`inputs/${id}`)));
    return new Map(
        answers
            .filter((one) => one.status === "fulfilled")
            .map(({ value }) => [value.input_id, shown(value, t("pictures.earlier"))]),
    );
}

// What a picture file says of how it was made: a recipe, or why there is none for it; null: nothing.
export async function inspect(file) {
    try {
        const type = await typeOf(file);
        if (!type) return null;
        const found = await call("POST", "recipes/inspect", { body: file, type });
        return found.recipe || found.unsupported.length ? found : null;
    } catch {
        return null; // that it cannot be used, the upload says
    }
}
