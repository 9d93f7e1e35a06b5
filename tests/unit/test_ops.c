/* What ops promise, whatever kernels run below them: compared with sums written out here in double, on every tier of
 * this machine. */
#include "ops_test.h"

static kn_weight vector(const float *values, int64_t n) {
    return (kn_weight){ .data = values, .dtype = KN_F32, .rank = 1, .dim = { n }, .scale = 1, .name = "vector" };
}

/* ---- matrices ---- */

/* Stored as `type`, at an address that is aligned to nothing. */
static kn_weight stored(const float *values, kn_dtype type, int rank, const int64_t *dim, uint8_t *room) {
    kn_weight w = { .data = room + 1, .dtype = type, .rank = rank, .scale = 1, .name = "w" };
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)(w.dim[i] = dim[i]);
    for (size_t i = 0; i < n; i++) {
        uint16_t half = kn_bf16_from_float(values[i]);
        uint8_t byte = (uint8_t)(half >> 8 & 0xBF); /* any byte will do that is no NaN */
        switch (type) {
        case KN_F32: memcpy(room + 1 + 4 * i, &values[i], 4); break;
        case KN_F16: half &= 0xBFFF; /* fall through */
        case KN_BF16: memcpy(room + 1 + 2 * i, &half, 2); break;
        default: room[1 + i] = byte; break;
        }
    }
    return w;
}

static double *decoded(const kn_weight *w, int64_t n) {
    float *f = malloc((size_t)KN_MAX(n, 1) * sizeof *f);
    double *v = malloc((size_t)KN_MAX(n, 1) * sizeof *v);
    assert_non_null(f);
    assert_non_null(v);
    kn_decode(w->dtype, w->data, (size_t)n, f);
    for (int64_t i = 0; i < n; i++)
        v[i] = (double)f[i] * w->scale;
    free(f);
    return v;
}

static void check_linear(kn_run *r, int64_t n, int64_t in, int64_t out, kn_dtype type, bool bias, float scale) {
    float *x = random_values(n * in), *values = random_values(out * in), *b = random_values(out);
    uint8_t *room = malloc((size_t)(out * in) * 4 + 8);
    kn_weight w = stored(values, type, DIMS(out, in), room);
    w.scale = scale;
    w.bias = bias ? b : NULL;
    double *exact = decoded(&w, out * in), *expected = malloc((size_t)KN_MAX(n * out, 1) * sizeof *expected);
    double largest = 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < out; j++) {
            double sum = bias ? b[j] : 0, size = 0;
            for (int64_t p = 0; p < in; p++) {
                sum += x[i * in + p] * exact[j * in + p];
                size += fabs(x[i * in + p] * exact[j * in + p]);
            }
            expected[i * out + j] = sum;
            largest = fmax(largest, size);
        }
    kn_scope s = kn_scope_open(r);
    kn_tensor y = kn_linear(r, kn_upload(r, DIMS(n, in), x), &w);
    assert_int_equal(y.dim[0], n);
    assert_int_equal(y.dim[1], out);
    assert_values(r, y, expected, 1e-6 * largest);
    kn_scope_close(r, s, (kn_tensor){ 0 });
    free(x);
    free(values);
    free(b);
    free(room);
    free(exact);
    free(expected);
}

static void linear_is_the_sum_of_products_in_every_format_and_size(void **state) {
    (void)state;
    static const kn_dtype types[] = { KN_F32, KN_F16, KN_BF16, KN_F8_E4M3, KN_F8_E5M2 };
    static const int64_t sizes[][3] = {
        { 1, 1, 1 },   { 1, 300, 17 },  { 7, 1030, 5 }, { 8, 16, 33 }, { 9, 257, 1 }, { 13, 600, 70 },
        { 64, 64, 3 }, { 250, 31, 40 }, { 0, 4, 4 },    { 4, 0, 4 },   { 12, 0, 4 },  { 4, 4, 0 },
    };
    kn_run r = begin(2);
    for (size_t t = 0; t < KN_COUNT(types); t++)
        for (size_t i = 0; i < KN_COUNT(sizes); i++)
            check_linear(&r, sizes[i][0], sizes[i][1], sizes[i][2], types[t], i % 2, i % 3 ? 1 : 0.375f);
    end(&r);
}

static void linear_names_the_weight_that_does_not_fit(void **state) {
    (void)state;
    kn_run r = begin(1);
    float v[6] = { 0 };
    kn_weight w = { .data = v, .dtype = KN_F32, .rank = 2, .dim = { 2, 3 }, .scale = 1, .name = "blocks.3.to_q" };
    kn_tensor x = kn_upload(&r, DIMS(1, 2), v);
    assert_int_equal(kn_linear(&r, x, &w).rank, 0);
    assert_failed(&r, KN_E_FORMAT, "'blocks.3.to_q': [2, 3]");
    assert_failed(&r, KN_E_FORMAT, "[1, 2]");
    r.err = (kn_error){ 0 };
    w.dtype = KN_I64;
    kn_linear(&r, x, &w);
    assert_failed(&r, KN_E_UNSUPPORTED, "I64");
    end(&r);
}

static void embedding_decodes_rows_and_refuses_tokens_outside(void **state) {
    (void)state;
    kn_run r = begin(1);
    float v[] = { 0.5f, 1, -2, 4, 0, 8 };
    uint8_t room[32];
    kn_weight w = stored(v, KN_BF16, DIMS(3, 2), room);
    w.scale = 0.5f;
    ASSERT_LIST(&r, kn_embedding(&r, &w, (int32_t[]){ 2, 0, 2 }, 3), 0, 0, 4, 0.25, 0.5, 0, 4);
    kn_embedding(&r, &w, (int32_t[]){ 0, 3 }, 2);
    assert_failed(&r, KN_E_RANGE, "token 3");
    r.err = (kn_error){ 0 };
    kn_embedding(&r, &w, (int32_t[]){ -1 }, 1);
    assert_failed(&r, KN_E_RANGE, "token -1");
    end(&r);
}

static void embeddings_blend_by_their_shares(void **state) {
    (void)state;
    kn_run r = begin(1);
    float v[] = { 0.5f, 1, -2, 4, 0, 8 };
    uint8_t room[32];
    kn_weight w = stored(v, KN_BF16, DIMS(3, 2), room);
    const int32_t ids[] = { 0, 2, 1, 1 };
    const float shares[] = { 0.5f, 0.25f, 1, -0.5f };
    ASSERT_LIST(&r, kn_embedding_blend(&r, &w, ids, shares, 2, 2), 0, 0.25, 2.5, -1, 2);
    kn_embedding_blend(&r, &w, (int32_t[]){ 0, 3 }, shares, 1, 2);
    assert_failed(&r, KN_E_RANGE, "token 3");
    end(&r);
}

/* ---- elementwise and norms ---- */

static void activations_have_their_known_values(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(5), (float[]){ 0, 1, -2, 30, -100 });
    kn_tensor g = kn_upload(&r, DIMS(4), (float[]){ 0, 1, -2, 30 });
    kn_tensor t = kn_upload(&r, DIMS(5), (float[]){ 0, 0.5f, -1, 40, 1e-4f });
    kn_tensor e = kn_upload(&r, DIMS(5), (float[]){ 0, 1, -2, 30, -5 });
    kn_silu(&r, x);
    kn_gelu(&r, e);
    kn_gelu_tanh(&r, g);
    kn_tanh(&r, t);
    ASSERT_LIST(&r, x, 1e-6, 0, 0.7310585786, -0.2384058440, 30, 0);
    ASSERT_LIST(&r, e, 1e-7, 0, 0.8413447461, -0.0455002639, 30, -1.4332579e-6);
    ASSERT_LIST(&r, g, 1e-6, 0, 0.8411919906, -0.0454023059, 30);
    ASSERT_LIST(&r, t, 1e-6, 0, 0.4621171573, -0.7615941560, 1, 1e-4);
    end(&r);
}

static void additions_are_in_place(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(2, 2), (float[]){ 1, 2, 3, 4 });
    kn_tensor y = kn_upload(&r, DIMS(2, 2), (float[]){ 10, 20, 30, 40 });
    kn_add(&r, x, y);
    ASSERT_LIST(&r, x, 0, 11, 22, 33, 44);
    kn_add_gated(&r, x, kn_upload(&r, DIMS(2), (float[]){ 2, -1 }), y);
    ASSERT_LIST(&r, x, 0, 31, 2, 93, 4);
    kn_add(&r, x, kn_upload(&r, DIMS(4), (float[]){ 0, 0, 0, 0 }));
    assert_failed(&r, KN_E_USAGE, "[4]");
    end(&r);
}

static void swiglu_takes_the_gate_first(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor gate = kn_upload(&r, DIMS(2, 2), (float[]){ 1, 0, -2, 1 });
    kn_tensor up = kn_upload(&r, DIMS(2, 2), (float[]){ 3, 4, 5, 6 });
    const double expected[] = { 3 * 0.7310585786, 0, 5 * -0.2384058440, 6 * 0.7310585786 };
    assert_values(&r, kn_swiglu(&r, gate, up), expected, 2e-6);
    kn_swiglu(&r, gate, kn_upload(&r, DIMS(1, 3), (float[]){ 0, 0, 0 }));
    assert_failed(&r, KN_E_USAGE, "[1, 3]");
    end(&r);
}

static void modulation_scales_by_one_more_and_shifts(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(2, 3), (float[]){ 1, 2, 3, 4, 5, 6 });
    kn_tensor scale = kn_upload(&r, DIMS(1, 3), (float[]){ 0, 1, -1 });
    kn_tensor shift = kn_upload(&r, DIMS(3), (float[]){ 10, 0, 0.5f });
    kn_modulate(&r, x, scale, shift);
    ASSERT_LIST(&r, x, 0, 11, 4, 0.5, 14, 10, 0.5);
    kn_modulate(&r, x, kn_upload(&r, DIMS(2), (float[]){ 0, 0 }), shift);
    assert_failed(&r, KN_E_USAGE, "a scale of [2]");
    end(&r);
}

static void sigmoid_gate_lets_through_between_none_and_all(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(2, 3), (float[]){ 2, 2, -3, 2, 2, 2 });
    kn_sigmoid_gate(&r, x, kn_upload(&r, DIMS(2, 3), (float[]){ 0, 1, -2, 200, -200, -1 }));
    ASSERT_LIST(&r, x, 1e-6, 1, 1.4621171573, -0.3576087660, 2, 0, 0.5378828427);
    kn_sigmoid_gate(&r, x, kn_upload(&r, DIMS(3), (float[]){ 0, 0, 0 }));
    assert_failed(&r, KN_E_USAGE, "by [3]");
    end(&r);
}

static void rows_are_summed_in_groups_by_their_weights(void **state) {
    (void)state;
    kn_run r = begin(1);
    float w[] = { 1, -2, 0.5f };
    kn_weight wv = vector(w, 3);
    kn_tensor x = kn_upload(&r, DIMS(6, 2), (float[]){ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 });
    ASSERT_LIST(&r, kn_sum_rows(&r, x, &wv), 0, -2.5, -3, -5.5, -6);
    kn_sum_rows(&r, kn_rows(&r, x, 0, 4), &wv);
    assert_failed(&r, KN_E_USAGE, "[4, 2] by weights of [3]");
    end(&r);
}

static void columns_are_copied_beside_what_is_there(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(2, 4), (float[]){ 1, 2, 3, 4, 5, 6, 7, 8 });
    kn_tensor two = kn_upload(&r, DIMS(2, 2), (float[]){ 10, 20, 30, 40 });
    kn_copy_columns(&r, x, 1, two);
    ASSERT_LIST(&r, x, 0, 1, 10, 20, 4, 5, 30, 40, 8);
    kn_copy_columns(&r, x, 3, two);
    assert_failed(&r, KN_E_USAGE, "copy of [2, 2] into [2, 4] from column 3 on");
    end(&r);
}

static void norms_have_their_known_values(void **state) {
    (void)state;
    kn_run r = begin(1);
    float ones[] = { 1, 1, 1, 1 }, w[] = { 1, 2, 3, 4 };
    kn_weight wv = vector(w, 4), one = vector(ones, 4);
    kn_tensor x = kn_upload(&r, DIMS(2, 4), (float[]){ 2, -2, 2, -2, 0, 0, 0, 0 });
    ASSERT_LIST(&r, kn_rms_norm(&r, x, &wv, 0.84f), 1e-6, 0.9090909, -1.8181818, 2.7272727, -3.6363636, 0, 0, 0, 0);
    ASSERT_LIST(&r, kn_unit_norm(&r, x, &wv, false), 1e-6, 1, -2, 3, -4, 0, 0, 0, 0);
    ASSERT_LIST(&r, kn_unit_norm(&r, x, &one, true), 1e-6, 0.7310586, -0.2689414, 0.7310586, -0.2689414, 0, 0, 0, 0);
    kn_tensor y = kn_upload(&r, DIMS(1, 4), (float[]){ 1, 2, 3, 6 }); /* mean 3, variance 3.5 */
    kn_tensor scale = kn_upload(&r, DIMS(4), (float[]){ 0, 1, 0, -1 });
    kn_tensor shift = kn_upload(&r, DIMS(4), (float[]){ 0, 0, 5, 6 });
    ASSERT_LIST(&r, kn_norm_modulate(&r, y, scale, shift, 0.5f), 1e-6, -1, -1, 5, 6);
    float scales[] = { 0, 1, 0, -1 }, shifts[] = { 0, 0, 5, 6 };
    kn_weight sv = vector(scales, 4), tv = vector(shifts, 4);
    ASSERT_LIST(&r, kn_layer_norm(&r, y, &sv, &tv, 0.5f), 1e-6, -1, -1, 5, 6);
    ASSERT_LIST(&r, kn_norm_modulate(&r, y, (kn_tensor){ 0 }, shift, 0.5f), 1e-6, -1, -0.5, 5, 7.5);
    ASSERT_LIST(&r, kn_norm_modulate(&r, y, scale, (kn_tensor){ 0 }, 0.5f), 1e-6, -1, -1, 0, 0);
    wv.dim[0] = 3;
    kn_rms_norm(&r, x, &wv, 0);
    assert_failed(&r, KN_E_FORMAT, "'vector'");
    end(&r);
}

static void rms_norm_is_modulated_by_one_plus_the_scale(void **state) {
    (void)state;
    kn_run r = begin(1);
    float w[] = { 1, 2, 3, 4 };
    kn_weight wv = vector(w, 4);
    kn_tensor x = kn_upload(&r, DIMS(2, 4), (float[]){ 2, -2, 2, -2, 0, 0, 0, 0 });
    kn_tensor scale = kn_upload(&r, DIMS(1, 4), (float[]){ 0, 1, -1, 0.1f });
    ASSERT_LIST(&r, kn_rms_norm_modulate(&r, x, &wv, scale, 0.84f), 1e-6, 0.9090909, -3.6363636, 0, -4, 0, 0, 0, 0);
    ASSERT_LIST(&r, kn_rms_norm_modulate(&r, x, &wv, (kn_tensor){ 0 }, 0.84f), 1e-6, 0.9090909, -1.8181818, 2.7272727,
                -3.6363636, 0, 0, 0, 0);
    kn_rms_norm_modulate(&r, x, &wv, kn_upload(&r, DIMS(3), w), 0.84f);
    assert_failed(&r, KN_E_USAGE, "a scale of [3]");
    end(&r);
}

static void check_group_norm(kn_run *r, int64_t h, int64_t w, int64_t c, int groups, float far, bool silu) {
    int64_t n = h * w * c, group = c / groups;
    float *x = random_values(n), *weight = random_values(c), *bias = random_values(c);
    double *expected = malloc((size_t)n * sizeof *expected);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i % c + 1) * x[i] + far;
    for (int g = 0; g < groups; g++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++)
            if (i % c / group == g)
                mean += x[i] / (double)(h * w * group);
        for (int64_t i = 0; i < n; i++)
            if (i % c / group == g)
                variance += (x[i] - mean) * (x[i] - mean) / (double)(h * w * group);
        for (int64_t i = 0; i < n; i++) {
            if (i % c / group != g)
                continue;
            double v = (x[i] - mean) / sqrt(variance + 1e-6) * weight[i % c] + bias[i % c];
            expected[i] = silu ? v / (1 + exp(-v)) : v;
        }
    }
    kn_scope s = kn_scope_open(r);
    kn_weight wv = vector(weight, c), bv = vector(bias, c);
    assert_values(r, kn_group_norm(r, kn_upload(r, DIMS(h, w, c), x), &wv, &bv, groups, 1e-6f, silu), expected,
                  2e-6 * (1 + (double)far));
    kn_scope_close(r, s, (kn_tensor){ 0 });
    free(x);
    free(weight);
    free(bias);
    free(expected);
}

static void group_norm_takes_channels_together_over_all_pixels(void **state) {
    (void)state;
    kn_run r = begin(2);
    check_group_norm(&r, 1, 1, 4, 2, 0, false);
    check_group_norm(&r, 3, 5, 32, 32, 0, true);
    check_group_norm(&r, 7, 9, 6, 3, 100, false);  /* far from zero: the deviation must not drown */
    check_group_norm(&r, 40, 70, 64, 32, 1, true); /* many pieces, the last one smaller */
    check_group_norm(&r, 2, 2, 17, 1, 0, false);
    float v[6] = { 0 };
    kn_weight wv = vector(v, 3);
    kn_tensor x = kn_upload(&r, DIMS(2, 1, 3), v);
    kn_group_norm(&r, x, &wv, &wv, 2, 1e-6f, false);
    assert_failed(&r, KN_E_USAGE, "group_norm of [2, 1, 3] in 2 groups");
    end(&r);
}

static void rope_turns_neighbours_or_halves(void **state) {
    (void)state;
    kn_run r = begin(1);
    /* two heads of 4; angles 90 degrees for the first pair, asin(0.6) for the second */
    const float v[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    kn_tensor cos = kn_upload(&r, DIMS(1, 2), (float[]){ 0, 0.8f });
    kn_tensor sin = kn_upload(&r, DIMS(1, 2), (float[]){ 1, 0.6f });
    kn_tensor x = kn_upload(&r, DIMS(1, 8), v);
    kn_qk_norm_rope(&r, x, NULL, 0, cos, sin, KN_ROPE_INTERLEAVED);
    ASSERT_LIST(&r, x, 1e-6, -2, 1, 0, 5, -6, 5, 0.8, 10.6);
    x = kn_upload(&r, DIMS(1, 8), v);
    kn_qk_norm_rope(&r, x, NULL, 0, cos, sin, KN_ROPE_HALVES);
    ASSERT_LIST(&r, x, 1e-6, -3, -0.8, 1, 4.4, -7, 0, 5, 10);

    float w[] = { 1, 2, 1, 2 };
    kn_weight wv = vector(w, 4);
    x = kn_upload(&r, DIMS(1, 8), (float[]){ 1, -1, 1, -1, 2, 2, 2, 2 });
    kn_qk_norm_rope(&r, x, &wv, 0, cos, sin, KN_ROPE_HALVES);
    ASSERT_LIST(&r, x, 1e-6, -1, -0.4, 1, -2.8, -1, 0.4, 1, 2.8);
    kn_qk_norm_rope(&r, x, &wv, 0, cos, kn_upload(&r, DIMS(2), (float[]){ 0, 0 }), KN_ROPE_HALVES);
    assert_failed(&r, KN_E_USAGE, "[1, 8]");
    end(&r);
}

/* ---- attention ---- */

struct attention_case {
    int64_t n, before, own, head;
    int heads, kv_heads;
    bool causal;
};

static void naive_attention(const struct attention_case *c, const float *q, const float *k[2], const float *v[2],
                            double *out) {
    int64_t keys = c->before + c->own;
    double *p = malloc((size_t)KN_MAX(keys, 1) * sizeof *p);
    for (int64_t i = 0; i < c->n; i++)
        for (int h = 0; h < c->heads; h++) {
            int64_t kv = h / (c->heads / c->kv_heads), stride = c->kv_heads * c->head;
            int64_t visible = c->causal ? KN_MIN(c->before + i + 1, keys) : keys;
            double max = -INFINITY, sum = 0;
            for (int64_t j = 0; j < visible; j++) {
                const float *key = j < c->before ? k[0] + j * stride : k[1] + (j - c->before) * stride;
                p[j] = 0;
                for (int64_t e = 0; e < c->head; e++)
                    p[j] += (double)q[(i * c->heads + h) * c->head + e] * key[kv * c->head + e];
                p[j] /= sqrt((double)c->head);
                max = fmax(max, p[j]);
            }
            for (int64_t j = 0; j < visible; j++)
                sum += p[j] = exp(p[j] - max);
            for (int64_t e = 0; e < c->head; e++) {
                double o = 0;
                for (int64_t j = 0; j < visible; j++) {
                    const float *value = j < c->before ? v[0] + j * stride : v[1] + (j - c->before) * stride;
                    o += p[j] * value[kv * c->head + e];
                }
                out[(i * c->heads + h) * c->head + e] = visible ? o / sum : 0;
            }
        }
    free(p);
}

static void check_attention(kn_run *r, const struct attention_case *c) {
    int64_t width = c->kv_heads * c->head, n = c->n * c->heads * c->head;
    float *q = random_values(n), *k[2], *v[2];
    const int64_t rows[] = { c->before, c->own };
    kn_kv kv[2] = { 0 };
    kn_scope s = kn_scope_open(r);
    for (int i = 0; i < 2; i++) {
        k[i] = random_values(rows[i] * width);
        v[i] = random_values(rows[i] * width);
        if (rows[i] > 0)
            kv[i] = (kn_kv){ kn_upload(r, DIMS(rows[i], width), k[i]), kn_upload(r, DIMS(rows[i], width), v[i]) };
    }
    for (int64_t i = 0; i < n; i++)
        q[i] *= 6; /* scores that differ enough to move the running maximum */
    double *expected = malloc((size_t)KN_MAX(n, 1) * sizeof *expected);
    naive_attention(c, q, (const float *[]){ k[0], k[1] }, (const float *[]){ v[0], v[1] }, expected);
    kn_tensor x = kn_upload(r, DIMS(c->n, c->heads * c->head), q);
    kn_tensor y = kn_attention(r, x, kv[0], kv[1], c->heads, c->kv_heads, c->causal);
    if (r->precision == KN_EXACT)
        assert_values(r, y, expected, 4e-6);
    else
        assert_true(relative_l2(r, y, expected) <= 1e-2);
    kn_scope_close(r, s, (kn_tensor){ 0 });
    for (int i = 0; i < 2; i++) {
        free(k[i]);
        free(v[i]);
    }
    free(q);
    free(expected);
}

static void attention_is_softmax_over_both_segments(void **state) {
    (void)state;
    static const struct attention_case cases[] = {
        { 1, 0, 1, 16, 1, 1, false },    { 5, 0, 5, 24, 3, 3, true },      { 17, 9, 17, 64, 4, 2, true },
        { 33, 300, 33, 32, 2, 1, true }, { 70, 0, 600, 16, 1, 1, false },  { 40, 513, 0, 20, 2, 2, false },
        { 300, 0, 300, 8, 2, 2, true },  { 9, 40, 31, 128, 10, 1, false }, { 20, 0, 50, 300, 1, 1, false },
        { 30, 3, 30, 1152, 1, 1, true }, { 6, 5, 2, 16, 2, 2, true },      { 3, 0, 0, 16, 2, 2, false },
        { 0, 0, 4, 16, 1, 1, false },
    };
    kn_run r = begin(2);
    for (int precision = KN_FAST; precision <= KN_EXACT; precision++) {
        r.precision = (kn_precision)precision;
        for (size_t i = 0; i < KN_COUNT(cases); i++)
            check_attention(&r, &cases[i]);
    }
    end(&r);
}

static void attention_refuses_heads_that_do_not_divide(void **state) {
    (void)state;
    kn_run r = begin(1);
    float v[12] = { 0 };
    kn_tensor q = kn_upload(&r, DIMS(2, 6), v), k = kn_upload(&r, DIMS(2, 4), v);
    assert_int_equal(kn_attention(&r, q, (kn_kv){ 0 }, (kn_kv){ k, k }, 4, 4, false).rank, 0);
    assert_failed(&r, KN_E_USAGE, "[2, 6]");
    r.err = (kn_error){ 0 };
    kn_attention(&r, q, (kn_kv){ 0 }, (kn_kv){ k, k }, 2, 2, false);
    assert_failed(&r, KN_E_USAGE, "[2, 4]");
    end(&r);
}

/* ---- pictures ---- */

static void check_conv(kn_run *r, int64_t h, int64_t w, int64_t in, int64_t out, int64_t size, int stride, kn_pad pad,
                       kn_dtype type) {
    int64_t oh = (h + pad.top + pad.bottom - size) / stride + 1, ow = (w + pad.left + pad.right - size) / stride + 1;
    float *x = random_values(h * w * in), *values = random_values(out * size * size * in), *b = random_values(out);
    uint8_t *room = malloc((size_t)(out * size * size * in) * 4 + 8);
    kn_weight k = stored(values, type, DIMS(out, size, size, in), room);
    k.bias = b;
    double *exact = decoded(&k, out * size * size * in), *expected = malloc((size_t)(oh * ow * out) * sizeof *expected);
    double largest = 1;
    for (int64_t i = 0; i < oh * ow * out; i++) {
        int64_t o = i % out, x0 = i / out % ow * stride - pad.left, y0 = i / out / ow * stride - pad.top;
        double sum = b[o], total = 0;
        for (int64_t t = 0; t < size * size * in; t++) {
            int64_t c = t % in, ix = x0 + t / in % size, iy = y0 + t / in / size;
            double p = iy < 0 || iy >= h || ix < 0 || ix >= w
                           ? 0
                           : x[(iy * w + ix) * in + c] * exact[o * size * size * in + t];
            sum += p;
            total += fabs(p);
        }
        expected[i] = sum;
        largest = fmax(largest, total);
    }
    kn_scope s = kn_scope_open(r);
    kn_tensor y = kn_conv2d(r, kn_upload(r, DIMS(h, w, in), x), &k, stride, pad);
    assert_int_equal(y.dim[0], oh);
    assert_int_equal(y.dim[1], ow);
    assert_int_equal(y.dim[2], out);
    assert_values(r, y, expected, 1e-6 * largest);
    kn_scope_close(r, s, (kn_tensor){ 0 });
    free(x);
    free(values);
    free(b);
    free(room);
    free(exact);
    free(expected);
}

static void convolution_is_the_sum_over_its_window(void **state) {
    (void)state;
    const kn_pad around = { 1, 1, 1, 1 }, none = { 0 }, behind = { 0, 0, 1, 1 }, odd = { 2, 0, 1, 3 };
    kn_run r = begin(2);
    check_conv(&r, 1, 1, 1, 1, 3, 1, around, KN_F32);
    check_conv(&r, 7, 5, 3, 4, 3, 1, around, KN_F32);
    check_conv(&r, 8, 6, 4, 96, 3, 1, around, KN_BF16);
    check_conv(&r, 8, 10, 33, 17, 3, 2, behind, KN_F16);
    check_conv(&r, 9, 9, 100, 3, 3, 1, around, KN_F32);
    check_conv(&r, 6, 7, 12, 20, 1, 1, none, KN_BF16);
    check_conv(&r, 6, 9, 5, 7, 2, 2, none, KN_F8_E4M3);
    check_conv(&r, 5, 4, 6, 9, 5, 1, odd, KN_F32);
    check_conv(&r, 2, 2, 2, 2, 7, 1, (kn_pad){ 3, 3, 3, 3 }, KN_F32); /* no window lies inside */
    end(&r);
}

static void convolution_refuses_a_picture_smaller_than_its_window(void **state) {
    (void)state;
    kn_run r = begin(1);
    float v[18] = { 0 };
    kn_weight w = { .data = v, .dtype = KN_F32, .rank = 4, .dim = { 1, 3, 3, 2 }, .scale = 1, .name = "conv_in" };
    kn_conv2d(&r, kn_upload(&r, DIMS(2, 3, 2), v), &w, 1, (kn_pad){ 0 });
    assert_failed(&r, KN_E_FORMAT, "'conv_in'");
    assert_failed(&r, KN_E_FORMAT, "[2, 3, 2]");
    end(&r);
}

static void upsampling_repeats_pixels(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(2, 1, 2), (float[]){ 1, 2, 3, 4 });
    kn_tensor y = kn_upsample2x(&r, x);
    assert_int_equal(y.dim[0], 4);
    assert_int_equal(y.dim[1], 2);
    ASSERT_LIST(&r, y, 0, 1, 2, 1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4, 3, 4);
    end(&r);
}

static void average_shortcut_follows_the_order_of_virtual_channels(void **state) {
    (void)state;
    kn_run r = begin(1);
    /* one output pixel; pixels (0,0) (0,1) (1,0) (1,1) of two channels */
    kn_tensor x = kn_upload(&r, DIMS(2, 2, 2), (float[]){ 1, 10, 2, 20, 3, 30, 6, 60 });
    ASSERT_LIST(&r, kn_avg_shortcut(&r, x, 2, 1), 1e-6, 3, 30);            /* plain mean */
    ASSERT_LIST(&r, kn_avg_shortcut(&r, x, 4, 2), 1e-6, 0, 3, 0, 30);      /* the earlier frame is zero */
    ASSERT_LIST(&r, kn_avg_shortcut(&r, x, 4, 1), 1e-6, 1.5, 4.5, 15, 45); /* rows of a channel */
    ASSERT_LIST(&r, kn_avg_shortcut(&r, x, 1, 1), 1e-6, 16.5);             /* all of it */
    ASSERT_LIST(&r, kn_avg_shortcut(&r, x, 2, 2), 1e-6, 1.5, 15);          /* half of it zeros */
    kn_tensor wide = kn_upload(&r, DIMS(2, 4, 1), (float[]){ 1, 2, 10, 20, 3, 6, 30, 60 });
    ASSERT_LIST(&r, kn_avg_shortcut(&r, wide, 1, 1), 1e-6, 3, 30);
    kn_avg_shortcut(&r, x, 3, 1);
    assert_failed(&r, KN_E_USAGE, "[2, 2, 2]");
    end(&r);
}

static void duplicate_shortcut_follows_the_order_of_virtual_channels(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(1, 1, 4), (float[]){ 1, 2, 3, 4 });
    /* as many out as in, two frames: every channel to all four corners */
    ASSERT_LIST(&r, kn_dup_shortcut(&r, x, 4, 2), 0, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4);
    /* half as many, two frames: channel 2o + 1 */
    ASSERT_LIST(&r, kn_dup_shortcut(&r, x, 2, 2), 0, 2, 4, 2, 4, 2, 4, 2, 4);
    /* half as many, one frame: channel 2o above, 2o + 1 below */
    ASSERT_LIST(&r, kn_dup_shortcut(&r, x, 2, 1), 0, 1, 3, 1, 3, 2, 4, 2, 4);
    kn_tensor two = kn_upload(&r, DIMS(2, 1, 1), (float[]){ 5, 7 });
    ASSERT_LIST(&r, kn_dup_shortcut(&r, two, 1, 1), 0, 5, 5, 5, 5, 7, 7, 7, 7);
    kn_dup_shortcut(&r, kn_upload(&r, DIMS(1, 1, 3), (float[]){ 0, 0, 0 }), 1, 1);
    assert_failed(&r, KN_E_USAGE, "[1, 1, 3]");
    end(&r);
}

/* ---- all together ---- */

/* A bit of everything, large enough to be shared out. */
static float *compute_something(unsigned threads, int64_t *ret_n) {
    seed = 42;
    kn_run r = begin(threads);
    enum { N = 150, D = 96, HEADS = 3 };
    float *v = random_values(N * D), *m = random_values(9 * D * D), *one = random_values(D);
    uint8_t *room = malloc(2 * 9 * D * D + 1);
    kn_weight square = { .data = m, .dtype = KN_F32, .rank = 2, .dim = { 3 * D, D }, .scale = 1, .name = "m" };
    kn_weight bf16 = stored(m, KN_BF16, DIMS(D, 3, 3, D), room);
    kn_weight wv = vector(one, D);
    kn_tensor x = kn_upload(&r, DIMS(N, D), v);
    x = kn_rms_norm(&r, x, &wv, 1e-6f);
    kn_tensor y = kn_linear(&r, x, &square);
    y = kn_swiglu(&r, y, kn_linear(&r, x, &square));
    kn_tensor few = kn_linear(&r, kn_rows(&r, x, 3, 5), &square);
    kn_tensor kv = kn_upload(&r, DIMS(N, D / HEADS), m);
    kn_tensor a = kn_attention(&r, x, (kn_kv){ kv, kv }, (kn_kv){ kv, kv }, HEADS, 1, true);
    kn_tensor c = kn_conv2d(&r, kn_reshape(&r, x, DIMS(15, 10, D)), &bf16, 1, (kn_pad){ 1, 1, 1, 1 });
    c = kn_group_norm(&r, kn_unit_norm(&r, c, &wv, true), &wv, &wv, 32, 1e-6f, true);
    const kn_tensor parts[] = { y, few, a, c };
    float *all = malloc(sizeof(float) * (N * 3 * D + 5 * 3 * D + 2 * N * D));
    int64_t n = 0;
    for (size_t i = 0; i < KN_COUNT(parts); i++) {
        kn_download(&r, parts[i], all + n);
        n += kn_elements(parts[i]);
    }
    if (r.err.code)
        fail_msg("%s", r.err.text);
    end(&r);
    free(v);
    free(m);
    free(one);
    free(room);
    *ret_n = n;
    return all;
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    (void)state;
    int64_t n = 0, again = 0;
    float *one = compute_something(1, &n);
    static const unsigned threads[] = { 2, 3, 5 };
    for (size_t i = 0; i < KN_COUNT(threads); i++) {
        float *many = compute_something(threads[i], &again);
        assert_int_equal(again, n);
        assert_memory_equal(many, one, (size_t)n * sizeof *one);
        free(many);
    }
    free(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_is_the_sum_of_products_in_every_format_and_size),
        cmocka_unit_test(linear_names_the_weight_that_does_not_fit),
        cmocka_unit_test(embedding_decodes_rows_and_refuses_tokens_outside),
        cmocka_unit_test(embeddings_blend_by_their_shares),
        cmocka_unit_test(activations_have_their_known_values),
        cmocka_unit_test(additions_are_in_place),
        cmocka_unit_test(swiglu_takes_the_gate_first),
        cmocka_unit_test(modulation_scales_by_one_more_and_shifts),
        cmocka_unit_test(sigmoid_gate_lets_through_between_none_and_all),
        cmocka_unit_test(rows_are_summed_in_groups_by_their_weights),
        cmocka_unit_test(columns_are_copied_beside_what_is_there),
        cmocka_unit_test(norms_have_their_known_values),
        cmocka_unit_test(rms_norm_is_modulated_by_one_plus_the_scale),
        cmocka_unit_test(group_norm_takes_channels_together_over_all_pixels),
        cmocka_unit_test(rope_turns_neighbours_or_halves),
        cmocka_unit_test(attention_is_softmax_over_both_segments),
        cmocka_unit_test(attention_refuses_heads_that_do_not_divide),
        cmocka_unit_test(convolution_is_the_sum_over_its_window),
        cmocka_unit_test(convolution_refuses_a_picture_smaller_than_its_window),
        cmocka_unit_test(upsampling_repeats_pixels),
        cmocka_unit_test(average_shortcut_follows_the_order_of_virtual_channels),
        cmocka_unit_test(duplicate_shortcut_follows_the_order_of_virtual_channels),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
    };
    return run_on_every_tier(tests, KN_COUNT(tests));
}
