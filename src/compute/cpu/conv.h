/* Convolutions on the CPU: one description of what is to be done, and the ways to do it. A way is chosen by shapes
 * alone, so that the result is the same whatever the number of threads. */
#ifndef KN_COMPUTE_CPU_CONV_H
#define KN_COMPUTE_CPU_CONV_H

#include "compute/cpu/matrix.h"

typedef struct kn_conv {
    kn_run *run;
    const kn_weight *w; /* [out, kernel height, kernel width, in] */
    const float *x;     /* [height, width, channels], `pixel` floats from pixel to pixel */
    int64_t height, width, channels, pixel;
    int64_t stride;
    kn_pad pad;
    bool doubled; /* the picture is convolved at twice its size, each pixel standing for four */
    /* What happens to x before: times scale, plus shift, by channel; either may be NULL. unit: the pixel's vector is
     * brought to the length sqrt(channels) first. */
    const float *scale, *shift;
    bool unit, silu;
    bool add;   /* to what `out` holds */
    float *out; /* [out_height, out_width, w->dim[0]], `out_pixel` floats from pixel to pixel */
    int64_t out_height, out_width, out_pixel;
    const float *slope; /* by channel, for what comes out below 0; by tiles only. NULL: it stays */
} kn_conv;

/* `pixels` pixels of row y from x on, channels first … first + n - 1, n <= KN_TILE_CHANNELS, with all that happens to
 * them before and zeros around the picture. by: of kn_conv_unit_factors for the same pixels, or NULL. */
void kn_conv_stage(const kn_conv *c, int64_t y, int64_t x, int64_t pixels, int64_t first, int64_t n, const float *by,
                   float *to);
void kn_conv_unit_factors(const kn_conv *c, int64_t y, int64_t x, int64_t pixels, float *by);

/* How channels are summed: in float32, or in bfloat16 where that is allowed and faster. Words have 32 bits. */
typedef struct kn_summing {
    const kn_kernels *kernels;
    bool narrow;
    kn_product_fn *product;
    int64_t per_word; /* channels in a word */
    int64_t at_once;  /* channels multiplied in one pass */
    int64_t passes;   /* for all of them */
    int64_t words;    /* of all of them, as the products want them */
    int64_t columns;  /* of a panel */
} kn_summing;

kn_summing kn_summing_of(const kn_conv *c);
/* output[i][j] = row i of the input . column j of the panel for n columns, KN_MAX_COLUMNS floats from row to row.
 * input: [passes][rows][KN_STRIDE], panel: [words][columns], in words. */
void kn_sum_channels(const kn_summing *s, const float *input, int64_t rows, const float *panel, int64_t n,
                     float *output);
/* Packs k <= KN_BLOCK channels from k0 on of `count` <= KN_TRANSPOSE_ROWS columns from `column` on into a panel.
 * rows: [KN_TRANSPOSE_ROWS][KN_STRIDE], rounded: room of the same size. */
void kn_pack_columns(const kn_summing *s, const float *rows, size_t count, int64_t k0, size_t k, int64_t column,
                     float *rounded, float *panel);
/* Channels k0 … k0 + k - 1 of one tap of one filter. */
void kn_conv_decode(const kn_conv *c, int64_t filter, int64_t tap, int64_t k0, size_t k, float *to);

/* 3x3 with stride 1, in less than half of the multiplications. */
bool kn_conv_fits_tiles(const kn_conv *c);
void kn_conv_by_tiles(const kn_conv *c);

/* 3x3 with stride 1 to so few channels that all taps together make one panel. */
bool kn_conv_fits_few(const kn_conv *c);
void kn_conv_to_few(const kn_conv *c);

#endif
