#include "sampling/sampler.h"

void kn_guide(float *v_pos, const float *v_neg, float cfg, size_t n) {
    for (size_t i = 0; i < n; i++)
        v_pos[i] = v_neg[i] + cfg * (v_pos[i] - v_neg[i]);
}

static float noised(float clean, float noise, float sigma) {
    return (1 - sigma) * clean + sigma * noise;
}

void kn_add_noise(float *x, const float *clean, const float *noise, float sigma, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = noised(clean[i], noise[i], sigma);
}

void kn_keep_known(float *x, const float *mask, const float *clean, const float *noise, float sigma, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = mask[i] * x[i] + (1 - mask[i]) * noised(clean[i], noise[i], sigma);
}

void kn_steer_to_known(float *v, const float *mask, const float *x, const float *clean, float sigma, size_t n) {
    for (size_t i = 0; i < n; i++)
        v[i] = mask[i] * v[i] + (1 - mask[i]) * ((x[i] - clean[i]) / sigma);
}
