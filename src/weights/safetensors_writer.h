/* Writes float32 arrays as a safetensors file: what --dump gives out. */
#ifndef KN_WEIGHTS_SAFETENSORS_WRITER_H
#define KN_WEIGHTS_SAFETENSORS_WRITER_H

#include <stdint.h>

#include "base/file.h"

typedef struct kn_named_array {
    const char *name; /* letters, digits, '.', '_' */
    int rank;
    int64_t dim[4];
    const float *values;
} kn_named_array;

bool kn_safetensors_write(kn_output *to, const kn_named_array *arrays, size_t count, kn_error *err);

#endif
