/* Functions of a vector. Written once over the names of vec_*.h; included by the file of each tier after one of them.
 */
#ifndef KN_COMPUTE_CPU_SIMD_MATH_H
#define KN_COMPUTE_CPU_SIMD_MATH_H

/* Up to LANES floats: all of a vector nearly always. */
static inline vec v_take(const void *p, size_t n) {
    return n >= LANES ? v_load(p) : v_load_n(p, n);
}

static inline void v_put(float *p, vec x, size_t n) {
    if (n >= LANES)
        v_store(p, x);
    else
        v_store_n(p, x, n);
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; returns exp(r) - 1 by its Taylor series, whose first missing term r^8 / 8! is
 * below a tenth of a unit in the last place of exp(r). */
static inline vec v_exp_parts(vec x, vec *n) {
    *n = v_round(v_mul(x, v_set(0x1.715476p+0f)));
    vec r = v_fma(*n, v_set(-0x1.62e4p-1f), x); /* ln 2 in two parts: n times the first one is exact */
    r = v_fma(*n, v_set(-0x1.7f7d1cp-20f), r);
    vec p = v_set(1 / 5040.0f);
    p = v_fma(p, r, v_set(1 / 720.0f));
    p = v_fma(p, r, v_set(1 / 120.0f));
    p = v_fma(p, r, v_set(1 / 24.0f));
    p = v_fma(p, r, v_set(1 / 6.0f));
    p = v_fma(p, r, v_set(1 / 2.0f));
    return v_fma(v_mul(r, r), p, r);
}

/* 0 where the result would be subnormal: such numbers slow down whoever computes with them, and the scores of sharp
 * attention are full of them. Infinity above, and a NaN stays. */
static inline vec v_exp(vec x) {
    const float least = -87.3f; /* ln 2^-126 = -87.34 */
    vec n, less_one = v_exp_parts(v_max(v_set(least), v_min(v_set(89), x)), &n);
    return v_zero_below(least, x, v_scale_by_power(v_add(less_one, v_set(1)), n));
}

static inline vec v_silu(vec x) {
    return v_div(x, v_add(v_set(1), v_exp(v_sub(v_zero(), x))));
}

static inline vec v_sigmoid(vec x) {
    return v_div(v_set(1), v_add(v_set(1), v_exp(v_sub(v_zero(), x))));
}

/* With tanh(u) = 1 - 2 / (1 + exp(2 u)) the usual form becomes x / (1 + exp(-2 u)), without cancellation. */
static inline vec v_gelu_tanh(vec x) {
    vec inner = v_fma(v_mul(v_mul(x, x), v_set(0.044715f)), x, x);
    return v_div(x, v_add(v_set(1), v_exp(v_mul(inner, v_set(-1.5957691216057308f))))); /* -2 sqrt(2 / pi) */
}

/* (exp(2 |x|) - 1) / (exp(2 |x|) + 1), with exp - 1 kept apart so that small x lose nothing. */
static inline vec v_tanh(vec x) {
    vec n, twice = v_min(v_set(30), v_mul(v_set(2), v_magnitude(x)));
    vec less_one = v_exp_parts(twice, &n), power = v_scale_by_power(v_set(1), n);
    less_one = v_fma(power, less_one, v_sub(power, v_set(1)));
    return v_with_sign_of(v_div(less_one, v_add(less_one, v_set(2))), x);
}

/* tanh(ln(1 + e)) with e = exp(x) is n / (n + 2), where n = (1 + e)^2 - 1: no cancellation. Beyond 30 it is 1. */
static inline vec v_mish(vec x) {
    vec e = v_exp(v_min(v_set(30), x)), n = v_mul(e, v_add(e, v_set(2)));
    return v_mul(x, v_div(n, v_add(n, v_set(2))));
}

#endif
