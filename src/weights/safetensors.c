/* The safetensors reader: eight bytes of header length, a JSON header, the data.
 *
 * The header has one fixed shape of three levels (names, fields, numbers) and is read as that and nothing else. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "weights/container.h"
#include "weights/quantization.h"

enum {
    LENGTH_BYTES = 8,
    HEADER_MAX = 100 * 1000 * 1000, /* the format's own limit */
    METADATA_MAX = 4096,
    /* No entry can be written shorter, so no more of them than header bytes / this can be there. */
    ENTRY_MIN = sizeof "\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,0]}" - 1,
};

typedef struct reader {
    kn_json_reader json;
    kn_weights *w;
    char *text; /* where the next name, key or value goes */
    size_t entry_room;
    const uint8_t *data;
    uint64_t data_bytes, needed_bytes; /* there are, the entries ask for */
} reader;

/* Shape, storage type and place must say the same. */
static bool place(reader *r, const uint64_t offset[2], kn_entry *e) {
    kn_error *err = r->json.err;
    const kn_dtype_info *type = kn_dtype_of(e->dtype);
    uint64_t elements = 1, bytes = 0;
    bool overflow = false;
    for (int i = 0; i < e->rank; i++)
        overflow |= KN_MUL_OVERFLOWS(elements, e->dim[i], &elements);
    if (overflow || KN_MUL_OVERFLOWS(elements, (uint64_t)type->block_bytes, &bytes))
        return kn_fail(err, KN_E_RANGE, "the size of its shape [%s] overflows", kn_shape_of_entry(e).text);
    if (offset[0] > offset[1] || offset[1] > INT64_MAX)
        return kn_fail(err, KN_E_RANGE, "its data_offsets [%llu, %llu] are not a range", (unsigned long long)offset[0],
                       (unsigned long long)offset[1]);
    if (bytes != offset[1] - offset[0])
        return kn_fail(err, KN_E_FORMAT, "its shape [%s] of %s needs %llu bytes, its data_offsets hold %llu",
                       kn_shape_of_entry(e).text, type->name, (unsigned long long)bytes,
                       (unsigned long long)(offset[1] - offset[0]));
    e->elements = elements;
    e->bytes = bytes;
    e->data = offset[1] <= r->data_bytes ? r->data + offset[0] : NULL; /* NULL: refused once all were seen */
    r->needed_bytes = KN_MAX(r->needed_bytes, offset[1]);
    return true;
}

/* A list of exact numbers; `name` is what there are too many of if there are more than max. */
static bool numbers(kn_json_reader *j, uint64_t *ret, size_t max, const char *name, size_t *ret_count) {
    size_t n = 0;
    for (kn_json_array(j); kn_json_item(j); n++) {
        if (n == max)
            return kn_fail(j->err, KN_E_RANGE, "has more than %zu %s", max, name);
        kn_json_u64(j, &ret[n]);
    }
    *ret_count = n;
    return !j->failed;
}

static bool storage_type(kn_json_reader *j, kn_dtype *ret) {
    static const char *const block_scaled[] = { "F8_E8M0", "F4", "F6_E2M3", "F6_E3M2" }; /* MXFP8, MXFP4, NVFP4, … */
    kn_json_text name;
    if (!kn_json_string(j, &name))
        return false;
    for (size_t i = 0; i < KN_COUNT(block_scaled); i++) {
        if (kn_json_is(name, block_scaled[i]))
            return kn_fail(j->err, KN_E_UNSUPPORTED,
                           "has the storage type %s of block-scaled formats such as MXFP8, which are not supported; %s",
                           block_scaled[i], kn_quant_instead);
    }
    return kn_dtype_by_name(name.data, name.len, ret) ||
           kn_fail(j->err, KN_E_UNSUPPORTED, "has the unknown storage type '%s'", kn_quote(name.data, name.len).text);
}

static bool entry_field(kn_json_reader *j, size_t field, kn_entry *e, uint64_t offset[2]) {
    size_t n = 0;
    switch (field) {
    case 0: return storage_type(j, &e->dtype);
    case 1:
        if (!numbers(j, e->dim, KN_FILE_MAX_RANK, "dimensions", &n))
            return false;
        e->rank = (int)n;
        return true;
    default:
        return numbers(j, offset, 2, "data_offsets", &n) &&
               (n == 2 || kn_fail(j->err, KN_E_FORMAT, "has %zu data_offsets, 2 are needed", n));
    }
}

static bool entry(reader *r, kn_entry *e) {
    static const char *const fields[] = { "dtype", "shape", "data_offsets" };
    kn_json_reader *j = &r->json;
    kn_json_text name;
    uint64_t offset[2] = { 0 };
    unsigned seen = 0;
    kn_json_object(j);
    while (kn_json_key(j, &name)) {
        size_t field = 0;
        while (field < KN_COUNT(fields) && !kn_json_is(name, fields[field]))
            field++;
        if (field == KN_COUNT(fields))
            return kn_fail(j->err, KN_E_FORMAT, "has the unknown field '%s'", kn_quote(name.data, name.len).text);
        if (seen & 1u << field)
            return kn_fail(j->err, KN_E_FORMAT, "has '%s' twice", fields[field]);
        seen |= 1u << field;
        if (!entry_field(j, field, e, offset))
            return false;
    }
    if (j->failed)
        return false;
    for (size_t field = 0; field < KN_COUNT(fields); field++) {
        if (!(seen & 1u << field))
            return kn_fail(j->err, KN_E_FORMAT, "has no '%s'", fields[field]);
    }
    return place(r, offset, e);
}

/* A copy that stays, ended with NUL. No string is longer decoded than written, and its NUL takes the place of a quote,
 * so that all of them fit in as many bytes as the header has. */
static const char *keep(reader *r, kn_json_text text) {
    char *copy = r->text;
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    r->text += text.len + 1;
    return copy;
}

static bool metadata(reader *r) {
    kn_json_reader *j = &r->json;
    kn_weights *w = r->w;
    kn_json_text key, value;
    if (!kn_json_object(j))
        return false;
    w->metadata = malloc(METADATA_MAX * sizeof *w->metadata);
    if (!w->metadata)
        return kn_fail_nomem(j->err, METADATA_MAX * sizeof *w->metadata);
    for (; kn_json_key(j, &key); w->metadata_count++) {
        if (w->metadata_count == METADATA_MAX)
            return kn_fail(j->err, KN_E_RANGE, "has more than %d keys", METADATA_MAX);
        kn_pair *pair = &w->metadata[w->metadata_count];
        *pair = (kn_pair){ .key = keep(r, key) };
        if (!kn_json_string(j, &value))
            return false;
        pair->value = keep(r, value);
    }
    return !j->failed;
}

static bool header(reader *r) {
    kn_json_reader *j = &r->json;
    kn_weights *w = r->w;
    kn_json_text name;
    kn_json_object(j);
    while (kn_json_key(j, &name)) {
        if (kn_json_is(name, "__metadata__")) {
            if (w->metadata)
                return kn_fail(j->err, KN_E_FORMAT, "'__metadata__' is there twice");
            if (!metadata(r))
                return kn_fail_within(j->err, "__metadata__");
            continue;
        }
        kn_entry e = { .name = keep(r, name) };
        assert(w->count < r->entry_room);
        if (!entry(r, &e))
            return kn_fail_within(j->err, "tensor '%s'", kn_quote_name(e.name, strlen(e.name)).text);
        w->entry[w->count++] = e;
    }
    return kn_json_finish(j);
}

/* Every byte of the data belongs to exactly one tensor. */
static bool covered(const reader *r, const kn_entry **order, kn_error *err) {
    const kn_weights *w = r->w;
    uint64_t end = 0;
    for (size_t i = 0; i < w->count; i++) {
        uint64_t begin = (uint64_t)(order[i]->data - r->data);
        const char *name = order[i]->name;
        if (begin < end)
            return kn_fail(err, KN_E_FORMAT, "tensors '%s' and '%s' overlap: one ends at byte %llu, one begins at %llu",
                           kn_quote_name(order[i - 1]->name, strlen(order[i - 1]->name)).text,
                           kn_quote_name(name, strlen(name)).text, (unsigned long long)end, (unsigned long long)begin);
        if (begin > end)
            return kn_fail(err, KN_E_FORMAT, "bytes %llu to %llu of its data belong to no tensor",
                           (unsigned long long)end, (unsigned long long)begin);
        end += order[i]->bytes;
    }
    if (end < r->data_bytes)
        return kn_fail(err, KN_E_FORMAT, "%s after its last tensor, where nothing may be",
                       kn_counted(r->data_bytes - end, "byte").text);
    return true;
}

/* The length of the header, if these bytes can be a safetensors file at all. */
static bool header_length(const uint8_t *data, size_t len, size_t *ret, kn_error *err) {
    uint64_t n = 0;
    for (size_t i = KN_MIN(len, LENGTH_BYTES); i > 0; i--)
        n = n << 8 | data[i - 1];
    bool begins = len == LENGTH_BYTES || (len > LENGTH_BYTES && data[LENGTH_BYTES] == '{');
    if (len < LENGTH_BYTES || !begins || n < 2 || n > HEADER_MAX)
        kn_refuse_known_file(data, len, err);
    if (len < LENGTH_BYTES)
        return kn_fail(err, KN_E_TRUNCATED, "is truncated: %s %s no safetensors or GGUF file",
                       kn_counted(len, "byte").text, len == 1 ? "is" : "are");
    if (n < 2 || n > HEADER_MAX)
        return kn_fail(err, KN_E_RANGE, "is no safetensors or GGUF file: a header of %llu bytes, 2 to %d are allowed",
                       (unsigned long long)n, HEADER_MAX);
    if (!begins)
        return kn_fail(err, KN_E_FORMAT, "is no safetensors or GGUF file: its header does not begin with '{'");
    if (n > len - LENGTH_BYTES)
        return kn_fail(err, KN_E_TRUNCATED, "is truncated: its header has %llu bytes, %zu are there",
                       (unsigned long long)n, len - LENGTH_BYTES);
    *ret = (size_t)n;
    return true;
}

bool kn_safetensors_read(const uint8_t *data, size_t len, kn_weights *w, kn_error *err) {
    size_t header_bytes = 0;
    if (!header_length(data, len, &header_bytes, err))
        return false;
    reader r = {
        .w = w,
        .entry_room = header_bytes / ENTRY_MIN + 1,
        .data = data + LENGTH_BYTES + header_bytes,
        .data_bytes = len - LENGTH_BYTES - header_bytes,
    };
    w->text = r.text = malloc(header_bytes);
    if (!w->text)
        return kn_fail_nomem(err, header_bytes);
    w->entry = malloc(r.entry_room * sizeof *w->entry);
    if (!w->entry)
        return kn_fail_nomem(err, r.entry_room * sizeof *w->entry);
    kn_json_text text = { (const char *)data + LENGTH_BYTES, header_bytes };
    kn_json_begin_inside(&r.json, text, "its header", err);
    bool ok = header(&r);
    kn_json_close(&r.json);
    if (!ok)
        return false;
    if (r.needed_bytes > r.data_bytes)
        return kn_fail_truncated(len, LENGTH_BYTES + header_bytes + r.needed_bytes, err);
    if (!kn_weights_sort(w, err))
        return false;
    const kn_entry **order = NULL;
    if (!kn_weights_by_place(w, &order, err))
        return false;
    ok = covered(&r, order, err);
    free(order);
    return ok;
}
