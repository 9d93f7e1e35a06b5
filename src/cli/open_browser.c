#include "cli/open_browser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/open_process.h"

enum { NAME_BYTES = 100, ADDRESS_BYTES = 300, LOOK_MS = 3000 };

/* Browsers that show a page as if it were a program (--app), by the names of their desktop entries. */
static const char *const app_browsers[][2] = {
    { "chromium.desktop", "chromium" },
    { "chromium-browser.desktop", "chromium-browser" },
    { "google-chrome.desktop", "google-chrome" },
    { "google-chrome-stable.desktop", "google-chrome-stable" },
    { "brave-browser.desktop", "brave-browser" },
    { "microsoft-edge.desktop", "microsoft-edge" },
    { "vivaldi-stable.desktop", "vivaldi-stable" },
};

static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value;
}

/* The desktop entry of the default browser; empty: it cannot be told. */
static void find_default(char name[NAME_BYTES]) {
    static const char *const ask[] = { "xdg-settings", "get", "default-web-browser", NULL };
    kn_started asked;
    name[0] = 0;
    int told = memfd_create("default-web-browser", MFD_CLOEXEC);
    if (told < 0)
        return;
    if (kn_start(ask, told, &asked, NULL) && kn_started_has_ended(&asked, LOOK_MS) && !asked.status) {
        ssize_t len = pread(told, name, NAME_BYTES - 1, 0);
        name[len < 0 ? 0 : len] = 0;
        name[strcspn(name, "\n")] = 0;
    }
    close(told);
}

/* Whether it runs or has done its work: browsers that are no good say so at once. */
static bool try(const char *const *arguments) {
    kn_started p;
    if (!kn_start(arguments, -1, &p, NULL))
        return false;
    bool good = !kn_started_has_ended(&p, LOOK_MS) || !p.status;
    kn_started_leave(&p);
    return good;
}

static bool open_as_app(const char *address) {
    char name[NAME_BYTES], option[ADDRESS_BYTES];
    find_default(name);
    snprintf(option, sizeof option, "--app=%s", address);
    for (size_t i = 0; i < KN_COUNT(app_browsers); i++) {
        const char *const command[] = { app_browsers[i][1], option, NULL };
        if (!strcmp(app_browsers[i][0], name))
            return try(command);
    }
    return false;
}

bool kn_browser_open(const char *address) {
    const char *const usual[] = { "xdg-open", address, NULL }, *const debian[] = { "sensible-browser", address, NULL };
    bool chosen = is_set("BROWSER"); /* which those two look at */
    if (!chosen && !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))
        return false;
    return (!chosen && open_as_app(address)) || try(usual) || try(debian);
}
