/* MoSR: gated convolutions at the size of the picture, in which some channels see a wide window each by itself, and one
 * of three ways to enlarge what comes out. Widths, window and the number of blocks follow from the tensors. */
#ifndef KN_MODELS_MOSR_H
#define KN_MODELS_MOSR_H

#include "models/enlarge.h"
#include "weights/weights.h"

enum { KN_MOSR_MAX_BLOCKS = 64, KN_MOSR_MEANS = 8 /* pictures whose mean is the result, of upsampler GPS */ };

typedef struct kn_mosr_block {
    kn_weight norm_scale, norm_shift, fc1, conv, fc2;
} kn_mosr_block;

/* By shuffling pixels; the same with the mean of several pictures; by learned places. */
typedef enum kn_mosr_upsampler { KN_MOSR_PS, KN_MOSR_GPS, KN_MOSR_DYS } kn_mosr_upsampler;

typedef struct kn_mosr {
    int blocks, scale;
    kn_mosr_upsampler upsampler;
    kn_weight in, after, between, out;   /* of the blocks */
    kn_weight shortcut[2], straight;     /* past the blocks */
    kn_weight up;                        /* PS, GPS */
    kn_weight place, offset, scope, end; /* DYS */
    kn_mosr_block block[KN_MOSR_MAX_BLOCKS];
} kn_mosr;

void kn_mosr_load(kn_mosr *m, kn_binder *b);
kn_tensor kn_mosr_run(kn_run *r, const kn_mosr *m, kn_tensor picture);

#endif
