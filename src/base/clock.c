#include "base/clock.h"

static double read_clock(clockid_t clock) {
    struct timespec t;
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

double kn_now_process(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double kn_now_thread(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
