/* GGUF files: what they hold, read as any other model file, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_maker.h"
#include "golden.h"
#include "weights/weights.h"

static void both_versions_hold_what_the_reference_wrote(void **state) {
    (void)state;
    static const char *const files[] = { "gguf/container/v3.gguf", "gguf/container/v2.gguf" };
    static const struct {
        const char *key, *value;
    } metadata[] = {
        { "general.alignment", "64" },
        { "general.architecture", "synthetic" },
        { "t.bool", "true" },
        { "t.f32", "0.25" },
        { "t.i16", "-12345" },
        { "t.i32", "-5" },
        { "t.i64", "-1099511627776" },
        { "t.i8", "-7" },
        { "t.ints", "1,2,3" },
        { "t.str", "café" },
        { "t.strs", "" },
        { "t.floats", "" },
        { "t.u16", "60000" },
        { "t.u32", "4000000000" },
        { "t.u64", "1099511627776" },
        { "t.u8", "200" },
    };
    golden want = golden_open("gguf/container/expected.safetensors");
    for (size_t f = 0; f < KN_COUNT(files); f++) {
        golden g = golden_open(files[f]);
        assert_int_equal(kn_weights_count(g.file), kn_weights_count(want.file));
        for (size_t i = 0; i < kn_weights_count(want.file); i++) {
            const kn_entry *expected = kn_weights_at(want.file, i), *e = kn_weights_find(g.file, expected->name);
            assert_non_null(e);
            assert_int_equal(e->rank, expected->rank);
            assert_memory_equal(e->dim, expected->dim, sizeof e->dim);
            float *values = malloc(e->elements * sizeof *values);
            kn_decode(e->dtype, e->data, e->elements, values);
            assert_memory_equal(values, expected->data, e->elements * sizeof *values); /* to the bit */
            free(values);
            assert_true(kn_entry_is_finite(e));
        }
        for (size_t i = 0; i < KN_COUNT(metadata); i++)
            assert_string_equal(kn_weights_metadata(g.file, metadata[i].key), metadata[i].value);
        char f64[32];
        snprintf(f64, sizeof f64, "%.3f", strtod(kn_weights_metadata(g.file, "t.f64"), NULL));
        assert_string_equal(f64, "0.001");
        golden_close(&g);
    }
    golden_close(&want);
}

static void every_case_comes_out_as_its_table_says(void **state) {
    (void)state;
    json_t *rows = golden_json("gguf/expected.json"), *row = NULL;
    assert_int_equal(json_array_size(rows), 33);
    size_t i = 0;
    json_array_foreach(rows, i, row) {
        char path[96];
        snprintf(path, sizeof path, "gguf/%s", golden_text(row, "file"));
        kn_weights *w = NULL;
        kn_error err = { 0 };
        bool opened = kn_weights_open(golden_path(path).path, &w, &err);
        if (strcmp(golden_text(row, "result"), "refuse") == 0) {
            if (opened || !strstr(err.text, golden_text(row, "says")) || strpbrk(err.text, "\n\x1b"))
                fail_msg("%s: says '%s', expected '%s'", path, err.text, golden_text(row, "says"));
            continue;
        }
        if (!opened)
            fail_msg("%s: %s", path, err.text);
        assert_int_equal(kn_weights_count(w), golden_size(row, "tensors"));
        if (kn_weights_count(w) == 0) {
            kn_binder *b = NULL;
            assert_true(kn_binder_new(w, "", false, &b, &err));
            assert_false(kn_binder_finish(b, &err));
            assert_string_equal(err.text, "has no tensors");
            kn_binder_free(b);
        }
        const json_t *values = json_object_get(row, "values");
        for (size_t k = 0; k < json_array_size(values); k++) {
            const kn_entry *e = kn_weights_at(w, 0);
            float v[4] = { 0 };
            assert_int_equal(e->elements, KN_COUNT(v));
            kn_decode(e->dtype, e->data, KN_COUNT(v), v);
            assert_true(v[k] == (float)json_number_value(json_array_get(values, k)));
        }
        kn_weights_close(w);
    }
    json_decref(rows);
}

static void a_convolution_over_time_gets_its_five_dimensions_back(void **state) {
    (void)state;
    static const struct {
        uint64_t dim[4], bias, want[5];
        int rank;
    } rows[] = {
        { { 12, 3, 2, 2 }, 4, { 4, 3, 3, 2, 2 }, 5 },
        { { 12, 1, 1, 1 }, 3, { 3, 4, 1, 1, 1 }, 5 },
        { { 12, 3, 2, 2 }, 1, { 1, 12, 3, 2, 2 }, 5 },
        { { 12, 3, 2, 2 }, 12, { 12, 3, 2, 2 }, 4 }, /* as many rows as biases: over a picture */
        { { 12, 3, 2, 2 }, 5, { 12, 3, 2, 2 }, 4 },
        { { 12, 4, 2, 2 }, 4, { 12, 4, 2, 2 }, 4 }, /* longer than any */
        { { 12, 3, 2, 2 }, 0, { 12, 3, 2, 2 }, 4 }, /* has no bias */
    };
    static const uint8_t zeros[4096];
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const uint64_t *dim = rows[i].dim;
        kn_entry weight = { .name = "c.weight", .dtype = KN_F32, .data = zeros }, bias = weight;
        weight.bytes = sizeof(float) * dim[0] * dim[1] * dim[2] * dim[3];
        bias.name = "c.bias";
        bias.bytes = sizeof(float) * rows[i].bias;
        gguf_maker m;
        KN_AUTO_BUF file;
        gguf_begin(&m, 1 + (rows[i].bias > 0), 0);
        gguf_copy(&m, &weight, 4, dim);
        if (rows[i].bias)
            gguf_copy(&m, &bias, 1, &rows[i].bias);
        gguf_end(&m, &file);
        kn_weights *w = NULL;
        kn_error err = { 0 };
        if (!kn_weights_open_bytes((const uint8_t *)file.data, file.len, &w, &err))
            fail_msg("%s", err.text);
        const kn_entry *e = kn_weights_find(w, "c.weight");
        assert_int_equal(e->rank, rows[i].rank);
        assert_memory_equal(e->dim, rows[i].want, (size_t)e->rank * sizeof *e->dim);
        kn_weights_close(w);
    }
}

static void lists_of_texts_are_there_to_the_byte(void **state) {
    (void)state;
    static const char *const texts[] = { "", "a", "\xC4\xA0the", "\xFF no UTF-8" };
    gguf_maker m;
    kn_buf file;
    gguf_begin(&m, 0, 4);
    gguf_pair_texts(&m, "b.texts", texts, KN_COUNT(texts));
    gguf_pair_texts(&m, "c.none", texts, 0);
    gguf_pair_text(&m, "a.text", "one");
    gguf_pair_array(&m, "d.numbers", (int32_t[]){ 1, 2 }, 2);
    gguf_end(&m, &file);
    kn_weights *w = NULL;
    kn_error err = { 0 };
    if (!kn_weights_open_bytes((const uint8_t *)file.data, file.len, &w, &err))
        fail_msg("%s", err.text);
    kn_texts list = kn_weights_texts(w, "b.texts");
    assert_int_equal(list.count, KN_COUNT(texts));
    const char *text = NULL;
    size_t len = 0;
    for (size_t i = 0; i < KN_COUNT(texts); i++) {
        assert_true(kn_texts_next(&list, &text, &len));
        assert_int_equal(len, strlen(texts[i]));
        assert_memory_equal(text, texts[i], len);
    }
    assert_false(kn_texts_next(&list, &text, &len));
    static const char *const others[] = { "a.text", "c.none", "d.numbers", "not there" };
    for (size_t i = 0; i < KN_COUNT(others); i++)
        assert_int_equal(kn_weights_texts(w, others[i]).count, 0);
    assert_string_equal(kn_weights_metadata(w, "b.texts"), "");
    kn_weights_close(w);
    kn_buf_free(&file);
}

static bool opens(const kn_buf *file, kn_weights **w, kn_error *err) {
    return kn_weights_open_bytes((const uint8_t *)file->data, file->len, w, err);
}

static kn_weights *open_made_gguf(const kn_buf *file) {
    kn_weights *w = NULL;
    kn_error err = { 0 };
    if (!opens(file, &w, &err))
        fail_msg("%s", err.text);
    return w;
}

static void refuses(gguf_maker *m, kn_code code, const char *says) {
    KN_AUTO_BUF file;
    gguf_end(m, &file);
    kn_weights *w = NULL;
    kn_error err = { 0 };
    if (opens(&file, &w, &err) || err.code != code || !strstr(err.text, says))
        fail_msg("code %d, '%s'; expected code %d, '%s'", (int)err.code, err.text, (int)code, says);
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    gguf_maker m;
    KN_AUTO_BUF file;
    gguf_begin(&m, 2, 2);
    gguf_pair_text(&m, "general.architecture", "qwen3");
    gguf_pair_array(&m, "list", (int32_t[]){ 1, -2 }, 2);
    gguf_tensor(&m, "output_norm.weight", 0, 8, 0, 32);
    gguf_tensor(&m, "blk.0.attn_q.weight", 8, 32, 2, 68);
    gguf_end(&m, &file);
    size_t last_byte = file.len - 28; /* behind it is padding */
    kn_weights_close(open_made_gguf(&file));
    for (size_t len = 0; len < last_byte; len++) {
        /* A copy of exactly this size lets the sanitizer see a read behind it. */
        uint8_t *cut = malloc(len + !len);
        memcpy(cut, file.data, len);
        kn_weights *w = NULL;
        kn_error err = { 0 };
        assert_false(kn_weights_open_bytes(cut, len, &w, &err));
        if (err.code != KN_E_TRUNCATED)
            fail_msg("%zu bytes: code %d, '%s'", len, (int)err.code, err.text);
        free(cut);
    }
}

static void odd_values_and_tensors_are_refused_by_name(void **state) {
    (void)state;
    gguf_maker m;
    gguf_begin(&m, 0, 1);
    gguf_pair_int(&m, "k", 13, 0, 8);
    refuses(&m, KN_E_FORMAT, "key 'k': has a value of the unknown type 13");
    gguf_begin(&m, 0, 1);
    gguf_pair_int(&m, "k", GGUF_BOOL, 2, 1);
    refuses(&m, KN_E_FORMAT, "key 'k': has the truth value 2");
    gguf_begin(&m, 0, 1);
    gguf_pair_text(&m, "a\xff", "v");
    refuses(&m, KN_E_FORMAT, "a key 'a\\xff' is not UTF-8 at byte 1");
    gguf_begin(&m, 0, 2);
    gguf_pair_text(&m, "k", "v");
    gguf_pair_text(&m, "k", "v");
    refuses(&m, KN_E_FORMAT, "metadata key 'k' is there twice");
    gguf_begin(&m, 0, 1);
    gguf_pair_int(&m, "general.alignment", GGUF_U32, 48, 4);
    refuses(&m, KN_E_RANGE, "key 'general.alignment': 48 is no power of two of at least 8");
    gguf_begin(&m, 0, 1);
    gguf_pair_int(&m, "split.count", GGUF_U16, 3, 2);
    refuses(&m, KN_E_UNSUPPORTED, "key 'split.count': the file is one of 3 parts; join them first");
    gguf_begin(&m, 1, 0);
    gguf_tensor(&m, "w", 40, 64, 0, 36);
    refuses(&m, KN_E_UNSUPPORTED, "tensor 'w': is stored as NVFP4, which is not supported; use a Q8_0");
    gguf_begin(&m, 1, 0);
    gguf_tensor(&m, "w", 19, 256, 0, 50);
    refuses(&m, KN_E_UNSUPPORTED, "tensor 'w': is stored as IQ1_S, which is not supported");
    gguf_begin(&m, 1, 0);
    gguf_tensor(&m, "w", 31, 32, 0, 18);
    refuses(&m, KN_E_UNSUPPORTED, "tensor 'w': has the unknown type 31");
    gguf_begin(&m, 1, 0);
    gguf_tensor(&m, "w", 8, 0, 0, 34);
    refuses(&m, KN_E_FORMAT, "tensor 'w': its rows [] are no whole blocks of Q8_0");
    gguf_begin(&m, 2, 0);
    gguf_tensor(&m, "a", 0, 8, 0, 32);
    m.data.len = 0; /* the next one begins where the first does */
    gguf_tensor(&m, "b", 0, 8, 0, 32);
    refuses(&m, KN_E_FORMAT, "overlap");
}

static void text_encoders_get_the_names_of_their_network(void **state) {
    (void)state;
    static const char *const names[][2] = {
        { "token_embd.weight", "model.embed_tokens.weight" },
        { "output_norm.weight", "model.norm.weight" },
        { "output.weight", "lm_head.weight" },
        { "blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight" },
        { "blk.35.attn_q.weight", "model.layers.35.self_attn.q_proj.weight" },
        { "blk.1.attn_k.bias", "model.layers.1.self_attn.k_proj.bias" },
        { "blk.1.attn_v.bias", "model.layers.1.self_attn.v_proj.bias" },
        { "blk.1.attn_q_norm.weight", "model.layers.1.self_attn.q_norm.weight" },
        { "blk.1.attn_k_norm.weight", "model.layers.1.self_attn.k_norm.weight" },
        { "blk.1.attn_output.weight", "model.layers.1.self_attn.o_proj.weight" },
        { "blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight" },
        { "blk.1.ffn_gate.weight", "model.layers.1.mlp.gate_proj.weight" },
        { "blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight" },
        { "blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight" },
        { "blk.01.ffn_up.weight", NULL },
        { "blk..ffn_up.weight", NULL },
        { "blk.1.ffn_up.", NULL },
        { "blk.1.unknown.weight", NULL },
    };
    for (int known = 0; known < 2; known++) {
        gguf_maker m;
        KN_AUTO_BUF file;
        gguf_begin(&m, KN_COUNT(names), 1);
        gguf_pair_text(&m, "general.architecture", known ? "qwen3vl" : "qwen_image");
        for (size_t i = 0; i < KN_COUNT(names); i++)
            gguf_tensor(&m, names[i][0], 24, 1, 0, 1);
        gguf_end(&m, &file);
        kn_weights *w = open_made_gguf(&file);
        for (size_t i = 0; i < KN_COUNT(names); i++) {
            const kn_entry *e = kn_weights_find(w, known && names[i][1] ? names[i][1] : names[i][0]);
            if (!e || *e->data != i)
                fail_msg("%s", names[i][0]);
        }
        kn_weights_close(w);
    }
}

static void vision_towers_get_the_names_of_their_network(void **state) {
    (void)state;
    static const char *const names[][2] = {
        { "v.patch_embd.weight", "visual.patch_embed.proj.weight" },
        { "v.patch_embd.weight.1", "visual.patch_embed.second_proj.weight" },
        { "v.patch_embd.bias", "visual.patch_embed.proj.bias" },
        { "v.position_embd.weight", "visual.pos_embed.weight" },
        { "v.blk.26.ln1.bias", "visual.blocks.26.norm1.bias" },
        { "v.blk.0.ln2.weight", "visual.blocks.0.norm2.weight" },
        { "v.blk.0.attn_qkv.weight", "visual.blocks.0.attn.qkv.weight" },
        { "v.blk.0.attn_out.bias", "visual.blocks.0.attn.proj.bias" },
        { "v.blk.0.ffn_up.weight", "visual.blocks.0.mlp.linear_fc1.weight" },
        { "v.blk.0.ffn_down.weight", "visual.blocks.0.mlp.linear_fc2.weight" },
        { "v.post_ln.weight", "visual.merger.norm.weight" },
        { "mm.0.weight", "visual.merger.linear_fc1.weight" },
        { "mm.2.bias", "visual.merger.linear_fc2.bias" },
        { "v.deepstack.24.fc2.weight", "visual.deepstack_merger_list.2.linear_fc2.weight" },
        { "v.deepstack.8.norm.weight", "visual.deepstack_merger_list.0.norm.weight" },
        { "v.deepstack.16.fc1.bias", "visual.deepstack_merger_list.1.linear_fc1.bias" },
        { "v.deepstack.64.fc1.bias", NULL },
    };
    for (int known = 0; known < 2; known++) {
        gguf_maker m;
        KN_AUTO_BUF file;
        gguf_begin(&m, KN_COUNT(names), 2);
        gguf_pair_text(&m, "general.architecture", "clip");
        gguf_pair_text(&m, "clip.projector_type", known ? "qwen3vl_merger" : "mlp");
        for (size_t i = 0; i < KN_COUNT(names); i++)
            gguf_tensor(&m, names[i][0], 24, 1, 0, 1);
        gguf_end(&m, &file);
        kn_weights *w = open_made_gguf(&file);
        for (size_t i = 0; i < KN_COUNT(names); i++) {
            const kn_entry *e = kn_weights_find(w, known && names[i][1] ? names[i][1] : names[i][0]);
            if (!e || *e->data != i)
                fail_msg("%s", names[i][0]);
        }
        kn_weights_close(w);
    }
}

static void a_network_s_own_name_beside_the_other_one_is_refused(void **state) {
    (void)state;
    gguf_maker m;
    gguf_begin(&m, 2, 1);
    gguf_pair_text(&m, "general.architecture", "qwen3");
    gguf_tensor(&m, "token_embd.weight", 0, 8, 0, 32);
    gguf_tensor(&m, "model.embed_tokens.weight", 0, 8, 0, 32);
    refuses(&m, KN_E_FORMAT, "tensor 'model.embed_tokens.weight' is there twice");
}

static void takes_blocks_as_matrices_and_vectors(void **state) {
    (void)state;
    gguf_maker m;
    KN_AUTO_BUF file;
    gguf_begin(&m, 4, 2);
    gguf_pair_array(&m, "comfy.gguf.orig_shape.whole.weight", (int32_t[]){ 4, 32 }, 2);
    gguf_pair_array(&m, "comfy.gguf.orig_shape.torn.weight", (int32_t[]){ 8, 16 }, 2);
    gguf_tensor(&m, "whole.weight", 8, 64, 2, 136);
    gguf_tensor(&m, "torn.weight", 8, 64, 2, 136);
    gguf_tensor(&m, "norm", 8, 32, 0, 34);
    gguf_tensor(&m, "plain.weight", 8, 32, 3, 102);
    gguf_end(&m, &file);
    kn_weights *w = open_made_gguf(&file);
    kn_binder *b = NULL;
    kn_error err = { 0 };
    assert_true(kn_binder_new(w, "", false, &b, &err));
    kn_weight whole = kn_take_matrix(b, 4, 32, "whole"), plain = kn_take_matrix(b, 3, 32, "plain");
    assert_true(whole.data && plain.data && plain.dtype == KN_Q8_0 && plain.scale == 1);
    kn_weight row = kn_weight_rows(&plain, 2, 1);
    assert_ptr_equal(row.data, (const uint8_t *)plain.data + 2 * 34);
    assert_true(kn_take_vector(b, 32, 0, "norm").dtype == KN_F32);
    kn_take_matrix(b, 8, 16, "torn");
    assert_false(kn_binder_finish(b, &err));
    assert_string_equal(err.text, "'torn.weight': its rows [8, 16] are no whole blocks of Q8_0");
    kn_binder_free(b);
    kn_weights_close(w);

    gguf_begin(&m, 1, 1);
    gguf_pair_array(&m, "comfy.gguf.orig_shape.w", (int32_t[]){ 4, 31 }, 2);
    gguf_tensor(&m, "w", 8, 64, 2, 136);
    refuses(&m, KN_E_FORMAT, "tensor 'w' has 128 elements, which are no [4,31]");
    gguf_begin(&m, 0, 1);
    gguf_pair_array(&m, "comfy.gguf.orig_shape.w", (int32_t[]){ 4, 32 }, 2);
    refuses(&m, KN_E_FORMAT, "key 'comfy.gguf.orig_shape.w' belongs to no tensor");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_versions_hold_what_the_reference_wrote),
        cmocka_unit_test(every_case_comes_out_as_its_table_says),
        cmocka_unit_test(a_convolution_over_time_gets_its_five_dimensions_back),
        cmocka_unit_test(lists_of_texts_are_there_to_the_byte),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(odd_values_and_tensors_are_refused_by_name),
        cmocka_unit_test(text_encoders_get_the_names_of_their_network),
        cmocka_unit_test(vision_towers_get_the_names_of_their_network),
        cmocka_unit_test(a_network_s_own_name_beside_the_other_one_is_refused),
        cmocka_unit_test(takes_blocks_as_matrices_and_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
