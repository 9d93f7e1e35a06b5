// Light or dark: as the system says, or as it was chosen here.

const KEPT = "kuno.theme";
export const themes = ["system", "light", "dark"];

export function theme() {
    return document.documentElement.dataset.theme;
}

export function applyTheme(chosen = theme()) {
    document.documentElement.dataset.theme = chosen;
    try {
        localStorage.setItem(KEPT, chosen);
    } catch {
        /* it holds as long as the page */
    }
}
