// Who may: the token is exchanged for a cookie that scripts cannot read. What this page keeps is the secret that goes
// with it; the token itself stays in memory, so that a session that has ended is begun anew without asking.

import { call, useSession } from "./api.js";

const KEPT = "kuno.session";
let csrf = "",
    token = "",
    ask = async () => {},
    asking = null;

try {
    csrf = localStorage.getItem(KEPT) ?? "";
} catch {
    /* nothing is kept here: the token is asked for again */
}

function keep(value) {
    csrf = value;
    try {
        localStorage.setItem(KEPT, value);
    } catch {
        /* as above */
    }
}

// The token, or the code of a link that is good for once.
export async function begin(secret, isLink = false) {
    const session = await call("POST", "session", { json: { token: secret }, isSession: true });
    keep(session.csrf_token);
    token = isLink ? "" : secret;
}

export async function end() {
    await call("DELETE", "session");
    keep("");
    token = "";
    location.reload();
}

// One at a time: silently while the token is known, else by asking for it.
async function renew() {
    asking ??= (async () => {
        try {
            if (token) return await begin(token);
        } catch (error) {
            if (error.status === 0) throw error;
            token = "";
        }
        await ask();
    })().finally(() => (asking = null));
    await asking;
    return true;
}

// Whether there has been a session here: if not, nothing needs to be tried.
export const isKnown = () => csrf !== "";

// How to ask for a token: returns when there is a session again.
export function askBy(f) {
    ask = f;
}

const LINK = /^#link=(.*)$/;

// Takes /#link=CODE away before anything else sees it.
export function takeLink() {
    const code = LINK.exec(location.hash)?.[1];
    if (code !== undefined) history.replaceState(null, "", location.pathname);
    return code;
}

// A page that is there already notices of a link that is opened in it nothing but this.
addEventListener("hashchange", () => LINK.test(location.hash) && location.reload());

useSession({ csrf: () => csrf, renew });
