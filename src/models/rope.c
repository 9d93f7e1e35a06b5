#include "models/rope.h"

#include <math.h>
#include <stdlib.h>

kn_rope kn_rope_new(kn_run *r, const kn_rope_axes *axes, const float *positions, int64_t n) {
    int64_t half = 0;
    for (int a = 0; a < axes->count; a++)
        half += axes->pairs[a];
    float *cos_at = malloc(sizeof(float) * (size_t)(n * half) * 2), *sin_at = cos_at + n * half;
    kn_rope rope = { 0 };
    if (!cos_at) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for the rotary table of %lld tokens", (long long)n);
        return rope;
    }
    int64_t column = 0;
    for (int a = 0; a < axes->count; a++) {
        for (int j = 0; j < axes->pairs[a]; j++, column++) {
            double frequency = 1.0 / pow(axes->base, (double)j / axes->pairs[a]);
            if (!axes->double_angles)
                frequency = (double)(float)frequency;
            for (int64_t i = 0; i < n; i++) {
                float angle = (float)((double)positions[i * axes->count + a] * frequency);
                cos_at[i * half + column] = (float)cos((double)angle);
                sin_at[i * half + column] = (float)sin((double)angle);
            }
        }
    }
    const int64_t dim[2] = { n, half };
    rope = (kn_rope){ .cos = kn_upload(r, 2, dim, cos_at), .sin = kn_upload(r, 2, dim, sin_at) };
    free(cos_at);
    return rope;
}

kn_rope kn_rope_rows(kn_run *r, kn_rope rope, int64_t from, int64_t count) {
    return (kn_rope){ .cos = kn_rows(r, rope.cos, from, count), .sin = kn_rows(r, rope.sin, from, count) };
}
