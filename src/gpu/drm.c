#include "gpu/drm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gpu/sysfs.h"

enum { NODES_MAX = 64 };

static kn_gpu_vendor vendor_of(const char *folder) {
    char path[PATH_MAX], id[16];
    if (!kn_sysfs_path(path, sizeof path, "%s/vendor", folder) || !kn_sysfs_text(path, id, sizeof id))
        return KN_GPU_OTHER;
    id[strcspn(id, "\n")] = 0;
    if (strcmp(id, "0x10de") == 0)
        return KN_GPU_NVIDIA;
    if (strcmp(id, "0x8086") == 0)
        return KN_GPU_INTEL;
    return strcmp(id, "0x1002") == 0 ? KN_GPU_AMD : KN_GPU_OTHER;
}

/* One render node. Those on no PCI bus (vgem) are no cards. */
static void add_node(const char *root, const char *node, kn_gpu_report *r) {
    char link[PATH_MAX], folder[PATH_MAX], path[PATH_MAX + 16], bus[16];
    kn_pci_address pci;
    if (!kn_sysfs_path(link, sizeof link, "%s/sys/class/drm/%s/device", root, node) || !realpath(link, folder))
        return;
    const char *name = strrchr(folder, '/') + 1;
    kn_sysfs_path(path, sizeof path, "%s/subsystem", folder);
    if (!kn_pci_parse(name, strlen(name), &pci) || !kn_sysfs_link(path, bus, sizeof bus) || strcmp(bus, "pci") != 0)
        return;
    kn_gpu_device *d = kn_gpu_device_at(r, &pci);
    if (!d || d->node[0])
        return;
    kn_sysfs_path(d->node, sizeof d->node, "%s", node);
    d->vendor = vendor_of(folder);
    kn_sysfs_path(path, sizeof path, "%s/driver", folder);
    if (!kn_sysfs_link(path, d->driver, sizeof d->driver))
        memcpy(d->driver, "none", sizeof "none");
    bool known = strcmp(d->driver, "xe") == 0 || strcmp(d->driver, "amdgpu") == 0 || strcmp(d->driver, "nvidia") == 0;
    d->observation = known ? KN_GPU_TIMEOUT : KN_GPU_UNSUPPORTED;
    if (!known)
        kn_gpu_add_problem(r, "drm", "unsupported_driver", &pci);
}

void kn_drm_find(const char *root, kn_gpu_report *r) {
    char path[PATH_MAX];
    kn_sysfs_path(path, sizeof path, "%s/sys/class/drm", root);
    DIR *dir = opendir(path);
    if (!dir) /* no graphics at all is no problem */
        return;
    unsigned nodes = 0;
    for (const struct dirent *e; nodes < NODES_MAX && (e = readdir(dir));) {
        if (strncmp(e->d_name, "renderD", 7) != 0)
            continue;
        add_node(root, e->d_name, r);
        nodes++;
    }
    closedir(dir);
}

static void fail(kn_gpu_report *r, kn_gpu_device *d, const char *probe, const char *code,
                 kn_gpu_observation observation) {
    d->observation = observation;
    kn_gpu_add_problem(r, probe, code, &d->pci);
}

/* The kernel writes both numbers itself, for everybody to read. */
static void ask_amdgpu(const char *root, kn_gpu_report *r, kn_gpu_device *d) {
    static const char probe[] = "amdgpu-sysfs";
    char path[PATH_MAX];
    uint64_t total = 0, used = 0;
    kn_sysfs_path(path, sizeof path, "%s/sys/class/drm/%s/device/mem_info_vram_total", root, d->node);
    bool ok = kn_sysfs_number(path, &total);
    kn_sysfs_path(path, sizeof path, "%s/sys/class/drm/%s/device/mem_info_vram_used", root, d->node);
    ok = ok && kn_sysfs_number(path, &used);
    if (!ok) {
        fail(r, d, probe, "unreadable", KN_GPU_UNAVAILABLE);
        return;
    }
    d->source = KN_GPU_SOURCE_AMDGPU;
    d->total = (kn_gpu_bytes){ true, total };
    d->used = (kn_gpu_bytes){ true, used };
    d->free = (kn_gpu_bytes){ true, total - used };
    d->observation = KN_GPU_OK;
    if (!kn_gpu_check_numbers(d))
        kn_gpu_add_problem(r, probe, "inconsistent_numbers", &d->pci);
}

/* The kernel's interface of the xe driver (include/uapi/drm/xe_drm.h), as much of it as is asked. */
struct drm_version {
    int32_t major, minor, patch, pad;
    uint64_t name_len, name, date_len, date, desc_len, desc;
};
struct xe_query {
    uint64_t extensions;
    uint32_t query, size;
    uint64_t data, reserved[2];
};
struct xe_region {
    uint16_t class, instance;
    uint32_t min_page_bytes;
    uint64_t total, used, cpu_visible, cpu_visible_used, reserved[6];
};
struct xe_regions {
    uint32_t count, pad;
    struct xe_region region[];
};
_Static_assert(sizeof(struct drm_version) == 64, "size in the kernel");
_Static_assert(sizeof(struct xe_query) == 40, "size in the kernel");
_Static_assert(sizeof(struct xe_region) == 88, "size in the kernel");

#define DRM_IOCTL_VERSION         0xC0406400u
#define DRM_IOCTL_XE_DEVICE_QUERY 0xC0286440u

enum { XE_QUERY_MEM_REGIONS = 1, XE_CLASS_VRAM = 1, XE_ANSWER_MAX = 64 << 10 };

/* Returns 0 or the error number. */
static int ask_kernel(int fd, unsigned long request, void *argument) {
    for (;;) {
        if (ioctl(fd, request, argument) == 0)
            return 0;
        if (errno != EINTR && errno != EAGAIN)
            return errno;
    }
}

static int check_driver(int fd, const char *expected) {
    char name[32] = "";
    struct drm_version v = { .name_len = sizeof name - 1, .name = (uintptr_t)name };
    int e = ask_kernel(fd, DRM_IOCTL_VERSION, &v);
    return e ? e : strcmp(name, expected) == 0 ? 0 : EINVAL;
}

/* The answer must have exactly the size that was announced. */
static int read_regions(int fd, struct xe_regions **ret) {
    struct xe_query q = { .query = XE_QUERY_MEM_REGIONS };
    int e = ask_kernel(fd, DRM_IOCTL_XE_DEVICE_QUERY, &q);
    if (e)
        return e;
    size_t size = q.size, head = sizeof(struct xe_regions), each = sizeof(struct xe_region);
    if (size < head || size > XE_ANSWER_MAX || (size - head) % each)
        return EPROTO;
    struct xe_regions *regions = calloc(1, size);
    if (!regions)
        return ENOMEM;
    q = (struct xe_query){ .query = XE_QUERY_MEM_REGIONS, .size = (uint32_t)size, .data = (uintptr_t)regions };
    e = ask_kernel(fd, DRM_IOCTL_XE_DEVICE_QUERY, &q);
    if (!e && (q.size != size || regions->count != (size - head) / each))
        e = EPROTO;
    if (e)
        free(regions);
    else
        *ret = regions;
    return e;
}

/* The VRAM of all tiles together; false if the sums do not fit. */
static bool sum_vram(const struct xe_regions *regions, uint64_t *total, uint64_t *used) {
    *total = *used = 0;
    for (uint32_t i = 0; i < regions->count; i++) {
        const struct xe_region *region = &regions->region[i];
        if (region->class == XE_CLASS_VRAM &&
            (KN_ADD_OVERFLOWS(*total, region->total, total) || KN_ADD_OVERFLOWS(*used, region->used, used)))
            return false;
    }
    return *used <= *total && *total <= INT64_MAX;
}

static void fail_xe(kn_gpu_report *r, kn_gpu_device *d, int e) {
    static const struct {
        int number;
        const char *code;
        kn_gpu_observation observation;
    } rows[] = {
        { EACCES, "permission_denied", KN_GPU_PERMISSION_DENIED }, /* not in the group "render" */
        { EPERM, "device_policy", KN_GPU_PERMISSION_DENIED },      /* of the unit */
        { ENOENT, "gone", KN_GPU_UNAVAILABLE },
        { ENXIO, "gone", KN_GPU_UNAVAILABLE },
        { EINVAL, "unsupported_query", KN_GPU_UNSUPPORTED },
        { EIO, "device_wedged", KN_GPU_UNAVAILABLE },
        { ENODEV, "device_unplugged", KN_GPU_UNAVAILABLE },
        { EPROTO, "inconsistent_answer", KN_GPU_UNAVAILABLE },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        if (rows[i].number == e) {
            fail(r, d, "drm-xe", rows[i].code, rows[i].observation);
            return;
        }
    }
    fail(r, d, "drm-xe", "failed", KN_GPU_UNAVAILABLE);
}

static void ask_xe(const char *root, kn_gpu_report *r, kn_gpu_device *d) {
    char path[PATH_MAX];
    struct xe_regions *regions = NULL;
    uint64_t total = 0, used = 0;
    kn_sysfs_path(path, sizeof path, "%s/dev/dri/%s", root, d->node);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int e = fd < 0 ? errno : check_driver(fd, "xe");
    e = e ? e : read_regions(fd, &regions);
    if (fd >= 0)
        close(fd);
    if (!e && !sum_vram(regions, &total, &used))
        e = EPROTO;
    free(regions);
    if (e) {
        fail_xe(r, d, e);
        return;
    }
    if (!total) {
        fail(r, d, "drm-xe", "shared_memory", KN_GPU_UNAVAILABLE);
        return;
    }
    d->source = KN_GPU_SOURCE_XE;
    d->total = (kn_gpu_bytes){ true, total };
    if (!used) { /* what the kernel says to a process without CAP_PERFMON, however busy the card is */
        fail(r, d, "drm-xe", "restricted_counter", KN_GPU_AMBIGUOUS_ZERO);
        return;
    }
    d->used = (kn_gpu_bytes){ true, used };
    d->free = (kn_gpu_bytes){ true, total - used };
    d->observation = KN_GPU_OK;
}

void kn_drm_ask(const char *root, kn_gpu_report *r, kn_gpu_device *d) {
    if (strcmp(d->driver, "amdgpu") == 0)
        ask_amdgpu(root, r, d);
    else if (strcmp(d->driver, "xe") == 0)
        ask_xe(root, r, d);
}
