/* Eight floats at a time as two registers: what simd_*.h is written in, for the NEON that every 64-bit ARM has.
 * vec_avx2.h has the same names. */
#ifndef KN_COMPUTE_CPU_VEC_H
#define KN_COMPUTE_CPU_VEC_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    LANES = 8,
    TILE_ROWS = 4,
    TILE_VECTORS = 2, /* 8 sums, 2 panel vectors, 4 row elements, of two registers or one: 24 of 32; six rows spill */
    TILE_UNROLLED = false
};
#define TILE_ORDERED(x) (x)

typedef struct vec {
    float32x4_t low, high;
} vec;

typedef struct ivec {
    int32x4_t low, high;
} ivec;

/* f of one or more registers, for both halves. */
#define V_BOTH(f, a)     ((vec){ f((a).low), f((a).high) })
#define V_BOTH2(f, a, b) ((vec){ f((a).low, (b).low), f((a).high, (b).high) })

static inline vec v_zero(void) {
    return (vec){ vdupq_n_f32(0), vdupq_n_f32(0) };
}

static inline vec v_set(float x) {
    return (vec){ vdupq_n_f32(x), vdupq_n_f32(x) };
}

static inline vec v_spread(const void *p) { /* the 32 bits there, in every lane */
    float word;
    memcpy(&word, p, sizeof word);
    return v_set(word);
}

static inline vec v_load(const void *p) { /* of bytes, as p may not be aligned like a float */
    const uint8_t *bytes = p;
    return (vec){ vreinterpretq_f32_u8(vld1q_u8(bytes)), vreinterpretq_f32_u8(vld1q_u8(bytes + 16)) };
}

static inline vec v_load_n(const void *p, size_t n) { /* n < LANES; the rest is 0 */
    float all[LANES] = { 0 };
    memcpy(all, p, n * sizeof *all);
    return v_load(all);
}

static inline void v_store(float *p, vec x) {
    vst1q_f32(p, x.low);
    vst1q_f32(p + 4, x.high);
}

static inline void v_store_n(float *p, vec x, size_t n) {
    float all[LANES];
    v_store(all, x);
    memcpy(p, all, n * sizeof *p);
}

static inline vec v_add(vec a, vec b) {
    return V_BOTH2(vaddq_f32, a, b);
}

static inline vec v_sub(vec a, vec b) {
    return V_BOTH2(vsubq_f32, a, b);
}

static inline vec v_mul(vec a, vec b) {
    return V_BOTH2(vmulq_f32, a, b);
}

static inline vec v_div(vec a, vec b) {
    return V_BOTH2(vdivq_f32, a, b);
}

static inline vec v_fma(vec a, vec b, vec c) { /* a * b + c */
    return (vec){ vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high) };
}

static inline vec v_fma_alternating(vec a, vec b, vec c) { /* a * b - c in even lanes, + c in odd ones */
    const uint32x4_t even = vreinterpretq_u32_u64(vdupq_n_u64(0x80000000));
    vec signed_c = { vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(c.low), even)),
                     vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(c.high), even)) };
    return v_fma(a, b, signed_c);
}

static inline float32x4_t smaller(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

static inline float32x4_t larger(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

static inline vec v_min(vec a, vec b) { /* b if either is NaN */
    return V_BOTH2(smaller, a, b);
}

static inline vec v_max(vec a, vec b) {
    return V_BOTH2(larger, a, b);
}

static inline vec v_round(vec x) {
    return V_BOTH(vrndnq_f32, x);
}

static inline float32x4_t scale_by_power(float32x4_t x, float32x4_t n) {
    int32x4_t whole = vcvtq_s32_f32(n), half = vshrq_n_s32(whole, 1), bias = vdupq_n_s32(127);
    int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(whole, half), bias), 23);
    return vmulq_f32(vmulq_f32(x, vreinterpretq_f32_s32(first)), vreinterpretq_f32_s32(second));
}

/* x * 2^n; n whole, -126 to 129: in two steps, as 2^n alone might not be a float. */
static inline vec v_scale_by_power(vec x, vec n) {
    return V_BOTH2(scale_by_power, x, n);
}

static inline float32x4_t zero_below(float limit, float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(limit)), vdupq_n_f32(0), y);
}

static inline vec v_zero_below(float limit, vec x, vec y) { /* y, but 0 where x < limit */
    return (vec){ zero_below(limit, x.low, y.low), zero_below(limit, x.high, y.high) };
}

static inline vec v_magnitude(vec x) {
    return V_BOTH(vabsq_f32, x);
}

static inline float32x4_t with_sign_of(float32x4_t x, float32x4_t sign) {
    return vbslq_f32(vdupq_n_u32(0x80000000), sign, x);
}

static inline vec v_with_sign_of(vec x, vec sign) { /* x >= 0 */
    return V_BOTH2(with_sign_of, x, sign);
}

static inline float v_sum(vec x) {
    return vaddvq_f32(vaddq_f32(x.low, x.high));
}

static inline float v_largest(vec x) {
    return vmaxnmvq_f32(vmaxnmq_f32(x.low, x.high));
}

static inline vec v_double(vec x) { /* 0 1 2 … -> 0 0 1 1 2 2 … */
    return (vec){ vzip1q_f32(x.low, x.low), vzip2q_f32(x.low, x.low) };
}

static inline vec v_swap_pairs(vec x) { /* 0 1 2 3 … -> 1 0 3 2 … */
    return V_BOTH(vrev64q_f32, x);
}

static inline float32x4_t swap_halves(float32x4_t x) {
    return vextq_f32(x, x, 2);
}

static inline vec v_swap_halves(vec x) { /* 0 1 2 3 … -> 2 3 0 1 … */
    return V_BOTH(swap_halves, x);
}

static inline vec v_reverse_fours(vec x) { /* 0 1 2 3 … -> 3 2 1 0 … */
    return v_swap_halves(v_swap_pairs(x));
}

static inline ivec widen(int16x8_t x) {
    return (ivec){ vmovl_s16(vget_low_s16(x)), vmovl_s16(vget_high_s16(x)) };
}

static inline ivec i_from_u8(const uint8_t *p) {
    return widen(vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p))));
}

static inline ivec i_and(ivec x, int mask) {
    return (ivec){ vandq_s32(x.low, vdupq_n_s32(mask)), vandq_s32(x.high, vdupq_n_s32(mask)) };
}

static inline ivec i_or(ivec a, ivec b) {
    return (ivec){ vorrq_s32(a.low, b.low), vorrq_s32(a.high, b.high) };
}

static inline ivec i_left(ivec x, size_t bits) {
    int32x4_t by = vdupq_n_s32((int)bits);
    return (ivec){ vshlq_s32(x.low, by), vshlq_s32(x.high, by) };
}

static inline ivec i_right(ivec x, size_t bits) { /* x >= 0 */
    int32x4_t by = vdupq_n_s32(-(int)bits);
    return (ivec){ vshlq_s32(x.low, by), vshlq_s32(x.high, by) };
}

static inline vec v_from_int(ivec x) {
    return (vec){ vcvtq_f32_s32(x.low), vcvtq_f32_s32(x.high) };
}

static inline float32x4_t add_int(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
}

static inline float32x4_t difference(float32x4_t a, float32x4_t b) {
    return vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
}

/* Sums of whole numbers; their differences, as floats. */
static inline vec v_add_int(vec a, vec b) {
    return V_BOTH2(add_int, a, b);
}

static inline vec v_difference(vec a, vec b) {
    return V_BOTH2(difference, a, b);
}

static inline vec v_from_i8(const uint8_t *p) {
    return v_from_int(widen(vmovl_s8(vreinterpret_s8_u8(vld1_u8(p)))));
}

static inline vec from_halves(uint16x8_t x) {
    float16x8_t h = vreinterpretq_f16_u16(x);
    return (vec){ vcvt_f32_f16(vget_low_f16(h)), vcvt_f32_f16(vget_high_f16(h)) };
}

static inline uint16x8_t load_u16(const uint8_t *p) {
    return vreinterpretq_u16_u8(vld1q_u8(p));
}

static inline float half_at(const uint8_t *p) {
    uint16_t bits = (uint16_t)(p[0] | p[1] << 8);
    float16_t h;
    memcpy(&h, &bits, sizeof h);
    return (float)h;
}

static inline vec v_from_f16(const uint8_t *p) {
    return from_halves(load_u16(p));
}

static inline vec v_from_bf16(const uint8_t *p) {
    uint16x8_t x = load_u16(p);
    return (vec){ vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)),
                  vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(x), 16)) };
}

static inline vec v_from_e5m2(const uint8_t *p) {
    return from_halves(vshll_n_u8(vld1_u8(p), 8));
}

/* By way of an F16 whose exponent is 8 too small; it takes subnormals along. The one NaN needs an exponent of ones. */
static inline vec v_from_e4m3(const uint8_t *p) {
    uint16x8_t wide = vmovl_u8(vld1_u8(p)), top = vdupq_n_u16(0x3F80);
    uint16x8_t size = vandq_u16(vshlq_n_u16(wide, 7), top);
    uint16x8_t sign = vandq_u16(vshlq_n_u16(wide, 8), vdupq_n_u16(0x8000));
    uint16x8_t nan = vandq_u16(vceqq_u16(size, top), vdupq_n_u16(0x7E00));
    return v_mul(from_halves(vorrq_u16(vorrq_u16(size, sign), nan)), v_set(256));
}

/* Four rows by four: pairs of rows, then pairs of pairs. */
static inline void transpose_four(float32x4_t x[4]) {
    float32x4_t a = vtrn1q_f32(x[0], x[1]), b = vtrn2q_f32(x[0], x[1]);
    float32x4_t c = vtrn1q_f32(x[2], x[3]), d = vtrn2q_f32(x[2], x[3]);
#define PAIRS(trn, a, b) vreinterpretq_f32_f64(trn(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)))
    x[0] = PAIRS(vtrn1q_f64, a, c);
    x[1] = PAIRS(vtrn1q_f64, b, d);
    x[2] = PAIRS(vtrn2q_f64, a, c);
    x[3] = PAIRS(vtrn2q_f64, b, d);
#undef PAIRS
}

/* x[i] lane j -> x[j] lane i, by quarters. */
static inline void v_transpose(vec x[LANES]) {
    float32x4_t a[4], b[4], c[4], d[4];
    for (int i = 0; i < 4; i++) {
        a[i] = x[i].low;
        b[i] = x[i].high;
        c[i] = x[4 + i].low;
        d[i] = x[4 + i].high;
    }
    transpose_four(a);
    transpose_four(b);
    transpose_four(c);
    transpose_four(d);
    for (int i = 0; i < 4; i++) {
        x[i] = (vec){ a[i], c[i] };
        x[4 + i] = (vec){ b[i], d[i] };
    }
}

/* Of 16 floats, seen as 4 by 4, each column to half its sum less each element, in reverse order. */
static inline void v_turn_columns(float x[16]) {
    vec ab = v_load(x), cd = v_load(x + 8);
    float32x4_t sum = vaddq_f32(vaddq_f32(ab.low, ab.high), vaddq_f32(cd.low, cd.high));
    float32x4_t half = vmulq_f32(sum, vdupq_n_f32(0.5f));
    vst1q_f32(x, vsubq_f32(half, cd.high));
    vst1q_f32(x + 4, vsubq_f32(half, cd.low));
    vst1q_f32(x + 8, vsubq_f32(half, ab.high));
    vst1q_f32(x + 12, vsubq_f32(half, ab.low));
}

#endif
