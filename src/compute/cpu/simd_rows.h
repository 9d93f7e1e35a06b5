/* Kernels over one row: softmax, elementwise functions, norms, rotation. Included after simd_math.h. */
#ifndef KN_COMPUTE_CPU_SIMD_ROWS_H
#define KN_COMPUTE_CPU_SIMD_ROWS_H

#include <math.h>

static float softmax(float *s, size_t n, float scale, float *max) {
    vec largest = v_set(-INFINITY);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        largest = v_max(largest, v_load(s + i));
    float most = v_largest(largest);
    for (; i < n; i++)
        most = fmaxf(most, s[i]);
    *max = fmaxf(*max, most * scale);
    vec sum = v_zero(), by = v_set(scale), less = v_set(*max);
    for (i = 0; i + LANES <= n; i += LANES) {
        vec e = v_exp(v_sub(v_mul(v_load(s + i), by), less));
        sum = v_add(sum, e);
        v_store(s + i, e);
    }
    if (i < n) {
        v_store_n(s + i, v_exp(v_sub(v_mul(v_load_n(s + i, n - i), by), less)), n - i);
        sum = v_add(sum, v_load_n(s + i, n - i));
    }
    return v_sum(sum);
}

static KN_ALWAYS_INLINE void map(vec (*f)(vec), float *x, size_t n) {
    for (size_t i = 0; i < n; i += LANES)
        v_put(x + i, f(v_take(x + i, n - i)), n - i);
}

static void silu(float *x, size_t n) {
    map(v_silu, x, n);
}

static void gelu_tanh(float *x, size_t n) {
    map(v_gelu_tanh, x, n);
}

static void tanh_all(float *x, size_t n) {
    map(v_tanh, x, n);
}

static void mish(float *x, size_t n) {
    map(v_mish, x, n);
}

static void multiply(const float *x, float by, float *out, size_t n) {
    for (size_t i = 0; i < n; i += LANES)
        v_put(out + i, v_mul(v_take(x + i, n - i), v_set(by)), n - i);
}

static void add(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i += LANES)
        v_put(x + i, v_add(v_take(x + i, n - i), v_take(y + i, n - i)), n - i);
}

static void add_gated(float *x, const float *gate, const float *y, size_t n) {
    for (size_t i = 0; i < n; i += LANES)
        v_put(x + i, v_fma(v_take(gate + i, n - i), v_take(y + i, n - i), v_take(x + i, n - i)), n - i);
}

static void sigmoid_gate(float *x, const float *gate, size_t n) {
    for (size_t i = 0; i < n; i += LANES)
        v_put(x + i, v_mul(v_take(x + i, n - i), v_sigmoid(v_take(gate + i, n - i))), n - i);
}

static void swiglu(const float *gate, const float *up, float *out, size_t n) {
    for (size_t i = 0; i < n; i += LANES)
        v_put(out + i, v_mul(v_silu(v_take(gate + i, n - i)), v_take(up + i, n - i)), n - i);
}

/* Zero times anything finite is zero; times NaN or infinity it is NaN, which no later sum can undo. */
static bool is_finite(const float *x, size_t n) {
    vec a = v_zero(), b = v_zero();
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a = v_fma(v_load(x + i), v_zero(), a);
        b = v_fma(v_load(x + i + LANES), v_zero(), b);
    }
    for (; i < n; i += LANES)
        a = v_fma(v_take(x + i, n - i), v_zero(), a);
    return v_sum(v_add(a, b)) == 0;
}

static void prelu(float *x, size_t stride, size_t rows, size_t n, const float *slope) {
    for (size_t r = 0; r < rows; r++, x += stride)
        for (size_t i = 0; i < n; i += LANES) {
            vec v = v_take(x + i, n - i), below = v_min(v_zero(), v);
            v_put(x + i, v_fma(v_take(slope + i, n - i), below, v_max(v_zero(), v)), n - i);
        }
}

/* Several vectors of channels at a time, so that no sum waits for the one before. */
enum { DEPTHWISE_VECTORS = 4 };

static KN_ALWAYS_INLINE void depthwise_part(size_t vectors, const float *x, size_t row, size_t pixel, const float *w,
                                            size_t w_row, size_t rows, size_t columns, size_t n, size_t left,
                                            float *out) {
    vec sum[DEPTHWISE_VECTORS];
    KN_UNROLL
    for (size_t j = 0; j < vectors; j++)
        sum[j] = v_take(out + j * LANES, left - j * LANES);
    for (size_t y = 0; y < rows; y++)
        for (size_t t = 0; t < columns; t++) {
            const float *a = x + y * row + t * pixel, *b = w + y * w_row + t * n;
            KN_UNROLL
            for (size_t j = 0; j < vectors; j++)
                sum[j] =
                    v_fma(v_take(a + j * LANES, left - j * LANES), v_take(b + j * LANES, left - j * LANES), sum[j]);
        }
    KN_UNROLL
    for (size_t j = 0; j < vectors; j++)
        v_put(out + j * LANES, sum[j], left - j * LANES);
}

static void depthwise(const float *x, size_t row, size_t pixel, const float *w, size_t w_row, size_t rows,
                      size_t columns, size_t n, float *out) {
    size_t i = 0;
    for (; i + DEPTHWISE_VECTORS * LANES <= n; i += DEPTHWISE_VECTORS * LANES)
        depthwise_part(DEPTHWISE_VECTORS, x + i, row, pixel, w + i, w_row, rows, columns, n, DEPTHWISE_VECTORS * LANES,
                       out + i);
    for (; i < n; i += LANES)
        depthwise_part(1, x + i, row, pixel, w + i, w_row, rows, columns, n, n - i, out + i);
}

/* Sums go to four vectors in turn, so that each float adds up few terms and no addition waits for the one before. */
enum { SUMS = 4 };

static inline float sum_all(const vec s[SUMS]) {
    return v_sum(v_add(v_add(s[0], s[1]), v_add(s[2], s[3])));
}

static float sum_of(const float *x, size_t n) {
    vec s[SUMS] = { v_zero(), v_zero(), v_zero(), v_zero() };
    size_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES)
        for (size_t j = 0; j < SUMS; j++)
            s[j] = v_add(s[j], v_load(x + i + j * LANES));
    for (; i < n; i += LANES)
        s[0] = v_add(s[0], v_take(x + i, n - i));
    return sum_all(s);
}

/* of x - mean */
static float sum_of_squares(const float *x, size_t n, float mean) {
    vec s[SUMS] = { v_zero(), v_zero(), v_zero(), v_zero() }, m = v_set(mean);
    size_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES)
        for (size_t j = 0; j < SUMS; j++) {
            vec d = v_sub(v_load(x + i + j * LANES), m);
            s[j] = v_fma(d, d, s[j]);
        }
    for (; i + LANES <= n; i += LANES) {
        vec d = v_sub(v_load(x + i), m);
        s[0] = v_fma(d, d, s[0]);
    }
    float sum = sum_all(s);
    for (; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static void rms_norm(const float *x, const float *w, float eps, float *out, size_t n) {
    vec by = v_set(1 / sqrtf(sum_of_squares(x, n, 0) / (float)n + eps));
    for (size_t i = 0; i < n; i += LANES)
        v_put(out + i, v_mul(v_mul(v_take(x + i, n - i), by), v_take(w + i, n - i)), n - i);
}

static void norm_modulate(const float *x, const float *scale, const float *shift, float eps, float *out, size_t n) {
    float average = sum_of(x, n) / (float)n;
    vec mean = v_set(average), by = v_set(1 / sqrtf(sum_of_squares(x, n, average) / (float)n + eps));
    for (size_t i = 0; i < n; i += LANES) {
        vec v = v_mul(v_sub(v_take(x + i, n - i), mean), by);
        if (scale)
            v = v_fma(v, v_take(scale + i, n - i), v);
        if (shift)
            v = v_add(v, v_take(shift + i, n - i));
        v_put(out + i, v, n - i);
    }
}

static void unit_norm(const float *x, const float *w, bool with_silu, float *out, size_t n) {
    vec by = v_set(sqrtf((float)n) / fmaxf(sqrtf(sum_of_squares(x, n, 0)), 1e-12f));
    for (size_t i = 0; i < n; i += LANES) {
        vec v = v_mul(v_mul(v_take(x + i, n - i), by), v_take(w + i, n - i));
        v_put(out + i, with_silu ? v_silu(v) : v, n - i);
    }
}

static void affine(const float *x, const float *scale, const float *shift, bool with_silu, float *out, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        vec v = v_fma(v_take(x + i, n - i), v_take(scale + i, n - i), v_take(shift + i, n - i));
        v_put(out + i, with_silu ? v_silu(v) : v, n - i);
    }
}

/* Whoever calls this keeps x small enough to be in the cache when it is read again. */
static void moments(const float *x, size_t rows, size_t n, float *mean, float *squares) {
    for (size_t j = 0; j < n; j += LANES) {
        vec sum = v_zero(), s = v_zero();
        for (size_t i = 0; i < rows; i++)
            sum = v_add(sum, v_take(x + i * n + j, n - j));
        vec m = v_mul(sum, v_set(1 / (float)rows));
        for (size_t i = 0; i < rows; i++) {
            vec d = v_sub(v_take(x + i * n + j, n - j), m);
            s = v_fma(d, d, s);
        }
        v_put(mean + j, m, n - j);
        v_put(squares + j, s, n - j);
    }
}

static void rotate_halves(float *x, const float *cos, const float *sin, size_t half) {
    for (size_t j = 0; j < half; j += LANES) {
        size_t m = half - j;
        vec a = v_take(x + j, m), b = v_take(x + half + j, m), c = v_take(cos + j, m), s = v_take(sin + j, m);
        v_put(x + j, v_sub(v_mul(a, c), v_mul(b, s)), m);
        v_put(x + half + j, v_fma(b, c, v_mul(a, s)), m);
    }
}

static void rotate(float *x, const float *cos, const float *sin, size_t n, kn_rope_pairs pairs) {
    if (pairs == KN_ROPE_HALVES) {
        rotate_halves(x, cos, sin, n / 2);
        return;
    }
    for (size_t i = 0; i < n; i += LANES) {
        size_t angles = KN_MIN(n - i, LANES) / 2;
        vec v = v_take(x + i, n - i), c = v_double(v_load_n(cos + i / 2, angles));
        vec s = v_double(v_load_n(sin + i / 2, angles));
        v_put(x + i, v_fma_alternating(v, c, v_mul(v_swap_pairs(v), s)), n - i);
    }
}

/* All of x by one pass at distance `step`, a whole number of vectors. */
static void turn_far(float *x, size_t n, size_t step) {
    for (size_t i = 0; i < n; i += 4 * step)
        for (size_t j = i; j < i + step; j += LANES) {
            vec a = v_load(x + j), b = v_load(x + j + step), c = v_load(x + j + 2 * step), d = v_load(x + j + 3 * step);
            vec half = v_mul(v_add(v_add(a, b), v_add(c, d)), v_set(0.5f));
            v_store(x + j, v_sub(half, d));
            v_store(x + j + step, v_sub(half, c));
            v_store(x + j + 2 * step, v_sub(half, b));
            v_store(x + j + 3 * step, v_sub(half, a));
        }
}

static void turn_groups(float *x, size_t n, size_t group) {
    for (size_t i = 0; i < n; i += LANES) {
        vec v = v_take(x + i, n - i), pairs = v_add(v, v_swap_pairs(v));
        vec half = v_mul(v_add(pairs, v_swap_halves(pairs)), v_set(0.5f));
        v_put(x + i, v_sub(half, v_reverse_fours(v)), n - i);
    }
    for (size_t i = 0; group > 4 && i < n; i += 16)
        v_turn_columns(x + i);
    for (size_t step = 16; step < group; step *= 4)
        turn_far(x, n, step);
}

static void round_int8(float *x, size_t n) {
    vec largest = v_zero();
    for (size_t i = 0; i < n; i += LANES)
        largest = v_max(v_magnitude(v_take(x + i, n - i)), largest);
    vec scale = v_max(v_div(v_set(v_largest(largest)), v_set(127)), v_set(1e-30f));
    for (size_t i = 0; i < n; i += LANES)
        v_put(x + i, v_mul(v_round(v_div(v_take(x + i, n - i), scale)), scale), n - i);
}

#endif
