/* INT8 checkpoints: what their marks mean, which of them are refused, and the reference's numbers on every instruction
 * set of this machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cpu/matrix.h"
#include "golden.h"
#include "safetensors_maker.h"

/* The layers of the golden file stand side by side without a dot in common: each is bound by its first letter. */
static kn_weight take_layer(const golden *g, const char *name, kn_binder **b) {
    kn_error err = { 0 };
    const char prefix[] = { name[0], 0 };
    if (!kn_binder_new(g->file, prefix, false, b, &err))
        fail_msg("%s: %s", name, err.text);
    kn_weight w = kn_take_matrix(*b, -1, -1, "%s", name + 1);
    kn_ignore_outside(*b, "%s", "");
    if (!kn_binder_finish(*b, &err))
        fail_msg("%s: %s", name, err.text);
    return w;
}

typedef struct bench {
    kn_device *device;
    kn_run run;
    golden in, want, weights;
} bench;

/* x [n, in], from the inputs. */
static kn_tensor upload(bench *t, const char *layer) {
    char name[24];
    snprintf(name, sizeof name, "%s.x", layer);
    const kn_entry *e = golden_entry(&t->in, name);
    return kn_upload(&t->run, 2, (int64_t[]){ (int64_t)e->dim[0], (int64_t)e->dim[1] },
                     golden_floats(&t->in, name, NULL));
}

static void compare(bench *t, const char *layer, const char *what, kn_tensor got, double tolerance) {
    char name[32];
    snprintf(name, sizeof name, "%s.%s", layer, what);
    assert_int_equal(t->run.err.code, KN_OK);
    golden_compare_within(&t->want, name, kn_data(got), (size_t)kn_elements(got), tolerance);
}

static kn_tensor all_rows(bench *t, const kn_weight *w) {
    int32_t ids[64];
    for (int i = 0; i < 64; i++)
        ids[i] = i;
    return kn_embedding(&t->run, w, ids, w->dim[0]);
}

/* The steps that x was rounded to; a tie may fall either way, as its last bit depends on the order of a sum. */
static void compare_steps(bench *t, const char *layer, kn_tensor rounded) {
    char name[24];
    snprintf(name, sizeof name, "%s.x_scale", layer);
    const float *scale = golden_floats(&t->want, name, NULL);
    snprintf(name, sizeof name, "%s.x_q", layer);
    const int8_t *want = (const int8_t *)golden_entry(&t->want, name)->data;
    int64_t width = KN_MAX(kn_last_dim(rounded), 1), n = kn_elements(rounded), different = 0;
    for (int64_t i = 0; i < n; i++) {
        double step = (double)kn_data(rounded)[i] / (double)scale[i / width];
        assert_true(fabs(step - rint(step)) < 1e-3 && fabs(rint(step) - want[i]) <= 1);
        different += (int)rint(step) != want[i];
    }
    assert_true((double)different <= 0.002 * (double)n);
}

/* Activations that are rounded give the same steps in fast; those that are not may be narrowed there. */
static void check_layer(bench *t, const char *layer, bool turned) {
    double narrowed = t->run.precision == KN_EXACT ? 1e-4 : 0.005;
    kn_binder *b = NULL;
    kn_weight w = take_layer(&t->weights, layer, &b);
    assert_true(w.dtype == KN_I8 && (w.turned_group > 0) == turned);
    kn_tensor x = upload(t, layer);
    compare(t, layer, "y", kn_linear(&t->run, x, &w), 0.005);
    compare(t, layer, "weight", all_rows(t, &w), 1e-4);
    if (turned) {
        compare_steps(t, layer, kn_input_of(&t->run, x, &w));
        kn_weight exact = w;
        exact.full_precision = true; /* activations are turned, and not rounded */
        compare(t, layer, "rotated_x", kn_input_of(&t->run, x, &exact), 1e-4);
        compare(t, layer, "y_weight_only", kn_linear(&t->run, x, &exact), narrowed);
    }
    /* Some rows of the layer are those elements of its result, with their own scales. */
    kn_weight part = kn_weight_rows(&w, 3, 4);
    kn_tensor all = kn_linear(&t->run, x, &w), some = kn_linear(&t->run, x, &part);
    for (int64_t i = 0; i < kn_elements(some); i++)
        assert_true(kn_data(some)[i] == kn_data(all)[i / 4 * w.dim[0] + 3 + i % 4]);
    /* Many rows go another way through the product than a few. */
    kn_tensor many = kn_new(&t->run, 2, (int64_t[]){ 5 * x.dim[0], x.dim[1] });
    for (int i = 0; i < 5; i++)
        kn_copy(&t->run, kn_rows(&t->run, many, i * x.dim[0], x.dim[0]), x);
    kn_tensor last = kn_rows(&t->run, kn_linear(&t->run, many, &w), 4 * x.dim[0], x.dim[0]);
    compare(t, layer, "y", last, 0.005);
    kn_binder_free(b);
}

static void check_embedding(bench *t) {
    kn_binder *b = NULL;
    kn_weight table = take_layer(&t->weights, "embed", &b);
    size_t n = 0;
    const int32_t *ids = golden_ints(&t->in, "embed.ids", &n);
    compare(t, "embed", "rows", kn_embedding(&t->run, &table, ids, (int64_t)n), 1e-4);
    kn_binder_free(b);
}

static void check_matrices(bench *t) {
    for (size_t group = 4; group <= 16; group *= 4) {
        float matrix[16 * 16] = { 0 };
        for (size_t i = 0; i < group; i++)
            matrix[i * group + i] = 1;
        for (size_t i = 0; i < group; i++)
            t->device->kernels.turn_groups(matrix + i * group, group, group);
        golden_compare_within(&t->want, group == 4 ? "hadamard4" : "hadamard16", matrix, group * group, 0);
    }
}

static void compute_on_every_instruction_set(kn_precision precision) {
    static const char *const layers[] = { "a", "b", "c", "d", "e" };
    for (int tier = 0; kn_tier_name(tier); tier++) {
        if (!kn_tier_is_here(tier))
            continue;
        print_message("  %s\n", kn_tier_name(tier));
        bench t = { .in = golden_open("int8-convrot/inputs.safetensors"),
                    .want = golden_open("int8-convrot/expected.safetensors"),
                    .weights = golden_open("int8-convrot/weights.safetensors") };
        kn_error err = { 0 };
        assert_int_equal(setenv("KUNO_CPU", kn_tier_name(tier), 1), 0);
        assert_true(kn_device_open_cpu(2, &t.device, &err) && kn_run_open(t.device, precision, NULL, 0, &t.run, &err));
        for (size_t i = 0; i < KN_COUNT(layers); i++)
            check_layer(&t, layers[i], true);
        check_layer(&t, "plain", false);
        check_embedding(&t);
        check_matrices(&t);
        kn_run_close(&t.run);
        kn_device_close(t.device);
        golden_close(&t.in);
        golden_close(&t.want);
        golden_close(&t.weights);
    }
    unsetenv("KUNO_CPU");
}

static void layers_compute_as_the_reference_on_every_instruction_set(void **state) {
    (void)state;
    compute_on_every_instruction_set(KN_EXACT);
}

static void fast_layers_round_activations_to_the_same_steps(void **state) {
    (void)state;
    compute_on_every_instruction_set(KN_FAST);
}

/* ---- marks ---- */

static void make_record(maker *m, const char *name, const char *json) {
    char shape[24];
    snprintf(shape, sizeof shape, "%zu", strlen(json));
    make_tensor(m, name, "U8", shape, json, strlen(json));
}

/* A file whose layer "x" is [2, 16], and that layer as it was taken. */
typedef struct opened {
    kn_buf file;
    kn_weights *w;
    kn_binder *b;
    kn_weight x;
} opened;

/* says: why it is refused; NULL: it is not. */
static opened take_x(maker *m, const char *says) {
    opened o = { 0 };
    kn_error err = { 0 };
    make_end(m, &o.file);
    bool ok = kn_weights_open_bytes((const uint8_t *)o.file.data, o.file.len, &o.w, &err) &&
              kn_binder_new(o.w, "", false, &o.b, &err);
    if (ok) {
        o.x = kn_take_matrix(o.b, 2, 16, "x");
        ok = kn_binder_finish(o.b, &err);
    }
    if (ok != !says || (says && !strstr(err.text, says)))
        fail_msg("says '%s', expected '%s'", err.text, says ? says : "");
    return o;
}

static void done(opened *o) {
    kn_binder_free(o->b);
    kn_weights_close(o->w);
    kn_buf_free(&o->file);
}

#define RECORD(fields) "{\"format\":\"int8_tensorwise\"" fields "}"
static const float scales[] = { 0.5f, 0.25f };

static void records_are_read_strictly(void **state) {
    (void)state;
    static const struct {
        const char *json;
        int64_t group;
        bool full_precision;
        const char *says;
    } rows[] = {
        { RECORD(""), 0, false, NULL },
        { RECORD(",\"convrot\":false,\"convrot_groupsize\":7"), 0, false, NULL },
        { RECORD(",\"convrot\":true,\"convrot_groupsize\":16"), 16, false, NULL },
        { RECORD(",\"convrot_groupsize\":4,\"convrot\":true,\"full_precision_matrix_mult\":true"), 4, true, NULL },
        { RECORD(",\"convrot\":true"), 0, false, "layer x: has a convrot_groupsize of 256, a power of 4" },
        { RECORD(",\"convrot\":true,\"convrot_groupsize\":8"), 0, false, "that divides 16 is needed" },
        { RECORD(",\"convrot\":true,\"convrot_groupsize\":1"), 0, false, "a convrot_groupsize of 1," },
        { RECORD(",\"convrot\":true,\"convrot_groupsize\":0"), 0, false, "a convrot_groupsize of 0," },
        { RECORD(",\"convrot\":true,\"convrot_groupsize\":64"), 0, false, "a convrot_groupsize of 64," },
        { RECORD(",\"convrot\":1"), 0, false, "true or false is expected" },
        { RECORD(",\"convrot_groupsize\":-4"), 0, false, "an unsigned integer is expected" },
        { RECORD(",\"convrot\":true,\"convrot\":true"), 0, false, "layer x: has 'convrot' twice" },
        { RECORD(",\"bits\":8"), 0, false, "layer x: unsupported field 'bits' in its quantization record" },
        { "{\"format\":\"int4_tensorwise\"}", 0, false,
          "layer x: unsupported quantization format 'int4_tensorwise'; use" },
        { "{\"format\":\"float8_e4m3fn\"}", 0, false, "marked as float8_e4m3fn but its weight is stored as I8" },
        { NULL, 0, false, NULL }, /* a scale is mark enough */
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        maker m;
        make_begin(&m);
        make_zeros(&m, "x.weight", "I8", "2, 16", 32);
        make_tensor(&m, "x.weight_scale", "F32", "2, 1", scales, sizeof scales);
        if (rows[i].json)
            make_record(&m, "x.comfy_quant", rows[i].json);
        opened o = take_x(&m, rows[i].says);
        if (!rows[i].says)
            assert_true(o.x.dtype == KN_I8 && o.x.turned_group == rows[i].group && o.x.scale == 1 &&
                        o.x.full_precision == rows[i].full_precision && o.x.row_scale[0] == 0.5f &&
                        o.x.row_scale[1] == 0.25f);
        done(&o);
    }
}

static void scales_are_one_for_all_or_one_for_each_row(void **state) {
    (void)state;
    static const float bad[] = { 1, -1 }, nan[] = { NAN, 1 };
    static const uint16_t half[] = { 0x3F00, 0x3E80 };
    static const struct {
        const char *name, *dtype, *shape;
        const void *data;
        size_t bytes;
        const char *says;
        float all; /* 0: one for each */
    } rows[] = {
        { "x.weight_scale", "F32", "2, 1", scales, 8, NULL, 0 },
        { "x.weight_scale", "F32", "2", scales, 8, NULL, 0 },
        { "x.weight_scale", "BF16", "2, 1", half, 4, NULL, 0 },
        { "x.weight_scale", "F32", "", scales, 4, NULL, 0.5f },
        { "x.weight_scale", "BF16", "1", half, 2, NULL, 0.5f },
        { "x.weight_scale", "F32", "1, 2", scales, 8, "layer x: expected one weight scale or 2, got shape (1, 2)", 0 },
        { "x.weight_scale", "F32", "0", scales, 0, "layer x: expected one weight scale or 2, got shape (0)", 0 },
        { "x.weight_scale", "I32", "2", scales, 8, "layer x: weight scale is stored as I32", 0 },
        { "x.weight_scale", "F32", "2", bad, 8, "'x.weight_scale' holds the invalid scale -1", 0 },
        { "x.weight_scale", "F32", "2", nan, 8, "'x.weight_scale' holds the invalid scale nan", 0 },
        { "x.input_scale", "F32", "", scales, 4, "layer x: has input_scale, which INT8 layers do not use", 0 },
        { "y", "F32", "", scales, 4, "layer x is missing weight_scale", 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        maker m;
        make_begin(&m);
        make_zeros(&m, "x.weight", "I8", "2, 16", 32);
        make_tensor(&m, rows[i].name, rows[i].dtype, rows[i].shape, rows[i].data, rows[i].bytes);
        opened o = take_x(&m, rows[i].says);
        if (!rows[i].says && rows[i].all > 0)
            assert_true(!o.x.row_scale && o.x.scale == rows[i].all);
        else if (!rows[i].says)
            assert_true(o.x.row_scale[0] == 0.5f && o.x.row_scale[1] == 0.25f);
        done(&o);
    }
}

static void a_layer_s_own_record_goes_before_the_header_s_list(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        maker m;
        make_begin(&m);
        make_metadata(&m, "{\"_quantization_metadata\":\"{\\\"layers\\\":{\\\"x\\\":{\\\"format\\\":"
                          "\\\"int8_tensorwise\\\",\\\"convrot\\\":true,\\\"convrot_groupsize\\\":16}}}\"}");
        make_zeros(&m, "x.weight", "I8", "2, 16", 32);
        make_tensor(&m, "x.weight_scale", "F32", "2, 1", scales, sizeof scales);
        if (own)
            make_record(&m, "x.comfy_quant", RECORD(",\"convrot\":true,\"convrot_groupsize\":4"));
        opened o = take_x(&m, NULL);
        assert_int_equal(o.x.turned_group, own ? 4 : 16);
        done(&o);
    }
}

static void other_quantised_formats_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *dtype, *says;
    } rows[] = {
        { "b.wscales", "F32",
          "'b.wscales' belongs to the format Nunchaku (SVDQuant), which is not supported; use an FP8" },
        { "b.smooth_factor", "F32", "Nunchaku" },
        { "b.qweight", "I32", "AWQ, GPTQ or Nunchaku" },
        { "b.qzeros", "I32", "AWQ or GPTQ" },
        { "b.weight.absmax", "F32", "bitsandbytes" },
        { "b.weight.quant_map", "F32", "bitsandbytes" },
        { "b.weight.quant_state.bitsandbytes__nf4", "U8", "bitsandbytes NF4" },
        { "b.weight_scale_2", "F32", "NVFP4" },
        { "b.weight_scale", "F8_E8M0", "has the storage type F8_E8M0 of block-scaled formats such as MXFP8" },
        { "b.weight", "F4", "has the storage type F4" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        maker m;
        make_begin(&m);
        make_zeros(&m, "x.weight", "F32", "2, 16", 128);
        make_zeros(&m, rows[i].name, rows[i].dtype, "1", rows[i].dtype[0] == 'U' ? 1 : 4);
        opened o = take_x(&m, rows[i].says);
        done(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_compute_as_the_reference_on_every_instruction_set),
        cmocka_unit_test(fast_layers_round_activations_to_the_same_steps),
        cmocka_unit_test(records_are_read_strictly),
        cmocka_unit_test(scales_are_one_for_all_or_one_for_each_row),
        cmocka_unit_test(a_layer_s_own_record_goes_before_the_header_s_list),
        cmocka_unit_test(other_quantised_formats_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
