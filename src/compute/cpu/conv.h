/* Convolutions on the CPU: one description of what is to be done, and the ways to do it. A way is chosen by shapes
 * alone, so that the result is the same whatever the number of threads. */
#ifndef KN_COMPUTE_CPU_CONV_H
#define KN_COMPUTE_CPU_CONV_H

#include "compute/cpu/matrix.h"

typedef struct kn_conv {
    kn_run *run;
    const kn_weight *w; /* [out, kernel height, kernel width, in] */
    const float *x;     /* [height, width, channels] */
    int64_t height, width, channels;
    int64_t stride;
    kn_pad pad;
    bool doubled; /* the picture is convolved at twice its size, each pixel standing for four */
    /* What happens to x before: times scale, plus shift, by channel; either may be NULL. unit: the pixel's vector is
     * brought to the length sqrt(channels) first. */
    const float *scale, *shift;
    bool unit, silu;
    bool add;   /* to what `out` holds */
    float *out; /* [out_height, out_width, w->dim[0]] */
    int64_t out_height, out_width;
} kn_conv;

/* `pixels` pixels of row y from x on, channels first … first + n - 1, n <= KN_TILE_CHANNELS, with all that happens to
 * them before and zeros around the picture. by: of kn_conv_unit_factors for the same pixels, or NULL. */
void kn_conv_stage(const kn_conv *c, int64_t y, int64_t x, int64_t pixels, int64_t first, int64_t n, const float *by,
                   float *to);
void kn_conv_unit_factors(const kn_conv *c, int64_t y, int64_t x, int64_t pixels, float *by);

/* 3x3 with stride 1, in less than half of the multiplications. */
bool kn_conv_fits_tiles(const kn_conv *c);
void kn_conv_by_tiles(const kn_conv *c);

#endif
