// Gallery: all pictures, found by words, favourites first or alone, two of them side by side.

import { get } from "./api.js";
import { add, button, el, fill, icon, iconButton } from "./dom.js";
import { makeGrid } from "./grid.js";
import { deleteItem, isGoing, nameOf, setFavourite, thumbnail } from "./parts.js";
import { state, watch } from "./state.js";
import { t } from "./texts.js";
import { announce, empty, fail, failure, loading, toast } from "./ui.js";
import { compare } from "./compare.js";
import { openViewer } from "./viewer.js";

const PAGE = 200,
    SEARCH_PAUSE_MS = 200;
const KINDS = ["text_to_image", "edit", "inpaint", "outpaint", "upscale"];

// What was looked for, kept while other screens are shown.
const filter = { words: "", favourites: false, kind: "" };

// A list that is read page by page, in the order of the service.
function makeList(changed) {
    let items = [],
        cursor = "",
        reading = null,
        turn = 0;
    const read = (from) =>
        get(
            `gallery?limit=${PAGE}${filter.words && `&q=${encodeURIComponent(filter.words)}`}` +
                `${filter.favourites ? "&favorite=true" : ""}${from && `&cursor=${encodeURIComponent(from)}`}`,
        );
    const fits = (item) => !isGoing(item.id) && (!filter.kind || item.kind === filter.kind);
    const list = {
        get items() {
            return items;
        },
        get isComplete() {
            return cursor === null;
        },
        more() {
            if (cursor === null || reading) return reading;
            const own = turn;
            reading = (async () => {
                const page = await read(cursor);
                if (own !== turn) return;
                const grown = page.items.filter(fits);
                items = [...items, ...grown];
                cursor = page.next_cursor;
                reading = null;
                changed(true);
                // A page of which nothing is shown is no answer to somebody who waits for more.
                if (!grown.length && cursor !== null) await list.more();
            })().catch((error) => {
                reading = null;
                throw error;
            });
            return reading;
        },
        restart() {
            turn++;
            items = [];
            cursor = "";
            reading = null;
            return list.more();
        },
        // As far as it is shown: which of the pictures have these words, the service knows.
        async again() {
            const own = ++turn,
                found = [];
            let next = "";
            reading = null;
            do {
                const page = await read(next);
                if (own !== turn) return;
                found.push(...page.items.filter(fits));
                next = page.next_cursor;
            } while (next !== null && found.length < items.length);
            items = found;
            cursor = next;
            changed(false);
        },
        take({ added, updated, deleted }) {
            const at = items.findIndex((item) => item.id === (updated?.id ?? deleted ?? added?.id));
            if (deleted && at >= 0) items.splice(at, 1);
            else if (updated && at >= 0 && filter.favourites && !updated.favorite) items.splice(at, 1);
            else if (updated && at >= 0) items[at] = updated;
            else if (added && at < 0 && filter.words) return void list.again().catch(fail);
            else if (added && at < 0 && fits(added) && (!filter.favourites || added.favorite)) {
                const before = items.findIndex((item) => item.id < added.id);
                items.splice(before < 0 ? items.length : before, 0, added);
            } else return;
            changed(false);
        },
    };
    return list;
}

export function open(place, detail, header) {
    let viewer = null,
        chosen = [],
        choosing = false,
        pause = 0;
    const list = makeList((more) => {
        if (!list.items.length) fill(body, list.isComplete ? nothing() : loading());
        else if (grid.element.parentNode !== body) fill(body, grid.element); // else the focus in it stays
        if (more) grid.grow(list.items.length);
        else grid.set(list.items.length);
        count.textContent = list.items.length
            ? t("gallery.count", { n: list.items.length, more: list.isComplete ? "" : "+" })
            : "";
    });

    // ---- the cells ----

    function make() {
        const image = el("img", { alt: "", decoding: "async", draggable: "false" });
        const star = el("button", { type: "button", class: "star", onclick: () => favourite(cell.item) }, icon("star"));
        const link = el("a", { class: "thumb", onclick: (event) => press(event, cell.item) }, image);
        const cell = el("div", { class: "cell", role: "listitem" },
            link,
            star,
            el("span", { class: "tick" }, icon("check")),
        );
        Object.assign(cell, { image, star, link });
        return cell;
    }

    function show(cell, i) {
        const item = list.items[i];
        cell.item = item;
        cell.link.href = `#/gallery/${item.id}`;
        cell.link.setAttribute("aria-label", nameOf(item));
        cell.star.setAttribute("aria-label", t(item.favorite ? "gallery.unfavourite" : "gallery.favourite"));
        cell.star.setAttribute("aria-pressed", String(item.favorite));
        const isChosen = chosen.includes(item.id);
        cell.classList.toggle("chosen", isChosen);
        cell.link.toggleAttribute("aria-current", isChosen);
        if (cell.image.dataset.id !== item.id) {
            cell.image.removeAttribute("src");
            cell.image.dataset.id = item.id;
        }
    }

    const picture = (cell, i) => {
        const item = list.items[i];
        if (item && cell.item === item && !cell.image.hasAttribute("src")) cell.image.src = thumbnail(item);
    };

    const grid = makeGrid({ make, show, picture, near: () => list.more()?.catch(fail), label: t("gallery.title") });

    const favourite = (item) => setFavourite(item, !item.favorite).catch(fail);

    function press(event, item) {
        if (!choosing) return;
        event.preventDefault();
        chosen = chosen.includes(item.id) ? chosen.filter((id) => id !== item.id) : [...chosen, item.id].slice(-2);
        announce(t("compare.chosen", { n: chosen.length }));
        grid.set(list.items.length);
        showChoosing();
    }

    // Arrows go from picture to picture, F marks one, Delete deletes it.
    function onkeydown(event) {
        const at = list.items.findIndex((item) => item === document.activeElement?.closest(".cell")?.item);
        const steps = {
            ArrowLeft: -1,
            ArrowRight: 1,
            ArrowUp: -grid.columns,
            ArrowDown: grid.columns,
            Home: -at,
            End: list.items.length - 1 - at,
        };
        if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key in steps) {
            event.preventDefault();
            grid.focus(Math.min(list.items.length - 1, Math.max(0, at + steps[event.key])));
        } else if (event.key === "f") {
            favourite(list.items[at]);
        } else if (event.key === "Delete") {
            deleteItem(list.items[at]);
            grid.focus(Math.min(at, list.items.length - 1));
        }
    }

    // ---- above them ----

    const search = el("input", {
        type: "search",
        value: filter.words,
        placeholder: t("gallery.search"),
        maxlength: "200",
        "aria-label": t("gallery.search"),
        oninput: () => {
            clearTimeout(pause);
            pause = setTimeout(() => {
                filter.words = search.value.trim();
                restart();
            }, SEARCH_PAUSE_MS);
        },
    });
    const onlyStars = button(
        t("gallery.favourites"),
        () => {
            filter.favourites = !filter.favourites;
            onlyStars.setAttribute("aria-pressed", String(filter.favourites));
            restart();
        },
        { symbol: "star", "aria-pressed": String(filter.favourites) },
    );
    const kinds = el(
        "select",
        {
            "aria-label": t("gallery.kind"),
            onchange: () => {
                filter.kind = kinds.value;
                restart();
            },
        },
        el("option", { value: "" }, t("gallery.all_kinds")),
        KINDS.map((kind) => el("option", { value: kind }, t(`kind.${kind}`))),
    );
    kinds.value = filter.kind;
    const choose = button(
        t("compare.title"),
        () => {
            choosing = !choosing;
            chosen = [];
            showChoosing();
            grid.set(list.items.length);
        },
        { symbol: "compare", "aria-pressed": "false" },
    );
    const bar = el("div", { class: "choosing card", role: "status", hidden: true });
    const count = el("span", { class: "muted count", role: "status" });
    const body = el("div", { class: "gallery-body", onkeydown });
    add(header, count);
    add(place,
        el("div", { class: "tools-row" },
            el("div", { class: "search" }, icon("search"), search),
            kinds,
            onlyStars,
            choose,
        ),
        bar,
        body,
    );

    function showChoosing() {
        choose.setAttribute("aria-pressed", String(choosing));
        bar.hidden = !choosing;
        fill(bar,
            el("span", {}, chosen.length < 2 ? t("compare.choose", { n: 2 - chosen.length }) : t("compare.ready")),
            button(t("compare.go"), () => compareTwo(chosen), { kind: "primary small", disabled: chosen.length < 2 }),
            iconButton(t("cancel"), "close", () => choose.click(), { kind: "quiet small" }),
        );
    }

    function compareTwo(ids) {
        const [a, b] = ids.map((id) => list.items.find((item) => item.id === id));
        if (a && b) compare(a, b);
    }

    function nothing() {
        if (filter.words || filter.favourites || filter.kind)
            return empty(
                "search",
                t("gallery.none"),
                t("gallery.none_text"),
                button(t("gallery.clear"), () => {
                    Object.assign(filter, { words: "", favourites: false, kind: "" });
                    search.value = kinds.value = "";
                    onlyStars.setAttribute("aria-pressed", "false");
                    restart();
                }),
            );
        return empty(
            "gallery",
            t("gallery.empty"),
            t("gallery.empty_text"),
            el("a", { class: "btn primary", href: "#/create" }, icon("create"), el("span", {}, t("gallery.begin"))),
        );
    }

    async function restart() {
        fill(body, loading());
        grid.set(0);
        try {
            await list.restart();
        } catch (error) {
            fill(body, failure(error, restart));
        }
    }

    // ---- one of them, large ----

    async function view(id) {
        viewer?.close();
        viewer = null;
        if (!/^img_\w+$/.test(id)) return;
        try {
            const item = list.items.find((one) => one.id === id) ?? (await get(`gallery/${id}`));
            viewer = openViewer(item, {
                neighbour: (one, step) => list.items[list.items.findIndex((other) => other.id === one.id) + step],
                left: (one) => {
                    viewer = null;
                    if (location.hash.startsWith("#/gallery/")) history.replaceState(null, "", "#/gallery");
                    const at = list.items.findIndex((other) => other.id === one.id);
                    if (list.items.length) grid.focus(Math.max(0, at));
                    else search.focus();
                },
            });
        } catch (error) {
            history.replaceState(null, "", "#/gallery");
            if (error.status === 404) toast(t("gallery.gone"), { kind: "warn" });
            else fail(error);
        }
    }

    turn = view;
    const ends = [
        watch("gallery", (change) => list.take(change)),
        watch("everything", () => state.status && restart()),
    ];
    restart().then(() => detail && view(detail));
    return () => {
        turn = null;
        clearTimeout(pause);
        viewer?.close();
        ends.forEach((end) => end());
        grid.close();
    };
}

// The address names another picture of the same screen.
let turn = null;
export function turnTo(detail) {
    turn?.(detail);
    return Boolean(turn);
}
