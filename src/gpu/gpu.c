#include "gpu/gpu.h"

#include <string.h>

const char *const kn_gpu_source_names[KN_GPU_SOURCE_COUNT] = {
    [KN_GPU_SOURCE_NONE] = "none", [KN_GPU_SOURCE_NVML_V2] = "nvml_v2",     [KN_GPU_SOURCE_NVML_V1] = "nvml_v1",
    [KN_GPU_SOURCE_XE] = "drm_xe", [KN_GPU_SOURCE_AMDGPU] = "amdgpu_sysfs",
};

const char *const kn_gpu_observation_names[KN_GPU_OBSERVATION_COUNT] = {
    [KN_GPU_OK] = "ok",
    [KN_GPU_UNAVAILABLE] = "unavailable",
    [KN_GPU_PERMISSION_DENIED] = "permission_denied",
    [KN_GPU_UNSUPPORTED] = "unsupported",
    [KN_GPU_TIMEOUT] = "timeout",
    [KN_GPU_AMBIGUOUS_ZERO] = "ambiguous_zero",
};

const char *const kn_gpu_vendor_names[KN_GPU_VENDOR_COUNT] = {
    [KN_GPU_OTHER] = "other",
    [KN_GPU_NVIDIA] = "nvidia",
    [KN_GPU_INTEL] = "intel",
    [KN_GPU_AMD] = "amd",
};

void kn_gpu_add_problem(kn_gpu_report *r, const char *probe, const char *code, const kn_pci_address *pci) {
    if (r->problem_count == KN_GPU_PROBLEMS)
        return;
    kn_gpu_problem *p = &r->problems[r->problem_count++];
    *p = (kn_gpu_problem){ .probe = probe, .code = code };
    if (pci)
        p->pci = *pci;
}

kn_gpu_device *kn_gpu_device_at(kn_gpu_report *r, const kn_pci_address *pci) {
    size_t i = 0;
    while (i < r->count && strcmp(r->devices[i].pci.text, pci->text) < 0)
        i++;
    if (i < r->count && kn_pci_equal(&r->devices[i].pci, pci))
        return &r->devices[i];
    if (r->count == KN_GPU_DEVICES)
        return NULL;
    memmove(&r->devices[i + 1], &r->devices[i], (r->count - i) * sizeof *r->devices);
    r->devices[i] = (kn_gpu_device){ .pci = *pci };
    r->count++;
    return &r->devices[i];
}

bool kn_gpu_check_numbers(kn_gpu_device *d) {
    uint64_t taken = 0;
    bool sound = d->total.known && d->total.bytes && d->total.bytes <= INT64_MAX &&
                 !KN_ADD_OVERFLOWS(d->used.bytes, d->reserved.bytes, &taken) && taken <= d->total.bytes &&
                 d->free.bytes <= d->total.bytes;
    if (sound)
        return true;
    d->total = d->used = d->free = d->reserved = (kn_gpu_bytes){ 0 };
    d->source = KN_GPU_SOURCE_NONE;
    d->used_includes_reserved = false;
    d->observation = KN_GPU_UNAVAILABLE;
    return false;
}
