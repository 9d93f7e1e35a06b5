// Diagnostics: whether all is well here, in words that can be sent to somebody who helps.

import { BASE, get, post } from "./api.js";
import { add, button, el, fill, icon } from "./dom.js";
import { readStatus } from "./live.js";
import { bytes, date } from "./format.js";
import { state, watch } from "./state.js";
import { locale, t } from "./texts.js";
import { busily, failure, loading, toast } from "./ui.js";

const SYMBOLS = { ok: "check", warning: "warning", error: "warning", skipped: "minus" };

function table(heads, rows) {
    return el(
        "div",
        { class: "scroll", tabindex: "0", role: "group", "aria-label": heads.join(", ") },
        el(
            "table",
            {},
            el(
                "thead",
                {},
                el(
                    "tr",
                    {},
                    heads.map((head) => el("th", { scope: "col" }, head)),
                ),
            ),
            el(
                "tbody",
                {},
                rows.map((row) =>
                    el(
                        "tr",
                        {},
                        row.map((cell) => el("td", {}, cell)),
                    ),
                ),
            ),
        ),
    );
}

export function open(place, detail, header) {
    const checks = el("div", { class: "stack" }),
        engine = el("section", { class: "card" });
    add(place, engine, checks);
    add(
        header,
        el(
            "span",
            { class: "row" },
            button(t("diagnostics.again"), busily(read), { symbol: "again", kind: "quiet" }),
            button(t("diagnostics.copy"), busily(copy), { symbol: "copy", kind: "quiet" }),
        ),
    );

    const act = (what) =>
        busily(async () => {
            state.status.engine = await post(`engine/${what}`);
            showEngine();
        });

    function showEngine() {
        const s = state.status;
        if (!s) {
            fill(engine, loading());
            return;
        }
        const e = s.engine,
            stopped = e.state === "stopped";
        fill(
            engine,
            el(
                "header",
                { class: "row" },
                el("h2", {}, t("diagnostics.engine")),
                el(
                    "span",
                    { class: `chip ${e.state === "failed" ? "bad" : stopped ? "" : "good"}` },
                    t(`engine.${e.state}`),
                ),
            ),
            el(
                "dl",
                {},
                el("dt", {}, t("diagnostics.version")),
                el("dd", {}, s.version),
                el("dt", {}, t("diagnostics.since")),
                el("dd", {}, date(s.started_at, locale)),
                el("dt", {}, t("diagnostics.device")),
                el("dd", {}, [e.device?.name, e.backend.toUpperCase()].filter(Boolean).join(" · ")),
                el("dt", {}, t("diagnostics.queue")),
                el(
                    "dd",
                    {},
                    t("diagnostics.queue_text", {
                        running: s.queue.running,
                        queued: s.queue.queued,
                        limit: s.queue.limit,
                    }),
                ),
                e.reason && [el("dt", {}, t("diagnostics.reason")), el("dd", {}, el("code", {}, e.reason))],
            ),
            el(
                "div",
                { class: "row" },
                stopped
                    ? button(t("engine.start"), act("start"), { symbol: "play", kind: "small" })
                    : [
                          button(t("engine.restart"), act("restart"), { symbol: "again", kind: "small" }),
                          button(t("engine.stop"), act("stop"), { symbol: "stop", kind: "small" }),
                      ],
            ),
        );
    }

    function show(d) {
        fill(
            checks,
            el(
                "section",
                { class: "card" },
                el("h2", {}, t("diagnostics.checks")),
                el(
                    "ul",
                    { class: "checks" },
                    d.checks.map((one) =>
                        el(
                            "li",
                            { class: one.status },
                            icon(SYMBOLS[one.status]),
                            el(
                                "div",
                                {},
                                el("p", {}, el("span", { class: "unseen" }, t(`check.${one.status}`)), one.message),
                                one.action && el("p", { class: "small muted" }, one.action),
                            ),
                        ),
                    ),
                ),
            ),
            el(
                "section",
                { class: "card" },
                el("h2", {}, t("diagnostics.devices")),
                table(
                    [t("diagnostics.name"), t("diagnostics.address"), t("diagnostics.memory")],
                    d.devices.map((one) => [
                        one.name,
                        one.pci_address ?? "–",
                        bytes(one.memory_total_bytes) || t("unknown"),
                    ]),
                ),
            ),
            el(
                "section",
                { class: "card" },
                el("h2", {}, t("diagnostics.speed")),
                d.speed.length
                    ? table(
                          [
                              t("diagnostics.device"),
                              t("diagnostics.mode"),
                              t("diagnostics.ratio"),
                              t("diagnostics.samples"),
                          ],
                          d.speed.map((one) => [
                              one.device,
                              one.memory_mode,
                              one.ratio.toFixed(3),
                              String(one.samples),
                          ]),
                      )
                    : el("p", { class: "muted" }, t("diagnostics.no_speed")),
            ),
            el(
                "section",
                { class: "card" },
                el("h2", {}, t("diagnostics.errors")),
                d.recent_errors.length
                    ? table(
                          [t("diagnostics.when"), t("diagnostics.code"), t("diagnostics.instance")],
                          d.recent_errors.map((one) => [
                              date(one.at, locale),
                              el("code", {}, one.code),
                              one.instance,
                          ]),
                      )
                    : el("p", { class: "muted" }, t("diagnostics.no_errors")),
            ),
        );
    }

    async function read() {
        try {
            const [found] = await Promise.all([get("diagnostics"), readStatus()]);
            show(found);
        } catch (error) {
            fill(checks, failure(error, read));
        }
    }

    async function copy() {
        const answer = await fetch(`${BASE}/diagnostics/report`);
        await navigator.clipboard.writeText(await answer.text());
        toast(t("diagnostics.copied"));
    }

    fill(checks, loading());
    read();
    showEngine();
    return watch("status everything", (change, topic) => {
        showEngine();
        if (topic === "everything") read();
    });
}
