/* Decoders to bfloat16, 32 elements at a time. Included by tiers after vec_avx512.h that convert to bfloat16.
 *
 * Where up to 32 elements share a scale and are small numbers, what each number means is worked out once, by the
 * products of the reference, and looked up for the elements. */
#ifndef KN_COMPUTE_CPU_BF16_DECODE_H
#define KN_COMPUTE_CPU_BF16_DECODE_H

#include "tensor/blocks.h"

typedef __m512i words; /* 32 numbers of 16 bits */

static inline words round_words(vec low, vec high) {
    return _mm512_castps_si512(v_codes(low, high));
}

static inline words words_of_bytes(const uint8_t *p) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

static inline words w_and(words x, int mask) {
    return _mm512_and_si512(x, _mm512_set1_epi16((short)mask));
}

static inline words w_right(words x, size_t bits) {
    return _mm512_srlv_epi16(x, _mm512_set1_epi16((short)bits));
}

static inline void put_words(uint16_t *p, words x) {
    _mm512_storeu_si512(p, x);
}

/* The exponent only needs another bias. Subnormals, which are numbers like any others here, are looked up. */
static inline words words_of_e4m3(words code) {
    const words small =
        _mm512_zextsi128_si512(_mm_setr_epi16(0, 0x3B00, 0x3B80, 0x3BC0, 0x3C00, 0x3C20, 0x3C40, 0x3C60));
    words size = w_and(code, 0x7F), x = _mm512_add_epi16(_mm512_slli_epi16(size, 4), _mm512_set1_epi16(0x3C00));
    x = _mm512_mask_permutexvar_epi16(x, _mm512_cmplt_epu16_mask(size, _mm512_set1_epi16(8)), size, small);
    x = _mm512_mask_mov_epi16(x, _mm512_cmpeq_epi16_mask(size, _mm512_set1_epi16(0x7F)), _mm512_set1_epi16(0x7FC0));
    return _mm512_or_si512(x, _mm512_slli_epi16(w_and(code, 0x80), 8));
}

static void decode_bf16_e4m3(const void *src, size_t n, uint16_t *dst) {
    const uint8_t *p = src;
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        put_words(dst + i, words_of_e4m3(words_of_bytes(p + i)));
    if (i < n) {
        uint8_t rest[2 * LANES] = { 0 };
        uint16_t all[2 * LANES];
        memcpy(rest, p + i, n - i);
        put_words(all, words_of_e4m3(words_of_bytes(rest)));
        memcpy(dst + i, all, (n - i) * sizeof *dst);
    }
}

/* ---- blocks of 32 ---- */

static inline vec v_count(void) {
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline vec v_uneven(void) {
    return v_from_i8((const uint8_t *)kn_uneven_steps);
}

/* Element i is the low half of byte i, element 16 + i its high half. */
static inline words words_of_halves(const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1);
    return _mm512_cvtepu8_epi16(_mm256_and_si256(both, _mm256_set1_epi8(15)));
}

static inline words w_add_where(words x, __mmask32 where, int n) {
    return _mm512_mask_add_epi16(x, where, x, _mm512_set1_epi16((short)n));
}

/* A fifth bit from four bytes. */
static inline words words_of_five(const uint8_t *high, const uint8_t *p) {
    uint32_t bits;
    memcpy(&bits, high, sizeof bits);
    return w_add_where(words_of_halves(p), bits, 16);
}

/* meanings[code] for 32 codes; `high` is what codes from 16 mean. */
static inline void look_up(uint16_t *dst, words code, vec low, vec high) {
    put_words(dst, _mm512_permutexvar_epi16(code, round_words(low, high)));
}

static inline void block_q8_0(const uint8_t *p, uint16_t *dst) {
    vec d = v_set(half_at(p));
    put_words(dst, round_words(v_mul(d, v_from_i8(p + 2)), v_mul(d, v_from_i8(p + 2 + LANES))));
}

static inline void block_q4_0(const uint8_t *p, uint16_t *dst) {
    vec low = v_mul(v_set(half_at(p)), v_sub(v_count(), v_set(8)));
    look_up(dst, words_of_halves(p + 2), low, low);
}

static inline void block_q4_1(const uint8_t *p, uint16_t *dst) {
    vec low = v_add(v_mul(v_set(half_at(p)), v_count()), v_set(half_at(p + 2)));
    look_up(dst, words_of_halves(p + 4), low, low);
}

static inline void block_q5_0(const uint8_t *p, uint16_t *dst) {
    vec d = v_set(half_at(p));
    look_up(dst, words_of_five(p + 2, p + 6), v_mul(d, v_sub(v_count(), v_set(16))), v_mul(d, v_count()));
}

static inline void block_q5_1(const uint8_t *p, uint16_t *dst) {
    vec d = v_set(half_at(p)), m = v_set(half_at(p + 2));
    look_up(dst, words_of_five(p + 4, p + 8), v_add(v_mul(d, v_count()), m),
            v_add(v_mul(d, v_add(v_count(), v_set(16))), m));
}

static inline void block_iq4_nl(const uint8_t *p, uint16_t *dst) {
    vec low = v_mul(v_set(half_at(p)), v_uneven());
    look_up(dst, words_of_halves(p + 2), low, low);
}

/* ---- blocks of 256 ---- */

/* scale * (0 … 15) - less */
static inline vec v_steps(float scale, float less) {
    return v_sub(v_mul(v_set(scale), v_count()), v_set(less));
}

static inline void block_q4_k(const uint8_t *p, uint16_t *dst) {
    KN_UNROLL
    for (size_t j = 0; j < 8; j += 2) {
        words byte = words_of_bytes(p + 16 + 16 * j);
        KN_UNROLL
        for (size_t i = 0; i < 2; i++) {
            uint8_t scale, min;
            kn_scale_and_min(p + 4, j + i, &scale, &min);
            vec low = v_steps(half_at(p) * scale, half_at(p + 2) * min);
            look_up(dst + 32 * (j + i), i ? w_right(byte, 4) : w_and(byte, 15), low, low);
        }
    }
}

static inline void block_q5_k(const uint8_t *p, uint16_t *dst) {
    words fifth = words_of_bytes(p + 16);
    KN_UNROLL
    for (size_t j = 0; j < 8; j++) {
        uint8_t scale, min;
        kn_scale_and_min(p + 4, j, &scale, &min);
        vec d = v_set(half_at(p) * scale), m = v_set(half_at(p + 2) * min);
        words code = w_and(w_right(words_of_bytes(p + 48 + j / 2 * 32), j % 2 * 4), 15);
        code = w_add_where(code, _mm512_test_epi16_mask(fifth, _mm512_set1_epi16((short)(1 << j))), 16);
        look_up(dst + 32 * j, code, v_sub(v_mul(d, v_count()), m), v_sub(v_mul(d, v_add(v_count(), v_set(16))), m));
    }
}

/* 16 words of two's complement. */
static inline vec v_from_words(__m256i x) {
    return v_from_int(_mm512_cvtepi16_epi32(x));
}

static inline void block_q6_k(const uint8_t *p, uint16_t *dst) {
    KN_UNROLL
    for (size_t j = 0; j < 8; j++) {
        const uint8_t *scale = p + 192 + 2 * j;
        float d = half_at(p + 208);
        words four = w_and(w_right(words_of_bytes(p + j / 4 * 64 + j % 2 * 32), j % 4 / 2 * 4), 15);
        words two = w_and(w_right(words_of_bytes(p + 128 + j / 4 * 32), j % 4 * 2), 3);
        words q = _mm512_sub_epi16(_mm512_or_si512(four, _mm512_slli_epi16(two, 4)), _mm512_set1_epi16(32));
        put_words(dst + 32 * j,
                  round_words(v_mul(v_set(d * (int8_t)scale[0]), v_from_words(_mm512_castsi512_si256(q))),
                              v_mul(v_set(d * (int8_t)scale[1]), v_from_words(_mm512_extracti64x4_epi64(q, 1)))));
    }
}

/* Of two sub-blocks of 16, the codes of the second one count from 16. */
static inline words w_second_half_on(words code) {
    return w_add_where(code, 0xFFFF0000, 16);
}

static inline void block_q2_k(const uint8_t *p, uint16_t *dst) {
    float d = half_at(p + 80);
    float dmin = half_at(p + 82);
    KN_UNROLL
    for (size_t j = 0; j < 8; j++) {
        const uint8_t *s = p + 2 * j;
        words code = w_and(w_right(words_of_bytes(p + 16 + j / 4 * 32), j % 4 * 2), 3);
        look_up(dst + 32 * j, w_second_half_on(code), v_steps(d * (float)(s[0] & 15), dmin * (float)(s[0] >> 4)),
                v_steps(d * (float)(s[1] & 15), dmin * (float)(s[1] >> 4)));
    }
}

static inline void block_q3_k(const uint8_t *p, uint16_t *dst) {
    words third = words_of_bytes(p);
    float d = half_at(p + 108);
    KN_UNROLL
    for (size_t j = 0; j < 8; j++) {
        words code = w_and(w_right(words_of_bytes(p + 32 + j / 4 * 32), j % 4 * 2), 3);
        code = w_add_where(code, _mm512_test_epi16_mask(third, _mm512_set1_epi16((short)(1 << j))), 4);
        vec low = v_mul(v_set(d * (float)kn_q3_k_scale(p + 96, 2 * j)), v_sub(v_count(), v_set(4)));
        vec high = v_mul(v_set(d * (float)kn_q3_k_scale(p + 96, 2 * j + 1)), v_sub(v_count(), v_set(4)));
        look_up(dst + 32 * j, w_second_half_on(code), low, high);
    }
}

static inline void block_iq4_xs(const uint8_t *p, uint16_t *dst) {
    float d = half_at(p);
    KN_UNROLL
    for (size_t j = 0; j < 8; j++) {
        vec low = v_mul(v_set(d * (float)kn_iq4_xs_scale(p, j)), v_uneven());
        look_up(dst + 32 * j, words_of_halves(p + 8 + 16 * j), low, low);
    }
}

/* A decoder from what does one block. */
#define BLOCKS_BF16(type, elements, bytes)                                                                             \
    static void decode_bf16_##type(const void *src, size_t n, uint16_t *dst) {                                         \
        for (const uint8_t *p = src; n > 0; n -= (elements), p += (bytes), dst += (elements))                          \
            block_##type(p, dst);                                                                                      \
    }
BLOCKS_BF16(q8_0, 32, 34)
BLOCKS_BF16(q4_0, 32, 18)
BLOCKS_BF16(q4_1, 32, 20)
BLOCKS_BF16(q5_0, 32, 22)
BLOCKS_BF16(q5_1, 32, 24)
BLOCKS_BF16(iq4_nl, 32, 18)
BLOCKS_BF16(q4_k, 256, 144)
BLOCKS_BF16(q5_k, 256, 176)
BLOCKS_BF16(q6_k, 256, 210)
BLOCKS_BF16(q2_k, 256, 84)
BLOCKS_BF16(q3_k, 256, 110)
BLOCKS_BF16(iq4_xs, 256, 136)

static void fill_bf16_decoders(kn_kernels *k) {
    k->decode_bf16[KN_F8_E4M3] = decode_bf16_e4m3;
    k->decode_bf16[KN_Q4_0] = decode_bf16_q4_0;
    k->decode_bf16[KN_Q4_1] = decode_bf16_q4_1;
    k->decode_bf16[KN_Q5_0] = decode_bf16_q5_0;
    k->decode_bf16[KN_Q5_1] = decode_bf16_q5_1;
    k->decode_bf16[KN_Q8_0] = decode_bf16_q8_0;
    k->decode_bf16[KN_Q2_K] = decode_bf16_q2_k;
    k->decode_bf16[KN_Q3_K] = decode_bf16_q3_k;
    k->decode_bf16[KN_Q4_K] = decode_bf16_q4_k;
    k->decode_bf16[KN_Q5_K] = decode_bf16_q5_k;
    k->decode_bf16[KN_Q6_K] = decode_bf16_q6_k;
    k->decode_bf16[KN_IQ4_NL] = decode_bf16_iq4_nl;
    k->decode_bf16[KN_IQ4_XS] = decode_bf16_iq4_xs;
}

#endif
