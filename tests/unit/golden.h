/* For tests against recorded outputs of the reference implementations: a safetensors file of named float32 and int32
 * arrays, and the measure that the fixtures' tolerances are stated in. */
#ifndef KN_TESTS_GOLDEN_H
#define KN_TESTS_GOLDEN_H

#include "compute/ops.h"
#include "weights/weights.h"

typedef struct golden {
    kn_weights *file;
} golden;

golden golden_open(const char *path_below_data);
void golden_close(golden *g);

bool golden_has(const golden *g, const char *name);
/* Fails the test when there is no such array. */
const kn_entry *golden_entry(const golden *g, const char *name);
const float *golden_floats(const golden *g, const char *name, size_t *count); /* count may be NULL */
const int32_t *golden_ints(const golden *g, const char *name, size_t *count);

/* ||got - want|| / ||want||; fails the test above 1e-4 or when the counts differ, naming the array. */
void golden_compare(const golden *g, const char *name, const float *got, size_t count);

/* Pictures: planes [c][h][w] of the references, rows [h * w, c] of ours. */
void planes_to_rows(const float *planes, int64_t channels, int64_t cells, float *rows);
void rows_to_planes(const float *rows, int64_t channels, int64_t cells, float *planes);

/* Opens, binds with `take` and checks the accounting. */
typedef struct bound {
    kn_weights *file;
    kn_binder *binder;
} bound;
bound bind_file(const char *path_below_data, const char *prefix, void (*take)(void *network, kn_binder *b),
                void *network);
void unbind(bound *b);

#endif
