// The service as it happens: events in, state out. A stream that breaks goes on where it was; when that is not
// possible, or the service is another one than before, everything is read again.

import { BASE, get, pages } from "./api.js";
import { isOver, state, takeJob, tell } from "./state.js";

const PAUSES = [500, 1000, 2000, 4000, 8000];
let source = null,
    lastId = "",
    fails = 0,
    timer = 0;

function setConnection(to) {
    if (state.connection === to) return;
    state.connection = to;
    tell("connection", to);
}

async function readJobs() {
    const seen = new Map((await get("jobs?limit=50")).items.map((job) => [job.id, job]));
    for await (const items of pages("jobs?state=queued&state=running")) for (const job of items) seen.set(job.id, job);
    // What was open here and is not among those any more has ended, or was forgotten.
    const lost = [...state.jobs.values()].filter((job) => !isOver(job) && !seen.has(job.id));
    state.jobs = new Map([...state.jobs].filter(([id, job]) => isOver(job) && !seen.has(id)));
    for (const [id, job] of seen) state.jobs.set(id, job);
    for (const job of lost)
        await get(`jobs/${job.id}`).then((now) => state.jobs.set(now.id, now), () => {});
    tell("jobs", null);
}

async function readSettings() {
    const { content, etag } = await get("settings", { withTag: true });
    state.settings = content;
    state.settingsTag = etag;
    tell("settings");
}

async function readModels() {
    const [models, capabilities] = await Promise.all([get("models"), get("capabilities")]);
    state.models = models.items;
    state.capabilities = capabilities;
    tell("models");
}

async function readDownloads() {
    const { items } = await get("downloads?limit=200");
    state.downloads = new Map(items.map((one) => [one.id, one]));
    tell("downloads");
}

async function readStatus() {
    state.status = await get("status");
    tell("status");
    return state.status.event_id;
}

export async function readEverything() {
    lastId = await readStatus();
    await Promise.all([readJobs(), readSettings(), readModels(), readDownloads().catch(() => {})]);
    tell("everything");
}

const handlers = {
    "job.queued": takeJob,
    "job.started": takeJob,
    "job.completed": takeJob,
    "job.failed": takeJob,
    "job.cancelled": takeJob,
    "job.progress"({ job_id: id, progress }) {
        const job = state.jobs.get(id);
        if (job && !isOver(job)) takeJob({ ...job, state: "running", queue_position: null, progress });
    },
    "job.preview": (preview) => tell("preview", preview),
    "job.deleted"({ id }) {
        state.jobs.delete(id);
        tell("jobs", null);
    },
    "gallery.added": (item) => tell("gallery", { added: item }),
    "gallery.updated": (item) => tell("gallery", { updated: item }),
    "gallery.deleted": ({ id }) => tell("gallery", { deleted: id }),
    "download.updated"(download) {
        state.downloads.set(download.id, download);
        tell("downloads", download);
    },
    "engine.updated"(engine) {
        state.status = { ...state.status, engine };
        tell("status");
    },
    "settings.updated": () => Promise.all([readSettings(), readModels()]).catch(() => {}),
    "models.updated": () => Promise.all([readModels(), readStatus()]).catch(() => {}),
    "stream.reset": () => reopen(),
};

function close() {
    source?.close();
    source = null;
    clearTimeout(timer);
}

// Reads everything, then listens from there.
async function reopen() {
    close();
    try {
        await readEverything();
        listen();
    } catch (error) {
        retry(error);
    }
}

function retry() {
    close();
    setConnection("lost");
    timer = setTimeout(reopen, PAUSES[Math.min(fails++, PAUSES.length - 1)]);
}

// A browser gives one service six connections for all its pages: one that nobody sees leaves its own to the others.
function listen() {
    close();
    if (document.hidden) return;
    const own = new EventSource(`${BASE}/events?last_event_id=${lastId}`);
    source = own;
    own.onopen = () => {
        fails = 0;
        setConnection("open");
    };
    own.onerror = () => {
        if (source !== own) return;
        // The browser tries again by itself, with the id of the last event, unless it was refused.
        setConnection("lost");
        if (own.readyState === EventSource.CLOSED) retry();
    };
    for (const [name, handle] of Object.entries(handlers)) {
        own.addEventListener(name, (event) => {
            lastId = event.lastEventId || lastId;
            handle(JSON.parse(event.data));
        });
    }
}

export async function start() {
    await reopen();
    addEventListener("online", () => state.connection === "lost" && reopen());
    addEventListener("pagehide", close);
    document.addEventListener("visibilitychange", () => {
        if (document.hidden) close();
        else if (state.connection === "open") listen();
        else reopen();
    });
    addEventListener("pageshow", (event) => event.persisted && reopen());
}

export { readModels, readSettings, readStatus };
