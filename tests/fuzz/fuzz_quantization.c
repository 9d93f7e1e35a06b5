/* What a file says about its quantised layers, put straight into a component that is sound in all else. The input is
 * cut at bytes 0xFF, which occur in no UTF-8: the metadata's list of layers, the records of two FP8 and two INT8
 * layers, the scale of the first FP8 layer, and what the marker holds; what is empty or not there leaves its key out.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/quantization.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIST, RECORDS, SCALE = RECORDS + 4, MARKER, PIECES, WIDTH = 64 };

typedef struct piece {
    const uint8_t *data;
    size_t size;
} piece;

static void must(bool holds) {
    if (!holds)
        abort();
}

static void cut(const uint8_t *at, const uint8_t *end, piece into[PIECES]) {
    for (size_t i = 0; i < PIECES && at < end; i++) {
        const uint8_t *border = i + 1 < PIECES ? memchr(at, 0xFF, (size_t)(end - at)) : NULL;
        into[i] = (piece){ at, (size_t)((border ? border : end) - at) };
        at = border ? border + 1 : end;
    }
}

static void add(kn_weights *w, const char *name, kn_dtype dtype, int rank, uint64_t rows, uint64_t width,
                const void *data) {
    kn_entry e = { .name = name, .dtype = dtype, .rank = rank, .dim = { rows, width }, .data = data };
    e.elements = (rank > 0 ? rows : 1) * (rank > 1 ? width : 1);
    e.bytes = kn_dtype_bytes(dtype, (size_t)e.elements);
    w->entry[w->count++] = e;
}

/* Layers of both kinds, under prefixes of their own: in one component they are refused together. */
static void make(kn_weights *w, const piece p[PIECES], const char *list) {
    static const struct {
        const char *weight, *record, *scale;
    } names[] = {
        { "fp8.a.weight", "fp8.a.comfy_quant", "fp8.a.weight_scale" },
        { "fp8.b.weight", "fp8.b.comfy_quant", "fp8.b.scale_weight" },
        { "int8.a.weight", "int8.a.comfy_quant", "int8.a.weight_scale" },
        { "int8.b.weight", "int8.b.comfy_quant", "int8.b.weight_scale" },
    };
    static const uint8_t codes[2 * WIDTH];
    static const float scales[] = { 0.5f, 0.25f };
    static float given;
    given = 0;
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        bool fp8 = i < 2;
        add(w, names[i].weight, fp8 ? KN_F8_E4M3 : KN_I8, 2, 2, WIDTH, codes);
        if (p[RECORDS + i].size)
            add(w, names[i].record, KN_U8, 1, p[RECORDS + i].size, 0, p[RECORDS + i].data);
        if (i == 0 && p[SCALE].size >= sizeof given)
            memcpy(&given, p[SCALE].data, sizeof given);
        if (i > 0 || p[SCALE].size)
            add(w, names[i].scale, KN_F32, i == 3, 2, 0, i ? scales : &given);
    }
    if (p[MARKER].size)
        add(w, "fp8.scaled_fp8", *p[MARKER].data == '5' ? KN_F8_E5M2 : KN_F8_E4M3, 1, p[MARKER].size, 0,
            p[MARKER].data);
    if (list) {
        w->metadata[0] = (kn_pair){ .key = kn_quant_list_key, .value = list };
        w->metadata_count = 1;
    }
    must(kn_weights_sort(w, NULL));
}

static void check(const kn_weights *w, const char *prefix) {
    kn_quantization q = { 0 };
    kn_error err = { 0 };
    bool ok = kn_quantization_read(w, prefix, &q, &err);
    must(ok == (err.code == KN_OK) && ok == !err.text[0]);
    for (size_t i = 0; i < q.count; i++) {
        const kn_quant_layer *l = &q.layer[i];
        must(kn_quantization_find(&q, l->weight) == l && l->scale > 0 && !isinf(l->scale) && l->input_scale > 0);
        must(l->turned_group == 0 || (l->turned_group >= 4 && WIDTH % l->turned_group == 0));
        must(!l->row_scales || l->row_scales->elements == l->weight->dim[0]);
    }
    kn_quantization_free(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    piece p[PIECES] = { 0 };
    if (size)
        cut(data, data + size, p);
    kn_entry entries[4 * 3 + 1];
    kn_pair metadata[1];
    kn_weights w = { .entry = entries, .metadata = metadata };
    char *list = p[LIST].size ? strndup((const char *)p[LIST].data, p[LIST].size) : NULL;
    make(&w, p, list);
    check(&w, "fp8.");
    check(&w, "int8.");
    check(&w, "");
    free(list);
    return 0;
}
