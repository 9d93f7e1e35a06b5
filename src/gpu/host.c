#include "gpu/host.h"

#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "gpu/sysfs.h"

/* "MemTotal:       16384 kB" in bytes; 0 if there is no such line. */
static uint64_t line_bytes(const char *text, const char *name) {
    const char *at = strstr(text, name);
    if (!at)
        return 0;
    at += strlen(name);
    at += strspn(at, " ");
    char digits[24] = "";
    size_t len = strspn(at, "0123456789");
    uint64_t kib = 0;
    if (len >= sizeof digits)
        return 0;
    memcpy(digits, at, len);
    return kn_parse_u64(digits, &kib) && kib <= UINT64_MAX >> 10 ? kib << 10 : 0;
}

/* The least of what the process' group and those above it allow; a group that says "max" allows all. */
static uint64_t least_of_groups(const char *root, const char *group, const char *file) {
    char path[PATH_MAX], part[PATH_MAX];
    uint64_t least = UINT64_MAX, v = 0;
    if (!kn_sysfs_path(part, sizeof part, "%s", group))
        return least;
    for (char *slash; (slash = strrchr(part, '/')); *slash = 0) {
        if (kn_sysfs_path(path, sizeof path, "%s/sys/fs/cgroup%s/%s", root, part, file) && kn_sysfs_number(path, &v))
            least = KN_MIN(least, v);
    }
    return least;
}

kn_host_memory kn_host_memory_read(const char *root) {
    char path[PATH_MAX], text[8192];
    kn_host_memory m = { .limit = UINT64_MAX, .swap = true };
    if (kn_sysfs_path(path, sizeof path, "%s/proc/meminfo", root) && kn_sysfs_text(path, text, sizeof text)) {
        m.total = line_bytes(text, "MemTotal:");
        m.available = line_bytes(text, "MemAvailable:");
        m.swap = line_bytes(text, "SwapTotal:") > 0;
    }
    if (!kn_sysfs_path(path, sizeof path, "%s/proc/self/cgroup", root) || !kn_sysfs_text(path, text, sizeof text))
        return m;
    char *group = strstr(text, "0::/");
    if (!group)
        return m;
    group += 3;
    group[strcspn(group, "\n")] = 0;
    m.limit = least_of_groups(root, group, "memory.max");
    m.swap = m.swap && least_of_groups(root, group, "memory.swap.max") > 0;
    return m;
}
