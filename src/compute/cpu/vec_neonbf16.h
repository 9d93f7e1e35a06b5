/* What simd_narrow.h needs of the instructions for bfloat16, beyond the names of vec_neon.h. vec_avx512bf16.h has the
 * same names. Codes are 16 bits; a vector holds 2 * LANES of them. */
#ifndef KN_COMPUTE_CPU_VEC_NARROW_H
#define KN_COMPUTE_CPU_VEC_NARROW_H

enum { DOT_ROWS = 2 }; /* times KN_DOT_COLUMNS: 8 sums, 2 vectors of rows and 1 of the weight, of two registers each */

static inline float32x4_t dot_codes(float32x4_t a, float32x4_t b, float32x4_t sum) {
    return vbfdotq_f32(sum, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b));
}

/* Words of two elements: a[0] b[0] + a[1] b[1] + sum. */
static inline vec v_dot_bf16(vec a, vec b, vec sum) {
    return (vec){ dot_codes(a.low, b.low, sum.low), dot_codes(a.high, b.high, sum.high) };
}

static inline uint16x8_t rounded(vec x) {
    return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(x.low), x.high));
}

static inline vec v_codes(vec low, vec high) {
    return (vec){ vreinterpretq_f32_u16(rounded(low)), vreinterpretq_f32_u16(rounded(high)) };
}

static inline vec v_take_codes(const void *p, size_t n) { /* up to 2 * LANES */
    if (n >= 2 * LANES)
        return v_load(p);
    uint16_t all[2 * LANES] = { 0 };
    memcpy(all, p, n * sizeof *all);
    return v_load(all);
}

static inline void v_put_codes(uint16_t *p, vec codes, size_t n) {
    uint16x8_t low = vreinterpretq_u16_f32(codes.low), high = vreinterpretq_u16_f32(codes.high);
    uint16_t all[2 * LANES] = { 0 }, *to = n >= 2 * LANES ? p : all;
    vst1q_u16(to, low);
    vst1q_u16(to + LANES, high);
    if (n < 2 * LANES)
        memcpy(p, all, n * sizeof *p);
}

static inline void v_put_rounded(void *p, vec x) { /* LANES codes */
    vst1q_u8(p, vreinterpretq_u8_u16(rounded(x)));
}

static inline vec v_first(vec x, size_t n) { /* n < LANES of it, then zeros */
    float all[LANES];
    v_store(all, x);
    return v_load_n(all, n);
}

static inline float32x4_t raise(float32x4_t x, int32x4_t n) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x), vshlq_n_s32(n, 23)));
}

/* x * 2^n, both normal; n is what the lowest bits of `whole` hold. */
static inline vec v_raise(vec x, vec whole) {
    return (vec){ raise(x.low, vreinterpretq_s32_f32(whole.low)), raise(x.high, vreinterpretq_s32_f32(whole.high)) };
}

static inline float32x4_t inverse_rough(float32x4_t x) {
    float32x4_t y = vrecpeq_f32(x);
    return vmulq_f32(y, vrecpsq_f32(x, y));
}

static inline vec v_inverse_rough(vec x) { /* wrong by less than 2^-14 of it */
    return V_BOTH(inverse_rough, x);
}

static inline vec v_fraction(vec x) { /* x less the whole number below it */
    return v_sub(x, V_BOTH(vrndmq_f32, x));
}

static inline vec v_scale_by_floor(vec x, vec n) { /* x * 2^n, n rounded down; 0 where that is below 2^-126 */
    vec scaled = { raise(x.low, vcvtmq_s32_f32(n.low)), raise(x.high, vcvtmq_s32_f32(n.high)) };
    return v_zero_below(-126, n, scaled);
}

#endif
