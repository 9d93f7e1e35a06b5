// Before anything is painted: light or dark, as it was chosen here.
try {
    document.documentElement.dataset.theme = localStorage.getItem("kuno.theme") || "system";
} catch {
    document.documentElement.dataset.theme = "system";
}
