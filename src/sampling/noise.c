#include "sampling/noise.h"

#include "sampling/noise_fill.h"

const kn_name kn_noise_kinds[KN_NOISE_COUNT] = {
    [KN_NOISE_TORCH_CPU] = { "torch-cpu", { "cpu" }, "as PyTorch and ComfyUI on the CPU" },
    [KN_NOISE_TORCH_CUDA] = { "torch-cuda", { "cuda" }, "as PyTorch on an NVIDIA GPU and stable-diffusion.cpp" },
};

bool kn_noise_find(const char *name, kn_noise_kind *ret, kn_error *err) {
    size_t i = 0;
    if (!KN_NAME_FIND("noise generator", kn_noise_kinds, name, &i, err))
        return false;
    *ret = (kn_noise_kind)i;
    return true;
}

void kn_noise_init(kn_noise *g, kn_noise_kind kind, uint64_t seed) {
    *g = (kn_noise){ .kind = kind, .seed = seed };
    kn_mt19937_seed(&g->words, (uint32_t)seed);
}

void kn_noise_init_steps(kn_noise *g, uint64_t seed) {
    kn_noise_init(g, KN_NOISE_TORCH_CPU, seed + 1);
}

void kn_noise_fill(kn_noise *g, float *dst, size_t n) {
    if (g->kind == KN_NOISE_TORCH_CUDA)
        kn_noise_fill_cuda(g, dst, n);
    else
        kn_noise_fill_cpu(g, dst, n);
}
