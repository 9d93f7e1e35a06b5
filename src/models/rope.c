#include "models/rope.h"

#include <math.h>
#include <stdlib.h>

/* The axis and the frequency of a pair. */
struct pair {
    int axis;
    double frequency;
};

static void deal_apart(const kn_rope_axes *axes, struct pair *pair) {
    for (int a = 0; a < axes->count; a++)
        for (int j = 0; j < axes->pairs[a]; j++)
            *pair++ = (struct pair){ a, 1.0 / pow(axes->base, (double)j / axes->pairs[a]) };
}

static void deal_together(const kn_rope_axes *axes, int half, struct pair *pair) {
    int end = axes->pairs[0], section = 0;
    for (int j = 0; j < half; j++) {
        if (axes->deal == KN_ROPE_IN_TURNS) {
            int turn = j % axes->count;
            pair[j].axis = j / axes->count < axes->pairs[turn] ? turn : 0;
        } else {
            while (j >= end)
                end += axes->pairs[++section];
            pair[j].axis = section;
        }
        pair[j].frequency = 1.0 / pow(axes->base, (double)j / half);
    }
}

kn_rope kn_rope_new(kn_run *r, const kn_rope_axes *axes, const float *positions, int64_t n) {
    int half = 0;
    for (int a = 0; a < axes->count; a++)
        half += axes->pairs[a];
    struct pair *pair = malloc(sizeof *pair * (size_t)half);
    float *cos_at = malloc(sizeof(float) * (size_t)(n * half) * 2), *sin_at = cos_at + n * half;
    kn_rope rope = { 0 };
    if (!cos_at || !pair) {
        free(pair);
        free(cos_at);
        kn_run_fail(r, KN_E_NOMEM, "out of memory for the rotary table of %lld tokens", (long long)n);
        return rope;
    }
    if (axes->deal == KN_ROPE_APART)
        deal_apart(axes, pair);
    else
        deal_together(axes, half, pair);
    for (int j = 0; j < half && axes->rounded == KN_ROPE_FREQUENCIES_AND_ANGLES; j++)
        pair[j].frequency = (double)(float)pair[j].frequency;
    for (int64_t i = 0; i < n; i++) {
        for (int j = 0; j < half; j++) {
            double angle = (double)positions[i * axes->count + pair[j].axis] * pair[j].frequency;
            if (axes->rounded != KN_ROPE_NEITHER)
                angle = (double)(float)angle;
            cos_at[i * half + j] = (float)cos(angle);
            sin_at[i * half + j] = (float)sin(angle);
        }
    }
    const int64_t dim[2] = { n, half };
    rope = (kn_rope){ .cos = kn_upload(r, 2, dim, cos_at), .sin = kn_upload(r, 2, dim, sin_at) };
    free(pair);
    free(cos_at);
    return rope;
}

void kn_rope_count_positions(const kn_rope_picture *pictures, int count, int64_t n, float *positions) {
    float at = 0;
    for (int64_t i = 0; i < n;) {
        if (count > 0 && pictures->at == i) {
            const kn_rope_picture *p = pictures++;
            count--;
            for (int k = 0; k < p->rows * p->columns; k++, i++) {
                positions[3 * i] = at;
                positions[3 * i + 1] = at + (float)(k / p->columns);
                positions[3 * i + 2] = at + (float)(k % p->columns);
            }
            at += (float)KN_MAX(p->rows, p->columns);
        } else {
            positions[3 * i] = positions[3 * i + 1] = positions[3 * i + 2] = at++;
            i++;
        }
    }
}

kn_rope kn_rope_of_tokens(kn_run *r, const kn_rope_axes *axes, const kn_rope_picture *pictures, int count, int64_t n) {
    float *positions = malloc(sizeof(float) * 3 * (size_t)n);
    if (!positions) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld positions", (long long)n);
        return (kn_rope){ 0 };
    }
    kn_rope_count_positions(pictures, count, n, positions);
    kn_rope rope = kn_rope_new(r, axes, positions, n);
    free(positions);
    return rope;
}

kn_rope kn_rope_rows(kn_run *r, kn_rope rope, int64_t from, int64_t count) {
    return (kn_rope){ .cos = kn_rows(r, rope.cos, from, count), .sin = kn_rows(r, rope.sin, from, count) };
}
