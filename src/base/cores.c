#include "base/cores.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/compiler.h"

enum { THREADS_OF_CORE_MAX = 8 }; /* of POWER; others have 2 or 4 */

/* Digits alone, below the limit. Moves *at behind them. */
static bool read_number(const char **at, unsigned *ret) {
    unsigned n = 0, digits = 0;
    for (; **at >= '0' && **at <= '9'; ++*at, digits++) {
        n = n * 10 + (unsigned)(**at - '0');
        if (n >= KN_PROCESSORS_MAX)
            return false;
    }
    *ret = n;
    return digits > 0;
}

bool kn_processor_list_read(const char *text, kn_processor_range *ret, size_t *ret_count) {
    size_t count = 0;
    for (const char *at = text;; at++) {
        kn_processor_range r;
        if (count == KN_PROCESSOR_RANGES_MAX || !read_number(&at, &r.first))
            return false;
        r.last = r.first;
        if (*at == '-' && (at++, !read_number(&at, &r.last)))
            return false;
        if (r.last < r.first || (count && r.first <= ret[count - 1].last))
            return false;
        ret[count++] = r;
        if (*at != ',') {
            *ret_count = count;
            return *at == 0 || (*at == '\n' && at[1] == 0);
        }
    }
}

/* Kernels since 5.2 have both names, older ones the second. */
static bool read_siblings(const char *folder, unsigned processor, kn_processor_range *ret, size_t *ret_count) {
    static const char *const names[] = { "core_cpus_list", "thread_siblings_list" };
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        char path[PATH_MAX], text[1024]; /* longer ones are cut, which is no list any more, or one without its end */
        int len = snprintf(path, sizeof path, "%s/cpu%u/topology/%s", folder, processor, names[i]);
        if (len < (int)sizeof path && kn_system_read(path, text, sizeof text) && strchr(text, '\n') &&
            kn_processor_list_read(text, ret, ret_count))
            return true;
    }
    return false;
}

/* Some hosts tell guests that all of their processors are one core. */
static bool makes_sense(const kn_processor_range *ranges, size_t count, unsigned processor) {
    unsigned members = 0;
    bool has_itself = false;
    for (size_t i = 0; i < count; i++) {
        members += ranges[i].last - ranges[i].first + 1;
        has_itself = has_itself || (ranges[i].first <= processor && processor <= ranges[i].last);
    }
    return has_itself && members <= THREADS_OF_CORE_MAX;
}

/* Another one of the set, with a lower number, stands for the core of both. */
static bool is_of_earlier_core(const char *folder, unsigned processor, const cpu_set_t *set, size_t bytes) {
    kn_processor_range ranges[KN_PROCESSOR_RANGES_MAX];
    size_t count = 0;
    if (!read_siblings(folder, processor, ranges, &count) || !makes_sense(ranges, count, processor))
        return false;
    for (size_t i = 0; i < count; i++)
        for (unsigned other = ranges[i].first; other <= ranges[i].last && other < processor; other++)
            if (CPU_ISSET_S(other, bytes, set))
                return true;
    return false;
}

unsigned kn_cores_count(const char *folder, const cpu_set_t *set, size_t bytes) {
    unsigned count = 0;
    for (unsigned processor = 0; processor < bytes * CHAR_BIT; processor++)
        if (CPU_ISSET_S(processor, bytes, set) && !is_of_earlier_core(folder, processor, set, bytes))
            count++;
    return count;
}
