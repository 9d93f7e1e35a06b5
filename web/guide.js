// The first minutes: what this is, and a first picture.

import { get, order } from "./api.js";
import { button, el, fill, icon } from "./dom.js";
import { changeSettings } from "./settings.js";
import { makeStage } from "./stage.js";
import { itemActions } from "./parts.js";
import { isOver, state, takeJob, watch } from "./state.js";
import { t } from "./texts.js";
import { busily, dialog, explain, field, note } from "./ui.js";

// Only where nothing was drawn yet, and nobody has seen it before.
export async function guideIfNew() {
    if (state.settings?.ui?.guide_seen || location.hash.startsWith("#/gallery/")) return;
    const drawn = await get("gallery?limit=1").then((page) => page.items.length > 0, () => true);
    if (!drawn && !state.jobs.size) openGuide();
}

function remember() {
    if (!state.settings?.ui?.guide_seen)
        changeSettings({ ui: { ...state.settings?.ui, guide_seen: true } }).catch(() => {});
}

export async function openGuide() {
    let stage = null,
        end = null;
    const remove = () => {
        end?.();
        stage?.close();
    };
    await dialog(
        t("guide.title"),
        (close) => {
            const body = el("div", { class: "guide" });

            function welcome() {
                const model = state.models.find((one) => one.active);
                fill(body,
                    el("p", {}, t("guide.welcome")),
                    el("ul", { class: "points" },
                        el("li", {}, icon("check"), t("guide.private")),
                        el("li", {}, icon("check"), t("guide.queue")),
                        model &&
                            el("li", {},
                                icon(model.ready ? "check" : "warning"),
                                t(model.ready ? "guide.model" : "guide.no_model", { name: model.title ?? model.name }),
                            ),
                    ),
                    model?.name === "demo" && note(t("guide.demo")),
                    el("footer", {},
                        button(t("guide.later"), () => close(), { kind: "quiet" }),
                        model?.ready === false
                            ? el("a", { class: "btn primary", href: "#/models", onclick: () => close() },
                                  el("span", {}, t("guide.models")),
                              )
                            : button(t("guide.next"), prompt, { kind: "primary", autofocus: true }),
                    ),
                );
            }

            function prompt() {
                const text = el("textarea", { rows: 3, value: t("example.1") });
                const problem = el("p", { class: "note error", role: "alert", hidden: true });
                const examples = ["example.1", "example.2", "example.3"].map((key) =>
                    button(t(key), () => (text.value = t(key)), { kind: "quiet small" }),
                );
                const draw = busily(async () => {
                    try {
                        if (!text.value.trim()) throw new Error(t("create.no_prompt"));
                        const job = await order("jobs", { prompt: text.value.trim() });
                        takeJob(job);
                        picture(job);
                    } catch (error) {
                        problem.textContent = explain(error);
                        problem.hidden = false;
                    }
                });
                fill(body,
                    field(t("guide.prompt"), text, { hint: t("guide.prompt_hint") }),
                    el("div", { class: "examples" }, examples),
                    problem,
                    el("footer", {},
                        button(t("back"), welcome, { kind: "quiet" }),
                        button(t("create.go"), draw, { kind: "primary", symbol: "create" }),
                    ),
                );
                text.focus();
            }

            function picture(job) {
                const foot = el("footer", {});
                stage = makeStage({ actions: itemActions, idle: () => el("p", {}) });
                stage.show(job);
                const finish = () => {
                    const now = state.jobs.get(job.id);
                    if (!now || !isOver(now)) return;
                    end?.();
                    end = null;
                    fill(foot,
                        now.state === "completed"
                            ? [
                                  el("p", {}, t("guide.done")),
                                  button(t("guide.finish"), () => close(), { kind: "primary" }),
                              ]
                            : button(t("back"), prompt),
                    );
                    foot.lastChild.focus();
                };
                fill(body, stage.element, foot);
                end = watch("jobs", finish);
                finish();
            }

            welcome();
            return body;
        },
        { kind: "guide-box" },
    );
    remove();
    remember();
}
