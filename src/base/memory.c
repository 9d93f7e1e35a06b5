#include "base/memory.h"

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

/* Files that were read stay in memory and count as used, but make room when it is needed. */
static uint64_t reclaimable_in(const char *path) {
    char text[8192];
    return read_small(path, text, sizeof text) ? field(text, "\nactive_file") + field(text, "\ninactive_file") : 0;
}

/* The process' own group of the unified hierarchy; limits further up are rarer and not looked at. */
static uint64_t cgroup_says(void) {
    char text[4096], path[4200];
    if (!read_small("/proc/self/cgroup", text, sizeof text))
        return UINT64_MAX;
    char *own = strstr(text, "0::/");
    if (!own)
        return UINT64_MAX;
    own += 3;
    own[strcspn(own, "\n")] = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", own);
    uint64_t limit = number_in(path);
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", own);
    uint64_t used = number_in(path);
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", own);
    used -= KN_MIN(used, reclaimable_in(path));
    return used < limit ? limit - used : 0;
}

uint64_t kn_memory_available(void) {
    return KN_MIN(kernel_says(), cgroup_says());
}
