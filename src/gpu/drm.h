/* Cards of the kernel's DRM drivers. */
#ifndef KN_GPU_DRM_H
#define KN_GPU_DRM_H

#include "gpu/gpu.h"

/* Adds every render node that is a PCI device, without numbers yet: they are KN_GPU_TIMEOUT until somebody has asked
 * for them. Drivers of which no numbers can be had are KN_GPU_UNSUPPORTED at once. */
void kn_drm_find(const char *root, kn_gpu_report *r);

/* Asks for the numbers of one card. Of a driver that is not known here: nothing. */
void kn_drm_ask(const char *root, kn_gpu_report *r, kn_gpu_device *d);

#endif
