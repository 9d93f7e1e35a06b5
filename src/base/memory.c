#include "base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"

/* Files of /proc and /sys say 0 as their size, so they are read to the end instead of whole. */
static bool read_small(const char *path, char *text, size_t room) {
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t n = fread(text, 1, room - 1, f);
    text[n] = 0;
    fclose(f);
    return n > 0;
}

static uint64_t number_in(const char *path) {
    char text[64];
    uint64_t v = 0;
    if (!read_small(path, text, sizeof text))
        return UINT64_MAX;
    text[strcspn(text, "\n")] = 0;
    return kn_parse_u64(text, &v) ? v : UINT64_MAX; /* "max" is no limit */
}

static uint64_t kernel_says(void) {
    char text[4096];
    if (!read_small("/proc/meminfo", text, sizeof text))
        return UINT64_MAX;
    const char *at = strstr(text, "MemAvailable:");
    unsigned long long kib = 0;
    return at && sscanf(at, "MemAvailable: %llu kB", &kib) == 1 ? (uint64_t)kib << 10 : UINT64_MAX;
}

/* A number behind its name and a space, in a file of such lines. */
static uint64_t field(const char *text, const char *name) {
    const char *at = strstr(text, name);
    unsigned long long n = 0;
    return at && sscanf(at + strlen(name), " %llu", &n) == 1 ? n : 0;
}

/* The two generations of control groups: the same figures under other names. */
typedef struct generation {
    const char *root, *limit, *used, *active, *inactive;
} generation;

static const generation first = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "\ntotal_active_file", "\ntotal_inactive_file" };
static const generation second = { "/sys/fs/cgroup", "memory.max", "memory.current", "\nactive_file",
                                   "\ninactive_file" };

typedef struct group_file {
    char path[PATH_MAX];
} group_file;

static group_file file_of(const generation *g, const char *group, const char *name) {
    group_file f;
    if (snprintf(f.path, sizeof f.path, "%s%s/%s", g->root, group, name) >= (int)sizeof f.path)
        f.path[0] = 0;
    return f;
}

/* Files that were read stay in memory and count as used, but make room when it is needed. */
static uint64_t reclaimable_in(const generation *g, const char *group) {
    char text[8192];
    return read_small(file_of(g, group, "memory.stat").path, text, sizeof text)
               ? field(text, g->active) + field(text, g->inactive)
               : 0;
}

static uint64_t left_in(const generation *g, const char *group) {
    uint64_t limit = number_in(file_of(g, group, g->limit).path), used = number_in(file_of(g, group, g->used).path);
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    uint64_t reclaimable = reclaimable_in(g, group);
    used -= KN_MIN(used, reclaimable);
    return used < limit ? limit - used : 0;
}

/* group: "/a/b"; it and every group above may have a limit. Cuts the text. */
static uint64_t least_upwards(const generation *g, char *group) {
    uint64_t least = left_in(g, group);
    for (char *slash; (slash = strrchr(group, '/'));) {
        *slash = 0;
        uint64_t left = left_in(g, group);
        least = KN_MIN(least, left);
    }
    return least;
}

static bool has_memory(const char *controllers, size_t len) {
    static const char name[] = "memory";
    for (size_t from = 0, end = 0; from < len; from = end + 1) {
        for (end = from; end < len && controllers[end] != ',';)
            end++;
        if (end - from == sizeof name - 1 && memcmp(controllers + from, name, sizeof name - 1) == 0)
            return true;
    }
    return false;
}

/* A line for each hierarchy: number, controllers, own group. The second generation's has no controllers. */
static uint64_t cgroup_says(void) {
    char text[16 << 10], *rest = text;
    uint64_t least = UINT64_MAX;
    if (!read_small("/proc/self/cgroup", text, sizeof text))
        return least;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        size_t len = (size_t)(group++ - ++controllers);
        if (len > 0 && !has_memory(controllers, len))
            continue;
        uint64_t left = least_upwards(len == 0 ? &second : &first, group);
        least = KN_MIN(least, left);
    }
    return least;
}

uint64_t kn_memory_available(void) {
    uint64_t kernel = kernel_says(), group = cgroup_says();
    return KN_MIN(kernel, group);
}
