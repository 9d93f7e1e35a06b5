#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "weights/weights.h"

#include "safetensors_maker.h"

typedef struct opened {
    kn_buf file;
    kn_weights *w;
    kn_binder *b;
} opened;

static opened open_for(maker *m, const char *prefix) {
    opened o = { 0 };
    make_end(m, &o.file);
    o.w = open_made(&o.file);
    kn_error err = { 0 };
    if (!kn_binder_new(o.w, prefix, false, &o.b, &err))
        fail_msg("%s", err.text);
    return o;
}

static void done(opened *o) {
    kn_binder_free(o->b);
    kn_weights_close(o->w);
    kn_buf_free(&o->file);
}

static void finishes(opened *o) {
    kn_error err = { 0 };
    if (!kn_binder_finish(o->b, &err))
        fail_msg("%s", err.text);
}

static void fails(opened *o, kn_code code, const char *text) {
    kn_error err = { 0 };
    assert_false(kn_binder_finish(o->b, &err));
    assert_string_equal(err.text, text);
    assert_int_equal(err.code, code);
    err = (kn_error){ 0 };
    assert_false(kn_binder_finish(o->b, &err)); /* sticky, and the same each time */
    assert_string_equal(err.text, text);
}

static void takes_matrices_as_they_are_stored_with_their_bias(void **state) {
    (void)state;
    static const float bias[] = { 0.5f, -2 };
    maker m;
    make_begin(&m);
    make_tensor(&m, "odd", "U8", "1", "?", 1); /* what follows lies at odd addresses */
    make_tensor(&m, "net.a.weight", "BF16", "2, 3", "\x80\x3f\0\x40\x40\x40\x80\x40\xa0\x40\xc0\x40", 12);
    make_tensor(&m, "net.a.bias", "F32", "2", bias, sizeof bias);
    make_tensor(&m, "net.b.weight", "F32", "1, 2", bias, sizeof bias);
    make_tensor(&m, "net.c.weight", "F32", "2, 1, 1, 1", bias, sizeof bias);
    make_tensor(&m, "net.d.weight", "F32", "1, 2, 1, 1, 1", bias, sizeof bias);
    opened o = open_for(&m, "net.");
    kn_ignore_outside(o.b, "odd");
    assert_true(kn_has(o.b, "%c.weight", 'a'));
    assert_false(kn_has(o.b, "a") || kn_has(o.b, "net.a.weight"));

    kn_weight a = kn_take_matrix(o.b, 2, -1, "%s", "a");
    assert_true(a.dtype == KN_BF16 && a.rank == 2 && a.dim[0] == 2 && a.dim[1] == 3 && a.scale == 1);
    assert_string_equal(a.name, "net.a.weight");
    assert_ptr_equal(a.data, kn_weights_find(o.w, "net.a.weight")->data); /* a view */
    assert_true((uintptr_t)a.data % 2 == (uintptr_t)(kn_weights_find(o.w, "odd")->data + 1) % 2);
    assert_true(a.bias[0] == 0.5f && a.bias[1] == -2);
    kn_weight row = kn_weight_rows(&a, 1, 1);
    float v[3];
    kn_decode(row.dtype, row.data, 3, v);
    assert_true(row.dim[0] == 1 && row.dim[1] == 3 && row.bias[0] == -2 && v[0] == 4 && v[2] == 6);

    assert_null(kn_take_matrix(o.b, 1, 2, "b").bias);
    kn_weight c = kn_take_matrix(o.b, 2, 1, "c"), d = kn_take_matrix(o.b, 1, 2, "d");
    assert_true(c.rank == 2 && c.dim[0] == 2 && c.dim[1] == 1 && d.rank == 2 && d.dim[0] == 1 && d.dim[1] == 2);
    kn_take_matrix(o.b, 2, 3, "a"); /* tied weights are taken twice */
    finishes(&o);
    done(&o);
}

static void flattens_the_patches_of_a_kernel(void **state) {
    (void)state;
    static const float values[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    maker m;
    make_begin(&m);
    make_tensor(&m, "p.weight", "F32", "2, 1, 2, 1, 2", values, sizeof values);
    make_tensor(&m, "p.bias", "F32", "2", values, 2 * sizeof *values);
    make_tensor(&m, "q.weight", "F32", "2, 4", values, sizeof values);
    opened o = open_for(&m, "");
    kn_weight p = kn_take_patch_matrix(o.b, -1, -1, "p"), q = kn_take_patch_matrix(o.b, 2, 4, "q");
    assert_true(p.rank == 2 && p.dim[0] == 2 && p.dim[1] == 4 && p.bias[1] == 2);
    assert_true(q.rank == 2 && q.dim[0] == 2 && q.dim[1] == 4);
    assert_ptr_equal(p.data, kn_weights_find(o.w, "p.weight")->data);
    finishes(&o);
    kn_take_patch_matrix(o.b, 2, 3, "p");
    fails(&o, KN_E_FORMAT, "'p.weight': expected [2, 3], found [2, 1, 2, 1, 2]");
    done(&o);
}

static void takes_vectors_as_float32_with_something_added(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    make_tensor(&m, "odd", "U8", "1", "?", 1);
    make_tensor(&m, "bf", "BF16", "3, 1, 1, 1", "\x80\x3f\0\xc0\0\0", 6);
    make_tensor(&m, "half", "F16", "1, 2", "\0\x3c\0\xc4", 4);
    make_tensor(&m, "full", "F32", "", "\0\0\x20\x40", 4);
    opened o = open_for(&m, "");
    kn_ignore(o.b, "odd");
    const float *bf = kn_take_vector(o.b, 3, 1, "bf").data;
    kn_weight half = kn_take_vector(o.b, -1, 0, "half"), full = kn_take_vector(o.b, 1, 0, "full");
    assert_true(bf[0] == 2 && bf[1] == -1 && bf[2] == 1);
    assert_true(half.dtype == KN_F32 && half.rank == 1 && half.dim[0] == 2 && half.scale == 1);
    assert_true(((const float *)half.data)[0] == 1 && ((const float *)half.data)[1] == -4);
    assert_true(full.dim[0] == 1 && *(const float *)full.data == 2.5f);
    assert_int_equal((uintptr_t)half.data % sizeof(float), 0);
    finishes(&o);
    done(&o);
}

static void takes_tables_in_either_shape(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    make_tensor(&m, "odd", "U8", "1", "?", 1);
    make_tensor(&m, "flat", "BF16", "4", "\0\0\x80\x3f\0\0\0\xc0", 8);
    make_tensor(&m, "rows", "BF16", "2, 2", "\0\0\x80\x3f\0\0\0\xc0", 8);
    opened o = open_for(&m, "");
    kn_ignore(o.b, "odd");
    kn_weight tables[] = { kn_take_table(o.b, 2, 2, "flat"), kn_take_table(o.b, 2, 2, "rows") };
    for (size_t i = 0; i < KN_COUNT(tables); i++) {
        const float *values = tables[i].data;
        assert_true(tables[i].dtype == KN_F32 && tables[i].rank == 2 && tables[i].dim[0] == 2 && tables[i].dim[1] == 2);
        assert_true(values[0] == 0 && values[1] == 1 && values[2] == 0 && values[3] == -2);
    }
    finishes(&o);
    kn_take_table(o.b, 4, 1, "rows");
    kn_take_table(o.b, 3, 2, "flat");
    kn_error err = { 0 };
    assert_false(kn_binder_finish(o.b, &err));
    assert_non_null(strstr(err.text, "'rows': expected [4, 1], found [2, 2], 'flat': expected [6], found [4]"));
    done(&o);
}

static void turns_convolutions_so_that_channels_lie_together(void **state) {
    (void)state;
    enum { O = 2, I = 3, T = 2, H = 2, V = 4 };
    uint16_t stored[O * I * T * H * V]; /* each element says where it is from */
    for (size_t i = 0; i < KN_COUNT(stored); i++)
        stored[i] = (uint16_t)i;
    float wide[O * I * H * V];
    for (size_t i = 0; i < KN_COUNT(wide); i++)
        wide[i] = (float)i;
    maker m;
    make_begin(&m);
    make_tensor(&m, "odd", "U8", "1", "?", 1);
    make_tensor(&m, "flat.weight", "F32", "2, 3, 2, 4", wide, sizeof wide);
    make_tensor(&m, "single.weight", "BF16", "2, 3, 1, 2, 4", stored, sizeof wide / 2);
    make_tensor(&m, "timed.weight", "F16", "2, 3, 2, 2, 4", stored, sizeof stored);
    make_tensor(&m, "timed.bias", "BF16", "2", "\x80\x3f\0\x40", 4);
    opened o = open_for(&m, "");
    kn_ignore(o.b, "odd");
    kn_weight flat = kn_take_conv(o.b, O, I, H, V, "flat"), single = kn_take_conv(o.b, -1, -1, -1, -1, "single"),
              timed = kn_take_conv(o.b, O, I, H, V, "timed");
    finishes(&o);
    assert_true(flat.dtype == KN_F32 && single.dtype == KN_BF16 && timed.dtype == KN_F16);
    assert_true(timed.bias[0] == 1 && timed.bias[1] == 2 && !flat.bias);
    for (size_t out = 0; out < O; out++) {
        for (size_t y = 0; y < H; y++) {
            for (size_t x = 0; x < V; x++) {
                for (size_t in = 0; in < I; in++) {
                    size_t to = ((out * H + y) * V + x) * I + in, from = ((out * I + in) * H + y) * V + x;
                    assert_true(((const float *)flat.data)[to] == (float)from);
                    assert_int_equal(((const uint16_t *)single.data)[to], from);
                    size_t last = (((out * I + in) * T + T - 1) * H + y) * V + x;
                    assert_int_equal(((const uint16_t *)timed.data)[to], last);
                }
            }
        }
    }
    const kn_weight *all[] = { &flat, &single, &timed };
    for (size_t i = 0; i < KN_COUNT(all); i++)
        assert_true(all[i]->rank == 4 && all[i]->dim[0] == O && all[i]->dim[1] == H && all[i]->dim[2] == V &&
                    all[i]->dim[3] == I);
    done(&o);
}

static void every_key_must_be_taken_or_ignored(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    make_zeros(&m, "a.x.weight", "F32", "1, 1", 4);
    make_zeros(&m, "a.x.bias", "F32", "1", 4);
    make_zeros(&m, "a.y", "F32", "1", 4);
    make_zeros(&m, "a.yy", "I64", "1", 8);
    make_zeros(&m, "ab", "F32", "1", 4);
    make_zeros(&m, "b.y", "F32", "1", 4);
    opened o = open_for(&m, "a.");
    kn_take_matrix(o.b, 1, 1, "x");
    fails(&o, KN_E_FORMAT, "not used by this model 'a.y', 'a.yy', 'ab', 'b.y'");
    kn_ignore(o.b, "y");
    fails(&o, KN_E_FORMAT, "not used by this model 'ab', 'b.y'");
    kn_ignore_outside(o.b, "b%s", ".");
    fails(&o, KN_E_FORMAT, "not used by this model 'ab'");
    kn_ignore_outside(o.b, "ab");
    finishes(&o);
    done(&o);
}

static void reports_what_is_missing_wrong_and_left_in_one_sentence(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    make_zeros(&m, "w.weight", "F32", "3, 4", 48);
    make_zeros(&m, "v", "F32", "2, 2", 16);
    make_zeros(&m, "n", "F64", "2", 16);
    make_zeros(&m, "q.weight", "U8", "2, 2", 4);
    make_zeros(&m, "c.weight", "I16", "1, 1, 1, 1", 2);
    make_zeros(&m, "extra", "F32", "1", 4);
    opened o = open_for(&m, "");
    kn_weight none = kn_take_matrix(o.b, -1, 4, "gone");
    assert_true(!none.data && none.dim[0] == 0 && none.dim[1] == 4);
    kn_weight wrong = kn_take_matrix(o.b, 3, 5, "w");
    assert_null(wrong.data);
    kn_weight rows = kn_weight_rows(&wrong, 1, 2); /* loading code needs no check even here */
    assert_true(!rows.data && rows.dim[0] == 2);
    kn_take_vector(o.b, none.dim[0], 0, "v");
    kn_take_vector(o.b, 2, 0, "n");
    kn_take_matrix(o.b, none.dim[0], 2, "q");
    kn_take_conv(o.b, 1, 1, 1, 1, "c");
    fails(&o, KN_E_NOT_FOUND,
          "missing 'gone.weight'; 'w.weight': expected [3, 5], found [3, 4], 'v': expected [*], found [2, 2], 'n' is "
          "stored as F64, F32, F16 or BF16 is needed, 'q.weight' is stored as U8, F32, F16 or BF16 is needed, "
          "'c.weight' is stored as I16, F32, F16 or BF16 is needed; not used by this model 'extra'");
    done(&o);
}

static void shapes_must_have_the_right_kind(void **state) {
    (void)state;
    static const struct {
        const char *name, *shape;
        size_t bytes;
        const char *says;
    } rows[] = {
        { "x.weight", "4", 16, "'x.weight': expected [2, 2], found [4]" },
        { "x.weight", "", 4, "'x.weight': expected [2, 2], found []" },
        { "x.weight", "2, 2, 2, 1", 32, "'x.weight': expected [2, 2], found [2, 2, 2, 1]" },
        { "x.weight", "2, 2, 1", 16, "'x.weight': expected [2, 2], found [2, 2, 1]" },
        { "x.weight", "0, 2", 0, "'x.weight': expected [2, 2], found [0, 2]" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        maker m;
        make_begin(&m);
        make_zeros(&m, rows[i].name, "F32", rows[i].shape, rows[i].bytes);
        opened o = open_for(&m, "");
        kn_take_matrix(o.b, 2, 2, "x");
        fails(&o, KN_E_FORMAT, rows[i].says);
        done(&o);
    }
    maker m;
    make_begin(&m);
    make_zeros(&m, "x.weight", "F32", "0, 2", 0);
    make_zeros(&m, "y.weight", "F32", "2, 2, 1, 1, 1, 1", 16);
    make_zeros(&m, "y.bias", "F32", "3", 12);
    make_zeros(&m, "z.weight", "F32", "2, 2, 1, 1", 16);
    make_zeros(&m, "z.bias", "F32", "3", 12);
    opened o = open_for(&m, "");
    kn_take_matrix(o.b, -1, -1, "x"); /* no trained array is empty */
    kn_take_conv(o.b, 2, 2, 1, 1, "y");
    kn_take_conv(o.b, 2, 2, 1, 1, "z");
    kn_ignore(o.b, "y.bias");
    fails(&o, KN_E_FORMAT,
          "'x.weight': expected [*, *], found [0, 2], 'y.weight': expected [2, 2, 1, 1], found [2, 2, 1, 1, 1, 1], "
          "'z.bias': expected [2], found [3]");
    done(&o);
}

static void lists_at_most_ten_and_counts_the_rest(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    make_zeros(&m, "a", "F32", "1", 4);
    opened o = open_for(&m, "");
    kn_take_vector(o.b, 1, 0, "a");
    for (int i = 0; i < 27; i++)
        kn_take_vector(o.b, 1, 0, "layers.%d.norm", i);
    fails(&o, KN_E_NOT_FOUND,
          "missing 'layers.0.norm', 'layers.1.norm', 'layers.2.norm', 'layers.3.norm', 'layers.4.norm', "
          "'layers.5.norm', 'layers.6.norm', 'layers.7.norm', 'layers.8.norm', 'layers.9.norm' and 17 more");
    done(&o);
}

static void long_reports_fit_and_keep_every_kind(void **state) {
    (void)state;
    char prefix[256];
    memset(prefix, 'p', 254);
    prefix[254] = '.';
    prefix[255] = 0;
    for (int kinds = 1; kinds < 8; kinds++) {
        maker m;
        make_begin(&m);
        make_zeros(&m, "ok", "F32", "1", 4);
        char name[512];
        for (int i = 0; kinds & 2 && i < 30; i++) { /* control characters take four times their room in a report */
            snprintf(name, sizeof name, "%sw%d\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001%040d",
                     prefix, i, i);
            make_zeros(&m, name, "F32", "1, 1, 1, 1, 1, 1, 2, 2", 16);
        }
        for (int i = 0; kinds & 4 && i < 30; i++) {
            snprintf(name, sizeof name, "left\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9%060d", i);
            make_zeros(&m, name, "F32", "1", 4);
        }
        opened o = open_for(&m, prefix);
        kn_ignore_outside(o.b, "ok");
        for (int i = 0; kinds & 1 && i < 30; i++)
            kn_take_vector(o.b, 1, 0, "missing.%0100d", i);
        for (int i = 0; kinds & 2 && i < 30; i++)
            kn_take_vector(o.b, 1, 0, "w%d\1\1\1\1\1\1\1\1\1%040d", i, i);
        kn_error err = { 0 };
        assert_false(kn_binder_finish(o.b, &err));
        assert_true(strlen(err.text) < 560);
        assert_int_equal(kn_utf8_check(err.text, strlen(err.text)), strlen(err.text));
        int counts = 0;
        for (const char *at = err.text; (at = strstr(at, " more")) != NULL; at++)
            counts++;
        assert_int_equal(counts, (kinds & 1) + (kinds >> 1 & 1) + (kinds >> 2));
        assert_int_equal(strstr(err.text, "missing ") != NULL, kinds & 1);
        assert_int_equal(strstr(err.text, "expected [1], found [1, 1, 1, 1, 1, 1, 2, 2]") != NULL, kinds >> 1 & 1);
        assert_int_equal(strstr(err.text, "not used by this model ") != NULL, kinds >> 2);
        done(&o);
    }
}

static void long_names_keep_their_end_and_whole_characters(void **state) {
    (void)state;
    char name[128] = "";
    for (int i = 0; i < 60; i++)
        memcpy(name + 2 * i, "\xC3\xA9", 2);
    maker m;
    make_begin(&m);
    make_zeros(&m, name, "F32", "1", 4);
    opened o = open_for(&m, "");
    kn_take_conv(o.b, 1, 1, 3, 3, "text_encoders.qwen3_4b.transformer.model.layers.35.self_attn.q_proj");
    fails(&o, KN_E_NOT_FOUND,
          "missing '…ormer.model.layers.35.self_attn.q_proj.weight'; not used by this model "
          "'…éééééééééééééééééééééé'");
    done(&o);
}

static void refuses_vectors_that_hold_a_nan_or_an_infinity(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    make_tensor(&m, "nan", "BF16", "2", "\x80\x3f\xc0\x7f", 4);
    make_tensor(&m, "inf", "F16", "2", "\0\xfc\0\x3c", 4);
    opened o = open_for(&m, "");
    kn_take_vector(o.b, 2, 0, "nan");
    kn_take_vector(o.b, 2, 0, "inf");
    fails(&o, KN_E_FORMAT, "'nan' holds a NaN or an infinity, 'inf' holds a NaN or an infinity");
    done(&o);
}

static void a_conversion_has_a_limit(void **state) {
    (void)state;
    static const char header[] = "{\"v\":{\"dtype\":\"BF16\",\"shape\":[300000000],\"data_offsets\":[0,600000000]}}";
    KN_AUTO_BUF file;
    make_raw(&file, header, sizeof header - 1, NULL, 0);
    char path[TEMP_PATH];
    int fd = make_temp(&file, path);
    assert_int_equal(ftruncate(fd, (off_t)file.len + 600000000), 0);
    opened o = { 0 };
    kn_error err = { 0 };
    assert_true(kn_weights_open(path, &o.w, &err));
    assert_true(kn_binder_new(o.w, "", false, &o.b, &err));
    assert_null(kn_take_vector(o.b, -1, 0, "v").data);
    fails(&o, KN_E_RANGE, "'v' takes 1200000000 bytes, at most 1073741824 are allowed for its kind");
    done(&o);
    assert_int_equal(unlink(path), 0);
    close(fd);
}

static void counts_the_bytes_of_what_is_used_once(void **state) {
    (void)state;
    static const float two[] = { 1, 2 };
    maker m;
    make_begin(&m);
    make_tensor(&m, "head", "F32", "1, 2", two, sizeof two);
    make_tensor(&m, "a.weight", "F32", "1, 2", two, sizeof two);
    make_tensor(&m, "a.bias", "F32", "1", two, 4);
    opened o = open_for(&m, "");
    kn_ignore(o.b, "head");
    kn_take_matrix(o.b, 1, 2, "a");
    kn_take_matrix(o.b, 1, 2, "a"); /* also used elsewhere */
    assert_int_equal(kn_binder_bytes(o.b), 12);
    finishes(&o);
    done(&o);
}

static void an_empty_file_has_no_tensors(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    opened o = open_for(&m, "");
    kn_take_matrix(o.b, 1, 1, "a");
    fails(&o, KN_E_FORMAT, "has no tensors");
    done(&o);
}

static void a_prefix_has_a_limit(void **state) {
    (void)state;
    char prefix[257];
    memset(prefix, 'p', 256);
    prefix[256] = 0;
    maker m;
    make_begin(&m);
    opened o = open_for(&m, "");
    kn_binder *b = NULL;
    kn_error err = { 0 };
    assert_false(kn_binder_new(o.w, prefix, false, &b, &err));
    assert_int_equal(err.code, KN_E_RANGE);
    done(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_matrices_as_they_are_stored_with_their_bias),
        cmocka_unit_test(flattens_the_patches_of_a_kernel),
        cmocka_unit_test(takes_vectors_as_float32_with_something_added),
        cmocka_unit_test(takes_tables_in_either_shape),
        cmocka_unit_test(turns_convolutions_so_that_channels_lie_together),
        cmocka_unit_test(every_key_must_be_taken_or_ignored),
        cmocka_unit_test(reports_what_is_missing_wrong_and_left_in_one_sentence),
        cmocka_unit_test(shapes_must_have_the_right_kind),
        cmocka_unit_test(lists_at_most_ten_and_counts_the_rest),
        cmocka_unit_test(long_reports_fit_and_keep_every_kind),
        cmocka_unit_test(long_names_keep_their_end_and_whole_characters),
        cmocka_unit_test(refuses_vectors_that_hold_a_nan_or_an_infinity),
        cmocka_unit_test(a_conversion_has_a_limit),
        cmocka_unit_test(counts_the_bytes_of_what_is_used_once),
        cmocka_unit_test(an_empty_file_has_no_tensors),
        cmocka_unit_test(a_prefix_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
