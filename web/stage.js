// Where a job is seen: its preview while it is drawn, how far it is, and what came of it.

import { blob, post } from "./api.js";
import { button, el, fill, icon } from "./dom.js";
import { duration, size } from "./format.js";
import { isOver, state, takeJob, watch } from "./state.js";
import { has, t } from "./texts.js";
import { announce, busily, meter, notes, setMeter } from "./ui.js";

export function phaseText(job) {
    const p = job.progress;
    if (job.state === "queued")
        return job.queue_position > 1 ? t("job.waits", { n: job.queue_position - 1 }) : t("job.next");
    if (isOver(job)) return t(`state.${job.state}`);
    if (job.cancel_requested) return t("job.cancelling");
    if (p.phase === "sampling" && p.steps) return t("phase.step", { step: p.step ?? 0, steps: p.steps });
    return stateOfWork(p);
}

// Without its steps.
function stateOfWork({ phase, waiting }) {
    if (!waiting) return t(`phase.${phase}`);
    return has(`waits.${waiting.code}`) ? t(`waits.${waiting.code}`) : waiting.message;
}

export function remainingText(job) {
    const eta = job.progress.eta_seconds;
    return job.state === "running" && eta !== null && eta !== undefined
        ? t("job.remaining", { time: duration(eta) })
        : "";
}

export const stop = async (id) => takeJob(await post(`jobs/${id}/cancel`));
export const cancel = (id) => busily(() => stop(id));
export const retry = (id, then) =>
    busily(async () => {
        const job = await post(`jobs/${id}/retry`);
        takeJob(job);
        then?.(job);
    });

// actions(result): what can be done with a picture. idle: what is shown before the first.
export function makeStage({ actions, idle }) {
    const element = el("section", { class: "stage", "aria-label": t("stage.label") });
    let id = "",
        drawn = "",
        parts = null,
        preview = "",
        said = "";

    const show = (job) => {
        id = job?.id ?? "";
        drawn = said = "";
        parts = null;
        dropPreview();
        update();
    };

    function dropPreview() {
        if (preview) URL.revokeObjectURL(preview);
        preview = "";
    }

    function frameOf(job) {
        const plan = job.plan;
        return { width: plan?.result_width ?? 1, height: plan?.result_height ?? 1 };
    }

    function buildRunning(job) {
        const { width, height } = frameOf(job);
        const image = el("img", { class: "preview", alt: t("stage.preview"), hidden: true });
        const frame = el("div", { class: "frame waiting" }, icon("picture", "large"), image);
        frame.style.setProperty("--aspect", width / height);
        frame.style.setProperty("--width", width);
        const phase = el("strong"),
            remaining = el("span", { class: "muted" }),
            bar = meter(0, t("stage.progress"));
        parts = { image, frame, phase, remaining, bar };
        fill(element,
            el("div", { class: "view" }, frame),
            el("div", { class: "progress" },
                el("div", { class: "row" },
                    phase,
                    remaining,
                    button(t("cancel"), cancel(job.id), { symbol: "stop", kind: "small" }),
                ),
                bar,
            ),
        );
        if (job.progress.has_preview) showPreview(`jobs/${job.id}/preview`);
    }

    async function showPreview(path) {
        const own = id,
            bytes = await blob(path).catch(() => null);
        if (!bytes || own !== id || !parts) return;
        dropPreview();
        preview = URL.createObjectURL(bytes);
        parts.image.src = preview;
        parts.image.hidden = false;
        parts.frame.classList.remove("waiting");
    }

    function result(job, one) {
        const image = el("img", {
            src: one.content_url,
            width: one.width,
            height: one.height,
            alt: job.request?.prompt ?? t("picture"),
            decoding: "async",
        });
        image.style.setProperty("--aspect", one.width / one.height);
        image.style.setProperty("--width", one.width);
        const framed = one.gallery_item
            ? el("a", { href: `#/gallery/${one.gallery_item}`, "aria-label": t("stage.open") }, image)
            : image;
        return el("figure", {},
            framed,
            el("figcaption", { class: "row" },
                el("span", { class: "muted" }, `${size(one.width, one.height)} · ${t("seed", { seed: one.seed })}`),
                el("span", { class: "row actions" }, actions(one, job)),
            ),
        );
    }

    function buildEnd(job) {
        dropPreview();
        if (job.state === "completed")
            fill(element,
                el("div", { class: `view results n${Math.min(job.results.length, 4)}` },
                    job.results.map((one) => result(job, one)),
                ),
                notes(job.notes),
            );
        else
            fill(element,
                el("div", { class: `empty ${job.state === "failed" ? "bad" : ""}` },
                    icon(job.state === "failed" ? "warning" : "stop", "large"),
                    el("h2", {}, t(`state.${job.state}`)),
                    job.error && el("p", {}, job.error.message),
                    button(t("job.retry"), retry(job.id, show), { symbol: "again" }),
                ),
                notes(job.notes),
            );
    }

    function update() {
        const job = state.jobs.get(id);
        if (!job) {
            if (drawn !== "idle") fill(element, idle());
            drawn = "idle";
            return;
        }
        const wanted = isOver(job) ? `${id} ${job.state}` : id;
        if (drawn !== wanted) {
            drawn = wanted;
            if (isOver(job)) buildEnd(job);
            else buildRunning(job);
        }
        if (!isOver(job)) {
            parts.phase.textContent = phaseText(job);
            parts.remaining.textContent = remainingText(job);
            setMeter(parts.bar, job.progress.fraction);
        }
        // Those who listen hear of phases, not of every step.
        const words = isOver(job)
            ? t(`state.${job.state}`)
            : job.state === "queued"
              ? phaseText(job)
              : stateOfWork(job.progress);
        if (words !== said) announce(words);
        said = words;
    }

    const ends = [
        watch("jobs everything", update),
        watch("preview", (event) => event.job_id === id && showPreview(event.preview_url)),
    ];
    update();
    return {
        element,
        show,
        close() {
            ends.forEach((end) => end());
            dropPreview();
        },
    };
}
