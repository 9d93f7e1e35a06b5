/* Tables for rotary position embedding: cos and sin of position * base^(-2j/d) for j = 0 … d/2 - 1, rounded on the way
 * where the references round (RoFormer, arXiv:2104.09864). */
#ifndef KN_MODELS_ROPE_H
#define KN_MODELS_ROPE_H

#include "compute/ops.h"

enum { KN_ROPE_MAX_AXES = 3 };

/* How the d/2 pairs of a head are dealt to position axes; pairs[a] is how many axis a gets. */
typedef enum kn_rope_deal {
    KN_ROPE_APART,    /* in order, each axis with frequencies of its own from 1 down */
    KN_ROPE_SECTIONS, /* in order, all axes along one row of frequencies */
    KN_ROPE_IN_TURNS, /* along one row of frequencies: axis 0, 1, 2, 0, 1, 2, …; what is left over is axis 0's */
} kn_rope_deal;

/* What is float32 before cos and sin are. */
typedef enum kn_rope_rounding { KN_ROPE_FREQUENCIES_AND_ANGLES, KN_ROPE_ANGLES, KN_ROPE_NEITHER } kn_rope_rounding;

typedef struct kn_rope_axes {
    int count;
    int pairs[KN_ROPE_MAX_AXES];
    double base;
    kn_rope_deal deal;
    kn_rope_rounding rounded;
} kn_rope_axes;

typedef struct kn_rope {
    kn_tensor cos, sin; /* [n, head / 2] */
} kn_rope;

/* positions: [n, axes.count], row-major. */
kn_rope kn_rope_new(kn_run *r, const kn_rope_axes *axes, const float *positions, int64_t n);
/* A picture among text tokens: rows * columns tokens from `at` on. */
typedef struct kn_rope_picture {
    int64_t at;
    int rows, columns;
} kn_rope_picture;

/* Positions [n, 3] (time, row, column) of n tokens as the Qwen-VL models count: a word stands at p on all axes, and p
 * goes on by one; a picture's tokens stand at p in time and at p plus their row and column, and p goes on by the longer
 * side. pictures: in order, not overlapping, within n. */
void kn_rope_count_positions(const kn_rope_picture *pictures, int count, int64_t n, float *positions);

/* The table of tokens that are counted so; axes has three. */
kn_rope kn_rope_of_tokens(kn_run *r, const kn_rope_axes *axes, const kn_rope_picture *pictures, int count, int64_t n);

kn_rope kn_rope_rows(kn_run *r, kn_rope rope, int64_t from, int64_t count);

#endif
