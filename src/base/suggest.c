#include "base/suggest.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define LONGEST 64

/* Optimal string alignment distance. */
static size_t edits(const char *a, size_t a_len, const char *b, size_t b_len) {
    uint8_t rows[3][LONGEST + 1];
    uint8_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b_len; j++)
        last[j] = (uint8_t)j;
    for (size_t i = 1; i <= a_len; i++) {
        now[0] = (uint8_t)i;
        for (size_t j = 1; j <= b_len; j++) {
            int differs = a[i - 1] != b[j - 1];
            int best = KN_MIN(last[j - 1] + differs, KN_MIN(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = KN_MIN(best, before[j - 2] + 1);
            now[j] = (uint8_t)best;
        }
        uint8_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b_len];
}

const char *kn_suggest(const char *word, const char *const *names, size_t n) {
    size_t len = strlen(word);
    if (len > LONGEST)
        return NULL;
    const char *nearest = NULL;
    size_t fewest = KN_MIN(len / 3, (size_t)3) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t name_len = strlen(names[i]);
        size_t d = name_len > LONGEST ? fewest : edits(word, len, names[i], name_len);
        if (d < fewest) {
            fewest = d;
            nearest = names[i];
        }
    }
    return nearest;
}

kn_choice kn_suggest_choice(const char *word, const char *const *names, size_t n) {
    kn_choice c = { "" };
    size_t used = 0, room = sizeof c.text - sizeof((kn_quoted){ "" }.text) - sizeof " (did you mean ''?)";
    for (size_t i = 0; i < n; i++) {
        kn_quoted q = kn_quote_z(names[i]);
        const char *between = i ? ", " : "; known: ";
        if (used + strlen(between) + strlen(q.text) + strlen(", …") > room) {
            used += (size_t)snprintf(c.text + used, sizeof c.text - used, "%s…", between);
            break;
        }
        used += (size_t)snprintf(c.text + used, sizeof c.text - used, "%s%s", between, q.text);
    }
    const char *meant = kn_suggest(word, names, n);
    if (meant)
        snprintf(c.text + used, sizeof c.text - used, " (did you mean '%s'?)", kn_quote_z(meant).text);
    return c;
}
