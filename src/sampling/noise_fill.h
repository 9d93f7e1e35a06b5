/* The two algorithms behind kn_noise_fill, and the cipher inside the second one for its test. */
#ifndef KN_SAMPLING_NOISE_FILL_H
#define KN_SAMPLING_NOISE_FILL_H

#include "sampling/noise.h"

void kn_noise_fill_cpu(kn_noise *g, float *dst, size_t n);
void kn_noise_fill_cuda(kn_noise *g, float *dst, size_t n);

/* Philox 4x32-10: ten rounds over the counter words, keyed by the seed. */
void kn_philox(uint64_t seed, uint32_t counter[4]);

#endif
