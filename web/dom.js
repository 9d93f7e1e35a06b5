// Elements, made one by one: no text is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "readOnly", "tabIndex", "textContent"]);

function set(element, name, value) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else if (value !== false && value !== null && value !== undefined)
        element.setAttribute(name, value === true ? "" : value);
}

// el("button", { class: "btn", onclick: go }, "Go"): null and false among the children are left out.
export function el(name, options = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(options)) set(element, key, value);
    return add(element, ...children);
}

export function add(element, ...children) {
    element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
}

export function fill(element, ...children) {
    element.replaceChildren();
    return add(element, ...children);
}

// The symbols of icons.svg become part of the page: what says that the service is gone cannot ask it for an icon.
export function bringIcons() {
    const request = new XMLHttpRequest(); // which gives a document without reading text as one
    request.open("GET", "/web/icons.svg");
    request.responseType = "document";
    request.addEventListener("load", () => {
        const sheet = request.response.documentElement;
        for (const symbol of sheet.querySelectorAll("symbol")) symbol.id = `icon-${symbol.id}`;
        sheet.setAttribute("class", "unseen");
        sheet.setAttribute("aria-hidden", "true");
        document.body.append(sheet);
    });
    request.send();
}

// One of them.
export function icon(name, size = "") {
    const svg = document.createElementNS(SVG, "svg"),
        use = document.createElementNS(SVG, "use");
    svg.setAttribute("class", `icon ${size}`);
    svg.setAttribute("aria-hidden", "true");
    use.setAttribute("href", `#icon-${name}`);
    svg.append(use);
    return svg;
}

export function button(label, onclick, { kind = "", symbol = "", title = "", ...more } = {}) {
    return el(
        "button",
        { type: "button", class: `btn ${kind}`, onclick, title: title || null, ...more },
        symbol && icon(symbol),
        el("span", {}, label),
    );
}

// A button that shows nothing but its icon; its label is for those who cannot see, and for the pointer that rests.
export function iconButton(label, symbol, onclick, { kind = "", ...more } = {}) {
    return el(
        "button",
        { type: "button", class: `btn square ${kind}`, onclick, "aria-label": label, title: label, ...more },
        icon(symbol),
    );
}
