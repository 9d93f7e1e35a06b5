/* What tiers that multiply int8 share around the product. Included after simd_math.h. */
#ifndef KN_COMPUTE_CPU_SIMD_INT8_H
#define KN_COMPUTE_CPU_SIMD_INT8_H

static float scale_int8(const float *x, size_t n) {
    vec largest = v_zero(), odd = v_zero(); /* zero times NaN or infinity is NaN, which no later sum can undo */
    for (size_t i = 0; i < n; i += LANES) {
        vec v = v_take(x + i, n - i);
        largest = v_max(v_magnitude(v), largest);
        odd = v_fma(v, v_zero(), odd);
    }
    return v_largest(v_max(v_div(v_set(v_largest(largest)), v_set(127)), v_set(1e-30f))) + v_sum(odd);
}

static void finish_int8(float *c, const int32_t *sums, const float *scale, float by, const float *bias, size_t n) {
    for (size_t j = 0; j < n; j += LANES) {
        size_t left = n - j;
        vec sum = v_difference(v_take(c + j, left), v_take(sums + j, left));
        vec share = v_mul(v_set(by), v_take(scale + j, left));
        v_put(c + j, v_fma(sum, share, v_take(bias + j, left)), left);
    }
}

#endif
