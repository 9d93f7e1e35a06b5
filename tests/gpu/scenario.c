#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool scenario_find(const char *kind, unsigned index, scenario_row *ret) {
    const char *path = getenv("KUNO_FAKE_GPU");
    FILE *f = path ? fopen(path, "re") : NULL;
    scenario_row row;
    size_t len = strlen(kind);
    bool found = false;
    while (f && !found && fgets(row.text, sizeof row.text, f))
        found = strncmp(row.text, kind, len) == 0 && row.text[len] == ' ' && index-- == 0;
    if (f)
        fclose(f);
    if (found)
        *ret = row;
    return found;
}

unsigned scenario_count(const char *kind) {
    scenario_row row;
    unsigned n = 0;
    while (scenario_find(kind, n, &row))
        n++;
    return n;
}

bool scenario_field(const scenario_row *row, const char *key, char *out, size_t room) {
    size_t len = strlen(key);
    for (const char *p = row->text; (p = strstr(p, key)); p += len) {
        if (p == row->text || p[-1] != ' ' || p[len] != '=')
            continue;
        snprintf(out, room, "%.*s", (int)strcspn(p + len + 1, " \n"), p + len + 1);
        return true;
    }
    *out = 0;
    return false;
}

uint64_t scenario_number(const scenario_row *row, const char *key) {
    char text[32];
    return scenario_field(row, key, text, sizeof text) ? strtoull(text, NULL, 0) : 0;
}

int scenario_gate(const char *call) {
    scenario_row row;
    char name[64];
    for (unsigned i = 0; scenario_find("hang", i, &row); i++) {
        long ms = 1000000000; /* for ever */
        if (sscanf(row.text, "hang %63s %ld", name, &ms) < 1 || strcmp(name, call) != 0)
            continue;
        struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
        nanosleep(&t, NULL);
    }
    for (unsigned i = 0; scenario_find("fail", i, &row); i++) {
        int code = 0;
        if (sscanf(row.text, "fail %63s %d", name, &code) == 2 && strcmp(name, call) == 0)
            return code;
    }
    return 0;
}
