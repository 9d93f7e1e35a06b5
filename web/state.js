// What is known of the service, and who wants to hear of it.

export const state = {
    connection: "connecting", // connecting, open, lost
    status: null,
    capabilities: null,
    settings: null,
    settingsTag: null,
    models: [],
    jobs: new Map(),
    downloads: new Map(),
};

const watchers = new Map();

// Calls f whenever one of the topics has news. Returns what ends that.
export function watch(topics, f) {
    const names = topics.split(" ");
    for (const name of names) watchers.set(name, (watchers.get(name) ?? new Set()).add(f));
    return () => names.forEach((name) => watchers.get(name).delete(f));
}

export function tell(topic, detail) {
    for (const f of [...(watchers.get(topic) ?? [])]) f(detail, topic);
}

const ENDED = new Set(["completed", "failed", "cancelled"]);
export const isOver = (job) => ENDED.has(job.state);

// A job's later word wins: its end is never taken back by an answer that was on its way.
export function takeJob(job) {
    const known = state.jobs.get(job.id);
    if (known && isOver(known) && !isOver(job)) return;
    // Who waits behind it moves up, of which no event tells.
    if (known?.state === "queued" && job.state !== "queued")
        for (const one of state.jobs.values()) if (one.queue_position > known.queue_position) one.queue_position--;
    state.jobs.set(job.id, job);
    tell("jobs", job);
}

export function jobsNewestFirst() {
    return [...state.jobs.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
}
