#include "weights/quantization.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"

enum {
    LIST_MAX = 1024 * 1024, /* bytes of (a); 60 layers with all their matrices take about 100 kB */
    RECORD_MAX = 64 * 1024, /* bytes of one (b) */
};

static const char weight_suffix[] = ".weight", record_suffix[] = ".comfy_quant", marker_name[] = "scaled_fp8";

const char *const kn_quant_companions[KN_QUANT_COMPANIONS] = {
    ".weight_scale", ".scale_weight", ".input_scale", ".scale_input", record_suffix,
};

/* The formats that are read. Others are refused by the name that the file gives them. */
static const struct format {
    const char *name;
    kn_dtype dtype;
} formats[] = { { "float8_e4m3fn", KN_F8_E4M3 }, { "float8_e5m2", KN_F8_E5M2 }, { "int8_tensorwise", KN_I8 } };

const char kn_quant_list_key[] = "_quantization_metadata";

const char kn_quant_instead[] = "use an FP8, INT8 or GGUF version of the model";

/* How names end that only other formats have. */
static const struct {
    const char *suffix, *format;
} foreign[] = {
    { ".weight_scale_2", "NVFP4" },
    { ".wscales", "Nunchaku (SVDQuant)" },
    { ".smooth_factor", "Nunchaku (SVDQuant)" },
    { ".qzeros", "AWQ or GPTQ" },
    { ".qweight", "AWQ, GPTQ or Nunchaku" },
    { ".absmax", "bitsandbytes" },
    { ".quant_map", "bitsandbytes" },
    { ".quant_state.bitsandbytes__nf4", "bitsandbytes NF4" },
    { ".quant_state.bitsandbytes__fp4", "bitsandbytes FP4" },
};

/* A reading in progress. In it a scale of 0 means that none was seen yet. */
typedef struct survey {
    const kn_weights *w;
    const char *prefix;
    size_t first, end; /* the entries under the prefix */
    kn_quantization *q;
    bool any_record, any_scale;
    kn_buf listed, name; /* scratch: how (a) calls a layer; a name put together */
    kn_error *err;
} survey;

static bool is_fp8(kn_dtype t) {
    return t == KN_F8_E4M3 || t == KN_F8_E5M2;
}

static bool is_marker(const char *name) {
    size_t len = strlen(name), own = sizeof marker_name - 1;
    return kn_ends_with(name, len, marker_name) && (len == own || name[len - own - 1] == '.');
}

static int by_weight(const void *a, const void *b) {
    const kn_entry *x = ((const kn_quant_layer *)a)->weight, *y = ((const kn_quant_layer *)b)->weight;
    return (x > y) - (x < y);
}

/* Entries are sorted by name, and so are their addresses. */
static kn_quant_layer *layer_of(const kn_quantization *q, const kn_entry *weight) {
    kn_quant_layer wanted = { .weight = weight };
    return q->count ? bsearch(&wanted, q->layer, q->count, sizeof wanted, by_weight) : NULL;
}

static bool is_layer(const kn_entry *e) {
    return (is_fp8(e->dtype) || e->dtype == KN_I8) && e->rank == 2 &&
           kn_ends_with(e->name, strlen(e->name), weight_suffix);
}

static bool collect_layers(survey *s) {
    kn_quantization *q = s->q;
    size_t room = 0;
    for (size_t i = s->first; i < s->end; i++)
        room += is_layer(&s->w->entry[i]);
    if (room == 0)
        return true;
    q->layer = calloc(room, sizeof *q->layer);
    if (!q->layer)
        return kn_fail_nomem(s->err, room * sizeof *q->layer);
    for (size_t i = s->first; i < s->end; i++) {
        if (is_layer(&s->w->entry[i]))
            q->layer[q->count++].weight = &s->w->entry[i];
    }
    return true;
}

static bool add_marker(survey *s, const kn_entry *marker) {
    kn_quantization *q = s->q;
    kn_quoted name = kn_quote_name(marker->name, strlen(marker->name));
    if (q->marker_count == KN_QUANT_MARKERS_MAX)
        return kn_fail(s->err, KN_E_RANGE, "more than %d scaled_fp8 markers", KN_QUANT_MARKERS_MAX);
    if (marker->dtype != KN_F32 && !is_fp8(marker->dtype))
        return kn_fail(s->err, KN_E_UNSUPPORTED, "marker '%s' has the type %s, which names no FP8 format", name.text,
                       kn_dtype_of(marker->dtype)->name);
    kn_dtype format = marker->dtype == KN_F32 ? KN_F8_E4M3 : marker->dtype;
    size_t scope = strlen(marker->name) - (sizeof marker_name - 1);
    for (size_t i = 0; i < q->count; i++) {
        kn_quant_layer *l = &q->layer[i];
        assert(l->weight);
        if (!is_fp8(l->weight->dtype) || strncmp(l->weight->name, marker->name, scope) != 0)
            continue;
        if (l->weight->dtype != format)
            return kn_fail(s->err, KN_E_FORMAT, "tensor '%s' is stored as %s, but marker '%s' says %s",
                           kn_quote_name(l->weight->name, strlen(l->weight->name)).text,
                           kn_dtype_of(l->weight->dtype)->name, name.text, kn_dtype_of(format)->name);
        l->marked = true;
        l->full_precision = marker->elements == 2;
    }
    q->marker[q->marker_count++] = marker;
    return true;
}

/* (c): markers above the prefix reach under it, those below reach a part. */
static bool read_markers(survey *s) {
    for (size_t len = 0; s->prefix[len]; len++) {
        if (len > 0 && s->prefix[len - 1] != '.')
            continue;
        const kn_entry *above = kn_weights_find_joined(s->w, s->prefix, len, marker_name);
        if (above && !add_marker(s, above))
            return false;
    }
    for (size_t i = s->first; i < s->end; i++) {
        if (is_marker(s->w->entry[i].name) && !add_marker(s, &s->w->entry[i]))
            return false;
    }
    return true;
}

/* What the file says of one layer. */
typedef struct record {
    const struct format *format;
    bool full_precision, turned;
    uint64_t group;
} record;

static const struct format *format_called(kn_json_text name) {
    for (const struct format *f = formats; f < formats + KN_COUNT(formats); f++) {
        if (kn_json_is(name, f->name))
            return f;
    }
    return NULL;
}

static bool read_format(kn_json_reader *j, const struct format **ret) {
    kn_json_text name;
    if (!kn_json_string(j, &name))
        return false;
    *ret = format_called(name);
    return *ret || kn_fail(j->err, KN_E_UNSUPPORTED, "unsupported quantization format '%s'; %s",
                           kn_quote(name.data, name.len).text, kn_quant_instead);
}

/* The fields of a record in the order of their names here; INT8 layers have all of them, FP8 layers the first two. */
static const char *const fields[] = { "format", "full_precision_matrix_mult", "convrot", "convrot_groupsize" };
enum { FP8_FIELDS = 2 };

static bool record_field(kn_json_reader *j, size_t field, record *r) {
    switch (field) {
    case 0: return read_format(j, &r->format);
    case 1: return kn_json_bool(j, &r->full_precision);
    case 2: return kn_json_bool(j, &r->turned);
    default: return kn_json_u64(j, &r->group);
    }
}

static bool parse_record(kn_json_reader *j, record *ret) {
    bool has_unknown = false;
    unsigned seen = 0;
    kn_quoted unknown;
    kn_json_text name;
    record r = { .group = 256 };
    kn_json_object(j);
    while (kn_json_key(j, &name)) {
        size_t field = 0;
        while (field < KN_COUNT(fields) && !kn_json_is(name, fields[field]))
            field++;
        if (field == KN_COUNT(fields)) { /* read on: what the format is called says more */
            has_unknown = true;
            unknown = kn_quote(name.data, name.len);
            kn_json_skip(j, NULL);
            continue;
        }
        if (seen & 1u << field)
            return kn_fail(j->err, KN_E_FORMAT, "has '%s' twice in its quantization record", fields[field]);
        seen |= 1u << field;
        if (!record_field(j, field, &r))
            return false;
    }
    if (j->failed)
        return false;
    if (!r.format)
        return kn_fail(j->err, KN_E_FORMAT, "has a quantization record without format");
    for (size_t field = FP8_FIELDS; r.format->dtype != KN_I8 && !has_unknown && field < KN_COUNT(fields); field++) {
        has_unknown = seen & 1u << field;
        unknown = kn_quote_z(fields[field]);
    }
    if (has_unknown) /* it may change what the numbers mean */
        return kn_fail(j->err, KN_E_UNSUPPORTED, "unsupported field '%s' in its quantization record", unknown.text);
    *ret = r;
    return true;
}

/* Groups of 4, 16, 64, … that make up a row. */
static bool is_group(uint64_t group, uint64_t row) {
    return group >= 4 && (group & (group - 1)) == 0 && __builtin_ctzll(group) % 2 == 0 && row % group == 0;
}

/* Writes what a record says into its layer. weight is NULL if the file has none for it. */
static bool apply_record(survey *s, const kn_entry *weight, const record *r, bool from_list) {
    const struct format *f = r->format;
    if (!weight)
        return kn_fail(s->err, KN_E_FORMAT, "is marked as %s but has no weight", f->name);
    if (weight->dtype != f->dtype)
        return kn_fail(s->err, KN_E_FORMAT, "is marked as %s but its weight is stored as %s", f->name,
                       kn_dtype_of(weight->dtype)->name);
    kn_quant_layer *l = layer_of(s->q, weight);
    if (!l)
        return true;
    if (r->turned && !is_group(r->group, weight->dim[1]))
        return kn_fail(s->err, KN_E_RANGE, "has a convrot_groupsize of %llu, a power of 4 that divides %llu is needed",
                       (unsigned long long)r->group, (unsigned long long)weight->dim[1]);
    if (from_list && l->listed)
        return kn_fail(s->err, KN_E_FORMAT, "is listed twice");
    bool stands = from_list && l->recorded && f->dtype == KN_I8;
    *(from_list ? &l->listed : &l->recorded) = s->any_record = true;
    if (!stands) {
        l->full_precision = r->full_precision;
        l->turned_group = r->turned ? r->group : 0;
    }
    return true;
}

/* (b) */
static bool read_record(survey *s, const kn_entry *e, const kn_entry *weight) {
    if (e->dtype != KN_U8 || e->rank != 1)
        return kn_fail(s->err, KN_E_FORMAT, "comfy_quant is no list of bytes");
    if (e->bytes > RECORD_MAX)
        return kn_fail(s->err, KN_E_RANGE, "comfy_quant has %llu bytes, at most %d are allowed",
                       (unsigned long long)e->bytes, RECORD_MAX);
    kn_json_reader j;
    kn_json_text text = { (const char *)e->data, (size_t)e->bytes };
    kn_json_begin_inside(&j, text, record_suffix + 1, s->err);
    record r;
    bool ok = parse_record(&j, &r) && kn_json_finish(&j) && apply_record(s, weight, &r, false);
    kn_json_close(&j);
    return ok;
}

static bool read_records(survey *s) {
    for (size_t i = s->first; i < s->end; i++) {
        const kn_entry *e = &s->w->entry[i];
        size_t len = strlen(e->name);
        if (!kn_ends_with(e->name, len, record_suffix))
            continue;
        size_t stem = len - (sizeof record_suffix - 1);
        if (!read_record(s, e, kn_weights_find_joined(s->w, e->name, stem, weight_suffix)))
            return kn_fail_within(s->err, "layer %s", kn_quote_name(e->name, stem).text);
    }
    return true;
}

/* Length of the prefix that files put in front of a whole component's names. */
static size_t component_prefix(const char *name) {
    static const char *const known[] = { "model.diffusion_model.", "diffusion_model." };
    static const char encoders[] = "text_encoders.", transformer[] = "transformer.";
    for (size_t i = 0; i < KN_COUNT(known); i++) {
        if (kn_starts_with(name, known[i]))
            return strlen(known[i]);
    }
    const char *dot = kn_starts_with(name, encoders) ? strchr(name + sizeof encoders - 1, '.') : NULL;
    return dot && kn_starts_with(dot + 1, transformer) ? (size_t)(dot + sizeof transformer - name) : 0;
}

/* The weight that (a) means by a layer's name: with or without the prefix that the file's own keys have. */
static bool find_listed(survey *s, const char *layer, const kn_entry **ret) {
    const size_t front[] = { 0, component_prefix(s->prefix), strlen(s->prefix) };
    *ret = NULL;
    for (int stripped = 0; stripped < 2 && !*ret; stripped++) {
        const char *name = layer + (stripped ? component_prefix(layer) : 0);
        for (size_t i = 0; i < KN_COUNT(front) && !*ret; i++) {
            kn_buf_clear(&s->name);
            if (!kn_buf_add(&s->name, s->prefix, front[i]) || !kn_buf_add_text(&s->name, name))
                return kn_fail_nomem(s->err, strlen(layer) + front[i]);
            *ret = kn_weights_find_joined(s->w, s->name.data, s->name.len, weight_suffix);
        }
    }
    return true;
}

/* What (a) says of one layer. Layers of other components are none of ours, whatever their formats. */
static bool read_listed_layer(survey *s, kn_json_reader *j) {
    const kn_entry *weight = NULL;
    record r;
    if (!find_listed(s, s->listed.data, &weight))
        return false;
    if (weight && !kn_starts_with(weight->name, s->prefix))
        return kn_json_skip(j, NULL);
    return parse_record(j, &r) && apply_record(s, weight, &r, true);
}

static bool read_listed_layers(survey *s, kn_json_reader *j) {
    kn_json_text name;
    kn_json_object(j);
    while (kn_json_key(j, &name)) {
        kn_buf_clear(&s->listed);
        if (!kn_buf_add(&s->listed, name.data, name.len))
            return kn_fail_nomem(s->err, name.len);
        if (!read_listed_layer(s, j))
            return kn_fail_within(s->err, "layer %s", kn_quote_name(s->listed.data, s->listed.len).text);
    }
    return !j->failed;
}

static bool read_version(kn_json_reader *j) {
    kn_json_text version;
    if (!kn_json_string(j, &version))
        return false;
    return kn_json_starts(version, "1.") ||
           kn_fail(j->err, KN_E_UNSUPPORTED, "%s has the format_version '%s', 1.0 is supported", j->what,
                   kn_quote(version.data, version.len).text);
}

static bool parse_list(survey *s, kn_json_reader *j) {
    bool has_layers = false;
    kn_json_text name;
    kn_json_object(j);
    while (kn_json_key(j, &name)) {
        if (kn_json_is(name, "layers")) {
            if (has_layers)
                return kn_fail(s->err, KN_E_FORMAT, "%s has 'layers' twice", j->what);
            if (!read_listed_layers(s, j))
                return false;
            has_layers = true;
        } else if (kn_json_is(name, "format_version")) {
            if (!read_version(j))
                return false;
        } else {
            return kn_fail(s->err, KN_E_UNSUPPORTED, "unsupported field '%s' in %s", kn_quote(name.data, name.len).text,
                           j->what);
        }
    }
    return kn_json_finish(j) && (has_layers || kn_fail(s->err, KN_E_FORMAT, "%s has no layers", j->what));
}

/* (a) */
static bool read_list(survey *s) {
    const char *text = kn_weights_metadata(s->w, kn_quant_list_key);
    if (!text)
        return true;
    size_t len = strlen(text);
    if (len > LIST_MAX)
        return kn_fail(s->err, KN_E_RANGE, "%s has %zu bytes, at most %d are allowed", kn_quant_list_key, len,
                       LIST_MAX);
    kn_json_reader j;
    kn_json_begin_inside(&j, (kn_json_text){ text, len }, kn_quant_list_key, s->err);
    bool ok = parse_list(s, &j);
    kn_json_close(&j);
    return ok;
}

/* One scale of a layer: a single positive number. */
static bool read_scale(const kn_entry *e, const char *what, float *scale, kn_error *err) {
    if (*scale != 0)
        return kn_fail(err, KN_E_FORMAT, "has two %s scales", what);
    float v = 0;
    kn_decode(e->dtype, e->data, 1, &v);
    if (!(v > 0) || isinf(v))
        return kn_fail(err, KN_E_RANGE, "invalid %s scale %g", what, (double)v);
    *scale = v;
    return true;
}

static bool read_fp8_scale(const kn_entry *e, const char *what, float *scale, kn_error *err) {
    if (e->elements != 1)
        return kn_fail(err, KN_E_FORMAT, "expected scalar %s scale, got shape (%s)", what, kn_shape_of_entry(e).text);
    if (e->dtype != KN_F32)
        return kn_fail(err, KN_E_UNSUPPORTED, "%s scale is stored as %s, F32 is needed", what,
                       kn_dtype_of(e->dtype)->name);
    return read_scale(e, what, scale, err);
}

/* One for all rows or one for each; the latter are read when they are needed. */
static bool read_int8_scale(const kn_entry *e, kn_quant_layer *l, kn_error *err) {
    uint64_t rows = l->weight->dim[0];
    if (e->dtype != KN_F32 && e->dtype != KN_F16 && e->dtype != KN_BF16)
        return kn_fail(err, KN_E_UNSUPPORTED, "weight scale is stored as %s, F32, F16 or BF16 is needed",
                       kn_dtype_of(e->dtype)->name);
    if (e->elements == 1)
        return read_scale(e, "weight", &l->scale, err);
    if (e->elements != rows || e->rank > 2 || e->dim[0] != rows)
        return kn_fail(err, KN_E_FORMAT, "expected one weight scale or %llu, got shape (%s)", (unsigned long long)rows,
                       kn_shape_of_entry(e).text);
    if (l->scale != 0)
        return kn_fail(err, KN_E_FORMAT, "has two weight scales");
    l->row_scales = e;
    l->scale = 1;
    return true;
}

static bool read_companion(survey *s, const kn_entry *e, const char *suffix, const kn_entry *weight) {
    const char *what = suffix + 1; /* without the dot */
    if (!weight)
        return kn_fail(s->err, KN_E_FORMAT, "has %s but no weight", what);
    kn_quant_layer *l = layer_of(s->q, weight);
    if (!l)
        return kn_fail(s->err, KN_E_UNSUPPORTED,
                       "has %s, but its weight [%s] is stored as %s; only FP8 and INT8 matrices may be scaled", what,
                       kn_shape_of_entry(weight).text, kn_dtype_of(weight->dtype)->name);
    bool input = strstr(suffix, "input") != NULL;
    s->any_scale |= !input;
    if (weight->dtype != KN_I8)
        return read_fp8_scale(e, input ? "input" : "weight", input ? &l->input_scale : &l->scale, s->err);
    if (input)
        return kn_fail(s->err, KN_E_UNSUPPORTED, "has %s, which INT8 layers do not use", what);
    return read_int8_scale(e, l, s->err);
}

static bool read_scales(survey *s) {
    for (size_t i = s->first; i < s->end; i++) {
        const kn_entry *e = &s->w->entry[i];
        size_t len = strlen(e->name);
        for (size_t c = 0; c < KN_QUANT_SCALES; c++) {
            const char *suffix = kn_quant_companions[c];
            if (!kn_ends_with(e->name, len, suffix))
                continue;
            size_t stem = len - strlen(suffix);
            if (!read_companion(s, e, suffix, kn_weights_find_joined(s->w, e->name, stem, weight_suffix)))
                return kn_fail_within(s->err, "layer %s", kn_quote_name(e->name, stem).text);
        }
    }
    return true;
}

static kn_quoted layer_name(const kn_quant_layer *l) {
    return kn_quote_name(l->weight->name, strlen(l->weight->name) - (sizeof weight_suffix - 1));
}

/* FP8 codes without a scale are a plain cast only where nothing under the prefix speaks of scales: in a marked file a
 * missing scale is damage, and 1 in its place would give a picture of noise. INT8 steps mean nothing without one. */
static bool judge(survey *s) {
    kn_quantization *q = s->q;
    bool plain = !s->any_record && !s->any_scale && q->marker_count == 0;
    for (size_t i = 0; i < q->count; i++) {
        kn_quant_layer *l = &q->layer[i];
        bool fp8 = is_fp8(l->weight->dtype);
        if (fp8 != is_fp8(q->layer[0].weight->dtype))
            return kn_fail(s->err, KN_E_UNSUPPORTED,
                           "layer %s is stored as %s and layer %s as %s; files that mix them "
                           "are not supported",
                           layer_name(&q->layer[0]).text, kn_dtype_of(q->layer[0].weight->dtype)->name,
                           layer_name(l).text, kn_dtype_of(l->weight->dtype)->name);
        if (fp8 && s->any_record && !l->listed && !l->recorded && !l->marked)
            return kn_fail(s->err, KN_E_FORMAT, "layer %s is stored as %s, but the quantization metadata omits it",
                           layer_name(l).text, kn_dtype_of(l->weight->dtype)->name);
        if (l->scale == 0 && !(fp8 && plain))
            return kn_fail(s->err, KN_E_FORMAT, "layer %s is missing weight_scale", layer_name(l).text);
        l->scale = l->scale == 0 ? 1 : l->scale;
        l->input_scale = l->input_scale == 0 ? 1 : l->input_scale;
    }
    return true;
}

bool kn_weights_refuse_foreign(const kn_weights *w, const char *prefix, kn_error *err) {
    size_t first = 0, end = 0;
    kn_weights_range(w, prefix, &first, &end);
    for (size_t i = first; i < end; i++) {
        const char *name = w->entry[i].name;
        for (size_t k = 0; k < KN_COUNT(foreign); k++) {
            if (kn_ends_with(name, strlen(name), foreign[k].suffix))
                return kn_fail(err, KN_E_UNSUPPORTED, "'%s' belongs to the format %s, which is not supported; %s",
                               kn_quote_name(name, strlen(name)).text, foreign[k].format, kn_quant_instead);
        }
    }
    return true;
}

bool kn_quantization_read(const kn_weights *w, const char *prefix, kn_quantization *ret, kn_error *err) {
    kn_quantization q = { 0 };
    survey s = { .w = w, .prefix = prefix, .q = &q, .err = err };
    kn_weights_range(w, prefix, &s.first, &s.end);
    kn_buf_init(&s.listed, LIST_MAX);
    kn_buf_init(&s.name, 2 * LIST_MAX);
    bool ok = collect_layers(&s) && read_markers(&s) && read_records(&s) && read_list(&s) &&
              kn_weights_refuse_foreign(w, prefix, err) && read_scales(&s) && judge(&s);
    kn_buf_free(&s.listed);
    kn_buf_free(&s.name);
    if (ok)
        *ret = q;
    else
        kn_quantization_free(&q);
    return ok;
}

void kn_quantization_free(kn_quantization *q) {
    free(q->layer);
    *q = (kn_quantization){ 0 };
}

const kn_quant_layer *kn_quantization_find(const kn_quantization *q, const kn_entry *weight) {
    return layer_of(q, weight);
}
