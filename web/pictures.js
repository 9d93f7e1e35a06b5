// The pictures that a job works on: sent to the service once, and known by what they are from then on.

import { blob, call, get } from "./api.js";
import { bytes } from "./format.js";
import { state } from "./state.js";
import { t } from "./texts.js";

const TYPES = ["image/png", "image/jpeg", "image/webp"];
export const ACCEPT = TYPES.join(",");

export const contentOf = (id) => `/api/v1/inputs/${id}/content`;

function shown(input, name) {
    return { id: input.input_id, name, width: input.width, height: input.height };
}

// Sends a file; what it is, the service says.
export async function upload(file, name = file.name || t("pictures.pasted")) {
    const most = state.capabilities?.limits.max_input_bytes ?? Infinity;
    if (file.size > most) throw new Error(t("pictures.large", { name, most: bytes(most) }));
    if (!TYPES.includes(file.type)) throw new Error(t("pictures.type", { name }));
    return shown(await call("POST", "inputs", { body: file, type: file.type }), name);
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
    if (!TYPES.includes(file.type)) return null;
    try {
        const found = await call("POST", "recipes/inspect", { body: file, type: file.type });
        return found.recipe || found.unsupported.length ? found : null;
    } catch {
        return null; // that it cannot be used, the upload says
    }
}
