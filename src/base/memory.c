#include "base/memory.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/compiler.h"
#include "base/text.h"

static uint64_t kernel_says(void) {
    char text[4096];
    if (!kn_system_read("/proc/meminfo", text, sizeof text))
        return UINT64_MAX;
    const char *at = strstr(text, "MemAvailable:");
    unsigned long long kib = 0;
    return at && sscanf(at, "MemAvailable: %llu kB", &kib) == 1 ? (uint64_t)kib << 10 : UINT64_MAX;
}

/* The two generations have the same figures under other names. */
typedef struct names {
    const char *limit, *used, *active, *inactive;
} names;

static const names first = { "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_active_file",
                             "\ntotal_inactive_file" };
static const names second = { "memory.max", "memory.current", "\nactive_file", "\ninactive_file" };

static uint64_t number_in(const kn_cgroup *g, const char *name) {
    char text[64];
    uint64_t v = 0;
    if (!kn_cgroup_read(g, name, text, sizeof text))
        return UINT64_MAX;
    text[strcspn(text, "\n")] = 0;
    return kn_parse_u64(text, &v) ? v : UINT64_MAX; /* "max" is no limit */
}

/* A number behind its name and a space, in a file of such lines. */
static uint64_t field(const char *text, const char *name) {
    const char *at = strstr(text, name);
    unsigned long long n = 0;
    return at && sscanf(at + strlen(name), " %llu", &n) == 1 ? n : 0;
}

/* Files that were read stay in memory and count as used, but make room when it is needed. */
static uint64_t reclaimable_in(const kn_cgroup *g, const names *of) {
    char text[8192];
    return kn_cgroup_read(g, "memory.stat", text, sizeof text) ? field(text, of->active) + field(text, of->inactive)
                                                               : 0;
}

static void apply_limit(void *ctx, const kn_cgroup *g) {
    uint64_t *least = ctx;
    const names *of = g->unified ? &second : &first;
    uint64_t limit = number_in(g, of->limit), used = number_in(g, of->used);
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return;
    uint64_t reclaimable = reclaimable_in(g, of);
    used -= KN_MIN(used, reclaimable);
    uint64_t left = used < limit ? limit - used : 0;
    *least = KN_MIN(*least, left);
}

uint64_t kn_memory_available(void) {
    uint64_t least = kernel_says();
    kn_cgroup_each("memory", apply_limit, &least);
    return least;
}

void kn_memory_keep_little(void) {
    enum { LARGE = 256 << 10 };
    mallopt(M_MMAP_THRESHOLD, LARGE);
    mallopt(M_TRIM_THRESHOLD, LARGE);
}

void kn_memory_give_back(void) {
    malloc_trim(0);
}
