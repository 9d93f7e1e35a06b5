// Diagnostics: whether all is well here, in words that can be sent to somebody who helps.

import { BASE, get, post } from "./api.js";
import { add, button, el, fill, icon } from "./dom.js";
import { readStatus } from "./live.js";
import { bytes, date, dots } from "./format.js";
import { state, watch } from "./state.js";
import { locale, t } from "./texts.js";
import { busily, card, fact, failure, loading, toast } from "./ui.js";

const SYMBOLS = { ok: "check", warning: "warning", error: "warning", skipped: "minus" };

const line = (cells, name, options) =>
    el("tr", {}, cells.map((cell) => el(name, options, cell)));

function table(heads, rows) {
    return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": heads.join(", ") },
        el("table", {},
            el("thead", {}, line(heads, "th", { scope: "col" })),
            el("tbody", {}, rows.map((row) => line(row, "td"))),
        ),
    );
}

export function open(place, detail, header) {
    const checks = el("div", { class: "stack" }),
        engine = el("section", { class: "card" });
    add(place, engine, checks);
    add(header,
        el("span", { class: "row" },
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
        fill(engine,
            el("header", { class: "row" },
                el("h2", {}, t("diagnostics.engine")),
                el("span", { class: `chip ${e.state === "failed" ? "bad" : stopped ? "" : "good"}` },
                    t(`engine.${e.state}`),
                ),
            ),
            el("dl", {},
                fact(t("diagnostics.version"), s.version),
                fact(t("diagnostics.since"), date(s.started_at, locale)),
                fact(t("diagnostics.device"), dots(e.device?.name, e.backend.toUpperCase())),
                fact(t("diagnostics.queue"), t("diagnostics.queue_text", s.queue)),
                e.reason && fact(t("diagnostics.reason"), el("code", {}, e.reason)),
            ),
            el("div", { class: "row" },
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
        fill(checks,
            card(t("diagnostics.checks"),
                el("ul", { class: "checks" },
                    d.checks.map((one) =>
                        el("li", { class: one.status },
                            icon(SYMBOLS[one.status]),
                            el("div", {},
                                el("p", {}, el("span", { class: "unseen" }, t(`check.${one.status}`)), one.message),
                                one.action && el("p", { class: "small muted" }, one.action),
                            ),
                        ),
                    ),
                ),
            ),
            card(t("diagnostics.devices"),
                table(
                    [t("diagnostics.name"), t("diagnostics.address"), t("diagnostics.memory")],
                    d.devices.map((one) => [
                        one.name,
                        one.pci_address ?? "–",
                        bytes(one.memory_total_bytes) || t("unknown"),
                    ]),
                ),
            ),
            card(t("diagnostics.speed"),
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
            card(t("diagnostics.errors"),
                d.recent_errors.length
                    ? table(
                          [t("diagnostics.when"), t("diagnostics.code"), t("diagnostics.instance")],
                          d.recent_errors.map((one) => [
                              date(one.at, locale),
                              el("code", {}, one.code),
                              el("span", { class: "break" }, one.instance),
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
