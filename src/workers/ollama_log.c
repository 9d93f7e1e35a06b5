#include "workers/ollama_log.h"

#include <stdio.h>
#include <string.h>

void kn_ollama_log_begin(kn_ollama_log *l) {
    *l = (kn_ollama_log){ .len = 0 };
}

/* ---- key=value key="quoted value" ---- */

typedef struct pair {
    kn_span key;
    char value[512]; /* without quotes and their escapes; empty if it is longer */
} pair;

/* One character behind a backslash, as Go writes it; those that need a number are not in anything that we look for. */
static char unescaped(char c) {
    return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
}

/* Moves *at behind the value. */
static void read_value(const char **at, const char *end, pair *ret) {
    const char *p = *at;
    bool quoted = p < end && *p == '"';
    size_t len = 0;
    for (p += quoted; p < end && *p != (quoted ? '"' : ' '); p++) {
        bool escape = quoted && *p == '\\' && p + 1 < end;
        p += escape;
        if (len < sizeof ret->value)
            ret->value[len++] = escape ? unescaped(*p) : *p;
    }
    ret->value[len < sizeof ret->value ? len : 0] = 0;
    *at = p < end ? p + 1 : end;
}

static bool next_pair(const char **at, const char *end, pair *ret) {
    while (*at < end && **at == ' ')
        ++*at;
    const char *equals = memchr(*at, '=', (size_t)(end - *at));
    if (!equals)
        return false;
    ret->key = (kn_span){ *at, (size_t)(equals - *at) };
    *at = equals + 1;
    read_value(at, end, ret);
    return true;
}

/* ---- the lines ---- */

/* "Listening on 127.0.0.1:11501 (version 0.17.4)" */
static void read_listening(kn_ollama_log *l, const char *message) {
    static const char before[] = "Listening on ", between[] = " (version ";
    const char *address = message + sizeof before - 1, *version = strstr(address, between);
    char text[64];
    if (!version || (size_t)(version - address) >= sizeof text)
        return;
    snprintf(text, sizeof text, "%.*s", (int)(version - address), address);
    if (!kn_address_parse(text, &l->address, NULL))
        return;
    version += sizeof between - 1;
    snprintf(l->version, sizeof l->version, "%.*s", (int)strcspn(version, ")"), version);
    l->listens = true;
}

static void copy_short(char *into, size_t room, const char *value) {
    size_t len = strlen(value);
    if (len < room)
        memcpy(into, value, len + 1);
}

static void read_device(kn_ollama_log *l, const char *at, const char *end) {
    kn_ollama_device d = { 0 };
    pair p;
    while (next_pair(&at, end, &p)) {
        if (kn_span_is(p.key, "library"))
            copy_short(d.library, sizeof d.library, p.value);
        else if (kn_span_is(p.key, "id"))
            copy_short(d.id, sizeof d.id, p.value);
        else if (kn_span_is(p.key, "driver"))
            copy_short(d.driver, sizeof d.driver, p.value);
        else if (kn_span_is(p.key, "pci_id"))
            d.has_pci = kn_pci_parse(p.value, strlen(p.value), &d.pci);
    }
    if (l->device_count < KN_OLLAMA_DEVICES_MAX)
        l->devices[l->device_count] = d;
    l->device_count++;
}

static void read_line(kn_ollama_log *l) {
    static const char first[] = "time=";
    const char *at = l->line, *end = at + l->len;
    pair p;
    if (l->len < sizeof first - 1 || memcmp(at, first, sizeof first - 1) != 0)
        return;
    while (next_pair(&at, end, &p)) {
        if (!kn_span_is(p.key, "msg"))
            continue;
        if (strncmp(p.value, "Listening on ", strlen("Listening on ")) == 0)
            read_listening(l, p.value);
        else if (strcmp(p.value, "inference compute") == 0)
            read_device(l, at, end);
        return;
    }
}

void kn_ollama_log_feed(kn_ollama_log *l, kn_span text) {
    for (const char *at = text.data, *end = at + text.len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        if (len > sizeof l->line - l->len)
            l->too_long = true;
        if (!l->too_long) {
            memcpy(l->line + l->len, at, len);
            l->len += len;
        }
        at += len + (stop != NULL);
        if (!stop)
            continue;
        if (!l->too_long)
            read_line(l);
        l->len = 0;
        l->too_long = false;
    }
}
