// /api/v1, as the service describes it at /api/v1/openapi.yaml.

export const BASE = "/api/v1";

// What the service refused, or that it could not be reached (status 0).
export class Problem extends Error {
    constructor(status, body = {}) {
        super(body.detail || body.title || "");
        this.status = status;
        this.code = body.code ?? (status ? "unknown" : "unreachable");
        this.title = body.title ?? "";
        this.detail = body.detail ?? "";
        this.pointer = body.errors?.[0]?.pointer ?? "";
        this.reason = body.errors?.[0]?.detail ?? "";
    }

    // The service of this version has no such route.
    get isMissing() {
        return [404, 405, 501].includes(this.status);
    }
}

// session.js says what is sent along, and what is done without a session.
let session = { csrf: () => "", renew: async () => false };
export function useSession(s) {
    session = s;
}

async function send(method, path, { json, body, type, headers = {}, signal, keepalive }) {
    const fields = { ...headers };
    if (json !== undefined) fields["Content-Type"] = type ?? "application/json";
    else if (body) fields["Content-Type"] = type;
    if (method !== "GET") fields["X-Kuno-Csrf"] = session.csrf();
    try {
        return await fetch(path.startsWith("/") ? path : `${BASE}/${path}`, {
            method,
            headers: fields,
            body: json !== undefined ? JSON.stringify(json) : body,
            signal,
            keepalive,
            credentials: "same-origin",
            cache: "no-store",
        });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Problem(0);
    }
}

async function problemOf(answer) {
    try {
        return new Problem(answer.status, await answer.json());
    } catch {
        return new Problem(answer.status);
    }
}

// The answer itself, good or not; a session that has ended is begun anew once.
async function ask(method, path, options) {
    const answer = await send(method, path, options);
    const lost =
        answer.status === 401 || (answer.status === 403 && (await answer.clone().text()).includes("csrf_missing"));
    return lost && !options.isSession && (await session.renew()) ? send(method, path, options) : answer;
}

export async function call(method, path, options = {}) {
    const answer = await ask(method, path, options);
    if (!answer.ok) throw await problemOf(answer);
    if (answer.status === 204) return null;
    const etag = answer.headers.get("ETag");
    const content = await answer.json();
    return options.withTag ? { content, etag } : content;
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, json, options) => call("POST", path, { json, ...options });
export const remove = (path, options) => call("DELETE", path, options);

export async function blob(path) {
    const answer = await ask("GET", path, {});
    if (!answer.ok) throw await problemOf(answer);
    return answer.status === 204 ? null : answer.blob();
}

// Something that begins work: repeated with the same key until it is known to have arrived, so that it is done once.
export async function order(path, json) {
    const headers = { "Idempotency-Key": crypto.randomUUID() };
    for (let tries = 0; ; tries++) {
        try {
            return await post(path, json, { headers });
        } catch (error) {
            if (error.status !== 0 || tries === 4) throw error;
            await new Promise((resolve) => setTimeout(resolve, 500 << tries));
        }
    }
}

// All pages of a list, one after the other.
export async function* pages(path, limit = 200) {
    const mark = path.includes("?") ? "&" : "?";
    for (let cursor = ""; cursor !== null;) {
        const page = await get(`${path}${mark}limit=${limit}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
        yield page.items;
        cursor = page.next_cursor;
    }
}
