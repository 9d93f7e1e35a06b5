#include "base/clock.h"

#include <dirent.h>

#include "base/text.h"

static double read_clock(clockid_t clock) {
    struct timespec t = { 0 }; /* a thread may have ended meanwhile, and its clock with it */
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double kn_now(void) {
    return read_clock(CLOCK_MONOTONIC);
}

void kn_condition_init(pthread_cond_t *ret) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(ret, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec kn_moment_in_ms(unsigned ms) {
    enum { MS_PER_S = 1000, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(ms / MS_PER_S);
    t.tv_nsec += (long)(ms % MS_PER_S) * NS_PER_MS;
    t.tv_sec += t.tv_nsec / NS_PER_S;
    t.tv_nsec %= NS_PER_S;
    return t;
}

/* As the kernel numbers them (posix-timers_types.h): a thread's own time, counted to the nanosecond. */
static clockid_t clock_of_thread(uint64_t tid) {
    enum { PER_THREAD = 4, SCHEDULED = 2 };
    return (clockid_t)(~(unsigned)tid << 3 | PER_THREAD | SCHEDULED);
}

/* What a thread uses is counted when it is switched, at the next tick, which may be 10 ms away, or when somebody reads
 * its own clock. The clock of the process only adds up what has been counted. */
static void count_running_threads(void) {
    DIR *threads = opendir("/proc/self/task");
    if (!threads)
        return;
    for (struct dirent *e; (e = readdir(threads));) {
        uint64_t tid = 0;
        if (kn_parse_u64(e->d_name, &tid))
            read_clock(clock_of_thread(tid));
    }
    closedir(threads);
}

double kn_now_process(void) {
    count_running_threads();
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double kn_now_thread(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
