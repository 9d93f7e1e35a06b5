#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "tensor/dtype.h"

static bool same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void fp8_codes_decode_as_the_golden_tables_say(void **state) {
    (void)state;
    json_t *root = golden_json("fp8/tables.json");
    static const struct {
        const char *name;
        kn_dtype dtype;
    } rows[] = { { "F8_E4M3", KN_F8_E4M3 }, { "F8_E5M2", KN_F8_E5M2 } };
    for (size_t r = 0; r < KN_COUNT(rows); r++) {
        const json_t *table = json_object_get(json_object_get(root, "decode"), rows[r].name);
        assert_int_equal(json_array_size(table), 256);
        for (size_t c = 0; c < 256; c++) {
            const json_t *want = json_array_get(table, c);
            const char *word = json_string_value(want);
            float expected = !word                      ? (float)json_number_value(want)
                             : strcmp(word, "nan") == 0 ? NAN
                             : strcmp(word, "inf") == 0 ? INFINITY
                                                        : -INFINITY;
            uint8_t code = (uint8_t)c;
            float v = 0;
            kn_decode(rows[r].dtype, &code, 1, &v);
            if (!same_bits(v, expected))
                fail_msg("%s code 0x%02zx: %g, expected %g", rows[r].name, c, (double)v, (double)expected);
        }
    }
    json_decref(root);
}

/* From the definition: sign, five bits of exponent with bias 15, ten bits of fraction. */
static double f16_by_definition(unsigned h) {
    int exponent = (int)(h >> 10 & 31);
    double fraction = (h & 0x3FF) / 1024.0, sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return h & 0x3FF ? (double)NAN : sign * (double)INFINITY;
    return exponent == 0 ? sign * ldexp(fraction, -14) : sign * ldexp(1 + fraction, exponent - 15);
}

static void every_f16_and_bf16_decodes_to_its_definition(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        uint8_t bytes[3] = { 0, (uint8_t)h, (uint8_t)(h >> 8) };
        float v = 0;
        kn_decode(KN_F16, bytes + 1, 1, &v); /* an odd address: no alignment is promised */
        assert_true(same_bits(v, (float)f16_by_definition(h)));
        uint32_t bits = h << 16;
        float upper;
        memcpy(&upper, &bits, sizeof upper);
        kn_decode(KN_BF16, bytes + 1, 1, &v);
        assert_true(same_bits(v, upper));
        assert_true(isnan(v) ? isnan(kn_float_from_bf16(kn_bf16_from_float(v))) : kn_bf16_from_float(v) == h);
    }
}

static void bf16_rounds_to_the_nearest_and_ties_to_even(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x7F7F; h++) { /* between two neighbours that are both finite */
        float low = kn_float_from_bf16((uint16_t)h), high = kn_float_from_bf16((uint16_t)(h + 1));
        float middle = (float)(((double)low + (double)high) / 2);
        unsigned even = h & 1 ? h + 1 : h;
        assert_int_equal(kn_bf16_from_float(middle), even);
        assert_int_equal(kn_bf16_from_float(nextafterf(middle, low)), h);
        assert_int_equal(kn_bf16_from_float(nextafterf(middle, high)), h + 1);
        assert_int_equal(kn_bf16_from_float(-middle), even | 0x8000);
    }
    assert_int_equal(kn_bf16_from_float(INFINITY), 0x7F80);
    assert_int_equal(kn_bf16_from_float(3.4e38f), 0x7F80); /* beyond the largest by more than half a step */
    uint32_t quiet_low = 0x7F800001;                       /* a NaN whose upper half alone would be an infinity */
    float nan;
    memcpy(&nan, &quiet_low, sizeof nan);
    assert_true(isnan(kn_float_from_bf16(kn_bf16_from_float(nan))));
}

/* All block types there are, and the plain ones in the same way. */
static void blocks_decode_to_the_bits_of_the_reference(void **state) {
    (void)state;
    golden g = golden_open("gguf/blocks.safetensors");
    size_t types = 0;
    for (int t = 0; t < KN_DTYPE_COUNT; t++) {
        const kn_dtype_info *info = kn_dtype_of((kn_dtype)t);
        char name[32];
        snprintf(name, sizeof name, "%s.raw", info->name);
        if (!golden_has(&g, name)) {
            assert_int_equal(info->block, 1);
            continue;
        }
        const kn_entry *raw = golden_entry(&g, name);
        snprintf(name, sizeof name, "%s.values", info->name);
        size_t n = 0;
        const float *want = golden_floats(&g, name, &n);
        assert_int_equal(kn_dtype_bytes((kn_dtype)t, n), raw->bytes);
        assert_int_equal(256 % info->block, 0);
        float *got = malloc(n * sizeof *got);
        kn_decode((kn_dtype)t, raw->data, n, got);
        for (size_t i = 0; i < n; i++)
            if (!same_bits(got[i], want[i]))
                fail_msg("%s element %zu: %.9g, expected %.9g", info->name, i, (double)got[i], (double)want[i]);
        free(got);
        types++;
    }
    assert_int_equal(types, 15);
    golden_close(&g);
}

static void names_and_sizes_go_both_ways(void **state) {
    (void)state;
    for (int t = 0; t < KN_DTYPE_COUNT; t++) {
        const kn_dtype_info *info = kn_dtype_of((kn_dtype)t);
        kn_dtype back = KN_DTYPE_COUNT;
        bool in_safetensors = info->block == 1;
        assert_int_equal(kn_dtype_by_name(info->name, strlen(info->name), &back), in_safetensors);
        assert_int_equal(back, in_safetensors ? t : KN_DTYPE_COUNT);
        assert_int_equal(kn_dtype_bytes((kn_dtype)t, 3 * info->block), 3 * info->block_bytes);
        float v = 7;
        if (!info->is_weight) {
            kn_decode((kn_dtype)t, "\1\2\3\4\5\6\7", 1, &v);
            assert_true(v == 0); /* not a number that could be mistaken for a weight */
        }
    }
    kn_dtype t = KN_F32;
    assert_false(kn_dtype_by_name("F3", 2, &t) || kn_dtype_by_name("F321", 4, &t) || kn_dtype_by_name("f32", 3, &t) ||
                 kn_dtype_by_name("", 0, &t));
    assert_int_equal(t, KN_F32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_codes_decode_as_the_golden_tables_say),
        cmocka_unit_test(every_f16_and_bf16_decodes_to_its_definition),
        cmocka_unit_test(bf16_rounds_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(blocks_decode_to_the_bits_of_the_reference),
        cmocka_unit_test(names_and_sizes_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
