#include <math.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "safetensors_maker.h"
#include "weights/quantization.h"

static golden open_case(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    return golden_open(path);
}

/* net.0 is [out, in] in FP8 with a bias, net.1 [in, in] in BF16; output = (input net.1^T) net.0^T + bias. */
static void all_markings_give_the_same_weights_and_output(void **state) {
    (void)state;
    enum { SIDE_MAX = 64 };
    static const struct {
        const char *file, *prefix;
        bool full_precision;
    } rows[] = {
        { "linear_header_metadata", "", true },
        { "linear_comfy_quant", "", false },
        { "linear_scaled_fp8", "", false },
        { "linear_scaled_fp8_prefixed", "model.diffusion_model.", true },
    };
    golden io = golden_open("fp8/io.safetensors");
    const float *want = golden_floats(&io, "dequantized_weight", NULL);
    const float *input = golden_floats(&io, "input", NULL), *output = golden_floats(&io, "output", NULL);
    size_t out = golden_entry(&io, "output")->dim[1], in = golden_entry(&io, "input")->dim[1];
    size_t inputs = golden_entry(&io, "input")->dim[0];
    assert_true(out <= SIDE_MAX && in <= SIDE_MAX && inputs > 0);
    for (size_t r = 0; r < KN_COUNT(rows); r++) {
        golden g = open_case("fp8", rows[r].file);
        kn_binder *b = NULL;
        kn_error err = { 0 };
        if (!kn_binder_new(g.file, rows[r].prefix, false, &b, &err))
            fail_msg("%s: %s", rows[r].file, err.text);
        kn_weight first = kn_take_matrix(b, (int64_t)out, (int64_t)in, "net.0");
        kn_weight second = kn_take_matrix(b, (int64_t)in, (int64_t)in, "net.1");
        if (!kn_binder_finish(b, &err))
            fail_msg("%s: %s", rows[r].file, err.text);
        assert_true(first.dtype == KN_F8_E4M3 && second.dtype == KN_BF16 && second.scale == 1);
        assert_int_equal(first.full_precision, rows[r].full_precision);
        float a[SIDE_MAX * SIDE_MAX], c[SIDE_MAX * SIDE_MAX];
        kn_decode(first.dtype, first.data, out * in, a);
        kn_decode(second.dtype, second.data, in * in, c);
        for (size_t i = 0; i < out * in; i++)
            a[i] *= first.scale;
        assert_memory_equal(a, want, out * in * sizeof *a);
        double difference = 0, norm = 0;
        for (size_t row = 0; row < inputs; row++) {
            double hidden[SIDE_MAX] = { 0 };
            for (size_t h = 0; h < in; h++)
                for (size_t i = 0; i < in; i++)
                    hidden[h] += (double)c[h * in + i] * (double)input[row * in + i];
            for (size_t o = 0; o < out; o++) {
                double y = (double)first.bias[o], expected = (double)output[row * out + o];
                for (size_t i = 0; i < in; i++)
                    y += (double)a[o * in + i] * hidden[i];
                difference += (y - expected) * (y - expected);
                norm += expected * expected;
            }
        }
        assert_true(norm > 0 && sqrt(difference / norm) < 1e-5);
        kn_binder_free(b);
        golden_close(&g);
    }
    golden_close(&io);
}

static void refuses_every_bad_golden_file_by_layer(void **state) {
    (void)state;
    static const struct {
        const char *file, *says;
    } rows[] = {
        { "bad_missing_scale", "layer net.0 is missing weight_scale" },
        { "bad_vector_scale", "layer net.0: expected scalar weight scale, got shape (40)" },
        { "bad_unknown_format",
          "layer net.0: unsupported quantization format 'nvfp4'; use an FP8, INT8 or GGUF version of the model" },
        { "bad_layer_without_weight", "layer net.9: is marked as float8_e4m3fn but has no weight" },
        { "bad_mixed_int8",
          "layer net.0 is stored as F8_E4M3 and layer net.1 as I8; files that mix them are not supported" },
        { "bad_truncated_json",
          "layer net.0: comfy_quant is broken at byte 24: it ends where the end of a string is expected" },
        { "bad_fp8_bias", "'net.0.bias' is stored as F8_E4M3, F32, F16 or BF16 is needed" },
    };
    for (size_t r = 0; r < KN_COUNT(rows); r++) {
        golden g = open_case(SHIPPED "/fp8", rows[r].file);
        kn_binder *b = NULL;
        kn_error err = { 0 };
        if (kn_binder_new(g.file, "", false, &b, &err)) {
            kn_take_matrix(b, 40, 48, "net.0");
            kn_take_matrix(b, 48, 48, "net.1");
            assert_false(kn_binder_finish(b, &err));
        }
        assert_string_equal(err.text, rows[r].says);
        kn_binder_free(b);
        golden_close(&g);
    }
}

/* A file under construction that has one FP8 layer "x" with scale 0.5, made by each test in its own way. */
static const float half = 0.5f;
#define CODES "\x38\x40\xb8\x00" /* 1, 2, -1, 0 */

static void make_record(maker *m, const char *name, const char *json) {
    char shape[24];
    snprintf(shape, sizeof shape, "%zu", strlen(json));
    make_tensor(m, name, "U8", shape, json, strlen(json));
}

/* NULL: accepted. */
static void binds(maker *m, const char *prefix, const char *says) {
    KN_AUTO_BUF file;
    make_end(m, &file);
    kn_weights *w = open_made(&file);
    kn_binder *b = NULL;
    kn_error err = { 0 };
    bool ok = kn_binder_new(w, prefix, false, &b, &err);
    if (ok != !says || (says && !strstr(err.text, says)))
        fail_msg("says '%s', expected '%s'", err.text, says ? says : "");
    kn_binder_free(b);
    kn_weights_close(w);
}

static void records_are_read_strictly(void **state) {
    (void)state;
#define NESTED_16(inner) "[[[[[[[[[[[[[[[[" inner "]]]]]]]]]]]]]]]]"
#define NESTED_64        NESTED_16(NESTED_16(NESTED_16(NESTED_16(""))))
    static const struct {
        const char *json, *says;
    } rows[] = {
        { "{\"format\":\"float8_e4m3fn\"}", NULL },
        { "{\"format\":\"float8_e4m3fn\",\"full_precision_matrix_mult\":false}", NULL },
        { "{\"format\":\"float8_e4m3fn\"} ", NULL },
        { "{\"format\":\"float8_e4m3fn\"}x", "layer x: comfy_quant is broken at byte 26: nothing more is expected" },
        { "{\"format\":\"float8_e4m3fn\",\"format\":\"float8_e4m3fn\"}",
          "layer x: has 'format' twice in its quantization record" },
        { "", "layer x: comfy_quant is broken at byte 0: it ends where an object is expected" },
        { "{}", "layer x: has a quantization record without format" },
        { "[]", "an object is expected" },
        { "{\"format\":8}", "layer x: comfy_quant is broken at byte 10: a string is expected" },
        { "{\"format\":\"float8_e5m2\"}", "layer x: is marked as float8_e5m2 but its weight is stored as F8_E4M3" },
        { "{\"format\":\"mxfp8\"}", "layer x: unsupported quantization format 'mxfp8'" },
        { "{\"format\":\"convrot_w4a4\",\"group\":64}", "layer x: unsupported quantization format 'convrot_w4a4'" },
        { "{\"format\":\"\\u001b[2J\"}", "unsupported quantization format '\\x1b[2J'" },
        { "{\"format\":\"float8_e4m3fn\",\"convrot\":true}", "layer x: unsupported field 'convrot'" },
        { "{\"a\":[-1,0.5e+3,{\"b\":null}],\"c\":[true,false,\"\"],\"d\":{},\"format\":\"mxfp8\"}",
          "layer x: unsupported quantization format 'mxfp8'" },
        { "{\"a\":[[[[[[[[1]]]]]]]],\"format\":\"mxfp8\"}", "unsupported quantization format" },
        { "{\"a\":" NESTED_64 ",\"format\":\"mxfp8\"}", "less deeply nested data is expected" },
        { "{\"a\":01,\"format\":\"mxfp8\"}", "a number without leading zeros is expected" },
        { "{\"a\":1.,\"format\":\"mxfp8\"}", "a digit is expected" },
        { "{\"a\":1e,\"format\":\"mxfp8\"}", "a digit is expected" },
        { "{\"a\":-,\"format\":\"mxfp8\"}", "a digit is expected" },
        { "{\"a\":nul,\"format\":\"mxfp8\"}", "a value is expected" },
        { "{\"a\":{1:2},\"format\":\"mxfp8\"}", "a string is expected" },
        { "{\"format\":\"float8_e4m3fn\",\"full_precision_matrix_mult\":1}", "true or false is expected" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        maker m;
        make_begin(&m);
        make_tensor(&m, "x.weight", "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, "x.weight_scale", "F32", "", &half, 4);
        make_record(&m, "x.comfy_quant", rows[i].json);
        binds(&m, "", rows[i].says);
    }
    maker m;
    make_begin(&m);
    make_record(&m, "x.comfy_quant", "{\"format\":\"float8_e4m3fn\"}");
    binds(&m, "", "layer x: is marked as float8_e4m3fn but has no weight");
    make_begin(&m);
    make_zeros(&m, "x.weight", "BF16", "2, 2", 8);
    make_record(&m, "x.comfy_quant", "{\"format\":\"float8_e4m3fn\"}");
    binds(&m, "", "layer x: is marked as float8_e4m3fn but its weight is stored as BF16");
    make_begin(&m);
    make_zeros(&m, "x.comfy_quant", "I8", "2", 2);
    binds(&m, "", "layer x: comfy_quant is no list of bytes");
    make_begin(&m);
    static const char spaces[70000] = { 0 };
    make_tensor(&m, "x.comfy_quant", "U8", "70000", spaces, sizeof spaces);
    binds(&m, "", "layer x: comfy_quant has 70000 bytes, at most 65536 are allowed");
}

static void header_lists_are_read_strictly(void **state) {
    (void)state;
    static const struct {
        const char *json, *says;
    } rows[] = {
        { "{'layers':{'x':{'format':'float8_e4m3fn'}}}", NULL },
        { "{'format_version':'1.0','layers':{'x':{'format':'float8_e4m3fn'}}}", NULL },
        { "{'format_version':'2.0','layers':{}}", "_quantization_metadata has the format_version '2.0'" },
        { "{'format_version':1,'layers':{}}", "a string is expected" },
        { "{'format_version':'1.0'}", "_quantization_metadata has no layers" },
        { "{'layers':[]}", "_quantization_metadata is broken at byte 10: an object is expected" },
        { "{'layers':{},'layers':{}}", "_quantization_metadata has 'layers' twice" },
        { "{'layers':{},'default':{}}", "unsupported field 'default' in _quantization_metadata" },
        { "{'layers':{}}{}", "nothing more is expected" },
        { "[]", "an object is expected" },
        { "", "an object is expected" },
        { "nonsense", "_quantization_metadata is broken at byte 0: an object is expected" },
        { "{'layers':{'x':{'format':'float8_e4m3fn'},'x':{'format':'float8_e4m3fn'}}}", "layer x: is listed twice" },
        { "{'layers':{'x':'float8_e4m3fn'}}", "layer x: _quantization_metadata is broken at byte 15: an object" },
        { "{'layers':{'y':{'format':'float8_e4m3fn'}}}", "layer y: is marked as float8_e4m3fn but has no weight" },
        { "{'layers':{'z':{'format':'float8_e4m3fn'}}}",
          "layer z: is marked as float8_e4m3fn but its weight is stored" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF json;
        kn_buf_init(&json, 4096);
        assert_true(kn_buf_add_text(&json, "{\"_quantization_metadata\":\""));
        for (const char *p = rows[i].json; *p; p++) /* ' stands for " to keep the rows readable */
            assert_true(*p == '\'' ? kn_buf_add_text(&json, "\\\"") : kn_buf_add(&json, p, 1));
        assert_true(kn_buf_add_text(&json, "\"}"));
        maker m;
        make_begin(&m);
        make_metadata(&m, json.data);
        make_tensor(&m, "x.weight", "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, "x.weight_scale", "F32", "1", &half, 4);
        make_zeros(&m, "z.weight", "F32", "1, 1", 4);
        binds(&m, "", rows[i].says);
    }
    KN_AUTO_BUF large;
    kn_buf_init(&large, 4 << 20);
    assert_true(kn_buf_add_text(&large, "{\"_quantization_metadata\":\""));
    for (int i = 0; i < 1050000 / 10; i++)
        assert_true(kn_buf_add(&large, "          ", 10));
    assert_true(kn_buf_add_text(&large, "\"}"));
    maker m;
    make_begin(&m);
    make_metadata(&m, large.data);
    binds(&m, "", "_quantization_metadata has 1050000 bytes, at most 1048576 are allowed");
}

static void listed_names_may_carry_or_lack_the_files_prefix(void **state) {
    (void)state;
    static const struct {
        const char *prefix, *listed;
        bool found;
    } rows[] = {
        { "", "blocks.0.wq", true },
        { "", "model.diffusion_model.blocks.0.wq", true },
        { "", "diffusion_model.blocks.0.wq", true },
        { "model.diffusion_model.", "blocks.0.wq", true },
        { "model.diffusion_model.", "diffusion_model.blocks.0.wq", true },
        { "model.diffusion_model.", "model.diffusion_model.blocks.0.wq", true },
        { "text_encoders.qwen3_4b.transformer.model.", "model.blocks.0.wq", true },
        { "text_encoders.qwen3_4b.transformer.model.", "blocks.0.wq", true },
        { "text_encoders.qwen3_4b.transformer.model.", "text_encoders.other.transformer.model.blocks.0.wq", true },
        { "text_encoders.", "blocks.0.wq", true },
        { "text_encoders.x.y.", "y.blocks.0.wq", false },
        { "model.", "elsewhere.blocks.0.wq", false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char json[512], weight[128], scale[136];
        snprintf(
            json, sizeof json,
            "{\"_quantization_metadata\":\"{\\\"layers\\\":{\\\"%s\\\":{\\\"format\\\":\\\"float8_e4m3fn\\\"}}}\"}",
            rows[i].listed);
        snprintf(weight, sizeof weight, "%sblocks.0.wq.weight", rows[i].prefix);
        snprintf(scale, sizeof scale, "%s_scale", weight);
        maker m;
        make_begin(&m);
        make_metadata(&m, json);
        make_tensor(&m, weight, "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, scale, "F32", "", &half, 4);
        binds(&m, rows[i].prefix, rows[i].found ? NULL : "has no weight");
    }
}

static void a_header_list_goes_before_a_record_and_a_marker(void **state) {
    (void)state;
    maker m;
    KN_AUTO_BUF file;
    make_begin(&m);
    make_metadata(&m, "{\"_quantization_metadata\":\"{\\\"layers\\\":{\\\"x\\\":{\\\"format\\\":\\\"float8_e5m2\\\","
                      "\\\"full_precision_matrix_mult\\\":true}}}\"}");
    make_tensor(&m, "x.weight", "F8_E5M2", "1, 2", "\x3c\xbc", 2);
    make_tensor(&m, "x.scale_weight", "F32", "1", &half, 4);
    make_tensor(&m, "x.input_scale", "F32", "", &half, 4);
    make_record(&m, "x.comfy_quant", "{\"format\":\"float8_e5m2\",\"full_precision_matrix_mult\":false}");
    make_zeros(&m, "scaled_fp8", "F8_E5M2", "0", 0);
    make_end(&m, &file);
    kn_weights *w = open_made(&file);
    kn_quantization q = { 0 };
    kn_error err = { 0 };
    assert_true(kn_quantization_read(w, "", &q, &err));
    const kn_quant_layer *l = kn_quantization_find(&q, kn_weights_find(w, "x.weight"));
    assert_non_null(l);
    assert_true(l->full_precision && l->listed && l->recorded && l->marked && l->scale == 0.5f &&
                l->input_scale == 0.5f);
    assert_null(kn_quantization_find(&q, kn_weights_find(w, "x.scale_weight")));
    kn_quantization_free(&q);

    kn_binder *b = NULL;
    assert_true(kn_binder_new(w, "", false, &b, &err));
    kn_weight x = kn_take_matrix(b, 1, 2, "x");
    assert_true(kn_binder_finish(b, &err)); /* scales, record and marker are accounted for */
    float v[2];
    kn_decode(x.dtype, x.data, 2, v);
    assert_true(v[0] * x.scale == 0.5f && v[1] * x.scale == -0.5f && x.full_precision);
    kn_binder_free(b);
    kn_weights_close(w);
}

static void plain_codes_have_scale_one_only_where_nothing_is_marked(void **state) {
    (void)state;
    for (int marks = 0; marks < 4; marks++) {
        maker m;
        KN_AUTO_BUF file;
        make_begin(&m);
        make_tensor(&m, "dit.x.weight", "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, "dit.y.weight", "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, "te.z.weight", "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, "te.z.scale_weight", "F32", "", &half, 4);
        make_zeros(&m, "te.scaled_fp8", "F32", "1", 4);
        if (marks == 1)
            make_tensor(&m, "dit.x.weight_scale", "F32", "", &half, 4);
        else if (marks == 2)
            make_zeros(&m, "scaled_fp8", "F8_E4M3", "0", 0);
        else if (marks == 3)
            make_record(&m, "dit.x.comfy_quant", "{\"format\":\"float8_e4m3fn\"}");
        make_end(&m, &file);
        kn_weights *w = open_made(&file);
        kn_binder *b = NULL;
        kn_error err = { 0 };
        static const char *const says[] = {
            NULL,
            "layer dit.y is missing weight_scale",
            "layer dit.x is missing weight_scale",
            "layer dit.x is missing weight_scale",
        };
        assert_int_equal(kn_binder_new(w, "dit.", false, &b, &err), !says[marks]);
        if (says[marks]) {
            assert_string_equal(err.text, says[marks]);
        } else { /* the other component's marks do not reach here */
            kn_weight x = kn_take_matrix(b, 2, 2, "x");
            assert_true(x.data && x.dtype == KN_F8_E4M3 && x.scale == 1 && !x.full_precision);
        }
        kn_binder_free(b);
        b = NULL;
        err = (kn_error){ 0 };
        assert_true(kn_binder_new(w, "te.", false, &b, &err));
        assert_true(kn_take_matrix(b, 2, 2, "z").scale == 0.5f);
        kn_binder_free(b);
        kn_weights_close(w);
    }
}

static void a_listed_layer_of_another_component_does_not_matter(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    make_metadata(&m, "{\"_quantization_metadata\":\"{\\\"layers\\\":{\\\"te.z\\\":{\\\"format\\\":\\\"nvfp4\\\"},"
                      "\\\"dit.x\\\":{\\\"format\\\":\\\"float8_e4m3fn\\\"}}}\"}");
    make_tensor(&m, "dit.x.weight", "F8_E4M3", "2, 2", CODES, 4);
    make_tensor(&m, "dit.x.weight_scale", "F32", "", &half, 4);
    make_zeros(&m, "te.z.weight", "U8", "2, 2", 4);
    KN_AUTO_BUF file;
    make_end(&m, &file);
    kn_weights *w = open_made(&file);
    kn_quantization q;
    kn_error err = { 0 };
    assert_true(kn_quantization_read(w, "dit.", &q, &err));
    assert_int_equal(q.count, 1);
    assert_true(q.layer[0].listed && q.layer[0].scale == 0.5f);
    kn_quantization_free(&q);
    assert_false(kn_quantization_read(w, "te.", &q, &err));
    assert_string_equal(
        err.text, "layer te.z: unsupported quantization format 'nvfp4'; use an FP8, INT8 or GGUF version of the model");
    kn_weights_close(w);
}

static void scales_must_be_single_positive_numbers_of_fp8_layers(void **state) {
    (void)state;
    static const float bad[] = { 0, -1, NAN, INFINITY };
    maker m;
    for (size_t i = 0; i < KN_COUNT(bad); i++) {
        make_begin(&m);
        make_tensor(&m, "x.weight", "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, "x.weight_scale", "F32", "", &bad[i], 4);
        binds(&m, "", "layer x: invalid weight scale");
        make_begin(&m);
        make_tensor(&m, "x.weight", "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, "x.weight_scale", "F32", "", &half, 4);
        make_tensor(&m, "x.input_scale", "F32", "", &bad[i], 4);
        binds(&m, "", "layer x: invalid input scale");
    }
    static const struct {
        const char *weight_dtype, *shape;
        size_t bytes;
        const char *companion, *companion_dtype, *says;
    } rows[] = {
        { "F8_E4M3", "2, 2", 4, "x.scale_weight", "BF16", "layer x: weight scale is stored as BF16, F32 is needed" },
        { "BF16", "2, 2", 8, "x.weight_scale", "F32",
          "layer x: has weight_scale, but its weight [2, 2] is stored as BF16" },
        { "U8", "2, 2", 4, "x.weight_scale", "F32",
          "layer x: has weight_scale, but its weight [2, 2] is stored as U8" },
        { "F8_E4M3", "2, 2", 4, "y.scale_weight", "F32", "layer y: has scale_weight but no weight" },
        { "F8_E4M3", "2, 2", 4, "x.weight_scale_2", "F32", "'x.weight_scale_2' belongs to the format NVFP4" },
        { "F8_E5M2", "2, 2, 1, 1", 4, "x.weight_scale", "F32",
          "layer x: has weight_scale, but its weight [2, 2, 1, 1] is stored as F8_E5M2; only FP8 and INT8 matrices" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        make_begin(&m);
        make_zeros(&m, "x.weight", rows[i].weight_dtype, rows[i].shape, rows[i].bytes);
        make_tensor(&m, rows[i].companion, rows[i].companion_dtype, "1", &half,
                    strcmp(rows[i].companion_dtype, "F32") == 0 ? 4 : 2);
        binds(&m, "", rows[i].says);
    }
    make_begin(&m);
    make_tensor(&m, "x.weight", "F8_E4M3", "2, 2", CODES, 4);
    make_tensor(&m, "x.weight_scale", "F32", "", &half, 4);
    make_tensor(&m, "x.scale_weight", "F32", "", &half, 4);
    binds(&m, "", "layer x: has two weight scales");
    make_begin(&m);
    make_tensor(&m, "x.weight", "F8_E4M3", "2, 2", CODES, 4);
    make_tensor(&m, "x.weight_scale", "F32", "", &half, 4);
    make_record(&m, "x.comfy_quant", "{\"format\":\"float8_e4m3fn\"}");
    make_tensor(&m, "y.weight", "F8_E4M3", "2, 2", CODES, 4);
    make_tensor(&m, "y.weight_scale", "F32", "", &half, 4);
    binds(&m, "", "layer y is stored as F8_E4M3, but the quantization metadata omits it");
}

static void fp8_is_for_matrices_only(void **state) {
    (void)state;
    maker m;
    KN_AUTO_BUF file;
    make_begin(&m);
    make_tensor(&m, "c.weight", "F8_E4M3", "2, 2, 1, 1", CODES, 4);
    make_tensor(&m, "v", "F8_E5M2", "4", CODES, 4);
    make_tensor(&m, "ignored.bias", "F8_E5M2", "4", CODES, 4);
    make_end(&m, &file);
    kn_weights *w = open_made(&file);
    kn_binder *b = NULL;
    kn_error err = { 0 };
    assert_true(kn_binder_new(w, "", false, &b, &err));
    kn_take_conv(b, 2, 2, 1, 1, "c");
    kn_take_matrix(b, 2, 2, "c");
    kn_take_vector(b, 4, 0, "v");
    kn_ignore(b, "ignored");
    assert_false(kn_binder_finish(b, &err));
    assert_int_equal(err.code, KN_E_UNSUPPORTED);
    assert_string_equal(err.text,
                        "'c.weight' is stored as F8_E4M3, F32, F16 or BF16 is needed, 'c.weight' is stored as "
                        "F8_E4M3, F32, F16 or BF16 is needed, 'v' is stored as F8_E5M2, F32, F16 or BF16 is "
                        "needed");
    kn_binder_free(b);
    kn_weights_close(w);
}

static void markers_say_the_format_of_what_lies_below_them(void **state) {
    (void)state;
    static const struct {
        const char *marker, *dtype, *shape;
        size_t bytes;
        const char *says;
    } rows[] = {
        { "a.scaled_fp8", "F32", "2", 8, NULL },
        { "scaled_fp8", "F8_E4M3", "0", 0, NULL },
        { "a.scaled_fp8", "F8_E5M2", "1", 1,
          "tensor 'a.b.x.weight' is stored as F8_E4M3, but marker 'a.scaled_fp8' says F8_E5M2" },
        { "scaled_fp8", "BF16", "1", 2, "marker 'scaled_fp8' has the type BF16" },
        { "other.scaled_fp8", "F8_E5M2", "0", 0, NULL },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        maker m;
        make_begin(&m);
        make_tensor(&m, "a.b.x.weight", "F8_E4M3", "2, 2", CODES, 4);
        make_tensor(&m, "a.b.x.scale_weight", "F32", "", &half, 4);
        make_zeros(&m, rows[i].marker, rows[i].dtype, rows[i].shape, rows[i].bytes);
        binds(&m, i == 2 ? "a.b." : "", rows[i].says); /* a marker above the prefix reaches under it */
    }
    maker m;
    make_begin(&m);
    for (int i = 0; i < 17; i++) {
        char name[32];
        snprintf(name, sizeof name, "te%d.scaled_fp8", i);
        make_zeros(&m, name, "F32", "1", 4);
    }
    binds(&m, "", "more than 16 scaled_fp8 markers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_markings_give_the_same_weights_and_output),
        cmocka_unit_test(refuses_every_bad_golden_file_by_layer),
        cmocka_unit_test(records_are_read_strictly),
        cmocka_unit_test(header_lists_are_read_strictly),
        cmocka_unit_test(listed_names_may_carry_or_lack_the_files_prefix),
        cmocka_unit_test(a_header_list_goes_before_a_record_and_a_marker),
        cmocka_unit_test(plain_codes_have_scale_one_only_where_nothing_is_marked),
        cmocka_unit_test(a_listed_layer_of_another_component_does_not_matter),
        cmocka_unit_test(scales_must_be_single_positive_numbers_of_fp8_layers),
        cmocka_unit_test(fp8_is_for_matrices_only),
        cmocka_unit_test(markers_say_the_format_of_what_lies_below_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
