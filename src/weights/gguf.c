/* The GGUF reader, versions 2 and 3: counts, metadata, tensor descriptions, then the data at aligned places.
 *
 * Nothing in the file says how long its names and texts are together, so that everything before the data is walked
 * twice: first to check it and to count, then to keep it. Of the metadata, strings and numbers are kept as text, and
 * short arrays of integers as "1,2,3"; of lists of texts, the vocabulary among them, is kept where they are; other
 * arrays are checked and passed over. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/container.h"

enum {
    MAX_RANK = 4,
    ARRAY_DEPTH = 4,
    PAIR_MIN = 8 + 4 + 1,       /* bytes of an empty key, its type, the smallest value */
    TENSOR_MIN = 8 + 4 + 4 + 8, /* bytes of a description without name and dimensions */
    ALIGNMENT = 32,
    ALIGNMENT_MIN = 8,
};

/* Types of metadata. */
enum value { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, VALUES };
static const struct {
    const char *name;
    uint8_t bytes; /* 0: it varies */
    bool is_signed, is_integer;
} values[VALUES] = {
    [U8] = { "u8", 1, false, true },          [I8] = { "i8", 1, true, true },
    [U16] = { "u16", 2, false, true },        [I16] = { "i16", 2, true, true },
    [U32] = { "u32", 4, false, true },        [I32] = { "i32", 4, true, true },
    [F32] = { "f32", 4, false, false },       [BOOL] = { "bool", 1, false, false },
    [STRING] = { "string", 0, false, false }, [ARRAY] = { "array", 0, false, false },
    [U64] = { "u64", 8, false, true },        [I64] = { "i64", 8, true, true },
    [F64] = { "f64", 8, false, false },
};

/* Types of tensors; a name of its own: known and not supported. */
static const struct type {
    uint32_t id;
    kn_dtype dtype;
    const char *refused;
} types[] = {
    { 0, KN_F32, NULL },   { 1, KN_F16, NULL },     { 30, KN_BF16, NULL },   { 2, KN_Q4_0, NULL },
    { 3, KN_Q4_1, NULL },  { 6, KN_Q5_0, NULL },    { 7, KN_Q5_1, NULL },    { 8, KN_Q8_0, NULL },
    { 10, KN_Q2_K, NULL }, { 11, KN_Q3_K, NULL },   { 12, KN_Q4_K, NULL },   { 13, KN_Q5_K, NULL },
    { 14, KN_Q6_K, NULL }, { 20, KN_IQ4_NL, NULL }, { 23, KN_IQ4_XS, NULL }, { 24, KN_I8, NULL },
    { 25, KN_I16, NULL },  { 26, KN_I32, NULL },    { 27, KN_I64, NULL },    { 28, KN_F64, NULL },
    { 9, 0, "Q8_1" },      { 15, 0, "Q8_K" },       { 16, 0, "IQ2_XXS" },    { 17, 0, "IQ2_XS" },
    { 18, 0, "IQ3_XXS" },  { 19, 0, "IQ1_S" },      { 21, 0, "IQ3_S" },      { 22, 0, "IQ2_S" },
    { 29, 0, "IQ1_M" },    { 34, 0, "TQ1_0" },      { 35, 0, "TQ2_0" },      { 39, 0, "MXFP4" },
    { 40, 0, "NVFP4" },    { 41, 0, "Q1_0" },
};

typedef struct text {
    const char *data;
    size_t len;
} text;

typedef struct reader {
    const uint8_t *start, *at, *end;
    kn_weights *w;
    bool keeping; /* the second walk */
    char *text;   /* where the next name, key or value goes */
    size_t text_bytes;
    uint64_t tensor_count, pair_count, alignment;
    uint64_t data_start;   /* 0: not known yet */
    uint64_t needed_bytes; /* of the file, as the tensors ask for */
    kn_error *err;
} reader;

static uint64_t left(const reader *r) {
    return (uint64_t)(r->end - r->at);
}

/* `what` is told when the file ends too early. */
static bool bytes(reader *r, uint64_t len, const char *what, const uint8_t **ret) {
    if (len > left(r))
        return kn_fail(r->err, KN_E_TRUNCATED, "is truncated: %s needs %" PRIu64 " bytes, %" PRIu64 " are left", what,
                       len, left(r));
    *ret = r->at;
    r->at += len;
    return true;
}

static uint64_t little_endian(const uint8_t *p, size_t len) {
    uint64_t v = 0;
    while (len-- > 0)
        v = v << 8 | p[len];
    return v;
}

static bool integer(reader *r, size_t len, const char *what, uint64_t *ret) {
    const uint8_t *p = NULL;
    if (!bytes(r, len, what, &p))
        return false;
    *ret = little_endian(p, len);
    return true;
}

static bool string(reader *r, const char *what, text *ret) {
    uint64_t len = 0;
    const uint8_t *p = NULL;
    if (!integer(r, 8, what, &len) || !bytes(r, len, what, &p))
        return false;
    *ret = (text){ (const char *)p, (size_t)len };
    return true;
}

/* One that becomes a C string and may be shown. */
static bool readable(reader *r, const char *what, text *ret) {
    if (!string(r, what, ret))
        return false;
    size_t good = kn_utf8_check(ret->data, ret->len);
    if (good < ret->len)
        return kn_fail(r->err, KN_E_FORMAT, "%s '%s' is not UTF-8 at byte %zu", what,
                       kn_quote(ret->data, ret->len).text, good);
    if (memchr(ret->data, 0, ret->len))
        return kn_fail(r->err, KN_E_FORMAT, "%s '%s' holds a NUL", what, kn_quote(ret->data, ret->len).text);
    return true;
}

static bool is(text t, const char *word) {
    return t.len == strlen(word) && memcmp(t.data, word, t.len) == 0;
}

/* Adds to the text being kept. */
static void keep(reader *r, const char *data, size_t len) {
    if (r->keeping) {
        memcpy(r->text, data, len);
        r->text += len;
    }
    r->text_bytes += len;
}

/* A whole string; NULL in the first walk. */
static const char *kept(reader *r, const char *data, size_t len) {
    const char *start = r->text;
    keep(r, data, len);
    keep(r, "", 1);
    return start;
}

typedef struct number_text {
    char text[40];
} number_text;

static number_text number(enum value type, const uint8_t *p) {
    number_text n;
    uint64_t bits = little_endian(p, values[type].bytes);
    uint32_t low = (uint32_t)bits;
    float single;
    double wide;
    memcpy(&single, &low, sizeof single);
    memcpy(&wide, &bits, sizeof wide);
    unsigned unused = 64 - 8u * values[type].bytes;
    if (type == BOOL)
        snprintf(n.text, sizeof n.text, "%s", bits ? "true" : "false");
    else if (type == F32)
        snprintf(n.text, sizeof n.text, "%.9g", (double)single);
    else if (type == F64)
        snprintf(n.text, sizeof n.text, "%.17g", wide);
    else if (values[type].is_signed)
        snprintf(n.text, sizeof n.text, "%" PRId64, (int64_t)(bits << unused) >> unused);
    else
        snprintf(n.text, sizeof n.text, "%" PRIu64, bits);
    return n;
}

static bool value_type(reader *r, enum value *ret) {
    uint64_t type = 0;
    if (!integer(r, 4, "a value's type", &type))
        return false;
    if (type >= VALUES)
        return kn_fail(r->err, KN_E_FORMAT, "has a value of the unknown type %" PRIu64, type);
    *ret = (enum value)type;
    return true;
}

/* A count of things that take at least so many bytes each. */
static bool fits(reader *r, uint64_t count, uint64_t least, const char *what) {
    if (count > left(r) / least)
        return kn_fail(r->err, KN_E_TRUNCATED, "is truncated: %" PRIu64 " %s do not fit the %" PRIu64 " bytes left",
                       count, what, left(r));
    return true;
}

static bool are_booleans(reader *r, const uint8_t *p, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (p[i] > 1)
            return kn_fail(r->err, KN_E_FORMAT, "has the truth value %d", p[i]);
    }
    return true;
}

static bool array(reader *r, int depth, const uint8_t **ret, enum value *ret_type, uint64_t *ret_count) {
    enum value type = U8;
    uint64_t count = 0;
    if (!value_type(r, &type) || !integer(r, 8, "an array's length", &count))
        return false;
    if (type == ARRAY && depth == ARRAY_DEPTH)
        return kn_fail(r->err, KN_E_RANGE, "has arrays within arrays more than %d deep", ARRAY_DEPTH);
    if (!fits(r, count, type == STRING ? 8 : type == ARRAY ? 4 + 8 : values[type].bytes, "elements of an array"))
        return false;
    *ret = r->at;
    *ret_type = type;
    *ret_count = count;
    if (values[type].bytes) {
        r->at += count * values[type].bytes;
        return type != BOOL || are_booleans(r, *ret, count);
    }
    for (uint64_t i = 0; i < count; i++) {
        text t;
        const uint8_t *inner;
        enum value inner_type;
        uint64_t inner_count;
        if (type == STRING ? !string(r, "an array's element", &t)
                           : !array(r, depth + 1, &inner, &inner_type, &inner_count))
            return false;
    }
    return true;
}

/* A value as text, "" for what is passed over, which in the second walk becomes that of *ret. */
static bool value(reader *r, enum value type, kn_pair *ret) {
    const uint8_t *p = NULL;
    ret->value = r->text;
    if (type == STRING) {
        text t;
        if (!readable(r, "its value", &t))
            return false;
        keep(r, t.data, t.len);
    } else if (type == ARRAY) {
        enum value item;
        uint64_t count = 0;
        if (!array(r, 1, &p, &item, &count))
            return false;
        if (item == STRING)
            ret->texts = (kn_texts){ p, count };
        for (uint64_t i = 0; values[item].is_integer && count <= KN_FILE_MAX_RANK && i < count; i++) {
            number_text n = number(item, p + i * values[item].bytes);
            keep(r, ",", i > 0);
            keep(r, n.text, strlen(n.text));
        }
    } else {
        if (!bytes(r, values[type].bytes, "its value", &p) || (type == BOOL && !are_booleans(r, p, 1)))
            return false;
        number_text n = number(type, p);
        keep(r, n.text, strlen(n.text));
    }
    keep(r, "", 1);
    return true;
}

/* The keys that say how to read the file itself. at: the value's bytes. */
static bool understand(reader *r, text key, enum value type, const uint8_t *at) {
    if (is(key, "general.alignment")) {
        if (type != U32)
            return kn_fail(r->err, KN_E_FORMAT, "is stored as %s, u32 is needed", values[type].name);
        r->alignment = little_endian(at, 4);
        if (r->alignment < ALIGNMENT_MIN || (r->alignment & (r->alignment - 1)))
            return kn_fail(r->err, KN_E_RANGE, "%" PRIu64 " is no power of two of at least %d", r->alignment,
                           ALIGNMENT_MIN);
    } else if (is(key, "split.count") && values[type].is_integer) {
        uint64_t parts = little_endian(at, values[type].bytes);
        if (parts > 1)
            return kn_fail(r->err, KN_E_UNSUPPORTED,
                           "the file is one of %" PRIu64 " parts; join them first, for example with "
                           "'llama-gguf-split --merge'",
                           parts);
    }
    return true;
}

static bool pair(reader *r, kn_pair *ret) {
    text key;
    enum value type = U8;
    if (!readable(r, "a key", &key))
        return false;
    ret->key = kept(r, key.data, key.len);
    const uint8_t *at = NULL;
    if (value_type(r, &type)) {
        at = r->at;
        if (value(r, type, ret) && understand(r, key, type, at))
            return true;
    }
    return kn_fail_within(r->err, "key '%s'", kn_quote(key.data, key.len).text);
}

static bool tensor_type(reader *r, kn_dtype *ret) {
    uint64_t id = 0;
    if (!integer(r, 4, "its type", &id))
        return false;
    for (const struct type *t = types; t < types + KN_COUNT(types); t++) {
        if (t->id != id)
            continue;
        *ret = t->dtype;
        return !t->refused || kn_fail(r->err, KN_E_UNSUPPORTED,
                                      "is stored as %s, which is not supported; use a Q8_0, Q6_K, Q5_K or Q4_K version "
                                      "of the model",
                                      t->refused);
    }
    return kn_fail(r->err, KN_E_UNSUPPORTED, "has the unknown type %" PRIu64, id);
}

/* Dimensions stand fastest first in the file. */
static bool shape(reader *r, kn_entry *e) {
    uint64_t rank = 0;
    if (!integer(r, 4, "its shape", &rank))
        return false;
    if (rank > MAX_RANK)
        return kn_fail(r->err, KN_E_RANGE, "has %" PRIu64 " dimensions, at most %d are allowed", rank, MAX_RANK);
    e->rank = (int)rank;
    e->elements = 1;
    for (int i = e->rank - 1; i >= 0; i--) {
        if (!integer(r, 8, "its shape", &e->dim[i]))
            return false;
    }
    for (int i = 0; i < e->rank; i++) {
        if (KN_MUL_OVERFLOWS(e->elements, e->dim[i], &e->elements))
            return kn_fail(r->err, KN_E_RANGE, "the size of its shape [%s] overflows", kn_shape_of_entry(e).text);
    }
    return true;
}

static bool size(reader *r, kn_entry *e) {
    const kn_dtype_info *type = kn_dtype_of(e->dtype);
    if ((e->rank ? e->dim[e->rank - 1] : 1) % type->block)
        return kn_fail(r->err, KN_E_FORMAT, "its rows [%s] are no whole blocks of %s, which have %u elements",
                       kn_shape_of_entry(e).text, type->name, type->block);
    if (KN_MUL_OVERFLOWS(e->elements / type->block, (uint64_t)type->block_bytes, &e->bytes))
        return kn_fail(r->err, KN_E_RANGE, "the size of its shape [%s] overflows", kn_shape_of_entry(e).text);
    return true;
}

/* Once the place of the data is known (in the second walk), that of the tensor is checked, too. */
static bool place(reader *r, uint64_t offset, kn_entry *e) {
    uint64_t end = 0;
    if (offset % r->alignment)
        return kn_fail(r->err, KN_E_FORMAT, "its offset %" PRIu64 " is no multiple of %" PRIu64, offset, r->alignment);
    if (KN_ADD_OVERFLOWS(offset, e->bytes, &end) || KN_ADD_OVERFLOWS(end, r->data_start, &end) || end > INT64_MAX)
        return kn_fail(r->err, KN_E_RANGE, "its offset %" PRIu64 " is out of range", offset);
    r->needed_bytes = KN_MAX(r->needed_bytes, end);
    e->data = end <= (uint64_t)(r->end - r->start) ? r->start + r->data_start + offset : NULL;
    return true;
}

static bool tensor(reader *r, kn_entry *e) {
    text name;
    uint64_t offset = 0;
    if (!readable(r, "a tensor's name", &name))
        return false;
    e->name = kept(r, name.data, name.len);
    if (!shape(r, e) || !tensor_type(r, &e->dtype) || !size(r, e) || !integer(r, 8, "its offset", &offset) ||
        !place(r, offset, e))
        return kn_fail_within(r->err, "tensor '%s'", kn_quote_name(name.data, name.len).text);
    return true;
}

/* Everything between the counts and the data. */
static bool walk(reader *r) {
    kn_weights *w = r->w;
    r->alignment = ALIGNMENT;
    for (uint64_t i = 0; i < r->pair_count; i++) {
        kn_pair p = { 0 };
        if (!pair(r, &p))
            return false;
        if (r->keeping)
            w->metadata[w->metadata_count++] = p;
    }
    for (uint64_t i = 0; i < r->tensor_count; i++) {
        kn_entry e = { 0 };
        if (!tensor(r, &e))
            return false;
        if (r->keeping)
            w->entry[w->count++] = e;
    }
    return true;
}

static bool header(reader *r) {
    static const uint32_t oldest = 2, newest = 3;
    uint64_t version = 0;
    const uint8_t *magic = NULL;
    if (!bytes(r, 4, "its magic", &magic) || !integer(r, 4, "its version", &version))
        return false;
    if (version > newest && (version & 0xFFFFFF) == 0)
        return kn_fail(r->err, KN_E_UNSUPPORTED, "is a big-endian GGUF file; only little-endian ones are supported");
    if (version < oldest || version > newest)
        return kn_fail(r->err, KN_E_UNSUPPORTED, "is GGUF version %" PRIu64 "; versions 2 and 3 are supported",
                       version);
    return integer(r, 8, "its number of tensors", &r->tensor_count) &&
           integer(r, 8, "its number of keys", &r->pair_count) && fits(r, r->pair_count, PAIR_MIN, "keys") &&
           fits(r, r->tensor_count, TENSOR_MIN, "tensors");
}

/* Room for all that the second walk keeps, none of it larger than a small multiple of what stands in the file. */
static bool make_room(reader *r) {
    kn_weights *w = r->w;
    size_t entries = (size_t)r->tensor_count + 1, pairs = (size_t)r->pair_count + 1;
    w->text = r->text = malloc(r->text_bytes + 1);
    w->entry = malloc(entries * sizeof *w->entry);
    w->metadata = malloc(pairs * sizeof *w->metadata);
    return (w->text && w->entry && w->metadata) ||
           kn_fail_nomem(r->err, r->text_bytes + entries * sizeof *w->entry + pairs * sizeof *w->metadata);
}

static bool are_apart(const kn_weights *w, kn_error *err) {
    const kn_entry **order = NULL;
    if (!kn_weights_by_place(w, &order, err))
        return false;
    bool ok = true;
    for (size_t i = 1; ok && i < w->count; i++)
        ok = order[i - 1]->data + order[i - 1]->bytes <= order[i]->data ||
             kn_fail(err, KN_E_FORMAT, "tensors '%s' and '%s' overlap",
                     kn_quote_name(order[i - 1]->name, strlen(order[i - 1]->name)).text,
                     kn_quote_name(order[i]->name, strlen(order[i]->name)).text);
    free(order);
    return ok;
}

/* The dimensions of "64,3,3"; false if they are no shape of so many elements. */
static bool read_shape(const char *list, uint64_t elements, kn_entry *e) {
    uint64_t product = 1;
    e->rank = 0;
    for (const char *at = list; *at; e->rank++) {
        char one[24];
        size_t len = strcspn(at, ",");
        if (e->rank == KN_FILE_MAX_RANK || len >= sizeof one)
            return false;
        memcpy(one, at, len);
        one[len] = 0;
        if (!kn_parse_u64(one, &e->dim[e->rank]) || KN_MUL_OVERFLOWS(product, e->dim[e->rank], &product))
            return false;
        at += len + (at[len] == ',');
    }
    return e->rank > 0 && product == elements;
}

/* A tensor whose rows are no whole blocks is stored as rows that are, with its shape beside it. */
static bool restore_shapes(kn_weights *w, kn_error *err) {
    static const char key[] = "comfy.gguf.orig_shape.";
    for (size_t i = 0; i < w->metadata_count; i++) {
        const kn_pair *p = &w->metadata[i];
        const char *name = p->key + sizeof key - 1;
        if (!kn_starts_with(p->key, key))
            continue;
        const kn_entry *found = kn_weights_find(w, name);
        if (!found)
            return kn_fail(err, KN_E_FORMAT, "key '%s' belongs to no tensor",
                           kn_quote_name(p->key, strlen(p->key)).text);
        if (!read_shape(p->value, found->elements, &w->entry[found - w->entry]))
            return kn_fail(err, KN_E_FORMAT, "tensor '%s' has %" PRIu64 " elements, which are no [%s]",
                           kn_quote_name(name, strlen(name)).text, found->elements, kn_quote_z(p->value).text);
    }
    return true;
}

/* GGUF has four dimensions at most. stable-diffusion.cpp stores the five of a convolution over time, [out, in, time, h,
 * w], as [out * in, time, h, w], and only its bias tells how many are out. No other kernel has more rows than biases
 * and so small a second dimension. */
static void unfold_convolutions(kn_weights *w) {
    static const char weight[] = ".weight";
    enum { TIME_MAX = 3 };
    for (size_t i = 0; i < w->count; i++) {
        kn_entry *e = &w->entry[i];
        size_t len = strlen(e->name);
        if (e->rank != 4 || e->dim[1] > TIME_MAX || !kn_ends_with(e->name, len, weight))
            continue;
        const kn_entry *bias = kn_weights_find_joined(w, e->name, len - (sizeof weight - 1), ".bias");
        uint64_t out = bias && bias->rank == 1 ? bias->elements : 0;
        if (out == 0 || out == e->dim[0] || e->dim[0] % out)
            continue;
        const kn_entry folded = *e;
        e->rank = 5;
        e->dim[0] = out;
        e->dim[1] = folded.dim[0] / out;
        for (int k = 1; k < folded.rank; k++)
            e->dim[k + 1] = folded.dim[k];
    }
}

bool kn_gguf_read(const uint8_t *data, size_t len, kn_weights *w, kn_error *err) {
    reader r = { .start = data, .at = data, .end = data + len, .w = w, .err = err };
    if (!header(&r))
        return false;
    const uint8_t *first = r.at;
    if (!walk(&r) || !make_room(&r))
        return false;
    uint64_t described = (uint64_t)(r.at - data);
    r.data_start = (described + r.alignment - 1) / r.alignment * r.alignment;
    r.at = first;
    r.keeping = true;
    if (!walk(&r))
        return false;
    if (r.needed_bytes > len)
        return kn_fail_truncated(len, r.needed_bytes, err);
    if (!kn_weights_sort(w, err) || !are_apart(w, err) || !restore_shapes(w, err))
        return false;
    unfold_convolutions(w);
    return true;
}
