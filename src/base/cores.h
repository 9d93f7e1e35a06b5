/* Which processors are threads of one core (hyper-threads), as the system's files tell.
 *
 * Such threads share the units that multiply and the caches nearest to them. Two of them compute what one would compute
 * alone, and take its caches from each other, so that a computation has one thread for each core. What cannot be read,
 * or makes no sense, counts as a core of its own. */
#ifndef KN_BASE_CORES_H
#define KN_BASE_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    KN_PROCESSORS_MAX = 1 << 20, /* numbers of processors are below this */
    KN_PROCESSOR_RANGES_MAX = 64,
};

/* Both ends belong to it. */
typedef struct kn_processor_range {
    unsigned first, last;
} kn_processor_range;

/* A list as the system writes them: "0-3,8\n". Whole text or failure: rising numbers, no spaces, at most
 * KN_PROCESSOR_RANGES_MAX parts. */
bool kn_processor_list_read(const char *text, kn_processor_range *ret, size_t *ret_count);

/* The cores that the processors of a set belong to, at least one if the set has any. folder: "/sys/devices/system/cpu",
 * or one like it; bytes: of the set. */
unsigned kn_cores_count(const char *folder, const cpu_set_t *set, size_t bytes);

#endif
