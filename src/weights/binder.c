/* The binder: weights by name, every key accounted for. Problems are collected as text when they are met, a fixed
 * number of each kind, so that reporting a hostile file takes no more memory than reporting a typing error. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/quantization.h"

enum {
    PREFIX_ROOM = 256,
    NAME_ROOM = 512,    /* prefix and the network's own names */
    SHOWN = 10,         /* problems of one kind that a report lists */
    ITEM_ROOM = 132,    /* text of one problem */
    REPORT_ROOM = 540,  /* of an error's text; the rest is left for what callers put in front */
    COPY_MAX = 1 << 30, /* bytes of one converted tensor; the largest convolution in use has 40 MB */
};

typedef struct problems {
    size_t total;
    char item[SHOWN][ITEM_ROOM];
} problems;

/* Memory of converted tensors, freed with the binder. */
typedef struct copy {
    struct copy *next;
    _Alignas(max_align_t) unsigned char data[];
} copy;

struct kn_binder {
    const kn_weights *w;
    char prefix[PREFIX_ROOM];
    bool check_only;
    bool *taken;    /* [count of w] */
    uint64_t bytes; /* stored ones of what was taken to be used */
    kn_quantization quant;
    copy *copies;
    kn_code code; /* of the first problem */
    problems missing, wrong, unused;
    kn_error err; /* memory ran out: says nothing about the file */
};

typedef struct full_name {
    char text[NAME_ROOM];
    size_t len;
} full_name;

static full_name full_name_of(const char *prefix, const char *fmt, va_list ap) KN_PRINTF(2, 0);
static full_name full_name_of(const char *prefix, const char *fmt, va_list ap) {
    full_name n;
    n.len = (size_t)snprintf(n.text, sizeof n.text, "%s", prefix);
    vsnprintf(n.text + n.len, sizeof n.text - n.len, fmt, ap);
    n.len = strlen(n.text);
    return n;
}

#define FULL_NAME(name, prefix, fmt)                                                                                   \
    va_list ap;                                                                                                        \
    va_start(ap, fmt);                                                                                                 \
    full_name name = full_name_of(prefix, fmt, ap);                                                                    \
    va_end(ap)

static void mark(kn_binder *b, const kn_entry *e) {
    bool *taken = &b->taken[e - b->w->entry];
    b->bytes += *taken ? 0 : e->bytes;
    *taken = true;
}

static void note(kn_binder *b, problems *to, kn_code code, const char *fmt, ...) KN_PRINTF(4, 5);
static void note(kn_binder *b, problems *to, kn_code code, const char *fmt, ...) {
    b->code = b->code == KN_OK ? code : b->code;
    if (to->total < SHOWN) {
        char text[512];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        int keep = (int)kn_utf8_cut(text, strlen(text), ITEM_ROOM - 1);
        snprintf(to->item[to->total], ITEM_ROOM, "%.*s", keep, text);
    }
    to->total++;
}

bool kn_binder_new(const kn_weights *w, const char *prefix, bool check_only, kn_binder **ret, kn_error *err) {
    if (strlen(prefix) >= PREFIX_ROOM)
        return kn_fail(err, KN_E_RANGE, "prefix '%s' has %zu bytes, at most %d are allowed", kn_quote_z(prefix).text,
                       strlen(prefix), PREFIX_ROOM - 1);
    kn_binder *b = calloc(1, sizeof *b);
    if (!b)
        return kn_fail_nomem(err, sizeof *b);
    b->w = w;
    b->check_only = check_only;
    snprintf(b->prefix, sizeof b->prefix, "%s", prefix);
    b->taken = calloc(w->count + 1, sizeof *b->taken);
    if (!b->taken)
        kn_fail_nomem(err, w->count + 1);
    if (!b->taken || !kn_quantization_read(w, prefix, &b->quant, err)) {
        kn_binder_free(b);
        return false;
    }
    for (size_t i = 0; i < b->quant.marker_count; i++)
        mark(b, b->quant.marker[i]);
    *ret = b;
    return true;
}

void kn_binder_free(kn_binder *b) {
    if (!b)
        return;
    while (b->copies) {
        copy *next = b->copies->next;
        free(b->copies);
        b->copies = next;
    }
    kn_quantization_free(&b->quant);
    free(b->taken);
    free(b);
}

bool kn_has(const kn_binder *b, const char *fmt, ...) {
    FULL_NAME(name, b->prefix, fmt);
    return kn_weights_find(b->w, name.text) != NULL;
}

static void ignore(kn_binder *b, const char *start) {
    size_t first = 0, end = 0;
    kn_weights_range(b->w, start, &first, &end);
    for (size_t i = first; i < end; i++)
        b->taken[i] = true;
}

void kn_ignore(kn_binder *b, const char *fmt, ...) {
    FULL_NAME(name, b->prefix, fmt);
    ignore(b, name.text);
}

void kn_ignore_outside(kn_binder *b, const char *fmt, ...) {
    FULL_NAME(name, "", fmt);
    ignore(b, name.text);
}

/* Finds stem + suffix and counts it as taken; otherwise it is missing. */
static const kn_entry *take(kn_binder *b, const full_name *stem, const char *suffix) {
    const kn_entry *e = kn_weights_find_joined(b->w, stem->text, stem->len, suffix);
    if (e) {
        mark(b, e);
    } else {
        char name[NAME_ROOM + 16];
        int n = snprintf(name, sizeof name, "%s%s", stem->text, suffix);
        note(b, &b->missing, KN_E_NOT_FOUND, "'%s'", kn_quote_name(name, (size_t)n).text);
    }
    return e;
}

/* A weight that could not be taken: what was asked for is its shape, 0 where the file would have told. */
static kn_weight nothing(const int64_t *want, int rank) {
    kn_weight none = { .rank = rank, .scale = 1, .name = "" };
    for (int i = 0; i < rank; i++)
        none.dim[i] = KN_MAX(want[i], 0);
    return none;
}

/* For a message; "*" is what the file may choose. */
static kn_shape_text wanted_shape(const int64_t *want, int rank) {
    kn_shape_text s = { "" };
    for (int i = 0; i < rank; i++) {
        if (want[i] > 0)
            kn_shape_add(&s, "%lld", (long long)want[i]);
        else
            kn_shape_add(&s, "*");
    }
    return s;
}

/* Do the tensor's own dimensions, already brought to the network's view, fit what is wanted? No trained array is empty.
 */
static bool fits(kn_binder *b, const kn_entry *e, const int64_t *want, int rank, const uint64_t *have, int have_rank,
                 kn_weight *ret) {
    bool ok = have_rank == rank && e->elements > 0;
    for (int i = 0; ok && i < rank; i++) {
        ok = want[i] <= 0 || (uint64_t)want[i] == have[i];
        ret->dim[i] = (int64_t)have[i];
    }
    if (!ok)
        note(b, &b->wrong, KN_E_FORMAT, "'%s': expected [%s], found [%s]", kn_quote_name(e->name, strlen(e->name)).text,
             wanted_shape(want, rank).text, kn_shape_of_entry(e).text);
    return ok;
}

static bool is_plain_float(kn_dtype t) {
    return t == KN_F32 || t == KN_F16 || t == KN_BF16;
}

static bool has_blocks(kn_dtype t) {
    return kn_dtype_of(t)->block > 1;
}

static bool stored_as_plain_float(kn_binder *b, const kn_entry *e) {
    if (!is_plain_float(e->dtype))
        note(b, &b->wrong, KN_E_UNSUPPORTED, "'%s' is stored as %s, F32, F16 or BF16 is needed",
             kn_quote_name(e->name, strlen(e->name)).text, kn_dtype_of(e->dtype)->name);
    return is_plain_float(e->dtype);
}

/* Room for a converted tensor; NULL: the binder knows why not. */
static void *new_copy(kn_binder *b, const kn_entry *e, uint64_t bytes) {
    if (bytes > COPY_MAX) {
        note(b, &b->wrong, KN_E_RANGE, "'%s' takes %llu bytes, at most %d are allowed for its kind",
             kn_quote_name(e->name, strlen(e->name)).text, (unsigned long long)bytes, COPY_MAX);
        return NULL;
    }
    copy *c = malloc(sizeof *c + (size_t)bytes);
    if (!c) {
        kn_fail_nomem(&b->err, bytes);
        return NULL;
    }
    c->next = b->copies;
    b->copies = c;
    return c->data;
}

/* A copy of the values as float32, which becomes the data of *ret. */
static bool take_floats(kn_binder *b, const kn_entry *e, float plus, kn_weight *ret) {
    if (!has_blocks(e->dtype) && !stored_as_plain_float(b, e))
        return false;
    float *values = new_copy(b, e, e->elements * sizeof *values);
    if (!values)
        return false;
    if (!kn_entry_is_finite(e)) {
        note(b, &b->wrong, KN_E_FORMAT, "'%s' holds a NaN or an infinity",
             kn_quote_name(e->name, strlen(e->name)).text);
        return false;
    }
    kn_decode(e->dtype, e->data, (size_t)e->elements, values);
    for (uint64_t i = 0; plus != 0 && i < e->elements; i++)
        values[i] += plus;
    ret->data = values;
    ret->name = e->name;
    return true;
}

static kn_weight vector(kn_binder *b, const full_name *name, const char *suffix, int64_t n, float plus) {
    kn_weight none = nothing(&n, 1), v = { .dtype = KN_F32, .rank = 1, .scale = 1 };
    const kn_entry *e = take(b, name, suffix);
    if (!e)
        return none;
    int wide = 0;
    for (int i = 0; i < e->rank; i++)
        wide += e->dim[i] != 1;
    bool ok = fits(b, e, &n, 1, &e->elements, wide > 1 ? wide : 1, &v) && take_floats(b, e, plus, &v);
    return ok ? v : none;
}

kn_weight kn_take_vector(kn_binder *b, int64_t n, float plus, const char *fmt, ...) {
    FULL_NAME(name, b->prefix, fmt);
    return vector(b, &name, "", n, plus);
}

kn_weight kn_take_table(kn_binder *b, int64_t rows, int64_t width, const char *fmt, ...) {
    FULL_NAME(name, b->prefix, fmt);
    const int64_t want[] = { rows, width }, flat = rows * width;
    kn_weight none = nothing(want, 2), t = { .dtype = KN_F32, .rank = 2, .scale = 1 };
    const kn_entry *e = take(b, &name, "");
    if (!e)
        return none;
    bool ok = e->rank == 1 ? fits(b, e, &flat, 1, e->dim, 1, &t) : fits(b, e, want, 2, e->dim, e->rank, &t);
    t.dim[0] = rows;
    t.dim[1] = width;
    return ok && take_floats(b, e, 0, &t) ? t : none;
}

/* "<name>.bias" as float32, NULL if the file has none. */
static const float *bias(kn_binder *b, const full_name *name, int64_t out) {
    if (!kn_weights_find_joined(b->w, name->text, name->len, ".bias"))
        return NULL;
    return vector(b, name, ".bias", out, 0).data;
}

/* A scale for each row as float32; NULL: the binder knows why not. */
static const float *row_scales(kn_binder *b, const kn_entry *e) {
    float *values = new_copy(b, e, e->elements * sizeof *values);
    if (!values)
        return NULL;
    kn_decode(e->dtype, e->data, (size_t)e->elements, values);
    for (uint64_t i = 0; i < e->elements; i++) {
        if (!(values[i] >= 0) || isinf(values[i])) {
            note(b, &b->wrong, KN_E_RANGE, "'%s' holds the invalid scale %g",
                 kn_quote_name(e->name, strlen(e->name)).text, (double)values[i]);
            return NULL;
        }
    }
    return values;
}

/* How the stored numbers of a matrix become its elements; false: the binder knows why not. */
static bool set_scales(kn_binder *b, const kn_entry *e, kn_weight *m) {
    const kn_quant_layer *quantised = kn_quantization_find(&b->quant, e);
    if (!quantised)
        return has_blocks(e->dtype) || stored_as_plain_float(b, e);
    m->scale = quantised->scale;
    m->full_precision = quantised->full_precision;
    m->turned_group = (int64_t)quantised->turned_group;
    if (quantised->row_scales && !b->check_only)
        m->row_scale = row_scales(b, quantised->row_scales);
    return !quantised->row_scales || b->check_only || m->row_scale;
}

/* flat: all dimensions but the first are one, whatever they are. */
static kn_weight matrix(kn_binder *b, const full_name *name, int64_t out, int64_t in, bool flat) {
    const int64_t want[] = { out, in };
    kn_weight none = nothing(want, 2), m = { .rank = 2, .scale = 1 };
    const kn_entry *e = take(b, name, ".weight");
    for (size_t i = 0; i < KN_QUANT_COMPANIONS; i++) {
        const kn_entry *companion = kn_weights_find_joined(b->w, name->text, name->len, kn_quant_companions[i]);
        if (companion)
            mark(b, companion);
    }
    if (!e)
        return none;
    bool convolution = e->rank == 4 || e->rank == 5; /* [out, in, (1,) 1, 1] */
    for (int i = 2; i < e->rank; i++)
        convolution &= e->dim[i] == 1;
    const uint64_t flattened[] = { e->dim[0], e->dim[0] ? e->elements / e->dim[0] : 0 };
    flat &= e->rank > 2;
    if (!fits(b, e, want, 2, flat ? flattened : e->dim, flat || convolution ? 2 : e->rank, &m))
        return none;
    if (m.dim[1] % kn_dtype_of(e->dtype)->block) {
        note(b, &b->wrong, KN_E_UNSUPPORTED, "'%s': its rows [%s] are no whole blocks of %s",
             kn_quote_name(e->name, strlen(e->name)).text, kn_shape_of_entry(e).text, kn_dtype_of(e->dtype)->name);
        return none;
    }
    if (!set_scales(b, e, &m))
        return none;
    m.data = e->data;
    m.dtype = e->dtype;
    m.name = e->name;
    m.bias = bias(b, name, m.dim[0]);
    return m;
}

kn_weight kn_take_matrix(kn_binder *b, int64_t out, int64_t in, const char *fmt, ...) {
    FULL_NAME(name, b->prefix, fmt);
    return matrix(b, &name, out, in, false);
}

kn_weight kn_take_biased(kn_binder *b, int64_t out, int64_t in, const char *fmt, ...) {
    FULL_NAME(name, b->prefix, fmt);
    kn_weight m = matrix(b, &name, out, in, false);
    if (m.data)
        take(b, &name, ".bias"); /* notes if it is missing */
    return m;
}

kn_weight kn_take_patch_matrix(kn_binder *b, int64_t out, int64_t in, const char *fmt, ...) {
    FULL_NAME(name, b->prefix, fmt);
    return matrix(b, &name, out, in, true);
}

/* [out, in, time, kh, kw] -> [out, kh, kw, in] of the last moment. */
static void turn(const uint8_t *from, uint8_t *to, const int64_t dim[KN_MAX_RANK], size_t time, size_t item) {
    size_t taps = (size_t)(dim[1] * dim[2]), in = (size_t)dim[3];
    for (size_t o = 0; o < (size_t)dim[0]; o++) {
        for (size_t tap = 0; tap < taps; tap++) {
            const uint8_t *at = from + ((o * in * time + time - 1) * taps + tap) * item;
            size_t step = time * taps * item;
            if (item == 2) /* a copy of known size is no call */
                for (size_t i = 0; i < in; i++, at += step, to += 2)
                    memcpy(to, at, 2);
            else
                for (size_t i = 0; i < in; i++, at += step, to += item)
                    memcpy(to, at, item);
        }
    }
}

kn_weight kn_take_conv(kn_binder *b, int64_t out, int64_t in, int64_t kh, int64_t kw, const char *fmt, ...) {
    FULL_NAME(name, b->prefix, fmt);
    const int64_t want[] = { out, in, kh, kw }, turned[] = { out, kh, kw, in };
    kn_weight none = nothing(turned, 4), c = { .rank = 4, .scale = 1 };
    const kn_entry *e = take(b, &name, ".weight");
    if (!e)
        return none;
    bool timed = e->rank == 5;
    const uint64_t have[] = { e->dim[0], e->dim[1], e->dim[timed ? 3 : 2], e->dim[timed ? 4 : 3] };
    kn_weight stored = { 0 };
    if (!fits(b, e, want, 4, have, timed ? 4 : e->rank, &stored) || !stored_as_plain_float(b, e))
        return none;
    c.dim[0] = stored.dim[0];
    c.dim[1] = stored.dim[2];
    c.dim[2] = stored.dim[3];
    c.dim[3] = stored.dim[1];
    c.data = e->data;
    if (!b->check_only) {
        size_t time = timed ? (size_t)e->dim[2] : 1;
        uint8_t *data = new_copy(b, e, e->bytes / time);
        if (!data)
            return none;
        turn(e->data, data, c.dim, time, kn_dtype_bytes(e->dtype, 1));
        c.data = data;
    }
    c.dtype = e->dtype;
    c.name = e->name;
    c.bias = bias(b, &name, c.dim[0]);
    return c;
}

kn_weight kn_weight_rows(const kn_weight *w, int64_t from, int64_t count) {
    kn_weight rows = *w;
    rows.dim[0] = count;
    if (!w->data)
        return rows; /* could not be taken; its binder reports it */
    assert(from >= 0 && count >= 0 && from <= w->dim[0] - count);
    size_t row = 1;
    for (int i = 1; i < w->rank; i++)
        row *= (size_t)w->dim[i];
    rows.data = (const uint8_t *)w->data + kn_dtype_bytes(w->dtype, (size_t)from * row);
    rows.bias = w->bias ? w->bias + from : NULL;
    rows.row_scale = w->row_scale ? w->row_scale + from : NULL;
    return rows;
}

/* One kind of problem in a report. */
typedef struct section {
    const char *head;
    const problems *list;
    size_t shown;
} section;

/* Shares a report's room: one problem of each kind, then one more of each in turn, as long as they fit. */
static void share_room(section *sections, size_t count, size_t room) {
    enum { OVERHEAD = 36, HEADS = 32 }; /* "; " and " and 18446744073709551615 more"; all heads together */
    _Static_assert(3 * (ITEM_ROOM + OVERHEAD) + HEADS <= REPORT_ROOM, "one problem of each kind always fits");
    size_t used = 0;
    for (size_t round = 0; round < SHOWN; round++) {
        for (size_t i = 0; i < count; i++) {
            section *s = &sections[i];
            if (s->shown < round || s->shown == s->list->total)
                continue;
            size_t need = strlen(s->list->item[round]) + (round ? strlen(", ") : strlen(s->head) + OVERHEAD);
            if (round > 0 && used + need > room)
                continue;
            used += need;
            s->shown++;
        }
    }
}

static void write_report(section *sections, size_t count, char *text, size_t room) {
    share_room(sections, count, room);
    size_t len = 0;
    text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const section *s = &sections[i];
        size_t more = s->list->total - s->shown;
        for (size_t k = 0; k < s->shown; k++)
            len += (size_t)snprintf(text + len, room - len, "%s%s%s",
                                    k     ? ", "
                                    : len ? "; "
                                          : "",
                                    k ? "" : s->head, s->list->item[k]);
        if (more)
            len += (size_t)snprintf(text + len, room - len, " and %zu more", more);
    }
}

void kn_binder_fail(kn_binder *b, const char *fmt, ...) {
    char text[ITEM_ROOM];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    note(b, &b->wrong, KN_E_FORMAT, "%s", text);
}

uint64_t kn_binder_bytes(const kn_binder *b) {
    return b->bytes;
}

bool kn_binder_finish(kn_binder *b, kn_error *err) {
    if (b->err.code != KN_OK)
        return kn_fail(err, b->err.code, "%s", b->err.text);
    if (b->w->count == 0)
        return kn_fail(err, KN_E_FORMAT, "has no tensors");
    b->unused.total = 0;
    for (size_t i = 0; i < b->w->count; i++) {
        const char *name = b->w->entry[i].name;
        if (!b->taken[i])
            note(b, &b->unused, KN_E_FORMAT, "'%s'", kn_quote_name(name, strlen(name)).text);
    }
    section sections[] = {
        { .head = "missing ", .list = &b->missing },
        { .head = "", .list = &b->wrong },
        { .head = "not used by this model ", .list = &b->unused },
    };
    char text[REPORT_ROOM];
    write_report(sections, KN_COUNT(sections), text, sizeof text);
    return !text[0] || kn_fail(err, b->code, "%s", text);
}
