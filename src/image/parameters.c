#include "image/parameters.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char negative_mark[] = "Negative prompt:";

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A value that would not come back as it is when it stands there unquoted. */
static bool needs_quotes(const char *value) {
    size_t len = strlen(value);
    return strpbrk(value, ",:\"\r\n") || (len > 0 && (is_blank(value[0]) || is_blank(value[len - 1])));
}

static bool add_quoted(const char *value, kn_buf *into, kn_error *err) {
    json_t *string = json_string(value);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    bool added = quoted && kn_buf_add_text(into, quoted);
    if (!string && kn_utf8_check(value, strlen(value)) != strlen(value))
        kn_fail(err, KN_E_FORMAT, "the value '%s' is not UTF-8", kn_quote_z(value).text);
    free(quoted);
    json_decref(string);
    return added;
}

bool kn_parameters_write(const char *prompt, const char *negative, const kn_parameter *list, size_t count, kn_buf *into,
                         kn_error *err) {
    assert(count >= KN_PARAMETERS_MIN);
    bool ok = kn_buf_add_text(into, prompt);
    if (negative && *negative)
        ok = ok && kn_buf_printf(into, "\n%s %s", negative_mark, negative);
    for (size_t i = 0; i < count && ok; i++) {
        ok =
            kn_buf_printf(into, "%s%s: ", i ? ", " : "\n", list[i].key) &&
            (needs_quotes(list[i].value) ? add_quoted(list[i].value, into, err) : kn_buf_add_text(into, list[i].value));
    }
    return ok || kn_fail(err, KN_E_RANGE, "the recipe of the picture is longer than %zu bytes", into->limit);
}

/* ---- reading ---- */

static bool is_key_char(char c) {
    unsigned char u = (unsigned char)c;
    return (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || (u >= '0' && u <= '9') || u >= 0x80 || u == '_' ||
           u == ' ' || u == '-' || u == '/';
}

/* Behind a quoted string that starts at p and has a comma or the end of the text after it, or NULL. */
static char *end_of_quoted(char *p) {
    for (p++; *p && *p != '"'; p++) {
        if (*p == '\\' && p[1])
            p++;
    }
    if (!*p)
        return NULL;
    char *end = p + 1;
    for (p = end; is_blank(*p); p++) {
    }
    return !*p || *p == ',' ? end : NULL;
}

/* Turns a JSON string into what it says, in place: that is never longer. Left as it is if it is not valid. */
static void unquote(char *from, char *end) {
    json_t *string = json_loadb(from, (size_t)(end - from), JSON_DECODE_ANY, NULL);
    if (json_is_string(string))
        memcpy(from, json_string_value(string), json_string_length(string) + 1);
    else
        *end = 0;
    json_decref(string);
}

/* Takes the pair at *at, moves *at behind it and its comma. False: there is none, only text up to the comma. */
static bool take_pair(char **at, kn_parameter *ret) {
    char *key = *at;
    while (is_blank(*key))
        key++;
    char *colon = key;
    while (is_key_char(*colon))
        colon++;
    bool is_pair = *colon == ':' && colon > key;
    char *value = is_pair ? colon + 1 : colon;
    while (is_blank(*value))
        value++;
    char *quoted_end = is_pair && *value == '"' ? end_of_quoted(value) : NULL;
    char *end = quoted_end ? quoted_end : value + strcspn(value, ",");
    char *comma = end + strcspn(end, ",");
    *at = *comma ? comma + 1 : comma;
    if (!is_pair)
        return false;
    *colon = 0;
    *comma = 0;
    if (quoted_end) {
        unquote(value, quoted_end);
    } else {
        while (end > value && is_blank(end[-1]))
            end--;
        *end = 0;
    }
    *ret = (kn_parameter){ .key = key, .value = value };
    return true;
}

/* The line of settings, cut up in place. */
static bool read_settings(char *line, kn_parameters *p, kn_error *err) {
    kn_parameter pair;
    while (*line) {
        if (!take_pair(&line, &pair))
            continue;
        if (p->count == KN_PARAMETERS_MAX)
            return kn_fail(err, KN_E_RANGE, "has more than %d settings", KN_PARAMETERS_MAX);
        p->list[p->count++] = pair;
    }
    return true;
}

/* The prompts, cut apart at the first line that starts with the mark. */
static void read_prompts(char *text, kn_parameters *p) {
    p->prompt = text;
    p->negative = "";
    size_t mark = strlen(negative_mark);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, negative_mark, mark) != 0)
            continue;
        if (line > text)
            line[-1] = 0;
        else
            p->prompt = "";
        p->negative = line + mark + (line[mark] == ' ');
        return;
    }
}

/* text: what p->text is a copy of. */
static bool read_parts(const char *text, size_t len, kn_parameters *p, kn_error *err) {
    char *end = p->text + len;
    while (end > p->text && is_blank(end[-1]))
        end--;
    char *line = end;
    while (line > p->text && line[-1] != '\n')
        line--;
    char *body = p->text;
    if (!read_settings(line, p, err))
        return false;
    if (p->count < KN_PARAMETERS_MIN) { /* they were words of the prompt: undo the cuts */
        p->count = 0;
        memcpy(line, text + (line - p->text), (size_t)(p->text + len - line));
    } else if (line > p->text) {
        line[-1] = 0;
    } else {
        body = end; /* there is no prompt */
        *body = 0;
    }
    read_prompts(body, p);
    return true;
}

bool kn_parameters_read(const char *text, kn_parameters *ret, kn_error *err) {
    size_t len = strlen(text);
    if (len > KN_PARAMETERS_BYTES_MAX)
        return kn_fail(err, KN_E_RANGE, "has %zu bytes, at most %d are allowed", len, KN_PARAMETERS_BYTES_MAX);
    kn_parameters p = { .text = strdup(text) };
    if (!p.text)
        return kn_fail_nomem(err, len);
    if (!read_parts(text, len, &p, err)) {
        kn_parameters_free(&p);
        return false;
    }
    *ret = p;
    return true;
}

void kn_parameters_free(kn_parameters *p) {
    free(p->text);
    *p = (kn_parameters){ 0 };
}

const char *kn_parameters_find(const kn_parameters *p, const char *key) {
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->list[i].key, key) == 0)
            return p->list[i].value;
    }
    return NULL;
}
