/* Single operations, through the interface that models use, at the sizes that models have. Each row is told with the
 * limit of the unit that could do it fastest, measured just before and just after. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/bench.h"

enum {
    TEXT_LIMIT = 4096,
    HEAD = 128,             /* the width of an attention head */
    CODES_REPEAT = 1 << 20, /* bytes after which random weights begin again */
    MOST_TIMES = 16,        /* that a short operation is repeated within one measurement */
    CONVROT_GROUP = 256     /* as published checkpoints have it */
};

static const double LEAST_SECONDS = 2e-3; /* of one measurement, by the clock */

struct ops {
    kn_bench *bench;
    kn_device *device;
    kn_roofline *roofline;
    double peak[KN_UNIT_COUNT]; /* as last measured */
    kn_run run;
    uint8_t *codes; /* of every weight */
    size_t code_bytes;
    kn_tensor x, y; /* what an operation works on, may change; and a second operand, may not */
};

/* One operation at one size. n: rows, or the side of a picture; in, out: widths or channels. */
struct row {
    const char *name;
    void (*op)(struct ops *o, const struct row *r);
    int64_t n, in, out;
    int heads, kv_heads; /* of HEAD elements each, unless `in` says otherwise */
    kn_dtype type;       /* of the weight */
    int64_t turned;      /* as in a kn_weight */
    int operands;        /* float32 elements per element of x that go from or to memory; 0: its limit is arithmetic */
};

static kn_tensor rows_of(struct ops *o, kn_tensor t, const struct row *r) {
    return kn_reshape(&o->run, t, 2, (int64_t[]){ r->n, r->in });
}

static kn_tensor picture_of(struct ops *o, const struct row *r) {
    return kn_reshape(&o->run, o->x, 3, (int64_t[]){ r->n, r->n, r->in });
}

static kn_weight vector_of(const struct ops *o, int64_t n) {
    return (kn_weight){ .data = o->codes, .dtype = KN_F32, .rank = 1, .dim = { n }, .scale = 1, .name = "vector" };
}

/* A row of the second operand as a vector of modulation. */
static kn_tensor modulation_of(struct ops *o, const struct row *r) {
    return kn_reshape(&o->run, kn_rows(&o->run, rows_of(o, o->y, r), 0, 1), 1, &r->in);
}

static void linear(struct ops *o, const struct row *r) {
    const kn_weight w = { .data = o->codes,
                          .dtype = r->type,
                          .rank = 2,
                          .dim = { r->out, r->in },
                          .scale = 1,
                          .turned_group = r->turned,
                          .name = "matrix" };
    kn_linear(&o->run, rows_of(o, o->x, r), &w);
}

static void conv(struct ops *o, const struct row *r) {
    const kn_weight w = {
        .data = o->codes, .dtype = r->type, .rank = 4, .dim = { r->out, 3, 3, r->in }, .scale = 1, .name = "kernel"
    };
    kn_conv2d(&o->run, picture_of(o, r), &w, 1, (kn_pad){ 1, 1, 1, 1 });
}

static void attention(struct ops *o, const struct row *r) {
    kn_tensor keys = kn_reshape(&o->run, kn_rows(&o->run, rows_of(o, o->y, r), 0, r->n * r->kv_heads / r->heads), 2,
                                (int64_t[]){ r->n, r->in / r->heads * r->kv_heads });
    kn_attention(&o->run, rows_of(o, o->x, r), (kn_kv){ 0 }, (kn_kv){ keys, keys }, r->heads, r->kv_heads, false);
}

static void rms_norm(struct ops *o, const struct row *r) {
    const kn_weight w = vector_of(o, r->in);
    kn_rms_norm(&o->run, rows_of(o, o->x, r), &w, 1e-6f);
}

static void rms_norm_modulate(struct ops *o, const struct row *r) {
    const kn_weight w = vector_of(o, r->in);
    kn_rms_norm_modulate(&o->run, rows_of(o, o->x, r), &w, modulation_of(o, r), 1e-6f);
}

static void norm_modulate(struct ops *o, const struct row *r) {
    kn_norm_modulate(&o->run, rows_of(o, o->x, r), modulation_of(o, r), modulation_of(o, r), 1e-6f);
}

static void layer_norm(struct ops *o, const struct row *r) {
    const kn_weight w = vector_of(o, r->in);
    kn_layer_norm(&o->run, rows_of(o, o->x, r), &w, &w, 1e-6f);
}

static void modulate(struct ops *o, const struct row *r) {
    kn_modulate(&o->run, rows_of(o, o->x, r), modulation_of(o, r), modulation_of(o, r));
}

static void qk_norm_rope(struct ops *o, const struct row *r) {
    const kn_weight w = vector_of(o, HEAD);
    kn_tensor angles = kn_rows(&o->run, rows_of(o, o->y, r), 0, r->n * HEAD / 2 / r->in);
    angles = kn_reshape(&o->run, angles, 2, (int64_t[]){ r->n, HEAD / 2 });
    kn_qk_norm_rope(&o->run, rows_of(o, o->x, r), &w, 1e-6f, angles, angles, KN_ROPE_HALVES);
}

static void silu(struct ops *o, const struct row *r) {
    kn_silu(&o->run, rows_of(o, o->x, r));
}

static void gelu(struct ops *o, const struct row *r) {
    kn_gelu(&o->run, rows_of(o, o->x, r));
}

static void gelu_tanh(struct ops *o, const struct row *r) {
    kn_gelu_tanh(&o->run, rows_of(o, o->x, r));
}

static void add(struct ops *o, const struct row *r) {
    kn_add(&o->run, rows_of(o, o->x, r), rows_of(o, o->y, r));
}

static void add_gated(struct ops *o, const struct row *r) {
    kn_add_gated(&o->run, rows_of(o, o->x, r), modulation_of(o, r), rows_of(o, o->y, r));
}

static void sigmoid_gate(struct ops *o, const struct row *r) {
    kn_sigmoid_gate(&o->run, rows_of(o, o->x, r), rows_of(o, o->y, r));
}

static void swiglu(struct ops *o, const struct row *r) {
    kn_swiglu(&o->run, rows_of(o, o->x, r), rows_of(o, o->y, r));
}

static void check_finite(struct ops *o, const struct row *r) {
    kn_check_finite(&o->run, rows_of(o, o->x, r), "input");
}

static void group_norm(struct ops *o, const struct row *r) {
    const kn_weight w = vector_of(o, r->in);
    kn_group_norm(&o->run, picture_of(o, r), &w, &w, 32, 1e-6f, true);
}

static void unit_norm(struct ops *o, const struct row *r) {
    const kn_weight w = vector_of(o, r->in);
    kn_unit_norm(&o->run, picture_of(o, r), &w, true);
}

static void upsample2x(struct ops *o, const struct row *r) {
    kn_upsample2x(&o->run, picture_of(o, r));
}

/* ---- which there are ---- */

/* Matrices that every token goes through: [tokens, in] x [in, out]. */
static const struct matrix {
    int64_t n, in, out;
} matrices[] = {
    /* Z-Image: queries, keys and values; output; gate and up; down */
    { 1024, 3840, 11520 },
    { 1024, 3840, 3840 },
    { 1024, 3840, 20480 },
    { 1024, 10240, 3840 },
    /* Krea 2: queries, gate and output; keys, values; gate and up; down; then the twelve states of each token of text
     */
    { 1024, 6144, 6144 },
    { 1024, 6144, 1536 },
    { 1024, 6144, 32768 },
    { 1024, 16384, 6144 },
    { 1536, 2560, 2560 },
    { 1536, 2560, 6912 },
    /* Qwen-Image 2.1: as Z-Image */
    { 1024, 4096, 12288 },
    { 1024, 4096, 4096 },
    { 1024, 4096, 24576 },
    { 1024, 12288, 4096 },
    /* Qwen-Image: queries, keys and values; output; up; down */
    { 1024, 3072, 9216 },
    { 1024, 3072, 3072 },
    { 1024, 3072, 12288 },
    { 1024, 12288, 3072 },
    /* Qwen3-4B: as Z-Image */
    { 128, 2560, 6144 },
    { 128, 4096, 2560 },
    { 128, 2560, 19456 },
    { 128, 9728, 2560 },
    /* by tokens, and in all formats */
    { 64, 3840, 4096 },
    { 256, 3840, 4096 },
    { 1024, 3840, 4096 },
    { 4096, 3840, 4096 },
    /* a vector of modulation, in all formats */
    { 1, 4096, 4096 },
};

static const struct format {
    kn_dtype type;
    int64_t turned;
    bool everywhere; /* and not at the matrix alone that formats are compared at */
} formats[] = {
    { KN_BF16, 0, true },  { KN_I8, 0, true },       { KN_F32, 0, false },
    { KN_F16, 0, false },  { KN_F8_E4M3, 0, false }, { KN_Q8_0, 0, false },
    { KN_Q6_K, 0, false }, { KN_Q4_K, 0, false },    { KN_I8, CONVROT_GROUP, false },
};

static const struct row others[] = {
    { "attention", attention, 128, 4096, .heads = 32, .kv_heads = 8 }, /* Qwen3-4B; the others as above */
    { "attention", attention, 1024, 3072, .heads = 24, .kv_heads = 24 },
    { "attention", attention, 1024, 3840, .heads = 30, .kv_heads = 30 },
    { "attention", attention, 1024, 4096, .heads = 32, .kv_heads = 32 },
    { "attention", attention, 1152, 6144, .heads = 48, .kv_heads = 12 },
    { "attention", attention, 4096, 3072, .heads = 24, .kv_heads = 24 },
    { "attention", attention, 4608, 3840, .heads = 30, .kv_heads = 30 },
    { "attention", attention, 4608, 4096, .heads = 32, .kv_heads = 32 },
    { "attention", attention, 4096, 512, .heads = 1, .kv_heads = 1 }, /* the FLUX autoencoder at 512 pixels */
    { "conv3x3", conv, 64, 512, .out = 512, .type = KN_BF16 },        /* the FLUX autoencoder at 512 pixels */
    { "conv3x3", conv, 128, 512, .out = 512, .type = KN_BF16 },
    { "conv3x3", conv, 256, 512, .out = 256, .type = KN_BF16 },
    { "conv3x3", conv, 256, 256, .out = 256, .type = KN_BF16 },
    { "conv3x3", conv, 512, 256, .out = 128, .type = KN_BF16 },
    { "conv3x3", conv, 512, 128, .out = 128, .type = KN_BF16 },
    { "conv3x3", conv, 64, 384, .out = 384, .type = KN_BF16 }, /* that of Qwen-Image */
    { "conv3x3", conv, 256, 192, .out = 192, .type = KN_BF16 },
    { "conv3x3", conv, 512, 96, .out = 96, .type = KN_BF16 },
    { "rms_norm", rms_norm, 4096, 3840, .operands = 2 },
    { "rms_norm_modulate", rms_norm_modulate, 4096, 3840, .operands = 2 },
    { "norm_modulate", norm_modulate, 4096, 4096, .operands = 2 },
    { "layer_norm", layer_norm, 4096, 3072, .operands = 2 },
    { "modulate", modulate, 4096, 3072, .operands = 2 },
    { "qk_norm_rope", qk_norm_rope, 4096, 4096, .operands = 2 },
    { "silu", silu, 4096, 3840, .operands = 2 },
    { "gelu", gelu, 4096, 4096, .operands = 2 },
    { "gelu_tanh", gelu_tanh, 4096, 12288, .operands = 2 },
    { "add", add, 4096, 3840, .operands = 3 },
    { "add_gated", add_gated, 4096, 3840, .operands = 3 },
    { "sigmoid_gate", sigmoid_gate, 4096, 6144, .operands = 3 },
    { "swiglu", swiglu, 4096, 10240, .operands = 3 },
    { "check_finite", check_finite, 4096, 4096, .operands = 1 },
    { "group_norm", group_norm, 512, 128, .operands = 3 }, /* its input is read twice */
    { "unit_norm", unit_norm, 512, 96, .operands = 2 },
    { "upsample2x", upsample2x, 256, 256, .operands = 5 },
};

/* ---- measuring ---- */

static bool is_picture(const struct row *r) {
    return r->op == conv || r->op == group_norm || r->op == unit_norm || r->op == upsample2x;
}

static int64_t elements_of(const struct row *r) {
    return r->n * r->in * (is_picture(r) ? r->n : 1);
}

/* A product with so few rows is over when the weight has been read. */
static bool reads_weight(const struct row *r) {
    return r->op == linear && r->n == 1;
}

/* Floating-point operations of an operation, or bytes that it must move. */
static double work_of(const struct row *r) {
    double rows = (double)r->n, in = (double)r->in, out = (double)r->out;
    if (reads_weight(r))
        return (double)kn_dtype_bytes(r->type, (size_t)(r->in * r->out));
    if (r->op == linear)
        return 2 * rows * in * out;
    if (r->op == conv)
        return 2 * 9 * rows * rows * in * out;
    if (r->op == attention)
        return 4 * rows * rows * in;
    return (double)sizeof(float) * r->operands * (double)elements_of(r);
}

static bool moves_bytes(const struct row *r) {
    return r->operands || reads_weight(r);
}

static kn_unit limit_of(const struct ops *o, const struct row *r) {
    if (moves_bytes(r))
        return r->operands > 1 ? KN_UNIT_UPDATE : KN_UNIT_READ;
    return kn_bench_limit(o->peak, kn_bench_precision(o->bench), r->type == KN_I8);
}

typedef struct label {
    char text[80];
} label;

static label label_of(const struct row *r) {
    label l;
    long long n = r->n, in = r->in, out = r->out;
    if (r->op == linear)
        snprintf(l.text, sizeof l.text, "%s %lldx%lldx%lld %s", r->name, n, in, out,
                 r->turned ? "ConvRot" : kn_dtype_of(r->type)->name);
    else if (r->op == conv)
        snprintf(l.text, sizeof l.text, "%s %lldx%lld %lld to %lld", r->name, n, n, in, out);
    else if (r->op == attention)
        snprintf(l.text, sizeof l.text, "%s %lld %d/%dx%lld", r->name, n, r->heads, r->kv_heads, in / r->heads);
    else if (is_picture(r))
        snprintf(l.text, sizeof l.text, "%s %lldx%lldx%lld", r->name, n, n, in);
    else
        snprintf(l.text, sizeof l.text, "%s %lldx%lld", r->name, n, in);
    return l;
}

static bool tell(const struct ops *o, const struct row *r, const kn_bench_times *t, kn_error *err) {
    const label name = label_of(r);
    unsigned threads = kn_device_threads(o->device);
    const kn_bench_speed speed = kn_bench_speed_of(work_of(r), t, threads, limit_of(o, r), o->peak);
    KN_AUTO_BUF text;
    kn_buf_init(&text, TEXT_LIMIT);
    bool ok = kn_buf_printf(&text, "%-32s %9.2f ms  ", name.text, kn_bench_median(t->seconds, t->count) * 1e3) &&
              kn_bench_print_speed(&text, &speed) && kn_buf_add_text(&text, "\n");
    json_t *result = json_pack("{s:s, s:s, s:s, s:i, s:s}", "bench", "ops", "name", name.text, "kernels",
                               kn_device_kernels(o->device), "threads", (int)threads, "precision",
                               kn_bench_precision(o->bench) == KN_EXACT ? "exact" : "fast");
    if (ok && result && kn_bench_add_times(result, t) && kn_bench_add_speed(result, &speed))
        return kn_bench_tell(o->bench, result, &text, err);
    json_decref(result);
    return kn_fail_nomem(err, TEXT_LIMIT);
}

/* One measurement of `times` runs; returns seconds by the clock of each. */
static double measure_once(struct ops *o, const struct row *r, kn_tensor source, int times, double *cpu_seconds) {
    kn_run *run = &o->run;
    kn_scope s = kn_scope_open(run);
    o->x = kn_new(run, source.rank, source.dim);
    kn_copy(run, o->x, source); /* what works in place would else move its values out of range, time after time */
    double cpu = kn_now_process(), start = kn_now();
    for (int i = 0; i < times && run->err.code == KN_OK; i++) {
        kn_scope once = kn_scope_open(run);
        r->op(o, r);
        kn_scope_close(run, once, KN_NONE);
    }
    double seconds = (kn_now() - start) / times;
    *cpu_seconds = (kn_now_process() - cpu) / times;
    kn_scope_close(run, s, KN_NONE);
    return seconds;
}

static kn_tensor random_rows(struct ops *o, int64_t n, kn_error *err) {
    float *values = malloc(sizeof *values * (size_t)n);
    uint32_t state = 1;
    if (!values) {
        kn_fail_nomem(err, sizeof *values * (size_t)n);
        return KN_NONE;
    }
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(int32_t)state * 0x1p-31f;
    }
    kn_tensor t = kn_upload(&o->run, 1, &n, values);
    free(values);
    return t;
}

static bool measure(struct ops *o, const struct row *r, kn_error *err) {
    static kn_bench_times t;
    kn_scope all = kn_scope_open(&o->run);
    kn_tensor source = random_rows(o, elements_of(r), err);
    o->y = source;
    double cpu = 0, once = measure_once(o, r, source, 1, &cpu);
    int times = once > 0 && once < LEAST_SECONDS ? KN_MIN(1 + (int)(LEAST_SECONDS / once), MOST_TIMES) : 1;
    kn_roofline_measure(o->roofline, o->peak);
    for (t.count = 0; t.count < o->bench->repeat && o->run.err.code == KN_OK && kn_bench_wait(o->bench);) {
        once = measure_once(o, r, source, times, &cpu);
        kn_bench_count(o->bench, &t, once, cpu);
    }
    kn_roofline_measure_again(o->roofline, o->peak);
    kn_scope_close(&o->run, all, KN_NONE);
    if (err->code == KN_OK)
        *err = o->run.err;
    return err->code == KN_OK && tell(o, r, &t, err);
}

static bool need_codes(struct ops *o, const struct row *r, kn_error *err) {
    (void)err;
    size_t taps = r->op == conv ? 9 : 1, rows = (size_t)KN_MAX(r->out, 1);
    o->code_bytes = KN_MAX(o->code_bytes, kn_dtype_bytes(r->type, taps * rows * (size_t)r->in));
    return true;
}

/* Every row that the filter lets through. */
typedef bool visit_fn(struct ops *o, const struct row *r, kn_error *err);
static bool each_row(struct ops *o, visit_fn *visit, kn_error *err) {
    const char *wanted = o->bench->o->filter ? o->bench->o->filter : "";
    for (size_t i = 0; i < KN_COUNT(matrices); i++) {
        const struct matrix *m = &matrices[i];
        bool compared = (m->in == 3840 && m->out == 4096) || m->n == 1;
        for (size_t f = 0; f < KN_COUNT(formats); f++) {
            const struct row r = { .name = "linear",
                                   .op = linear,
                                   .n = m->n,
                                   .in = m->in,
                                   .out = m->out,
                                   .type = formats[f].type,
                                   .turned = formats[f].turned };
            if ((formats[f].everywhere || compared) && strstr(label_of(&r).text, wanted) && !visit(o, &r, err))
                return false;
        }
    }
    for (size_t i = 0; i < KN_COUNT(others); i++)
        if (strstr(label_of(&others[i]).text, wanted) && !visit(o, &others[i], err))
            return false;
    return true;
}

/* Weights that are finite and not subnormal in every format: no byte of a scale or an exponent is out of the middle. */
static bool make_codes(struct ops *o, kn_error *err) {
    uint32_t state = 1;
    o->codes = malloc(o->code_bytes);
    if (!o->codes)
        return kn_fail_nomem(err, o->code_bytes);
    for (size_t i = 0; i < o->code_bytes; i++) {
        state = state * 1664525u + 1013904223u;
        o->codes[i] = i < CODES_REPEAT ? (uint8_t)(0x30 + (state >> 24) % 13) : o->codes[i - CODES_REPEAT];
    }
    return true;
}

bool kn_bench_ops(kn_bench *b, kn_error *err) {
    struct ops o = { .bench = b };
    each_row(&o, need_codes, err);
    if (!o.code_bytes)
        return kn_bench_fail_filter(b, err);
    bool ok = kn_bench_device_open(b, &o.device, err) && kn_roofline_open(o.device, &o.roofline, err) &&
              kn_run_open(o.device, kn_bench_precision(b), &b->stop, 0, &o.run, err);
    if (ok) {
        ok = make_codes(&o, err) && each_row(&o, measure, err);
        kn_run_close(&o.run);
    }
    free(o.codes);
    kn_roofline_close(o.roofline);
    kn_device_close(o.device);
    return ok;
}
