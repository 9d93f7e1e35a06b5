/* Tables for rotary position embedding: cos and sin of position * base^(-2j/d) for j = 0 … d/2 - 1, angles are
 * rounded to float32 as in the references (RoFormer, arXiv:2104.09864). */
#ifndef KN_MODELS_ROPE_H
#define KN_MODELS_ROPE_H

#include "compute/ops.h"

enum { KN_ROPE_MAX_AXES = 3 };

/* How the d/2 pairs of a head are dealt to position axes, in order; pairs[a] * 2 is the width of axis a. */
typedef struct kn_rope_axes {
    int count;
    int pairs[KN_ROPE_MAX_AXES];
    double base;
    bool double_angles; /* the frequency is not rounded before it is multiplied by the position */
} kn_rope_axes;

typedef struct kn_rope {
    kn_tensor cos, sin; /* [n, head / 2] */
} kn_rope;

/* positions: [n, axes.count], row-major. */
kn_rope kn_rope_new(kn_run *r, const kn_rope_axes *axes, const float *positions, int64_t n);
kn_rope kn_rope_rows(kn_run *r, kn_rope rope, int64_t from, int64_t count);

#endif
