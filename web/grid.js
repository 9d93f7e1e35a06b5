// A list of very many pictures of which only those in sight exist: cells that are moved to where the next row is.

import { el } from "./dom.js";

const AHEAD = 2; // rows beyond what is seen
const REST_MS = 90; // pictures are fetched when nothing has moved for so long

// How many columns, how large, and which rows are in sight. Pure: tests/web/pure.test.mjs.
export function layoutOf({ width, gap, least, count, top, height }) {
    const columns = Math.max(2, Math.floor((width + gap) / (least + gap)));
    const cell = (width - gap * (columns - 1)) / columns;
    const rows = Math.ceil(count / columns),
        step = cell + gap;
    const first = Math.max(0, Math.floor(top / step) - AHEAD);
    const last = Math.min(rows, Math.ceil((top + height) / step) + AHEAD);
    return {
        columns,
        cell,
        step,
        total: rows ? rows * step - gap : 0,
        from: first * columns,
        to: Math.min(count, last * columns),
    };
}

// make() gives a cell; show(cell, i) makes it that of item i, and picture(cell, i) fetches what is costly.
export function makeGrid({ make, show, picture, near, label }) {
    const sheet = el("div", { class: "sheet", role: "list", "aria-label": label });
    const cells = new Map(),
        spare = [];
    let count = 0,
        layout = null,
        frame = 0,
        rest = 0,
        seen = "";

    function place(cell, i) {
        const x = (i % layout.columns) * layout.step,
            y = Math.floor(i / layout.columns) * layout.step;
        cell.style.transform = `translate(${x}px, ${y}px)`;
        cell.style.width = cell.style.height = `${layout.cell}px`;
        cell.setAttribute("aria-setsize", String(count));
        cell.setAttribute("aria-posinset", String(i + 1));
    }

    function draw() {
        frame = 0;
        const box = sheet.getBoundingClientRect();
        if (!box.width) return;
        layout = layoutOf({
            width: box.width,
            gap: 8,
            least: box.width < 520 ? 104 : 168,
            count,
            top: -box.top,
            height: innerHeight,
        });
        const now = `${layout.from} ${layout.to} ${layout.cell} ${count}`;
        if (now === seen) return;
        seen = now;
        sheet.style.height = `${layout.total}px`;
        for (const [i, cell] of cells) {
            if (i < layout.from || i >= layout.to) {
                cells.delete(i);
                spare.push(cell);
            }
        }
        for (let i = layout.from; i < layout.to; i++) {
            let cell = cells.get(i);
            if (!cell) {
                cell = spare.pop() ?? sheet.appendChild(make());
                cells.set(i, cell);
                cell.hidden = false;
                show(cell, i);
            }
            place(cell, i);
        }
        for (const cell of spare) cell.hidden = true;
        clearTimeout(rest);
        rest = setTimeout(() => cells.forEach((cell, i) => picture(cell, i)), REST_MS);
        if (layout.to >= count - layout.columns * 4) near();
    }

    const soon = () => {
        frame ||= requestAnimationFrame(draw);
    };
    const observer = new ResizeObserver(soon);
    observer.observe(sheet);
    addEventListener("scroll", soon, { passive: true });

    return {
        element: sheet,
        // The items have changed; those in sight are shown anew.
        set(n) {
            count = n;
            seen = "";
            for (const [i, cell] of cells) {
                if (i < n) {
                    show(cell, i);
                } else {
                    cells.delete(i);
                    spare.push(cell);
                }
            }
            soon();
        },
        // More have come behind the last.
        grow(n) {
            count = n;
            soon();
        },
        get columns() {
            return layout?.columns ?? 1;
        },
        // Brings one into sight and gives it the focus.
        focus(i) {
            if (!layout) return;
            const y = Math.floor(i / layout.columns) * layout.step + sheet.getBoundingClientRect().top;
            if (y < 80 || y + layout.cell > innerHeight - 80) scrollBy(0, y - innerHeight / 2);
            draw();
            cells.get(i)?.querySelector("a, button")?.focus({ preventScroll: true });
        },
        close() {
            observer.disconnect();
            removeEventListener("scroll", soon);
            cancelAnimationFrame(frame);
            clearTimeout(rest);
        },
    };
}
