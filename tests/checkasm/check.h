/* What the checks of kernels share: random inputs, and arrays with guard bands that two kernels write. */
#ifndef KN_TESTS_CHECK_H
#define KN_TESTS_CHECK_H

#include "compute/cpu/kernels.h"

enum { GUARD = 40, MOST = 2600, ROUNDS = 60 };

extern uint64_t random_state;
uint32_t random_bits(void);
float random_float(void); /* in [-1, 1) */
size_t random_below(size_t n);
size_t random_size(size_t most); /* small and odd sizes often, the whole range sometimes */

/* One array that a kernel writes, twice: as the reference leaves it and as the tier does. Both start out alike. */
typedef struct pair {
    float want[GUARD + MOST + GUARD], got[GUARD + MOST + GUARD];
    size_t shift; /* of the array itself behind the guard, in floats */
} pair;

/* The check that runs. */
extern struct now {
    const char *kernel;
    double worst; /* largest difference so far, as a share of what is allowed */
    bool failed;
} now;

void *allocate(size_t bytes); /* never NULL */
void fill_pair(pair *p, float size);
float *want_of(pair *p);
float *got_of(pair *p);
void report(size_t n, ptrdiff_t at, double want, double got);
void compare(size_t n, size_t at, double want, double got, double allowed);
/* The first n elements may differ by relative * max(|want|, floor), all others must not. */
void compare_pair(pair *p, size_t n, double relative, double floor);

/* Panels of words as the tier has them, from those of the reference: `columns` whole fours, `words` along k. */
void zip_panel(const kn_kernels *tier, void *panel, size_t columns, size_t words);

extern float input_a[MOST + 8], input_b[MOST + 8], input_c[MOST + 8];
const float *random_input(float *room, float size);
extern pair out;

typedef void check_fn(const kn_kernels *ref, const kn_kernels *tier);
check_fn check_to_bf16, check_decode_bf16, check_transpose_bf16, check_gather_bf16, check_product_bf16, check_dots_bf16;
check_fn check_scale_int8, check_to_int8, check_transpose_int8, check_product_int8, check_finish_int8, check_weigh_rows;
check_fn check_softmax_bf16, check_stage, check_unit_factors, check_tile_weight, check_tile_input,
    check_tile_input_bf16, check_tile_output;

#endif
