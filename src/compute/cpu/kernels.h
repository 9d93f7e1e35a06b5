/* The kernels of the CPU: the loops in which all time is spent, as one table of pointers per instruction set.
 *
 * A tier is a bundle of instructions that real machines have together; each implies the one before. Its init function
 * overwrites the entries it has and leaves the rest, so the portable reference stands behind every entry. The reference
 * is the truth: it sums in double and calls libm; tests/checkasm.c holds every other kernel against it.
 *
 * Matrix products run on panels. A panel holds `columns` columns of the right-hand matrix for up to KN_BLOCK summed
 * elements as float32, [k][columns]; the left-hand rows are copied to a stride of KN_STRIDE floats, so that the
 * addresses in the innermost loop are constants and rows do not fall on the same cache lines. A storage format takes
 * part by its decoder alone; convolution and attention differ only in how they fill rows and panels.
 *
 * Where the hardware multiplies bfloat16 faster than float32, KN_FAST uses the same scheme with rows and panels of
 * bfloat16 and sums in float32. Such a panel is [k / 2][KN_BF16_COLUMNS][2]: what is multiplied at once lies together.
 * Summed elements come in steps of KN_BF16_STEP; whoever packs fills up with zeros, in rows and panels alike. Int8 goes
 * the same way, four elements to a word, or two where they are multiplied as numbers of 16 bits. Panels of both are
 * `zipped` in tiers that multiply two words of two columns at once: of four columns and two words along k, those of the
 * first two columns lie in the place of the first word, those of the others in that of the second.
 *
 * No pointer needs any alignment beyond that of its type; `const void *` needs none. Nothing outside the stated ranges
 * is read or written. An element's result never depends on where in a call it stands. */
#ifndef KN_COMPUTE_CPU_KERNELS_H
#define KN_COMPUTE_CPU_KERNELS_H

#include <stddef.h>

#include "compute/ops.h"

enum {
    KN_BLOCK = 256,              /* summed elements per pass; a multiple of every storage format's block */
    KN_STRIDE = KN_BLOCK + 16,   /* floats from one left-hand row to the next */
    KN_MAX_COLUMNS = 64,         /* of a panel */
    KN_GROUP_COLUMNS = 256,      /* of panels that are multiplied with the same rows, at most */
    KN_TRANSPOSE_ROWS = 16,      /* `columns` is a multiple of it */
    KN_FEW_ROWS = 8,             /* below, rows go through `dots` */
    KN_DOT_PIECE = 4 * KN_BLOCK, /* elements decoded at a time for `dots` */

    /* the same for bfloat16: twice the elements in as many bytes */
    KN_BF16_BLOCK = 2 * KN_BLOCK,
    KN_BF16_STRIDE = 2 * KN_STRIDE,
    KN_BF16_STEP = 32,
    KN_BF16_COLUMNS = 64,  /* of every panel, in every tier */
    KN_BF16_ROWS = 16,     /* of the left-hand rows, as many as make this whole may be read */
    KN_FEW_ROWS_BF16 = 16, /* at most */
    KN_DOT_COLUMNS = 4,    /* columns at once for `dots_bf16` */

    /* and for int8: four elements in a float's place, at most */
    KN_INT8_BLOCK = 4 * KN_BLOCK,
    KN_INT8_STEP = 64,
    KN_INT8_COLUMNS = 64, /* of a panel, at most */

    KN_BYTE_WEIGHT_BITS = 22, /* of a weight for bytes, behind the point */

    /* convolution by tiles */
    KN_TILE_CHANNELS = 32, /* that a convolution by tiles stages at a time */
    KN_MAX_PLANES = 16,    /* of such a tile */
};

/* What a tile's 2 x 2 pixels of output are made from: 4 x 4 pixels of a picture, or the 3 x 3 that are left of them
 * when the picture is one of half the size with every pixel twice in each direction. */
typedef enum kn_tiling { KN_TILING_PLAIN, KN_TILING_DOUBLED, KN_TILINGS } kn_tiling;

typedef void kn_product_fn(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride, size_t n,
                           const float *bias, bool add);

typedef struct kn_kernels {
    const char *name;
    size_t columns;
    size_t group_columns; /* of the panels that are multiplied with the same rows: as caches are large */
    size_t few_rows_bf16; /* below, rows go through `dots_bf16` */
    void (*leave)(void);  /* a thread calls it after each task, to give back what kernels have taken; may be NULL */

    /* dst[n] = decoded src * scale; n whole blocks of the format */
    void (*decode[KN_DTYPE_COUNT])(const void *src, size_t n, float scale, float *dst);
    /* panel[i][j] = row j, element i, for k elements of up to KN_TRANSPOSE_ROWS rows, `stride` bytes apart; the missing
     * rows are zero */
    void (*transpose)(const void *src, size_t stride, size_t rows, size_t k, float *panel);
    /* panel[i][j] = src[i * stride + j] for j < n <= columns, else zero; stride in floats */
    void (*gather)(const float *src, size_t stride, size_t n, size_t k, float *panel);
    /* c[i][j] = start + sum over p < k of a[i * KN_STRIDE + p] * panel[p][j], for j < n <= columns. start: c itself if
     * `add`, else bias[j], or 0 without bias. Of the panel, columns up to the next multiple of KN_TRANSPOSE_ROWS may
     * be read, and whatever the ones behind n hold has no effect */
    kn_product_fn *product;
    /* sum[i] += x[i * stride][0 … n-1] . w for rows < KN_FEW_ROWS */
    void (*dots)(const float *w, const float *x, size_t stride, size_t rows, size_t n, float *sum);

    /* Products of bfloat16 (uint16_t). `narrow`: they are faster here than those of float32 */
    bool narrow;
    bool zipped; /* panels of bfloat16 and int8, see above */
    /* rounds to nearest, ties to even; what is subnormal may become 0 */
    void (*to_bf16)(const float *x, size_t n, void *dst);
    /* as decode with scale 1, rounded like that; NULL: by way of the former */
    void (*decode_bf16[KN_DTYPE_COUNT])(const void *src, size_t n, uint16_t *dst);
    /* as transpose, from bfloat16: panel[i / 2][j][i % 2] = row j, element i. Zeros fill up the rows to
     * KN_TRANSPOSE_ROWS and k to whole steps */
    void (*transpose_bf16)(const void *src, size_t stride, size_t rows, size_t k, uint16_t *panel);
    /* as gather, rounding as to_bf16: panel[i / 2][j][i % 2] = src[i * stride + j]. Zeros fill up the columns and k */
    void (*gather_bf16)(const float *src, size_t stride, size_t n, size_t k, uint16_t *panel);
    /* as product, with rows KN_BF16_STRIDE apart and k whole steps. What is subnormal may count as 0 */
    kn_product_fn *product_bf16;

    /* as dots, for up to KN_DOT_COLUMNS rows of w, w_stride bytes apart: sum[j][i] += x[i * stride][…] . w[j][…] */
    void (*dots_bf16)(const void *w, size_t w_stride, size_t columns, const uint16_t *x, size_t stride, size_t rows,
                      size_t n, float (*sum)[KN_FEW_ROWS_BF16]);

    /* One block of softmax: raises *max to the largest s[i] * scale, sets s[i] = exp(s[i] * scale - *max) and returns
     * their sum; what would be subnormal may be 0. n > 0 */
    float (*softmax)(float *s, size_t n, float scale, float *max);

    /* The same with powers of two, for product_bf16: *max is raised, to the largest s[i] * scale, only if one exceeds
     * it by more than 8. s becomes 2^(s[i] * scale - *max), within 2^-7 of that, as bfloat16 in the first half of its
     * memory, with zeros from n to the next whole KN_BF16_STEP of n_all >= n. Returns the sum of what it wrote */
    float (*softmax_bf16)(float *s, size_t n, size_t n_all, float scale, float *max);

    /* elementwise over n */
    void (*silu)(float *x, size_t n);
    void (*gelu)(float *x, size_t n);
    void (*gelu_tanh)(float *x, size_t n);
    void (*tanh)(float *x, size_t n);
    void (*mish)(float *x, size_t n);
    void (*multiply)(const float *x, float by, float *out, size_t n); /* out may be x */
    void (*add)(float *x, const float *y, size_t n);
    void (*add_gated)(float *x, const float *gate, const float *y, size_t n);
    void (*sigmoid_gate)(float *x, const float *gate, size_t n);
    void (*swiglu)(const float *gate, const float *up, float *out, size_t n);
    bool (*is_finite)(const float *x, size_t n);
    /* of `rows` rows of n, `stride` floats apart: x[i] *= slope[i] where it is below 0 */
    void (*prelu)(float *x, size_t stride, size_t rows, size_t n, const float *slope);

    /* one row of n; scale and shift of norm_modulate may be NULL, out may be x */
    void (*rms_norm)(const float *x, const float *w, float eps, float *out, size_t n);
    void (*norm_modulate)(const float *x, const float *scale, const float *shift, float eps, float *out, size_t n);
    void (*unit_norm)(const float *x, const float *w, bool silu, float *out, size_t n);
    void (*affine)(const float *x, const float *scale, const float *shift, bool silu, float *out, size_t n);
    /* columns of x [rows, n], rows > 0: their means, and their sums of (x - mean)^2 */
    void (*moments)(const float *x, size_t rows, size_t n, float *mean, float *squares);
    /* one head of n, cos and sin [n / 2]; rotates in place */
    void (*rotate)(float *x, const float *cos, const float *sin, size_t n, kn_rope_pairs pairs);

    /* Pixels for a convolution: out[p][i] = x[p * stride + i] for `pixels` pixels of n <= KN_TILE_CHANNELS channels,
     * with KN_TILE_CHANNELS floats from pixel to pixel and zeros behind the n; times by[p], times scale[i], plus
     * shift[i], each if it is there; then silu if asked */
    void (*stage)(const float *x, size_t stride, size_t pixels, size_t n, const float *by, const float *scale,
                  const float *shift, bool silu, float *out);
    /* the same for products of bfloat16: silu may be wrong by 2^-10 of it */
    void (*stage_bf16)(const float *x, size_t stride, size_t pixels, size_t n, const float *by, const float *scale,
                       const float *shift, bool silu, float *out);
    /* out[p] = sqrt(n) / max(|x[p * n …]|_2, 1e-12) */
    void (*unit_factors)(const float *x, size_t pixels, size_t n, float *out);

    /* One pixel of a convolution that keeps channels apart: out[i] += x[y * row + x * pixel + i] * w[y * w_row + x * n
     * + i] for all y < rows, x < columns, for i < n */
    void (*depthwise)(const float *x, size_t row, size_t pixel, const float *w, size_t w_row, size_t rows,
                      size_t columns, size_t n, float *out);

    /* Convolution by tiles: conv_tiles.c tells how. Planes are the parts of a tile that are multiplied one by one;
     * `plane` is the distance from one to the next, in words of 32 bits. First the planes of filters of n channels,
     * with tap t = 3 * ky + kx at w + tap * t */
    void (*tile_weight[KN_TILINGS])(const float *w, size_t tap, size_t n, float *u, size_t plane);
    /* Those of `tiles` tiles beside each other, KN_STRIDE words from tile to tile: rows for a product. x is the first
     * tile's first pixel as `stage` leaves it, with `row` floats from row to row */
    void (*tile_input[KN_TILINGS])(const float *x, size_t row, size_t tiles, void *v, size_t plane);
    void (*tile_input_bf16[KN_TILINGS])(const float *x, size_t row, size_t tiles, void *v, size_t plane);
    /* y[r * row + c * pixel + i] for r < rows <= 2, c < columns, i < n <= KN_MAX_COLUMNS: what the planes of
     * (columns + 1) / 2 tiles come to, KN_MAX_COLUMNS floats from tile to tile, plus bias[i]; plus y itself if `add` */
    void (*tile_output[KN_TILINGS])(const float *m, size_t plane, size_t n, const float *bias, bool add, float *y,
                                    size_t row, size_t pixel, size_t rows, size_t columns);

    /* How activations meet INT8 weights; in place. turn_groups multiplies every `group` elements (4, 16, 64, …, which
     * divides n) by the symmetric orthogonal matrix that is the Kronecker power of half of [1 1 1 -1; 1 1 -1 1;
     * 1 -1 1 1; -1 1 1 1], and so undoes itself: for every four elements at distance 1, then 4, then 16, …, each
     * becomes ((a + b) + (c + d)) / 2 less its mirror image. round_int8 rounds each x to the nearest q * s of |q| <=
     * 127, s = max(max |x| / 127, 1e-30), ties of x / s to even. Both give the same bits in every tier */
    void (*turn_groups)(float *x, size_t n, size_t group);
    void (*round_int8)(float *x, size_t n);

    /* Products of int8 with sums in int32. `int8`: they are faster here than those of float32. int8_bytes: what an
     * element takes in rows and panels, 1, or 2 of a number of 16 bits. scale_int8 is the s of round_int8, NaN if x
     * holds NaN or an infinity; to_int8 makes elements int8_zero + q, which rows consist of: 128 + q where the
     * instruction takes them without sign, else 0 + q. Of the product c is int32, and bias NULL */
    bool int8;
    uint8_t int8_zero;
    size_t int8_bytes, int8_columns; /* columns: of a panel */
    float (*scale_int8)(const float *x, size_t n);
    void (*to_int8)(const float *x, size_t n, float s, void *dst);
    /* as transpose: panel[i / m][j][i % m] = row j, element i, with m = 4 / int8_bytes of them to a word; adds
     * int8_zero times the sum of row j to sums[j] */
    void (*transpose_int8)(const int8_t *src, size_t stride, size_t rows, size_t k, void *panel, int32_t *sums);
    kn_product_fn *product_int8;
    /* c[j] = (c[j] - sums[j]) * (by * scale[j]) + bias[j], from int32 to float32 */
    void (*finish_int8)(float *c, const int32_t *sums, const float *scale, float by, const float *bias, size_t n);

    /* For pictures of bytes: out[i] = sum over k < count of rows[k * stride + i] * weight[k], for i < n, rounded to
     * whole numbers (a half up) from 0 to 255. Weights have KN_BYTE_WEIGHT_BITS behind the point, and all sums of
     * products fit into 32 bits; the same bytes in every tier */
    void (*weigh_rows)(const uint8_t *rows, size_t stride, const int32_t *weight, size_t count, size_t n, uint8_t *out);
} kn_kernels;

/* The best tier of this machine, at most the one that KUNO_CPU names; fails for a name that is unknown. Where products
 * of bfloat16 turn out to be no faster than those of float32, the tier that adds them is left out unless it is named;
 * likewise products of int8. */
bool kn_kernels_choose(kn_kernels *ret, kn_error *err);

/* Tiers from 0 (reference): name, and whether this machine has it. NULL behind the last one. */
const char *kn_tier_name(int tier);
bool kn_tier_is_here(int tier);
void kn_kernels_init(kn_kernels *k, int tier); /* a tier that is here */

void kn_kernels_init_reference(kn_kernels *k);
void kn_kernels_init_avx2(kn_kernels *k);
void kn_kernels_init_avx512(kn_kernels *k);
void kn_kernels_init_avx512vnni(kn_kernels *k);
void kn_kernels_init_avx512bf16(kn_kernels *k);
void kn_kernels_init_amx(kn_kernels *k);
void kn_kernels_init_neon(kn_kernels *k);
void kn_kernels_init_neondot(kn_kernels *k);
void kn_kernels_init_neonbf16(kn_kernels *k);

#endif
