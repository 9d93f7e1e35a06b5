// Numbers and times as people read them. Pure: tests/web/pure.test.mjs.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(n) {
    if (n === null || n === undefined) return "";
    let unit = 0,
        value = n;
    for (; value >= 999.5 && unit < UNITS.length - 1; unit++) value /= 1000;
    return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

// 4 s, 75 s, 12 min, 3 h 5 min
export function duration(seconds) {
    const s = Math.max(1, seconds);
    if (s < 99.5) return `${Math.round(s)} s`;
    const minutes = Math.round(s / 60);
    return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Facts beside each other; those that do not hold are left out.
export const dots = (...facts) => facts.filter(Boolean).join(" · ");

export function size(width, height) {
    return `${width} × ${height}`;
}

export function date(text, locale, now = new Date()) {
    const then = new Date(text);
    const time = then.toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" });
    if (then.toDateString() === now.toDateString()) return time;
    const day = {
        day: "numeric",
        month: "short",
        ...(then.getFullYear() !== now.getFullYear() && { year: "numeric" }),
    };
    return `${then.toLocaleDateString(locale, day)}, ${time}`;
}

const SEED_END = 1n << 63n;

// Seeds are text from end to end: no number of JavaScript holds all of them.
export function isSeed(text) {
    return /^(0|[1-9][0-9]{0,18})$/.test(text) && BigInt(text) < SEED_END;
}

// 3:2 → 1.5
export function ratio(text) {
    const [width, height] = text.split(":").map(Number);
    return width / height;
}

// A name that every system takes for a file.
export function fileName(item) {
    const words = (item.title || item.prompt || item.kind)
        .toLowerCase()
        .normalize("NFC")
        .replace(/[^\p{L}\p{N}]+/gu, "-")
        .slice(0, 40)
        .replace(/^-+|-+$/g, "");
    const ending = { "image/jpeg": "jpg", "image/webp": "webp" }[item.media_type] ?? "png";
    return `${words || "picture"}-${item.id.slice(-6)}.${ending}`;
}
