#include "cli/options.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"

struct parser {
    const kn_option *rows;
    size_t row_count;
    const char *const *args;
    size_t arg_count, next; /* next: the argument to look at */
    void *into;
    size_t seen[KN_OPTIONS_MAX]; /* how often each row was given */
    kn_error *err;
};

/* How a row is called in messages: "--steps", or PROMPT for an operand. */
typedef struct title {
    char text[64];
} title;

static title title_of(const kn_option *row) {
    title t;
    snprintf(t.text, sizeof t.text, "%s%s", row->name ? "--" : "", row->name ? row->name : row->arg);
    return t;
}

/* ---- values ---- */

/* A whole number in form, however large; sets what it says, or the nearest end of the range of the type. */
static bool parse_whole(const char *text, int64_t *ret) {
    const char *digits = text + (*text == '-');
    if (!*digits || strspn(digits, "0123456789") != strlen(digits))
        return false;
    if (!kn_parse_i64(text, ret))
        *ret = *text == '-' ? INT64_MIN : INT64_MAX;
    return true;
}

static bool fail_outside(const kn_option *row, const char *text, kn_error *err) {
    return kn_fail(err, KN_E_USAGE, "%s is outside %.10g to %.10g", kn_quote_z(text).text, row->min, row->max);
}

static bool take_integer(const kn_option *row, const char *text, kn_given_integer *ret, kn_error *err) {
    int64_t v = 0;
    if (!parse_whole(text, &v))
        return kn_fail(err, KN_E_USAGE, "'%s' is not a whole number", kn_quote_z(text).text);
    if ((double)v < row->min || (double)v > row->max)
        return fail_outside(row, text, err);
    *ret = (kn_given_integer){ .set = true, .value = v };
    return true;
}

static bool parse_real(const kn_option *row, const char *text, double *ret, kn_error *err) {
    double v = 0;
    if (!kn_parse_double(text, &v))
        return kn_fail(err, KN_E_USAGE, "'%s' is not a number", kn_quote_z(text).text);
    if (v < row->min || v > row->max)
        return fail_outside(row, text, err);
    *ret = v;
    return true;
}

static bool take_real(const kn_option *row, const char *text, kn_given_real *ret, kn_error *err) {
    ret->set = parse_real(row, text, &ret->value, err);
    return ret->set;
}

static bool take_reals(const kn_option *row, const char *text, kn_given_reals *ret, kn_error *err) {
    for (const char *at = text;;) {
        at += strspn(at, " ");
        size_t len = strcspn(at, ",");
        char number[64];
        if (len >= sizeof number)
            return kn_fail(err, KN_E_USAGE, "'%s' is not a number", kn_quote(at, len).text);
        memcpy(number, at, len);
        number[len] = 0;
        if (ret->count == KN_GIVEN_REALS_MAX)
            return kn_fail(err, KN_E_USAGE, "has more than %d numbers", KN_GIVEN_REALS_MAX);
        if (!parse_real(row, number, &ret->values[ret->count], err))
            return false;
        ret->count++;
        if (!at[len])
            return true;
        at += len + 1;
    }
}

static bool take_seed(const char *text, kn_given_seed *ret, kn_error *err) {
    uint64_t v = 0;
    bool random = strcmp(text, "-1") == 0;
    if (!random && !kn_parse_u64(text, &v))
        return kn_fail(err, KN_E_USAGE, "'%s' is not a whole number from 0 to 18446744073709551615, or -1 for random",
                       kn_quote_z(text).text);
    *ret = (kn_given_seed){ .set = true, .random = random, .value = v };
    return true;
}

static bool take_size(const kn_option *row, const char *text, kn_given_size *ret, kn_error *err) {
    size_t len = strcspn(text, "xX");
    int64_t width = 0, height = 0;
    char first[64];
    bool fits = len < sizeof first && text[len];
    if (fits) {
        memcpy(first, text, len);
        first[len] = 0;
    }
    if (!fits || !parse_whole(first, &width) || !parse_whole(text + len + 1, &height))
        return kn_fail(err, KN_E_USAGE, "'%s' is not a size like 1024x768", kn_quote_z(text).text);
    int64_t min = (int64_t)row->min, max = (int64_t)row->max;
    if (width < min || width > max || height < min || height > max)
        return kn_fail(err, KN_E_USAGE, "%s is outside %lldx%lld to %lldx%lld", kn_quote_z(text).text, (long long)min,
                       (long long)min, (long long)max, (long long)max);
    *ret = (kn_given_size){ .set = true, .width = (uint32_t)width, .height = (uint32_t)height };
    return true;
}

static bool take_choice(const kn_option *row, const char *text, const char **ret, kn_error *err) {
    size_t i = 0;
    if (kn_name_find(row->name ? row->name : "word", row->names, row->name_bytes, row->name_count, text, &i, err)) {
        *ret = kn_option_choice(row, i)->name;
        return true;
    }
    const char *names[KN_OPTIONS_MAX];
    size_t n = KN_MIN(row->name_count, KN_COUNT(names));
    for (i = 0; i < n; i++)
        names[i] = kn_option_choice(row, i)->name;
    const char *meant = kn_suggest(text, names, n);
    size_t len = strlen(err->text);
    if (meant)
        snprintf(err->text + len, sizeof err->text - len, "; did you mean '%s'?", meant);
    return false;
}

static bool take_text(const char *text, const char **ret, kn_error *err) {
    size_t good = kn_utf8_check(text, strlen(text));
    if (text[good])
        return kn_fail(err, KN_E_USAGE, "is not UTF-8 text (byte %zu)", good + 1);
    *ret = text;
    return true;
}

static bool take_path(const char *text, const char **ret, kn_error *err) {
    if (!*text)
        return kn_fail(err, KN_E_USAGE, "is empty");
    *ret = text;
    return true;
}

static bool take_another_path(const char *text, kn_given_paths *ret, kn_error *err) {
    if (ret->count == KN_GIVEN_PATHS_MAX)
        return kn_fail(err, KN_E_USAGE, "is given more than %d times", KN_GIVEN_PATHS_MAX);
    bool ok = take_path(text, &ret->paths[ret->count], err);
    ret->count += ok;
    return ok;
}

static bool needs_value(const kn_option *row) {
    return row->kind != KN_OPTION_FLAG && row->kind != KN_OPTION_HELP;
}

static bool take_value(const kn_option *row, const char *text, void *place, kn_error *err) {
    assert(needs_value(row));
    switch (row->kind) {
    case KN_OPTION_INTEGER: return take_integer(row, text, place, err);
    case KN_OPTION_REAL: return take_real(row, text, place, err);
    case KN_OPTION_REALS: return take_reals(row, text, place, err);
    case KN_OPTION_SEED: return take_seed(text, place, err);
    case KN_OPTION_SIZE: return take_size(row, text, place, err);
    case KN_OPTION_CHOICE: return take_choice(row, text, place, err);
    case KN_OPTION_TEXT: return take_text(text, place, err);
    case KN_OPTION_PATH: return take_path(text, place, err);
    case KN_OPTION_PATHS: return take_another_path(text, place, err);
    case KN_OPTION_GROUP:
    case KN_OPTION_HELP:
    case KN_OPTION_FLAG: break;
    }
    return false;
}

/* ---- arguments ---- */

/* Another row of the same place that was given before, or NULL. */
static const kn_option *rival_of(const struct parser *p, const kn_option *row) {
    for (size_t i = 0; i < p->row_count; i++) {
        bool has_place = p->rows[i].kind != KN_OPTION_GROUP && p->rows[i].kind != KN_OPTION_HELP;
        if (has_place && &p->rows[i] != row && p->rows[i].at == row->at && p->seen[i])
            return &p->rows[i];
    }
    return NULL;
}

/* Stores a value, or sets a flag (text is NULL). */
static bool store(struct parser *p, const kn_option *row, const char *text) {
    size_t *seen = &p->seen[row - p->rows];
    const kn_option *rival = rival_of(p, row);
    if (rival)
        return kn_fail(p->err, KN_E_USAGE, "%s and %s say the same; give one of them", title_of(rival).text,
                       title_of(row).text);
    if (++*seen > 1 && row->kind != KN_OPTION_PATHS)
        return kn_fail(p->err, KN_E_USAGE, "%s: is given twice", title_of(row).text);
    void *place = (char *)p->into + row->at;
    if (row->kind == KN_OPTION_FLAG) {
        *(bool *)place = true;
        return true;
    }
    return take_value(row, text, place, p->err) || kn_fail_within(p->err, "%s", title_of(row).text);
}

static const kn_option *find_name(const struct parser *p, const char *name, size_t len) {
    for (size_t i = 0; i < p->row_count; i++) {
        const char *known = p->rows[i].name;
        if (known && strlen(known) == len && memcmp(known, name, len) == 0)
            return &p->rows[i];
    }
    return NULL;
}

static const kn_option *find_letter(const struct parser *p, char letter) {
    for (size_t i = 0; i < p->row_count; i++) {
        if (p->rows[i].letter == letter)
            return &p->rows[i];
    }
    return NULL;
}

static bool fail_unknown(const struct parser *p, const char *name, size_t len) {
    char word[64];
    const char *names[KN_OPTIONS_MAX], *meant = NULL;
    size_t n = 0;
    for (size_t i = 0; i < p->row_count; i++) {
        if (p->rows[i].name)
            names[n++] = p->rows[i].name;
    }
    if (len < sizeof word) {
        memcpy(word, name, len);
        word[len] = 0;
        meant = kn_suggest(word, names, n);
    }
    return kn_fail(p->err, KN_E_USAGE, "unknown option '--%s'%s%s%s", kn_quote(name, len).text,
                   meant ? "; did you mean '--" : "", meant ? meant : "", meant ? "'?" : "");
}

/* The value of an option in the argument after it. One that is itself an option of the table is taken for a slip. */
static bool store_next(struct parser *p, const kn_option *row) {
    const char *value = p->next < p->arg_count ? p->args[p->next] : NULL;
    bool is_option = value && strncmp(value, "--", 2) == 0 && find_name(p, value + 2, strlen(value + 2));
    if (!value || is_option)
        return kn_fail(p->err, KN_E_USAGE, "%s: needs a value, %s", title_of(row).text, row->arg);
    p->next++;
    return store(p, row, value);
}

static kn_parsed parsed(bool ok) {
    return ok ? KN_PARSED : KN_PARSED_WRONG;
}

/* --name, --name=value, --name value. */
static kn_parsed parse_long(struct parser *p, const char *arg) {
    const char *name = arg + 2;
    size_t len = strcspn(name, "=");
    const char *value = name[len] ? name + len + 1 : NULL;
    const kn_option *row = find_name(p, name, len);
    if (!row)
        return parsed(fail_unknown(p, name, len));
    if (value && !needs_value(row))
        return parsed(kn_fail(p->err, KN_E_USAGE, "--%s: takes no value", row->name));
    if (row->kind == KN_OPTION_HELP)
        return KN_PARSED_HELP;
    return parsed(needs_value(row) && !value ? store_next(p, row) : store(p, row, value));
}

/* -a, -ab for two flags, -n value, -nvalue. */
static kn_parsed parse_letters(struct parser *p, const char *arg) {
    for (const char *at = arg + 1; *at; at++) {
        const kn_option *row = find_letter(p, *at);
        if (!row)
            return parsed(kn_fail(p->err, KN_E_USAGE, "unknown option '%s'; put -- before what only looks like one",
                                  kn_quote_z(arg).text));
        if (row->kind == KN_OPTION_HELP)
            return KN_PARSED_HELP;
        if (needs_value(row))
            return parsed(at[1] ? store(p, row, at + 1) : store_next(p, row));
        if (!store(p, row, NULL))
            return KN_PARSED_WRONG;
    }
    return KN_PARSED;
}

/* Operands fill their rows in order. */
static kn_parsed parse_operand(struct parser *p, const char *arg) {
    bool has_text = false;
    for (size_t i = 0; i < p->row_count; i++) {
        const kn_option *row = &p->rows[i];
        bool operand = !row->name && row->kind != KN_OPTION_GROUP;
        has_text |= operand && row->kind == KN_OPTION_TEXT;
        if (operand && (!p->seen[i] || row->kind == KN_OPTION_PATHS))
            return parsed(store(p, row, arg));
    }
    return parsed(kn_fail(p->err, KN_E_USAGE, "unexpected argument '%s'%s", kn_quote_z(arg).text,
                          has_text ? "; a text of several words needs quotes around it" : ""));
}

kn_parsed kn_options_parse(const kn_option *rows, size_t count, const char *const *args, size_t arg_count, void *into,
                           kn_error *err) {
    assert(count <= KN_OPTIONS_MAX);
    struct parser p = {
        .rows = rows, .row_count = count, .args = args, .arg_count = arg_count, .into = into, .err = err
    };
    bool only_operands = false;
    while (p.next < arg_count) {
        const char *arg = args[p.next++];
        kn_parsed now = KN_PARSED;
        if (only_operands || arg[0] != '-' || !arg[1])
            now = parse_operand(&p, arg);
        else if (strcmp(arg, "--") == 0)
            only_operands = true;
        else
            now = arg[1] == '-' ? parse_long(&p, arg) : parse_letters(&p, arg);
        if (now != KN_PARSED)
            return now;
    }
    return KN_PARSED;
}
