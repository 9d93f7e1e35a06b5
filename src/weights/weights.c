#include "weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "weights/container.h"

static int by_name(const void *a, const void *b) {
    return strcmp(((const kn_entry *)a)->name, ((const kn_entry *)b)->name);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const kn_pair *)a)->key, ((const kn_pair *)b)->key);
}

/* The same name twice would let a file show one tensor to whoever checks it and another to whoever uses it. */
bool kn_weights_sort(kn_weights *w, kn_error *err) {
    if (w->count > 1)
        qsort(w->entry, w->count, sizeof *w->entry, by_name);
    for (size_t i = 1; i < w->count; i++) {
        if (by_name(&w->entry[i - 1], &w->entry[i]) == 0)
            return kn_fail(err, KN_E_FORMAT, "tensor '%s' is there twice",
                           kn_quote_name(w->entry[i].name, strlen(w->entry[i].name)).text);
    }
    if (w->metadata_count > 1)
        qsort(w->metadata, w->metadata_count, sizeof *w->metadata, by_key);
    for (size_t i = 1; i < w->metadata_count; i++) {
        if (by_key(&w->metadata[i - 1], &w->metadata[i]) == 0)
            return kn_fail(err, KN_E_FORMAT, "metadata key '%s' is there twice", kn_quote_z(w->metadata[i].key).text);
    }
    return true;
}

static int by_place(const void *a, const void *b) {
    const kn_entry *x = *(const kn_entry *const *)a, *y = *(const kn_entry *const *)b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

bool kn_weights_by_place(const kn_weights *w, const kn_entry ***ret, kn_error *err) {
    size_t bytes = (w->count + 1) * sizeof **ret;
    const kn_entry **order = malloc(bytes);
    if (!order)
        return kn_fail_nomem(err, bytes);
    for (size_t i = 0; i < w->count; i++)
        order[i] = &w->entry[i];
    if (w->count > 1)
        qsort(order, w->count, sizeof *order, by_place);
    *ret = order;
    return true;
}

bool kn_fail_truncated(uint64_t have, uint64_t need, kn_error *err) {
    static const struct {
        double bytes;
        const char *name;
    } units[] = { { 1e9, "GB" }, { 1e6, "MB" } };
    uint64_t lost = need - have;
    for (size_t i = 0; i < KN_COUNT(units); i++) {
        if ((double)need >= units[i].bytes)
            return kn_fail(err, KN_E_TRUNCATED, "is truncated: %.2f of %.2f %s are there, %s %s missing",
                           (double)have / units[i].bytes, (double)need / units[i].bytes, units[i].name,
                           kn_counted(lost, "byte").text, lost == 1 ? "is" : "are");
    }
    return kn_fail(err, KN_E_TRUNCATED, "is truncated: %llu of %llu bytes are there", (unsigned long long)have,
                   (unsigned long long)need);
}

static bool read_container(const uint8_t *data, size_t len, kn_weights *w, kn_error *err) {
    static const char magic[] = "GGUF";
    if (len < sizeof magic - 1 || memcmp(data, magic, sizeof magic - 1) != 0)
        return kn_safetensors_read(data, len, w, err);
    return kn_gguf_read(data, len, w, err) && kn_gguf_take_own_names(w, err);
}

bool kn_weights_open_bytes(const uint8_t *data, size_t len, kn_weights **ret, kn_error *err) {
    kn_weights *w = calloc(1, sizeof *w);
    if (!w)
        return kn_fail_nomem(err, sizeof *w);
    if (!read_container(data, len, w, err)) {
        kn_weights_close(w);
        return false;
    }
    *ret = w;
    return true;
}

void kn_weights_close(kn_weights *w) {
    if (!w)
        return;
    for (size_t i = 0; i < w->part_count; i++)
        kn_weights_close(w->part[i]);
    free(w->part);
    kn_map_close(&w->map);
    free(w->entry);
    free(w->metadata);
    free(w->text);
    free(w->own_names);
    free(w->path);
    free(w);
}

void kn_weights_forget_pages(const kn_weights *w) {
    if (w->map.data)
        madvise((void *)(uintptr_t)w->map.data, w->map.len, MADV_DONTNEED);
    for (size_t i = 0; i < w->part_count; i++)
        kn_weights_forget_pages(w->part[i]);
}

static uintptr_t page_of(const uint8_t *at) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return (uintptr_t)at / page * page;
}

static bool begins_with(const kn_entry *e, const char *prefix) {
    return strncmp(e->name, prefix, strlen(prefix)) == 0;
}

/* One page of each tensor stands for all of it. Where the system does not tell, it says yes. */
bool kn_weights_are_near(const kn_weights *w, const char *prefix) {
    uint64_t near = 0, all = 0;
    for (size_t i = 0; i < w->count; i++) {
        const kn_entry *e = &w->entry[i];
        unsigned char here = 0;
        if (!begins_with(e, prefix) || e->bytes == 0)
            continue;
        all += e->bytes;
        if (mincore((void *)page_of(e->data + e->bytes / 2), 1, &here) == 0 && here & 1)
            near += e->bytes;
    }
    return near >= all / 4 * 3;
}

/* In pieces so small that whoever says stop does not wait. */
static bool fetch(const kn_entry *e, const atomic_bool *stop) {
    const uintptr_t piece = 8 << 20, end = (uintptr_t)e->data + e->bytes;
    uintptr_t at = page_of(e->data);
    for (; at < end && !atomic_load(stop); at += piece)
        if (madvise((void *)at, KN_MIN(piece, end - at), MADV_WILLNEED))
            return false;
    return at >= end;
}

void kn_weights_fetch_pages(const kn_weights *w, const char *prefix, const atomic_bool *stop) {
    const kn_entry **order = NULL;
    bool more = kn_weights_by_place(w, &order, NULL);
    for (size_t i = 0; more && i < w->count; i++)
        if (begins_with(order[i], prefix))
            more = fetch(order[i], stop);
    free(order);
}

size_t kn_weights_count(const kn_weights *w) {
    return w->count;
}

const kn_entry *kn_weights_at(const kn_weights *w, size_t i) {
    return &w->entry[i];
}

/* Orders a name against stem + suffix as strcmp would. */
static int compare_joined(const char *name, const char *stem, size_t stem_len, const char *suffix) {
    int order = strncmp(name, stem, stem_len);
    return order ? order : strcmp(name + stem_len, suffix);
}

const kn_entry *kn_weights_find_joined(const kn_weights *w, const char *stem, size_t stem_len, const char *suffix) {
    for (size_t from = 0, end = w->count; from < end;) {
        size_t middle = from + (end - from) / 2;
        int order = compare_joined(w->entry[middle].name, stem, stem_len, suffix);
        if (order == 0)
            return &w->entry[middle];
        if (order < 0)
            from = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

const kn_entry *kn_weights_find(const kn_weights *w, const char *name) {
    return kn_weights_find_joined(w, name, strlen(name), "");
}

const kn_entry *kn_weights_find_below(const kn_weights *w, const char *prefix, const char *leaf) {
    return kn_weights_find_joined(w, prefix, strlen(prefix), leaf);
}

void kn_weights_range(const kn_weights *w, const char *prefix, size_t *ret_first, size_t *ret_end) {
    size_t len = strlen(prefix), bound[2];
    for (int upper = 0; upper < 2; upper++) { /* the first name not before prefix; the first behind all that have it */
        size_t from = 0, end = w->count;
        while (from < end) {
            size_t middle = from + (end - from) / 2;
            if (strncmp(w->entry[middle].name, prefix, len) < upper)
                from = middle + 1;
            else
                end = middle;
        }
        bound[upper] = from;
    }
    *ret_first = bound[0];
    *ret_end = bound[1];
}

static const kn_pair *find_pair(const kn_weights *w, const char *key) {
    kn_pair wanted = { .key = key };
    return w->metadata_count ? bsearch(&wanted, w->metadata, w->metadata_count, sizeof wanted, by_key) : NULL;
}

const char *kn_weights_metadata(const kn_weights *w, const char *key) {
    const kn_pair *p = find_pair(w, key);
    return p ? p->value : NULL;
}

kn_texts kn_weights_texts(const kn_weights *w, const char *key) {
    const kn_pair *p = find_pair(w, key);
    return p ? p->texts : (kn_texts){ 0 };
}

/* The reader has made sure that all of it is there. */
bool kn_texts_next(kn_texts *t, const char **ret, size_t *ret_len) {
    if (t->count == 0)
        return false;
    uint64_t len = 0;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | t->at[i];
    *ret = (const char *)t->at + 8;
    *ret_len = (size_t)len;
    t->at += 8 + len;
    t->count--;
    return true;
}

uint64_t kn_weights_bytes(const kn_weights *w) {
    uint64_t sum = 0;
    for (size_t i = 0; i < w->count; i++)
        sum += w->entry[i].bytes;
    return sum;
}

bool kn_weights_prefix_of(const kn_weights *w, const char *leaf, char *ret, size_t size) {
    const char *found = NULL;
    size_t found_len = 0;
    for (size_t i = 0; i < w->count; i++) {
        const char *name = w->entry[i].name;
        size_t len = strlen(name);
        if (!kn_ends_with(name, len, leaf))
            continue;
        len -= strlen(leaf);
        if (len > 0 && name[len - 1] != '.')
            continue;
        if (found)
            return false;
        found = name;
        found_len = len;
    }
    if (!found || found_len >= size)
        return false;
    memcpy(ret, found, found_len);
    ret[found_len] = 0;
    return true;
}

bool kn_entry_is_finite(const kn_entry *e) {
    float piece[256]; /* whole blocks of every type */
    for (uint64_t done = 0; done < e->elements;) {
        size_t n = (size_t)KN_MIN(e->elements - done, KN_COUNT(piece));
        kn_decode(e->dtype, e->data + kn_dtype_bytes(e->dtype, (size_t)done), n, piece);
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(piece[i]))
                return false;
        }
        done += n;
    }
    return true;
}

bool kn_starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

bool kn_ends_with(const char *text, size_t len, const char *end) {
    size_t n = strlen(end);
    return len >= n && memcmp(text + len - n, end, n) == 0;
}

kn_quoted kn_quote_name(const char *name, size_t len) {
    enum { KEEP = 45 };
    if (len <= 48)
        return kn_quote(name, len);
    const char *tail = name + len - KEEP;
    while (((unsigned char)*tail & 0xC0) == 0x80) /* begin between characters; the NUL behind the name ends this too */
        tail++;
    kn_quoted q = { "…" };
    kn_quoted end = kn_quote(tail, (size_t)(name + len - tail));
    snprintf(q.text + strlen(q.text), sizeof q.text - strlen(q.text), "%s", end.text);
    return q;
}

kn_shape_text kn_shape_of_entry(const kn_entry *e) {
    kn_shape_text s = { "" };
    for (int i = 0; i < e->rank; i++)
        kn_shape_add(&s, "%llu", (unsigned long long)e->dim[i]);
    return s;
}
