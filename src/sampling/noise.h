/* Reproducible noise: the standard normal values that PyTorch draws from a seed, so that the same seed gives the same
 * picture as in the programs people come from. Nothing here depends on threads, device, locale or instruction set.
 *
 * torch-cpu is the generator of ComfyUI, of Kuno and of everything that is seeded on a CPU. Its values equal those of
 * PyTorch on x86-64 with AVX2 or AVX-512 bit for bit: its vectorised logarithm, sine and cosine are computed here with
 * the same roundings. (Six seeds, 6 291 456 values, against PyTorch 2.15: none differs. With correctly rounded
 * functions a sixth would differ in the last bits; PyTorch itself differs like that on machines without AVX2.) Only the
 * low 32 bits of the seed enter.
 *
 * torch-cuda is the counter-based generator of pipelines seeded on an NVIDIA GPU, and of stable-diffusion.cpp. It has
 * not been compared with a GPU: expect differences around 1e-6, because GPUs approximate sine and cosine.
 *
 * Draws for half-precision tensors are these values rounded, for fewer than 16 values or a multiple of 16, which
 * latents always are. */
#ifndef KN_SAMPLING_NOISE_H
#define KN_SAMPLING_NOISE_H

#include <stddef.h>
#include <stdint.h>

#include "sampling/mt19937.h"
#include "sampling/names.h"

typedef enum kn_noise_kind { KN_NOISE_TORCH_CPU, KN_NOISE_TORCH_CUDA, KN_NOISE_COUNT } kn_noise_kind;

extern const kn_name kn_noise_kinds[KN_NOISE_COUNT];
bool kn_noise_find(const char *name, kn_noise_kind *ret, kn_error *err);

/* A generator and where it stands: each fill continues behind the one before, as with PyTorch's generators. */
typedef struct kn_noise {
    kn_noise_kind kind;

    /* torch-cpu */
    kn_mt19937 words;
    bool has_spare; /* small draws make values in pairs; an odd count leaves one for the next small draw */
    double spare;

    /* torch-cuda */
    uint64_t seed, rounds; /* rounds: how often every thread has drawn its four values */
    uint64_t gpu_threads;  /* see below */
} kn_noise;

void kn_noise_init(kn_noise *g, kn_noise_kind kind, uint64_t seed);

/* The generator for the noise that stochastic samplers add between steps: torch-cpu with seed + 1 whatever the start
 * noise came from, as ComfyUI has it on the CPU. Beyond 2^64 - 1 seeds go on at 0. */
void kn_noise_init_steps(kn_noise *g, uint64_t seed);

/* torch-cuda, after init: how many threads the GPU in question runs at once, multiprocessors times its threads per
 * multiprocessor (rounded down to blocks of 256). Matters only for fills of more values than that, because there each
 * thread makes several. 0, the default, is a GPU large enough for every fill; stable-diffusion.cpp does the same. */
static inline void kn_noise_set_gpu_threads(kn_noise *g, uint64_t threads) {
    g->gpu_threads = threads;
}

/* dst[0 … n-1] in row-major order of whatever shape the caller has. One image is one fill. */
void kn_noise_fill(kn_noise *g, float *dst, size_t n);

#endif
