/* For tests against recorded outputs of the reference implementations: the files below tests/golden/, among them JSON
 * and safetensors files of named arrays, and the measure that the fixtures' tolerances are stated in. What is not there
 * or broken fails the test. */
#ifndef KN_TESTS_GOLDEN_H
#define KN_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "compute/ops.h"
#include "weights/weights.h"

/* The files that come with Kuno, for tests that know what is in them; all others run against any set. */
#define SHIPPED KN_SOURCE "/tests/golden"

/* The path of a file for those who open it themselves. Here and below, a whole path is one, too. */
typedef struct golden_file {
    char path[512];
} golden_file;
golden_file golden_path(const char *path_below_data);

void golden_read(const char *path_below_data, kn_buf *into); /* into is empty memory */
json_t *golden_json(const char *path_below_data);

/* Members of a row. */
const char *golden_text(const json_t *row, const char *key); /* "" when it is not there */
double golden_number(const json_t *row, const char *key);
size_t golden_size(const json_t *row, const char *key);

typedef struct golden {
    kn_weights *file;
} golden;

golden golden_open(const char *path_below_data);
void golden_close(golden *g);

bool golden_has(const golden *g, const char *name);
const kn_entry *golden_entry(const golden *g, const char *name);
const float *golden_floats(const golden *g, const char *name, size_t *count); /* count may be NULL */
const double *golden_doubles(const golden *g, const char *name, size_t *count);
const int32_t *golden_ints(const golden *g, const char *name, size_t *count);

/* ||got - want|| / ||want|| */
double golden_distance(const float *want, const float *got, size_t n);

/* Fails the test above the tolerance, naming the array. */
/* What golden_compare allows: what the fixtures do, 1e-4, until something else is said. */
double golden_allowed(void);
void golden_allow(double relative); /* 0: that again */
void compare_values(const char *name, const float *got, const float *want, size_t n, double tolerance);
/* Fails the test above what is allowed or when the counts differ. */
void golden_compare(const golden *g, const char *name, const float *got, size_t count);
void golden_compare_within(const golden *g, const char *name, const float *got, size_t count, double tolerance);

/* The same for what holds only the first of the recorded values. */
void golden_compare_start(const golden *g, const char *name, const float *got, size_t count);

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
