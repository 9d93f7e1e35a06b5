// What the planner says to a request, before anybody asks for it in earnest.

import { post } from "./api.js";
import { watch } from "./state.js";

const KEPT_MAX = 200;
const kept = new Map();

// Another model, other settings: everything may be different now.
watch("models settings everything", () => kept.clear());

// { plan, refusal, pointer }: refusal is null, or why such a job would not be accepted, for what pointer names.
export async function planOf(request, signal) {
    const key = JSON.stringify(request);
    if (kept.has(key)) return kept.get(key);
    let verdict;
    try {
        // There must be some words for it to be looked at.
        const plan = await post("plan", { ...request, prompt: request.prompt || "?" }, { signal });
        const [first] = plan.blocking;
        const pointer = first?.code.startsWith("prompt_") ? "/prompt" : "";
        verdict = { plan, refusal: first?.message ?? null, pointer };
    } catch (error) {
        if (error.status !== 422 && error.status !== 409) throw error;
        verdict = { plan: null, refusal: error.detail || error.reason || error.title, pointer: error.pointer };
    }
    if (kept.size >= KEPT_MAX) kept.delete(kept.keys().next().value);
    kept.set(key, verdict);
    return verdict;
}
