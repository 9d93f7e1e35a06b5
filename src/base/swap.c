#include "base/swap.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

/* A heading, then a line for each device. */
bool kn_swap_is_listed(const char *swaps) {
    const char *end = strchr(swaps, '\n');
    return !end || end[1] != 0;
}

/* A file of one number; UINT64_MAX stands for "max". */
static bool read_number(const kn_cgroup *g, const char *name, uint64_t *ret) {
    char text[64];
    if (!kn_cgroup_read(g, name, text, sizeof text))
        return false;
    text[strcspn(text, "\n")] = 0;
    if (strcmp(text, "max") != 0)
        return kn_parse_u64(text, ret);
    *ret = UINT64_MAX;
    return true;
}

/* Once a group forbids it nothing else counts, and next to nothing known "on" is worth more than "unknown". */
static void say(kn_swap *ret, kn_swap state) {
    if (*ret != KN_SWAP_OFF && (state == KN_SWAP_OFF || *ret == KN_SWAP_UNKNOWN))
        *ret = state;
}

void kn_swap_of_group(const kn_cgroup *g, kn_swap *ret) {
    /* No limit, as the first generation of groups writes it: the largest number of whole pages. */
    const uint64_t no_limit = (uint64_t)1 << 62;
    uint64_t memory = 0, with_swap = 0;
    if (g->unified) {
        if (read_number(g, "memory.swap.max", &with_swap))
            say(ret, with_swap == 0 ? KN_SWAP_OFF : KN_SWAP_ON);
    } else if (read_number(g, "memory.memsw.limit_in_bytes", &with_swap) &&
               read_number(g, "memory.limit_in_bytes", &memory)) {
        /* Memory and swap together may be no more than memory alone. */
        say(ret, with_swap == memory && memory < no_limit ? KN_SWAP_OFF : KN_SWAP_ON);
    }
}

static void visit(void *ctx, const kn_cgroup *g) {
    kn_swap_of_group(g, ctx);
}

kn_swap kn_swap_state(void) {
    char swaps[4096];
    if (kn_system_read("/proc/swaps", swaps, sizeof swaps) && !kn_swap_is_listed(swaps))
        return KN_SWAP_OFF;
    kn_swap state = KN_SWAP_UNKNOWN;
    kn_cgroup_each("memory", visit, &state);
    return state;
}
