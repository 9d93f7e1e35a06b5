/* NVIDIA's cards, as the driver's own library knows them (libnvidia-ml.so.1, opened at run time and kept). */
#ifndef KN_GPU_NVML_H
#define KN_GPU_NVML_H

#include "gpu/gpu.h"

/* In turn, each of which may take as long as the driver likes; one thread at a time:
 *
 *     unsigned count = kn_nvml_begin(r);
 *     for (unsigned i = 0; i < count; i++)
 *         kn_nvml_ask(r, i);
 *     kn_nvml_end(r);
 *
 * Adds the cards and their numbers to the report, or completes those that are in it. A machine without the driver has
 * none, which is no problem. */
unsigned kn_nvml_begin(kn_gpu_report *r);
void kn_nvml_ask(kn_gpu_report *r, unsigned index);
void kn_nvml_end(kn_gpu_report *r);

#endif
