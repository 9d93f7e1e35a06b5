// Settings: those of the service, and how this page looks.

import { call } from "./api.js";
import { add, button, el, fill } from "./dom.js";
import { end as endSession } from "./session.js";
import { readModels, readSettings } from "./live.js";
import { applyTheme, theme, themes } from "./look.js";
import { state, watch } from "./state.js";
import { t } from "./texts.js";
import { busily, card, choice, complain, explain, field, loading, select, toast, toggle } from "./ui.js";
import { openGuide } from "./guide.js";

const MEMORY = ["auto", "12gb", "16gb", "24gb", "32gb"];

// A change of one of them. Whoever changed it elsewhere in the meantime is not overwritten.
export async function changeSettings(patch) {
    const headers = state.settingsTag ? { "If-Match": state.settingsTag } : {};
    try {
        await call("PATCH", "settings", { json: patch, type: "application/merge-patch+json", headers });
    } finally {
        await readSettings();
    }
}

export function open(place) {
    const own = el("section", { class: "card" }),
        service = el("div", { class: "stack" });
    add(place, own, service);

    fill(own,
        el("h2", {}, t("settings.page")),
        choice(
            "theme",
            t("settings.theme"),
            themes.map((one) => ({ value: one, label: t(`theme.${one}`) })),
            theme(),
            applyTheme,
        ),
        el("div", { class: "row" },
            button(t("settings.guide"), openGuide, { symbol: "info" }),
            button(t("settings.leave"), busily(endSession), { symbol: "key" }),
        ),
    );

    const save =
        (name, read = (value) => value) =>
        async (value) => {
            try {
                await changeSettings({ [name]: read(value) });
                toast(t("settings.saved"), { seconds: 2 });
            } catch (error) {
                toast(error.code === "settings_changed" ? t("settings.changed") : explain(error), { kind: "bad" });
                show();
            }
        };

    function folder(name, may_be_empty) {
        const input = el("input", {
            type: "text",
            value: state.settings[name] ?? "",
            spellcheck: "false",
            autocomplete: "off",
            placeholder: may_be_empty ? t("settings.none") : "",
            onchange: () => save(name)(input.value.trim() || null),
        });
        return field(t(`settings.${name}`), input, { hint: t(`settings.${name}_hint`) });
    }

    function number(name, min, max, step = "1") {
        const input = el("input", {
            type: "number",
            min: String(min),
            max: String(max),
            step,
            value: String(state.settings[name]),
            onchange: () => {
                const good = input.value && input.checkValidity();
                complain(input, good ? "" : t(step === "1" ? "number.wrong" : "number.off", { min, max, step }));
                if (good) save(name, Number)(input.value);
            },
        });
        return field(t(`settings.${name}`), input, { hint: t(`settings.${name}_hint`) });
    }

    function show() {
        const s = state.settings,
            caps = state.capabilities;
        if (!s || !caps) {
            fill(service, loading());
            return;
        }
        const presets = caps.presets.map((one) => ({ value: one.id, label: t(`preset.${one.id}`) }));
        const upscalers = caps.upscalers
            .filter((one) => one.installed)
            .map((one) => ({ value: one.id, label: one.title }));
        if (!upscalers.some((one) => one.value === s.upscaler))
            upscalers.unshift({ value: s.upscaler, label: t("settings.missing", { name: s.upscaler }) });
        fill(service,
            card(t("settings.drawing"),
                choice(
                    "default-preset",
                    t("settings.default_preset"),
                    presets,
                    s.default_preset,
                    save("default_preset"),
                ),
                field(t("settings.hardware_preset"),
                    select(
                        MEMORY.map((one) => ({ value: one, label: t(`memory.${one}`) })),
                        s.hardware_preset,
                        save("hardware_preset"),
                    ),
                    { hint: t("settings.hardware_preset_hint") },
                ),
                number("memory_override_mib", 0, 1 << 24),
            ),
            card(t("settings.enlarging"),
                field(t("settings.upscaler"), select(upscalers, s.upscaler, save("upscaler")), {
                    hint: t("settings.upscaler_hint"),
                }),
                el("div", { class: "pair" },
                    number("upscale_blend", 0, 1, "0.05"),
                    number("upscale_tile_size", 0, 2048),
                ),
                toggle(t("settings.upscale_prescale"), s.upscale_prescale, save("upscale_prescale"), {
                    hint: t("settings.upscale_prescale_hint"),
                }),
            ),
            card(t("settings.files"),
                folder("output_directory", true),
                folder("model_directory", false),
                number("keep_inputs_days", 0, 36500),
            ),
            card(t("settings.privacy"), el("p", {}, t("settings.privacy_text"))),
        );
    }

    const changed = () => !place.contains(document.activeElement) && show();
    const ends = [watch("settings models everything", changed)];
    show();
    if (!state.settings) Promise.all([readSettings(), readModels()]).then(show, () => {});
    return () => ends.forEach((end) => end());
}
