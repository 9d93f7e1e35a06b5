#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "text/unicode_tables.h"

static uint32_t range_value(const kn_unicode_range *table, size_t rows, uint32_t c) {
    size_t low = 0, high = rows;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c > table[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < rows && c >= table[low].first ? table[low].value : 0;
}

kn_char_kind kn_char_kind_of(uint32_t c) {
    return (kn_char_kind)range_value(kn_unicode_kind, kn_unicode_kind_rows, c);
}

/* Below U+0300 nothing changes and nothing joins with what stands before it. */
static bool unstable(uint32_t c) {
    return c >= 0x300 && range_value(kn_unicode_unstable, kn_unicode_unstable_rows, c);
}

bool kn_nfc_is_certain(const char *text, size_t len) {
    uint32_t c = 0;
    for (const char *at = text, *end = text + len; kn_utf8_next(&at, end, &c);)
        if (unstable(c))
            return false;
    return true;
}

/* Hangul syllables are lead, vowel and optional final consonant; all three letters and the syllables are consecutive,
 * so composition is arithmetic. The final "before the first" means none. */
enum {
    LEAD = 0x1100,
    LEADS = 19,
    VOWEL = 0x1161,
    VOWELS = 21,
    FINAL = 0x11A7,
    FINALS = 28,
    SYLLABLE = 0xAC00,
    SYLLABLES = LEADS * VOWELS * FINALS
};

/* Characters being normalized, each with its combining class above the 21 bits of the code point. */
struct run {
    uint32_t *c, *sorted;
    size_t n, room;
};

#define CHARACTER(packed) ((packed)&0x1FFFFF)
#define CLASS(packed)     ((packed) >> 24)

static bool run_add(struct run *r, uint32_t c, kn_error *err) {
    uint32_t *all = kn_array_grow(r->c, r->n, &r->room, 2 * sizeof *all, err); /* the second half is for sorting */
    if (!all)
        return false;
    r->c = all;
    r->sorted = all + r->room;
    r->c[r->n++] = range_value(kn_unicode_combining, kn_unicode_combining_rows, c) << 24 | c;
    return true;
}

static const kn_unicode_pair *find_decomposition(uint32_t c) {
    size_t low = 0, high = kn_unicode_decomposition_rows;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (kn_unicode_decomposition[mid].composed < c)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < kn_unicode_decomposition_rows && kn_unicode_decomposition[low].composed == c;
    return found ? &kn_unicode_decomposition[low] : NULL;
}

static bool add_decomposed(struct run *r, uint32_t c, kn_error *err) {
    if (c >= SYLLABLE && c < SYLLABLE + SYLLABLES) {
        uint32_t s = c - SYLLABLE, final = s % FINALS;
        return run_add(r, LEAD + s / (VOWELS * FINALS), err) && run_add(r, VOWEL + s / FINALS % VOWELS, err) &&
               (!final || run_add(r, FINAL + final, err));
    }
    uint32_t behind[3];
    size_t n = 0;
    for (const kn_unicode_pair *p; n < KN_COUNT(behind) && (p = find_decomposition(c)); c = p->first)
        behind[n++] = p->second;
    bool ok = run_add(r, c, err);
    while (ok && n-- > 0)
        ok = !behind[n] || run_add(r, behind[n], err);
    return ok;
}

/* Sorts marks by class and keeps the order within a class. One pass per class that occurs: there are fewer than sixty,
 * so that even a text of nothing but marks takes linear time. */
static void sort_marks(uint32_t *c, uint32_t *sorted, size_t n) {
    size_t done = 0;
    for (uint32_t class = 1; done < n;) {
        uint32_t above = UINT32_MAX;
        for (size_t i = 0; i < n; i++) {
            if (CLASS(c[i]) == class)
                sorted[done++] = c[i];
            else if (CLASS(c[i]) > class)
                above = KN_MIN(above, CLASS(c[i]));
        }
        class = above;
    }
    memcpy(c, sorted, n * sizeof *c);
}

static void order(struct run *r) {
    for (size_t i = 0; i < r->n;) {
        size_t from = i;
        while (i < r->n && CLASS(r->c[i]))
            i++;
        if (i - from > 1)
            sort_marks(r->c + from, r->sorted, i - from);
        i += i < r->n && !CLASS(r->c[i]);
    }
}

/* The character that two join into, or 0. */
static uint32_t composed(uint32_t first, uint32_t second) {
    if (first >= LEAD && first < LEAD + LEADS && second >= VOWEL && second < VOWEL + VOWELS)
        return SYLLABLE + ((first - LEAD) * VOWELS + (second - VOWEL)) * FINALS;
    if (first >= SYLLABLE && first < SYLLABLE + SYLLABLES && (first - SYLLABLE) % FINALS == 0 && second > FINAL &&
        second < FINAL + FINALS)
        return first + (second - FINAL);
    size_t low = 0, high = kn_unicode_composition_rows;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const kn_unicode_pair *p = &kn_unicode_composition[mid];
        if (p->first < first || (p->first == first && p->second < second))
            low = mid + 1;
        else
            high = mid;
    }
    const kn_unicode_pair *p = &kn_unicode_composition[low];
    return low < kn_unicode_composition_rows && p->first == first && p->second == second ? p->composed : 0;
}

/* Joins each character with the last starter unless something of the same or a higher class stands between. What was
 * joined makes room, so "between" is what has been kept behind the starter. */
static void compose(struct run *r) {
    size_t kept = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < r->n; i++) {
        uint32_t c = r->c[i];
        if (starter != SIZE_MAX && (kept == starter + 1 || CLASS(r->c[kept - 1]) < CLASS(c))) {
            uint32_t joined = composed(CHARACTER(r->c[starter]), CHARACTER(c));
            if (joined) {
                r->c[starter] = joined; /* primary composites are starters: class 0 */
                continue;
            }
        }
        if (!CLASS(c))
            starter = kept;
        r->c[kept++] = c;
    }
    r->n = kept;
}

static bool add_normalized(struct run *r, const char *at, const char *end, kn_buf *into, kn_error *err) {
    r->n = 0;
    for (uint32_t c = 0; kn_utf8_next(&at, end, &c);)
        if (!add_decomposed(r, c, err))
            return false;
    order(r);
    compose(r);
    for (size_t i = 0; i < r->n; i++) {
        char utf8[4];
        size_t n = kn_utf8_put(CHARACTER(r->c[i]), utf8);
        if (!kn_buf_add(into, utf8, n))
            return kn_fail_nomem(err, into->len + n);
    }
    return true;
}

/* A stable character followed by a stable one stays as it is; one followed by unstable ones is normalized with them. */
bool kn_nfc_add(const char *text, size_t len, kn_buf *into, kn_error *err) {
    struct run r = { 0 };
    const char *at = text, *end = text + len;
    bool ok = true;
    while (ok && at < end) {
        const char *plain = at, *last = at, *from = at;
        uint32_t c = 0;
        while (kn_utf8_next(&at, end, &c) && !unstable(c)) {
            last = from;
            from = at;
        }
        bool changes = from < at;               /* the character at from is unstable; it may join with the last one */
        const char *stop = changes ? last : at; /* so that what is copied ends before that */
        if (!kn_buf_add(into, plain, (size_t)(stop - plain)))
            ok = kn_fail_nomem(err, into->len + (size_t)(stop - plain));
        if (!changes)
            break;
        for (const char *next = at; kn_utf8_next(&next, end, &c) && unstable(c);)
            at = next;
        ok = ok && add_normalized(&r, stop, at, into, err);
    }
    free(r.c);
    return ok;
}
