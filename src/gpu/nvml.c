#include "gpu/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char probe[] = "nvml";

/* The library's interface (nvml.h), as much of it as is asked. */
typedef struct nvml_device *nvml_device;
struct nvml_pci {
    char legacy_id[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char id[32];
};
struct nvml_memory {
    uint64_t total, free, used;
};
struct nvml_memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};
_Static_assert(sizeof(struct nvml_pci) == 68, "size in the driver");
_Static_assert(sizeof(struct nvml_memory) == 24, "size in the driver");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "size in the driver");

enum {
    NVML_SUCCESS = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_BLOCKED = 17,
    NVML_MISMATCH = 18,
    NVML_VERSION_MISMATCH = 25,
    MEMORY_V2 = sizeof(struct nvml_memory_v2) | 2 << 24,
    TEXT_BYTES = 96,
};

static struct {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *n);
    int (*handle)(unsigned index, nvml_device *device);
    int (*uuid)(nvml_device device, char *text, unsigned room);
    int (*name)(nvml_device device, char *text, unsigned room); /* may be missing, … */
    int (*pci)(nvml_device device, struct nvml_pci *pci);
    int (*memory_v2)(nvml_device device, struct nvml_memory_v2 *memory); /* … and this, before driver 510 */
    int (*memory_v1)(nvml_device device, struct nvml_memory *memory);
} nvml;

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;

static const char *code_of(int status) {
    switch (status) {
    case 1: return "uninitialized";
    case 2: return "invalid_argument";
    case NVML_NOT_SUPPORTED: return "not_supported";
    case 4: return "no_permission";
    case 6: return "not_found";
    case 7: return "insufficient_size";
    case NVML_DRIVER_NOT_LOADED: return "driver_not_loaded";
    case 10: return "driver_timeout";
    case 12: return "library_not_found";
    case NVML_FUNCTION_NOT_FOUND: return "function_not_found";
    case 14: return "corrupted_inforom";
    case 15: return "gpu_is_lost";
    case 16: return "reset_required";
    case NVML_BLOCKED: return "blocked_by_system";
    case NVML_MISMATCH: return "library_mismatch";
    case NVML_VERSION_MISMATCH: return "version_mismatch";
    default: return "unknown_error";
    }
}

/* dlsym gives functions as pointers to data; ISO C has no cast for that. */
static bool find(const char *name, void *into) {
    void *symbol = dlsym(nvml.library, name);
    memcpy(into, &symbol, sizeof symbol);
    return symbol;
}

/* Opened once; a failure is tried again with the next probe, since a driver may be installed meanwhile. */
static bool open_library(void) {
    if (nvml.library)
        return true;
    nvml.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml.library)
        return false;
    bool all = find("nvmlInit_v2", &nvml.init) && find("nvmlShutdown", &nvml.shutdown) &&
               find("nvmlDeviceGetCount_v2", &nvml.count) && find("nvmlDeviceGetHandleByIndex_v2", &nvml.handle) &&
               find("nvmlDeviceGetUUID", &nvml.uuid) && find("nvmlDeviceGetPciInfo_v3", &nvml.pci) &&
               find("nvmlDeviceGetMemoryInfo", &nvml.memory_v1);
    find("nvmlDeviceGetName", &nvml.name);
    find("nvmlDeviceGetMemoryInfo_v2", &nvml.memory_v2);
    if (!all) {
        dlclose(nvml.library);
        nvml.library = NULL;
    }
    return all;
}

/* The function is only in the text, "00000000:04:00.0"; it is 0 for every GPU. */
static bool read_pci(nvml_device device, kn_pci_address *ret, int *status) {
    struct nvml_pci pci = { 0 };
    *status = nvml.pci(device, &pci);
    if (*status != NVML_SUCCESS)
        return false;
    const char *dot = memchr(pci.id, '.', sizeof pci.id);
    uint32_t function =
        dot && dot + 1 < pci.id + sizeof pci.id && dot[1] >= '0' && dot[1] <= '7' ? (uint32_t)(dot[1] - '0') : 0;
    return kn_pci_make(pci.domain, pci.bus, pci.device, function, ret);
}

static int read_memory(nvml_device device, kn_gpu_device *d) {
    struct nvml_memory_v2 v2 = { .version = MEMORY_V2 };
    int status = nvml.memory_v2 ? nvml.memory_v2(device, &v2) : NVML_FUNCTION_NOT_FOUND;
    if (status == NVML_SUCCESS) {
        d->source = KN_GPU_SOURCE_NVML_V2;
        d->total = (kn_gpu_bytes){ true, v2.total };
        d->used = (kn_gpu_bytes){ true, v2.used };
        d->free = (kn_gpu_bytes){ true, v2.free };
        d->reserved = (kn_gpu_bytes){ true, v2.reserved };
        return status;
    }
    /* Only a driver that does not know the question is asked the older one: its "used" has the reservations in it. */
    if (status != NVML_NOT_SUPPORTED && status != NVML_FUNCTION_NOT_FOUND && status != NVML_VERSION_MISMATCH)
        return status;
    struct nvml_memory v1 = { 0 };
    status = nvml.memory_v1(device, &v1);
    if (status == NVML_SUCCESS) {
        d->source = KN_GPU_SOURCE_NVML_V1;
        d->total = (kn_gpu_bytes){ true, v1.total };
        d->used = (kn_gpu_bytes){ true, v1.used };
        d->free = (kn_gpu_bytes){ true, v1.free };
        d->used_includes_reserved = true;
    }
    return status;
}

void kn_nvml_ask(kn_gpu_report *r, unsigned index) {
    nvml_device device = NULL;
    kn_pci_address pci = { "" };
    int status = nvml.handle(index, &device);
    if (status != NVML_SUCCESS || !read_pci(device, &pci, &status)) {
        kn_gpu_add_problem(r, probe, code_of(status), NULL);
        return;
    }
    kn_gpu_device *d = kn_gpu_device_at(r, &pci);
    if (!d)
        return;
    d->vendor = KN_GPU_NVIDIA;
    memcpy(d->driver, "nvidia", sizeof "nvidia");
    char text[TEXT_BYTES];
    _Static_assert(sizeof d->uuid == TEXT_BYTES && sizeof d->name == TEXT_BYTES, "room for what the driver writes");
    if (nvml.uuid(device, text, sizeof text) == NVML_SUCCESS)
        memcpy(d->uuid, text, strnlen(text, sizeof text - 1));
    if (nvml.name && nvml.name(device, text, sizeof text) == NVML_SUCCESS)
        memcpy(d->name, text, strnlen(text, sizeof text - 1));
    status = read_memory(device, d);
    d->observation = status == NVML_SUCCESS ? KN_GPU_OK : status == 4 ? KN_GPU_PERMISSION_DENIED : KN_GPU_UNAVAILABLE;
    if (status != NVML_SUCCESS)
        kn_gpu_add_problem(r, probe, code_of(status), &pci);
    else if (!kn_gpu_check_numbers(d))
        kn_gpu_add_problem(r, probe, "inconsistent_numbers", &pci);
}

void kn_nvml_give_up_others(kn_gpu_report *r) {
    for (size_t i = 0; i < r->count; i++) {
        kn_gpu_device *d = &r->devices[i];
        if (strcmp(d->driver, "nvidia") != 0 || d->observation != KN_GPU_TIMEOUT)
            continue;
        d->observation = KN_GPU_UNAVAILABLE;
        kn_gpu_add_problem(r, probe, "not_available", &d->pci);
    }
}

/* Initialises the library and counts its cards, with `in_use` held. */
static bool begin(kn_gpu_report *r, unsigned *ret_count) {
    if (!open_library())
        return false;
    unsigned count = 0;
    int status = nvml.init();
    bool ready = status == NVML_SUCCESS;
    if (ready)
        status = nvml.count(&count);
    if (status != NVML_SUCCESS) {
        kn_gpu_add_problem(r, probe, code_of(status), NULL);
        if (ready)
            nvml.shutdown();
        return false;
    }
    *ret_count = KN_MIN(count, (unsigned)KN_GPU_DEVICES);
    return true;
}

bool kn_nvml_begin(kn_gpu_report *r, unsigned *ret_count) {
    bool free = pthread_mutex_trylock(&in_use) == 0;
    if (!free)
        kn_gpu_add_problem(r, probe, "in_progress", NULL);
    else if (begin(r, ret_count))
        return true;
    else
        pthread_mutex_unlock(&in_use);
    return false;
}

void kn_nvml_end(void) {
    nvml.shutdown();
    pthread_mutex_unlock(&in_use);
}
