/* PyTorch's normal values on the CPU: MT19937 words, uniforms of 24 bits, Box-Muller over blocks of 16.
 *
 * PyTorch computes the blocks with 8-lane versions of Cephes' single-precision functions (S. Moshier, Methods and
 * Programs for Mathematical Functions). A float32 polynomial gives other last bits than a correctly rounded function,
 * and a fused multiply-add others than two operations, so the polynomials are evaluated here in the same order with
 * fmaf exactly where the library's machine code fuses. Change no operation: tests compare bits. */
#include <math.h>

#include "sampling/noise_fill.h"

enum { BLOCK = 16, HALF = BLOCK / 2 };

/* ln x for x in (0, 1], not denormal. With x = m * 2^e and m around 1: ln(1 + f) = f - f^2/2 + f^3 P(f), plus e ln 2 in
 * two parts of which the large one has few bits. */
static float log_block(float x) {
    static const float p[] = { 7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                               -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                               2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f };
    int exponent = 0;
    float f = frexpf(x, &exponent), e = (float)exponent; /* f in [1/2, 1) */
    if (f < 0.707106781186547524f) {
        e -= 1;
        f += f;
    }
    f -= 1;
    float square = f * f, y = p[0];
    for (size_t i = 1; i < KN_COUNT(p); i++)
        y = fmaf(y, f, p[i]);
    y = fmaf(y * f, square, e * -2.12194440e-4f);
    y = fmaf(square, -0.5f, y);
    return fmaf(e, 0.693359375f, f + y);
}

/* sin x and cos x for x in [0, 2 pi]: x less the nearest even multiple of pi/4, subtracted in three parts, goes into
 * one polynomial for sine and one for cosine; the multiple decides which is which, and the signs. */
static void sin_cos_block(float x, float *ret_sin, float *ret_cos) {
    int octant = ((int)(x * 1.27323954473516f) + 1) & ~1;
    float k = (float)octant;
    x = fmaf(k, -0.78515625f, x);
    x = fmaf(k, -2.4187564849853515625e-4f, x);
    x = fmaf(k, -3.77489497744594108e-8f, x);
    float square = x * x;

    float c = fmaf(2.443315711809948e-5f, square, -1.388731625493765e-3f);
    c = fmaf(c, square, 4.166664568298827e-2f);
    c = fmaf(c * square, square, square * -0.5f) + 1;

    float s = fmaf(-1.9515295891e-4f, square, 8.3321608736e-3f);
    s = fmaf(s, square, -1.6666654611e-1f);
    s = fmaf(s * square, x, x);

    bool swapped = octant & 2, lower = octant & 4;
    *ret_sin = lower ? -(swapped ? c : s) : swapped ? c : s;
    *ret_cos = lower != swapped ? -(swapped ? s : c) : swapped ? s : c;
}

/* Box-Muller in place: uniforms j and j + 8 become the two values of one point. */
static void normal_block(float d[BLOCK]) {
    for (int j = 0; j < HALF; j++) {
        float radius = sqrtf(-2 * log_block(1 - d[j]));
        float sine = 0, cosine = 0;
        sin_cos_block(6.283185307179586f * d[j + HALF], &sine, &cosine);
        d[j] = radius * cosine;
        d[j + HALF] = radius * sine;
    }
}

static void uniform_fill(kn_noise *g, float *dst, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)(kn_mt19937_next(&g->words) & 0xffffff) * 0x1p-24f;
}

static double uniform_double(kn_noise *g) {
    uint64_t high = kn_mt19937_next(&g->words);
    return (double)((high << 32 | kn_mt19937_next(&g->words)) & 0x1fffffffffffff) * 0x1p-53;
}

/* Draws of fewer than 16 values use doubles, one pair at a time. */
static double normal_double(kn_noise *g) {
    if (g->has_spare) {
        g->has_spare = false;
        return g->spare;
    }
    double angle = 6.283185307179586 * uniform_double(g);
    double radius = sqrt(-2 * log1p(-uniform_double(g)));
    g->spare = radius * sin(angle);
    g->has_spare = true;
    return radius * cos(angle);
}

void kn_noise_fill_cpu(kn_noise *g, float *dst, size_t n) {
    if (n < BLOCK) {
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)normal_double(g);
        return;
    }
    uniform_fill(g, dst, n);
    for (size_t at = 0; n - at >= BLOCK; at += BLOCK)
        normal_block(dst + at);
    if (n % BLOCK) { /* the last block is drawn anew and covers the end of the one before */
        uniform_fill(g, dst + n - BLOCK, BLOCK);
        normal_block(dst + n - BLOCK);
    }
}
