/* NVIDIA's cards, as the driver's own library knows them (libnvidia-ml.so.1, opened at run time and kept). */
#ifndef KN_GPU_NVML_H
#define KN_GPU_NVML_H

#include "gpu/gpu.h"

/* In turn, each of which may take as long as the driver likes:
 *
 *     if (kn_nvml_begin(r, &count)) {
 *         for (unsigned i = 0; i < count; i++)
 *             kn_nvml_ask(r, i);
 *         kn_nvml_end();
 *     }
 *
 * One thread at a time: while another is in between, perhaps for ever, kn_nvml_begin is false at once.
 *
 * Adds the cards and their numbers to the report. A machine without the driver has
 * none, which is no problem. */
bool kn_nvml_begin(kn_gpu_report *r, unsigned *ret_count);
void kn_nvml_ask(kn_gpu_report *r, unsigned index);
void kn_nvml_end(void);

/* Cards of a report that the kernel knows and the library, which has been asked, does not. */
void kn_nvml_give_up_others(kn_gpu_report *r);

#endif
