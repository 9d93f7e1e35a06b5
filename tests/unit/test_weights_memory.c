/* A component is opened, bound and closed with every allocation failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "weights/container.h"

#include "failing_alloc.h"
#include "gguf_maker.h"
#include "safetensors_maker.h"

/* A file with all that allocates: metadata, the three markings of FP8, vectors and a convolution to convert. */
static void make_everything(kn_buf *file) {
    static const float half = 0.5f;
    static const char record[] = "{\"format\":\"float8_e4m3fn\"}";
    maker m;
    make_begin(&m);
    make_metadata(&m, "{\"_quantization_metadata\":\"{\\\"format_version\\\":\\\"1.0\\\",\\\"layers\\\":"
                      "{\\\"net.a\\\":{\\\"format\\\":\\\"float8_e4m3fn\\\"}}}\"}");
    make_zeros(&m, "net.a.weight", "F8_E4M3", "2, 2", 4);
    make_tensor(&m, "net.a.weight_scale", "F32", "", &half, 4);
    make_zeros(&m, "net.a.bias", "BF16", "2", 4);
    make_zeros(&m, "net.b.weight", "F8_E4M3", "2, 2", 4);
    make_tensor(&m, "net.b.scale_weight", "F32", "", &half, 4);
    make_tensor(&m, "net.b.comfy_quant", "U8", "26", record, sizeof record - 1);
    make_zeros(&m, "net.scaled_fp8", "F8_E4M3", "0", 0);
    make_zeros(&m, "net.c.weight", "F16", "2, 2, 3, 3", 72);
    make_zeros(&m, "net.norm", "F32", "4", 16);
    make_zeros(&m, "other.d.weight", "I8", "2, 4", 8);
    make_zeros(&m, "other.d.weight_scale", "F32", "2", 8);
    make_end(&m, file);
}

/* One whole life of a component; the INT8 layer is one of its own. */
static bool load(void *path, kn_error *err) {
    kn_weights *w = NULL;
    kn_binder *b = NULL;
    bool ok = kn_weights_open(path, &w, err) && kn_binder_new(w, "net.", false, &b, err);
    if (ok) {
        kn_take_matrix(b, 2, 2, "a");
        kn_take_matrix(b, 2, 2, "b");
        kn_take_conv(b, 2, 2, 3, 3, "c");
        kn_take_vector(b, 4, 1, "norm");
        kn_ignore_outside(b, "other.");
        ok = kn_binder_finish(b, err);
    }
    kn_binder_free(b);
    b = NULL;
    ok = ok && kn_binder_new(w, "other.", false, &b, err);
    if (ok) {
        kn_take_matrix(b, 2, 4, "d");
        kn_ignore_outside(b, "net.");
        ok = kn_binder_finish(b, err);
    }
    kn_binder_free(b);
    kn_weights_close(w);
    return ok;
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    KN_AUTO_BUF file;
    make_everything(&file);
    char path[TEMP_PATH];
    int fd = make_temp(&file, path);
    alloc_fail_each(load, path, 12, 10000);
    assert_int_equal(unlink(path), 0);
    close(fd);
}

/* Metadata, names that change, all kinds of things to take. */
static void make_everything_as_gguf(kn_buf *file) {
    gguf_maker m;
    gguf_begin(&m, 3, 2);
    gguf_pair_text(&m, "general.architecture", "qwen3");
    gguf_pair_array(&m, "list", (int32_t[]){ 1, 2, 3 }, 3);
    gguf_tensor(&m, "blk.0.attn_q.weight", 8, 32, 2, 68);
    gguf_tensor(&m, "blk.0.attn_q.bias", 0, 2, 0, 8);
    gguf_tensor(&m, "blk.0.attn_norm.weight", 30, 4, 0, 8);
    gguf_end(&m, file);
}

static bool load_gguf(void *path, kn_error *err) {
    kn_weights *w = NULL;
    kn_binder *b = NULL;
    bool ok = kn_weights_open(path, &w, err) && kn_binder_new(w, "model.", false, &b, err);
    if (ok) {
        kn_take_matrix(b, 2, 32, "layers.0.self_attn.q_proj");
        kn_take_vector(b, 4, 0, "layers.0.input_layernorm.weight");
        ok = kn_binder_finish(b, err);
    }
    kn_binder_free(b);
    kn_weights_close(w);
    return ok;
}

static void every_failed_allocation_of_a_gguf_file_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    KN_AUTO_BUF file;
    make_everything_as_gguf(&file);
    char path[TEMP_PATH];
    int fd = make_temp(&file, path);
    alloc_fail_each(load_gguf, path, 9, 100);
    assert_int_equal(unlink(path), 0);
    close(fd);
}

/* Two shards in memory. */
static bool open_shard(void *ctx, const char *name, kn_weights **ret, kn_error *err) {
    const kn_buf *files = ctx;
    const kn_buf *file = &files[*name == '2'];
    return kn_weights_open_bytes((const uint8_t *)file->data, file->len, ret, err);
}

static bool load_shards(void *ctx, kn_error *err) {
    static const char index[] = "{\"weight_map\":{\"a.weight\":\"1\",\"b.weight\":\"2\",\"b.bias\":\"2\"}}";
    kn_weights *w = NULL;
    bool ok = kn_shards_read(index, strlen(index), open_shard, ctx, &w, err);
    kn_weights_close(w);
    return ok;
}

static void every_failed_allocation_of_a_split_model_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    kn_buf files[2];
    maker m;
    make_begin(&m);
    make_metadata(&m, "{\"format\":\"pt\"}");
    make_zeros(&m, "a.weight", "F32", "2, 2", 16);
    make_end(&m, &files[0]);
    make_begin(&m);
    make_zeros(&m, "b.weight", "F32", "2, 2", 16);
    make_zeros(&m, "b.bias", "F32", "2", 8);
    make_end(&m, &files[1]);
    alloc_fail_each(load_shards, files, 15, 100);
    kn_buf_free(&files[0]);
    kn_buf_free(&files[1]);
}

/* Not one of the shards is there. */
static bool open_nothing(void *ctx, const char *name, kn_weights **ret, kn_error *err) {
    (void)ctx;
    (void)name;
    (void)err;
    *ret = NULL;
    return true;
}

static void telling_what_is_missing_leaks_nothing(void **state) {
    (void)state;
    static const char index[] = "{\"weight_map\":{\"a\":\"1\",\"b\":\"2\"}}";
    long before = alloc_live;
    for (long n = 0; n < 10; n++) {
        kn_weights *w = NULL;
        kn_error err = { 0 };
        alloc_fails_after = n;
        assert_false(kn_shards_read(index, strlen(index), open_nothing, NULL, &w, &err));
        alloc_fails_after = -1;
        assert_int_equal(alloc_live, before);
        assert_true(err.code == KN_E_NOMEM || err.code == KN_E_NOT_FOUND);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
        cmocka_unit_test(every_failed_allocation_of_a_gguf_file_is_an_error_and_leaks_nothing),
        cmocka_unit_test(every_failed_allocation_of_a_split_model_is_an_error_and_leaks_nothing),
        cmocka_unit_test(telling_what_is_missing_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
