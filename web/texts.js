// What the page says, in the words of one language: another one is another file like en.js, and a line here.

import en from "./en.js";

const languages = { en };
const chosen = (navigator.languages ?? []).map((tag) => tag.slice(0, 2)).find((tag) => tag in languages) ?? "en";
const texts = languages[chosen];
const plural = new Intl.PluralRules(chosen);

export const language = chosen;

// For dates and times: as the reader's country writes them, where it has this language.
export const locale = navigator.languages?.find((tag) => tag.startsWith(chosen)) ?? chosen;

// t("job.waits", { n: 2 }): {n} in the text becomes 2. With a number `n`, "KEY.one", "KEY.other" come first.
export function t(key, values = {}) {
    const counted = typeof values.n === "number" ? texts[`${key}.${plural.select(values.n)}`] : undefined;
    return (counted ?? texts[key] ?? key).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}

// Whether there are words for it: codes of a newer service may have none.
export function has(key) {
    return key in texts;
}
