/* The GPU room: what graphics cards there are and what is known about their memory.
 *
 *     gpu.h      the report, and the probe that makes it
 *     pci.h      what a card is known by
 *     drm.h      cards of the kernel's DRM drivers: identity, amdgpu's and xe's memory
 *     nvml.h     NVIDIA's driver library, opened at run time
 *     host.h     the machine's own memory
 *
 * It looks and never touches: nothing is loaded, freed or configured. What is not known is "unknown" with its reason,
 * never zero and never free. Drivers can hang, so each kind of them is asked in a thread of its own that nobody waits
 * for: at most one at a time, however often it is asked for, and what they have found by the deadline counts. */
#ifndef KN_GPU_GPU_H
#define KN_GPU_GPU_H

#include "gpu/pci.h"

enum { KN_GPU_DEVICES = 32, KN_GPU_PROBLEMS = 64, KN_GPU_DEADLINE_MS = 3000 };

/* Where a card's numbers come from. */
typedef enum kn_gpu_source {
    KN_GPU_SOURCE_NONE,
    KN_GPU_SOURCE_NVML_V2,
    KN_GPU_SOURCE_NVML_V1,
    KN_GPU_SOURCE_XE,
    KN_GPU_SOURCE_AMDGPU,
    KN_GPU_SOURCE_COUNT,
} kn_gpu_source;
extern const char *const kn_gpu_source_names[KN_GPU_SOURCE_COUNT];

typedef enum kn_gpu_observation {
    KN_GPU_OK,
    KN_GPU_UNAVAILABLE,
    KN_GPU_PERMISSION_DENIED,
    KN_GPU_UNSUPPORTED,
    KN_GPU_TIMEOUT,
    KN_GPU_AMBIGUOUS_ZERO, /* the driver says that nothing is used, as it does to those who may not know */
    KN_GPU_OBSERVATION_COUNT,
} kn_gpu_observation;
extern const char *const kn_gpu_observation_names[KN_GPU_OBSERVATION_COUNT];

typedef enum kn_gpu_vendor { KN_GPU_OTHER, KN_GPU_NVIDIA, KN_GPU_INTEL, KN_GPU_AMD, KN_GPU_VENDOR_COUNT } kn_gpu_vendor;
extern const char *const kn_gpu_vendor_names[KN_GPU_VENDOR_COUNT];

/* Bytes, or nothing. */
typedef struct kn_gpu_bytes {
    bool known;
    uint64_t bytes;
} kn_gpu_bytes;

typedef struct kn_gpu_device {
    kn_pci_address pci;
    kn_gpu_vendor vendor;
    char driver[32], name[96], uuid[96]; /* name, uuid: empty if there is none */
    char node[32];                       /* of DRM, "renderD128"; empty if there is none */
    kn_gpu_bytes total, used, free, reserved;
    bool used_includes_reserved;
    kn_gpu_source source;
    kn_gpu_observation observation;
} kn_gpu_device;

/* Why something is missing; codes are fixed words. */
typedef struct kn_gpu_problem {
    const char *probe, *code;
    kn_pci_address pci; /* empty: the probe as a whole */
} kn_gpu_problem;

typedef struct kn_gpu_report {
    size_t count, problem_count;
    kn_gpu_device devices[KN_GPU_DEVICES]; /* by PCI address */
    kn_gpu_problem problems[KN_GPU_PROBLEMS];
} kn_gpu_report;

/* pci NULL: of the probe as a whole. What is beyond the room of the list is left out. */
void kn_gpu_add_problem(kn_gpu_report *r, const char *probe, const char *code, const kn_pci_address *pci);

/* The device at that address, made if there is none; NULL if there is no room. */
kn_gpu_device *kn_gpu_device_at(kn_gpu_report *r, const kn_pci_address *pci);

/* Whether the numbers of a device can be true together; what cannot is made unknown. */
bool kn_gpu_check_numbers(kn_gpu_device *d);

/* Asks all drivers, each kind of them apart. */
typedef struct kn_gpu_probe kn_gpu_probe;

/* root: in front of /sys and /dev, for tests; else "". */
bool kn_gpu_probe_new(const char *root, kn_gpu_probe **ret, kn_error *err);

/* Threads that hang in a driver are left behind, with what they need. */
void kn_gpu_probe_free(kn_gpu_probe *p);

typedef enum kn_gpu_start {
    KN_GPU_STARTED,
    KN_GPU_BUSY, /* no driver has come back yet from an earlier look; none is asked again */
    KN_GPU_NO_THREAD,
} kn_gpu_start;

/* Asks those drivers that have come back from earlier looks. done (may be NULL): called in a thread of the probe when
 * they are through, and never after kn_gpu_probe_free or another start. */
kn_gpu_start kn_gpu_probe_start(kn_gpu_probe *p, void (*done)(void *ctx), void *ctx);

/* `done` does not come any more. False: it has come already. */
bool kn_gpu_probe_forget(kn_gpu_probe *p);

/* Waits at most so long; true if all that were asked at the last start are through. */
bool kn_gpu_probe_wait(kn_gpu_probe *p, unsigned ms);

/* What has been found by now. Of a driver that is not through the rest is reported as late. */
void kn_gpu_probe_read(kn_gpu_probe *p, kn_gpu_report *ret);

#endif
