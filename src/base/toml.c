#include "base/toml.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/text.h"
#include "base/toml_scalar.h"

/* Which syntax made a table or an array. A table that stands in braces and an array in brackets are complete where they
 * end; what headers and dotted keys make can be extended under the specification's rules. */
enum made {
    BY_VALUE,      /* {…} or […] */
    BY_HEADER,     /* [name], or the array of [[name]] and its tables */
    BY_PATH,       /* on the way to a header's name; may still get a header of its own */
    BY_DOTTED_KEY, /* on the way to a key's name */
};

/* Every value is made in its place inside the tree before it is filled: whatever fails, freeing the tree frees all.
 * Errors carry no line; it is put in front, once, where reading ends. */
typedef struct reader {
    const char *at, *end;
    int line;
    kn_buf text; /* the string or key that was read last */
    kn_error *err;
} reader;

/* The tree */

const char *kn_toml_kind_name(kn_toml_kind kind) {
    static const char *const names[] = {
        [KN_TOML_BOOLEAN] = "a boolean",
        [KN_TOML_INTEGER] = "an integer",
        [KN_TOML_FLOAT] = "a float",
        [KN_TOML_STRING] = "a string",
        [KN_TOML_OFFSET_DATE_TIME] = "a date-time",
        [KN_TOML_LOCAL_DATE_TIME] = "a local date-time",
        [KN_TOML_LOCAL_DATE] = "a date",
        [KN_TOML_LOCAL_TIME] = "a time",
        [KN_TOML_ARRAY] = "an array",
        [KN_TOML_TABLE] = "a table",
    };
    return names[kind];
}

/* Recursion ends at KN_TOML_DEPTH_MAX, beyond which nothing is made. */
void kn_toml_free(kn_toml *v) {
    if (v->kind == KN_TOML_STRING) {
        free(v->string.data);
    } else if (v->kind == KN_TOML_ARRAY) {
        for (size_t i = 0; i < v->array.n; i++)
            kn_toml_free(&v->array.items[i]);
        free(v->array.items);
    } else if (v->kind == KN_TOML_TABLE) {
        for (size_t i = 0; i < v->table.n; i++) {
            free(v->table.entries[i].key);
            kn_toml_free(&v->table.entries[i].value);
        }
        free(v->table.entries);
    }
    *v = (kn_toml){ 0 };
}

kn_toml_entry *kn_toml_find(const kn_toml *table, const char *key, size_t key_len) {
    for (size_t i = 0; i < table->table.n; i++) {
        kn_toml_entry *e = &table->table.entries[i];
        if (e->key_len == key_len && !memcmp(e->key, key, key_len))
            return e;
    }
    return NULL;
}

static bool copy_text(reader *r, char **ret, size_t *ret_len) {
    char *copy = malloc(r->text.len + 1);
    if (!copy)
        return kn_fail_nomem(r->err, r->text.len + 1);
    memcpy(copy, r->text.data, r->text.len + 1);
    *ret = copy;
    *ret_len = r->text.len;
    return true;
}

static bool may_nest(reader *r, const kn_toml *parent) {
    if (parent->depth < KN_TOML_DEPTH_MAX)
        return true;
    return kn_fail(r->err, KN_E_RANGE, "nested more than %d levels deep", KN_TOML_DEPTH_MAX);
}

static kn_toml *add_item(reader *r, kn_toml *array) {
    if (!may_nest(r, array))
        return NULL;
    kn_toml *items = kn_array_grow(array->array.items, array->array.n, &array->array.room, sizeof *items, r->err);
    if (!items)
        return NULL;
    array->array.items = items;
    kn_toml *item = &items[array->array.n++];
    *item = (kn_toml){ .depth = (uint8_t)(array->depth + 1), .line = r->line };
    return item;
}

/* A new entry whose key is r->text; there must be none yet. */
static kn_toml *add_entry(reader *r, kn_toml *table) {
    if (!may_nest(r, table))
        return NULL;
    if (table->table.n == KN_TOML_KEYS_MAX) {
        kn_fail(r->err, KN_E_RANGE, "more than %d keys in one table", KN_TOML_KEYS_MAX);
        return NULL;
    }
    kn_toml_entry *entries =
        kn_array_grow(table->table.entries, table->table.n, &table->table.room, sizeof *entries, r->err);
    if (!entries)
        return NULL;
    table->table.entries = entries;
    kn_toml_entry *e = &entries[table->table.n];
    *e = (kn_toml_entry){ .line = r->line, .value = { .depth = (uint8_t)(table->depth + 1), .line = r->line } };
    if (!copy_text(r, &e->key, &e->key_len))
        return NULL;
    table->table.n++;
    return &e->value;
}

static kn_toml *add_table(reader *r, kn_toml *table, enum made made) {
    kn_toml *v = add_entry(r, table);
    if (v) {
        v->kind = KN_TOML_TABLE;
        v->made = (uint8_t)made;
    }
    return v;
}

static kn_toml *defined_already(reader *r, const kn_toml_entry *e) {
    kn_fail(r->err, KN_E_FORMAT, "'%s' is %s since line %d and cannot be defined again or extended here",
            kn_quote(e->key, e->key_len).text, kn_toml_kind_name(e->value.kind), e->line);
    return NULL;
}

/* The table of name r->text inside `table`, on the way to a header's or a key's last name; made if there is none. */
static kn_toml *pass_through(reader *r, kn_toml *table, enum made by) {
    kn_toml_entry *e = kn_toml_find(table, r->text.data, r->text.len);
    if (!e)
        return add_table(r, table, by);
    kn_toml *v = &e->value;
    if (by == BY_PATH && v->made != BY_VALUE)
        return v->kind == KN_TOML_ARRAY ? &v->array.items[v->array.n - 1] : v;
    if (by == BY_DOTTED_KEY && v->kind == KN_TOML_TABLE && (v->made == BY_DOTTED_KEY || v->made == BY_PATH)) {
        v->made = BY_DOTTED_KEY;
        return v;
    }
    return defined_already(r, e);
}

/* [name]: the table of name r->text inside `table`. */
static kn_toml *open_table(reader *r, kn_toml *table) {
    kn_toml_entry *e = kn_toml_find(table, r->text.data, r->text.len);
    if (!e)
        return add_table(r, table, BY_HEADER);
    if (e->value.made != BY_PATH)
        return defined_already(r, e);
    e->value.made = BY_HEADER;
    e->value.line = e->line = r->line;
    return &e->value;
}

/* [[name]]: one more table in the array of name r->text inside `table`. */
static kn_toml *open_array_table(reader *r, kn_toml *table) {
    kn_toml_entry *e = kn_toml_find(table, r->text.data, r->text.len);
    kn_toml *array = e ? &e->value : add_entry(r, table);
    if (e && (array->kind != KN_TOML_ARRAY || array->made != BY_HEADER))
        return defined_already(r, e);
    if (!array)
        return NULL;
    array->kind = KN_TOML_ARRAY;
    array->made = BY_HEADER;
    kn_toml *v = add_item(r, array);
    if (v) {
        v->kind = KN_TOML_TABLE;
        v->made = BY_HEADER;
    }
    return v;
}

/* Characters */

static bool at(const reader *r, const char *text) {
    size_t n = strlen(text);
    return (size_t)(r->end - r->at) >= n && !memcmp(r->at, text, n);
}

static bool take(reader *r, const char *text) {
    if (!at(r, text))
        return false;
    r->at += strlen(text);
    return true;
}

static bool take_newline(reader *r) {
    if (!take(r, "\n") && !take(r, "\r\n"))
        return false;
    r->line++;
    return true;
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

static bool is_control(char c) {
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7F;
}

static bool is_bare(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Fails with what stands here instead of what should. */
static bool expected(reader *r, const char *what) {
    if (r->at == r->end)
        return kn_fail(r->err, KN_E_TRUNCATED, "%s expected, the document ends", what);
    if (at(r, "\n") || at(r, "\r\n"))
        return kn_fail(r->err, KN_E_FORMAT, "%s expected, the line ends", what);
    const char *next = r->at;
    uint32_t c = 0;
    if (!kn_utf8_next(&next, r->end, &c))
        next++;
    return kn_fail(r->err, KN_E_FORMAT, "%s expected, not '%s'", what, kn_quote(r->at, (size_t)(next - r->at)).text);
}

static bool skip_comment(reader *r) {
    if (!take(r, "#"))
        return true;
    while (r->at < r->end && !is_control(*r->at))
        r->at++;
    if (r->at == r->end || at(r, "\n") || at(r, "\r\n"))
        return true;
    return kn_fail(r->err, KN_E_FORMAT, "control character 0x%02x in a comment", (unsigned char)*r->at);
}

/* Blanks, comments and ends of lines, as many as there are. */
static bool skip_lines(reader *r) {
    do {
        skip_blanks(r);
        if (!skip_comment(r))
            return false;
    } while (take_newline(r));
    return true;
}

static bool end_line(reader *r) {
    skip_blanks(r);
    if (!skip_comment(r))
        return false;
    return r->at == r->end || take_newline(r) || expected(r, "the end of the line");
}

/* Strings and keys: into r->text */

static bool keep(reader *r, const char *p, size_t n) {
    return kn_buf_add(&r->text, p, n) || kn_fail_nomem(r->err, n);
}

static bool unicode_escape(reader *r, int digits) {
    uint32_t c = 0;
    for (int i = 0; i < digits; i++) {
        char d = 0;
        if (r->at < r->end)
            d = *r->at++;
        if (d >= '0' && d <= '9')
            c = c << 4 | (uint32_t)(d - '0');
        else if ((d >= 'a' && d <= 'f') || (d >= 'A' && d <= 'F'))
            c = c << 4 | (uint32_t)((d & ~0x20) - 'A' + 10);
        else
            return kn_fail(r->err, KN_E_FORMAT, "an escape of a character needs %d hexadecimal digits", digits);
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return kn_fail(r->err, KN_E_FORMAT, "escape of U+%04X, which is no character", (unsigned)c);
    char utf8[4];
    return keep(r, utf8, kn_utf8_put(c, utf8));
}

static bool escape(reader *r) {
    static const char names[] = "btnfr\"\\", means[] = "\b\t\n\f\r\"\\";
    if (take(r, "\\u"))
        return unicode_escape(r, 4);
    if (take(r, "\\U"))
        return unicode_escape(r, 8);
    const char *which = r->end - r->at > 1 && r->at[1] ? strchr(names, r->at[1]) : NULL;
    if (!which)
        return kn_fail(r->err, KN_E_FORMAT, "unknown escape '%s'; a plain backslash is written \\\\ or in '…'",
                       kn_quote(r->at, KN_MIN((size_t)(r->end - r->at), 2)).text);
    r->at += 2;
    return keep(r, &means[which - names], 1);
}

/* A backslash at the end of a line removes that end and all white space up to the next character. */
static bool take_joined_lines(reader *r) {
    reader ahead = *r;
    ahead.at++;
    skip_blanks(&ahead);
    if (!take_newline(&ahead))
        return false;
    do {
        skip_blanks(&ahead);
    } while (take_newline(&ahead));
    r->at = ahead.at;
    r->line = ahead.line;
    return true;
}

/* Characters that stand for themselves, as many as there are. */
static bool plain_text(reader *r, char quote) {
    const char *from = r->at;
    while (r->at < r->end && *r->at != quote && !is_control(*r->at) && (*r->at != '\\' || quote == '\''))
        r->at++;
    return keep(r, from, (size_t)(r->at - from));
}

/* The text up to the closing quote of a string in one line. */
static bool line_string(reader *r, char quote) {
    for (;;) {
        if (!plain_text(r, quote))
            return false;
        if (r->at == r->end || at(r, "\n") || at(r, "\r\n"))
            return kn_fail(r->err, KN_E_FORMAT, "a string is not closed");
        if (*r->at == quote) {
            r->at++;
            return true;
        }
        if (*r->at != '\\')
            return kn_fail(r->err, KN_E_FORMAT, "control character 0x%02x in a string", (unsigned char)*r->at);
        if (!escape(r))
            return false;
    }
}

/* The text up to the three closing quotes. Ends of lines become \n. */
static bool multiline_string(reader *r, char quote) {
    int first_line = r->line;
    take_newline(r);
    for (;;) {
        if (!plain_text(r, quote))
            return false;
        if (r->at == r->end) {
            r->line = first_line;
            return kn_fail(r->err, KN_E_TRUNCATED, "a string is not closed");
        }
        if (*r->at == quote) {
            /* One or two quotes are text, also directly before the three that close. */
            const char *quotes = r->at;
            while (r->at < r->end && *r->at == quote && r->at - quotes < 5)
                r->at++;
            size_t n = (size_t)(r->at - quotes);
            if (!keep(r, quotes, n < 3 ? n : n - 3))
                return false;
            if (n >= 3)
                return true;
        } else if (take_newline(r)) {
            if (!keep(r, "\n", 1))
                return false;
        } else if (*r->at != '\\') {
            return kn_fail(r->err, KN_E_FORMAT, "control character 0x%02x in a string", (unsigned char)*r->at);
        } else if (!take_joined_lines(r) && !escape(r)) {
            return false;
        }
    }
}

static bool key_part(reader *r) {
    kn_buf_clear(&r->text);
    if (at(r, "\"") || at(r, "'")) {
        char quote = *r->at++;
        return line_string(r, quote);
    }
    const char *from = r->at;
    while (r->at < r->end && is_bare(*r->at))
        r->at++;
    return r->at > from ? keep(r, from, (size_t)(r->at - from)) : expected(r, "a key");
}

/* A name of one or more parts: walks the tree along all parts but the last, which stays in r->text. The table in which
 * that one belongs, or NULL. */
static kn_toml *key_path(reader *r, kn_toml *table, enum made by) {
    for (;;) {
        skip_blanks(r);
        if (!key_part(r))
            return NULL;
        skip_blanks(r);
        if (!take(r, "."))
            return table;
        table = pass_through(r, table, by);
        if (!table)
            return NULL;
    }
}

/* Values */

static bool value(reader *r, kn_toml *v);

static bool string(reader *r, kn_toml *v) {
    char quote = *r->at;
    bool ok = false;
    kn_buf_clear(&r->text);
    if (take(r, "\"\"\"") || take(r, "'''")) {
        ok = multiline_string(r, quote);
    } else {
        r->at++;
        ok = line_string(r, quote);
    }
    v->kind = KN_TOML_STRING;
    return ok && copy_text(r, &v->string.data, &v->string.len);
}

static bool array(reader *r, kn_toml *v) {
    v->kind = KN_TOML_ARRAY;
    for (bool more = true; more;) {
        if (!skip_lines(r))
            return false;
        if (take(r, "]"))
            return true;
        kn_toml *item = add_item(r, v);
        if (!item || !value(r, item) || !skip_lines(r))
            return false;
        more = take(r, ",");
    }
    return take(r, "]") || expected(r, "',' or ']' of an array");
}

static bool pair(reader *r, kn_toml *table) {
    table = key_path(r, table, BY_DOTTED_KEY);
    if (!table)
        return false;
    if (!take(r, "="))
        return expected(r, "'=' after a key");
    skip_blanks(r);
    const kn_toml_entry *twin = kn_toml_find(table, r->text.data, r->text.len);
    if (twin)
        return defined_already(r, twin);
    kn_toml *v = add_entry(r, table);
    return v && value(r, v);
}

static bool inline_table(reader *r, kn_toml *v) {
    v->kind = KN_TOML_TABLE;
    skip_blanks(r);
    if (take(r, "}"))
        return true;
    do {
        if (!pair(r, v))
            return false;
        skip_blanks(r);
    } while (take(r, ","));
    return take(r, "}") || expected(r, "',' or '}' of an inline table");
}

static bool is_scalar(char c) {
    return is_bare(c) || c == '+' || c == '.' || c == ':';
}

static bool scalar(reader *r, kn_toml *v) {
    const char *from = r->at;
    while (r->at < r->end && is_scalar(*r->at))
        r->at++;
    /* A date and a time may have a space between them. */
    bool may_be_date = r->at - from == 10 && from[4] == '-' && from[7] == '-';
    if (may_be_date && r->end - r->at > 1 && *r->at == ' ' && r->at[1] >= '0' && r->at[1] <= '9') {
        r->at++;
        while (r->at < r->end && is_scalar(*r->at))
            r->at++;
    }
    return r->at > from ? kn_toml_scalar_read(from, (size_t)(r->at - from), v, r->err) : expected(r, "a value");
}

static bool value(reader *r, kn_toml *v) {
    if (at(r, "\"") || at(r, "'"))
        return string(r, v);
    if (take(r, "["))
        return array(r, v);
    if (take(r, "{"))
        return inline_table(r, v);
    return scalar(r, v);
}

/* The document */

static kn_toml *header(reader *r, kn_toml *document) {
    bool is_array = take(r, "[[");
    if (!is_array)
        r->at++;
    kn_toml *table = key_path(r, document, BY_PATH);
    if (!table)
        return NULL;
    if (!take(r, is_array ? "]]" : "]")) {
        expected(r, is_array ? "']]' of a header" : "']' of a header");
        return NULL;
    }
    table = is_array ? open_array_table(r, table) : open_table(r, table);
    return table && end_line(r) ? table : NULL;
}

static bool document(reader *r, kn_toml *root) {
    take(r, "\xEF\xBB\xBF");
    kn_toml *table = root;
    while (skip_lines(r)) {
        if (r->at == r->end)
            return true;
        if (at(r, "[")) {
            table = header(r, root);
            if (!table)
                return false;
        } else if (!pair(r, table) || !end_line(r)) {
            return false;
        }
    }
    return false;
}

static int line_of(const char *text, size_t offset) {
    int line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

bool kn_toml_read(const char *text, size_t len, size_t limit, kn_toml *ret, kn_error *err) {
    if (len > limit || len >= INT_MAX)
        return kn_fail(err, KN_E_RANGE, "has %zu bytes, at most %zu are allowed", len, KN_MIN(limit, (size_t)INT_MAX));
    size_t good = kn_utf8_check(text, len);
    if (good < len)
        return kn_fail(err, KN_E_FORMAT, "line %d: byte 0x%02x is not UTF-8", line_of(text, good),
                       (unsigned char)text[good]);
    reader r = { .at = text, .end = text + len, .line = 1, .err = err };
    kn_buf_init(&r.text, len);
    kn_toml root = { .kind = KN_TOML_TABLE, .line = 1 };
    bool ok = document(&r, &root);
    kn_buf_free(&r.text);
    if (ok) {
        *ret = root;
        return true;
    }
    kn_toml_free(&root);
    return kn_fail_within(err, "line %d", r.line);
}
