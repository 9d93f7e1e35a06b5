/* PyTorch's normal values on a CUDA device: Philox 4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2,
 * 3), where thread t of round r encrypts the counter (r, t) and so needs no state of its own. */
#include <math.h>

#include "sampling/noise_fill.h"

enum { CUDA_BLOCK = 256, PER_THREAD = 4 };

void kn_philox(uint64_t seed, uint32_t counter[4]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t *c = counter;
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Box-Muller, sine first. float32 throughout, with each function rounded from its double value so that the result is
 * the same with every C library. */
static void normal_pair(uint32_t a, uint32_t b, float ret[2]) {
    float u = (float)a * 0x1p-32f + 0x1p-33f;                                      /* (0, 1] */
    float v = (float)b * (6.2831855f * 0x1p-32f) + (float)(6.2831855f * 0x1p-33f); /* (0, 2 pi] */
    float radius = sqrtf(-2 * (float)log((double)u));
    ret[0] = radius * (float)sin((double)v);
    ret[1] = radius * (float)cos((double)v);
}

void kn_noise_fill_cuda(kn_noise *g, float *dst, size_t n) {
    uint64_t threads = n / CUDA_BLOCK * CUDA_BLOCK + (n % CUDA_BLOCK ? CUDA_BLOCK : 0);
    if (g->gpu_threads)
        threads = KN_MIN(threads, g->gpu_threads);
    /* A round fills four runs of `threads` elements: the first values of all threads, then the second ones, … */
    for (uint64_t first = 0; first < n; first += PER_THREAD * threads, g->rounds++) {
        for (uint64_t t = 0; t < threads && first + t < n; t++) {
            uint32_t word[4] = { (uint32_t)g->rounds, (uint32_t)(g->rounds >> 32), (uint32_t)t, (uint32_t)(t >> 32) };
            kn_philox(g->seed, word);
            float value[PER_THREAD];
            normal_pair(word[0], word[1], value);
            normal_pair(word[2], word[3], value + 2);
            for (uint64_t p = 0, at = first + t; p < PER_THREAD && at < n; p++, at += threads)
                dst[at] = value[p];
        }
    }
}
