// Queue: what is drawn, what waits, and what became of the rest.

import { get, remove } from "./api.js";
import { add, button, el, fill, icon, iconButton } from "./dom.js";
import { date, dots, duration, size } from "./format.js";
import { cancel, phaseText, remainingText, retry, stop } from "./stage.js";
import { isOver, jobsNewestFirst, state, takeJob, tell, watch } from "./state.js";
import { locale, t } from "./texts.js";
import { busily, confirm, empty, meter, note, notes, setMeter } from "./ui.js";

const CANCEL_LANES = 4;
const OVER = "state=completed&state=failed&state=cancelled";

function titleOf(job) {
    return job.request?.title || job.request?.prompt || t(`kind.${job.kind}`);
}

function factsOf(job) {
    const took =
        job.started_at && job.finished_at ? (new Date(job.finished_at) - new Date(job.started_at)) / 1000 : null;
    return dots(
        t(`kind.${job.kind}`),
        job.plan && size(job.plan.result_width, job.plan.result_height),
        job.seeds?.length > 1 && t("queue.pictures", { n: job.seeds.length }),
        date(job.created_at, locale),
        took !== null && t("queue.took", { time: duration(took) }),
    );
}

function thumbs(job) {
    const kept = job.results.filter((one) => one.gallery_item);
    return el("div", { class: "thumbs" },
        kept.length
            ? kept
                  .slice(0, 4)
                  .map((one) =>
                      el(
                          "a",
                          { href: `#/gallery/${one.gallery_item}`, "aria-label": t("stage.open") },
                          el("img", {
                              src: `/api/v1/gallery/${one.gallery_item}/thumbnail?size=320`,
                              alt: "",
                              loading: "lazy",
                              decoding: "async",
                          }),
                      ),
                  )
            : icon(job.state === "failed" ? "warning" : "picture"),
    );
}

// One job. It is made once for each state; while it runs only its parts change.
function makeRow(job) {
    const phase = el("strong"),
        remaining = el("span", { class: "muted" });
    const bar = isOver(job) ? null : meter(0, t("stage.progress"));
    const actions = isOver(job)
        ? [
              iconButton(t("job.retry"), "again", retry(job.id)),
              iconButton(t("queue.forget"), "close", busily(() => remove(`jobs/${job.id}`)), { kind: "quiet" }),
          ]
        : [button(t("cancel"), cancel(job.id), { symbol: "stop", kind: "small" })];
    const row = el(
        "li",
        { class: `job ${job.state}`, data: { id: job.id } },
        thumbs(job),
        el("div", { class: "job-text" },
            el("p", { class: "job-title" }, titleOf(job)),
            el("p", { class: "small muted" }, factsOf(job)),
            el("p", { class: "small row" }, phase, remaining),
            bar,
            job.error && note(job.error.message, "error"),
            notes(job.notes),
        ),
        el("div", { class: "row" }, actions),
    );
    const update = (now) => {
        phase.textContent = phaseText(now);
        remaining.textContent = remainingText(now);
        if (bar) setMeter(bar, now.progress.fraction);
    };
    update(job);
    return { row, update };
}

export function open(place, detail, header) {
    const running = el("ul", { class: "jobs" }),
        ended = el("ul", { class: "jobs" });
    const open = el("section", {}, el("h2", {}, t("queue.open_jobs")), running);
    const past = el("section", {}, el("h2", {}, t("queue.past")), ended);
    const more = button(t("more"), busily(readMore), { kind: "wide quiet" });
    const clear = button(t("queue.clear"), busily(forgetAll), { symbol: "trash", kind: "quiet" });
    const stopAll = button(t("queue.stop_all"), busily(cancelAll), { symbol: "stop", kind: "quiet" });
    const rows = new Map();
    let cursor = "";
    add(header, el("span", { class: "row" }, stopAll, clear));

    function rowOf(job) {
        const key = `${job.id} ${job.state} ${job.cancel_requested} ${job.attempts}`;
        let kept = rows.get(job.id);
        if (kept?.key !== key) {
            kept = { key, ...makeRow(job) };
            rows.set(job.id, kept);
        }
        kept.update(job);
        return kept.row;
    }

    function show() {
        const jobs = jobsNewestFirst(),
            waiting = jobs.filter((job) => !isOver(job)).reverse();
        const over = jobs.filter(isOver);
        stopAll.hidden = waiting.length < 2;
        clear.hidden = !over.length;
        if (!jobs.length) {
            fill(place,
                empty(
                    "queue",
                    t("queue.empty"),
                    t("queue.empty_text"),
                    el("a", { class: "btn primary", href: "#/create" },
                        icon("create"),
                        el("span", {}, t("gallery.begin")),
                    ),
                ),
            );
            return;
        }
        if (!open.isConnected) fill(place, open, past, more);
        open.hidden = !waiting.length;
        past.hidden = !over.length;
        more.hidden = cursor === null;
        arrange(running, waiting.map(rowOf));
        arrange(ended, over.map(rowOf));
    }

    // Only what has changed its place is moved, so that the focus stays where it is.
    function arrange(list, wanted) {
        wanted.forEach((row, i) => {
            if (list.children[i] !== row) list.insertBefore(row, list.children[i] ?? null);
        });
        while (list.children.length > wanted.length) list.lastChild.remove();
    }

    async function readMore() {
        const page = await get(`jobs?limit=50&${OVER}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
        cursor = page.next_cursor;
        page.items.forEach(takeJob);
        show();
    }

    async function forgetAll() {
        if (!(await confirm(t("queue.clear"), t("queue.clear_text"), t("queue.clear")))) return;
        for (const job of [...state.jobs.values()].filter(isOver)) await remove(`jobs/${job.id}`).catch(() => {});
        tell("jobs", null);
    }

    // What waits goes first, the newest before the others, so that none begins meanwhile.
    async function cancelAll() {
        const open = jobsNewestFirst().filter((one) => !isOver(one)),
            waiting = open.filter((one) => one.state === "queued");
        const lane = async () => {
            for (let job = waiting.shift(); job; job = waiting.shift()) await stop(job.id);
        };
        await Promise.all(Array.from({ length: CANCEL_LANES }, lane));
        for (const job of open) if (!isOver(state.jobs.get(job.id) ?? job)) await stop(job.id);
    }

    const end = watch("jobs everything", show);
    show();
    readMore().catch(() => {});
    return end;
}
