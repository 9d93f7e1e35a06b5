/* A clock on the wall that can be set without a right to, for one program that this library is preloaded into: the file
 * that WALL_CLOCK names holds how many seconds it is fast, as a 64-bit number, and may change at any time.
 *
 * Every way to read that clock tells the other time, and a wait until a moment of it ends when it says so. The steady
 * clock stays what it is. Without the file nothing is changed, so that children need not know of it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 20, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };
/* No machine has been up for so long, and no clock on the wall was set so early. */
static const time_t longest_up_s = 1000000000;

static _Atomic int64_t *fast_s;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("WALL_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *fast_s, PROT_READ, MAP_SHARED, fd, 0);
    fast_s = page == MAP_FAILED ? NULL : page;
    close(fd);
}

/* Parameters have the names that the system's headers give them. */
int clock_gettime(clockid_t clock_id, struct timespec *tp) {
    long failed = syscall(SYS_clock_gettime, clock_id, tp);
    if (!failed && fast_s && (clock_id == CLOCK_REALTIME || clock_id == CLOCK_REALTIME_COARSE || clock_id == CLOCK_TAI))
        tp->tv_sec += (time_t)*fast_s;
    return (int)failed;
}

time_t time(time_t *timer) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (timer)
        *timer = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    struct timespec t;
    (void)tz;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}

static int is_over(const struct timespec *until) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec > until->tv_sec || (t.tv_sec == until->tv_sec && t.tv_nsec >= until->tv_nsec);
}

/* Which of the clocks it is a moment of can be seen from the moment alone. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict abstime) {
    if (abstime->tv_sec < longest_up_s)
        return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, abstime);
    while (!is_over(abstime)) {
        struct timespec look;
        clock_gettime(CLOCK_MONOTONIC, &look);
        look.tv_nsec += (long)LOOK_MS * NS_PER_MS;
        look.tv_sec += look.tv_nsec / NS_PER_S;
        look.tv_nsec %= NS_PER_S;
        int result = pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &look);
        if (result != ETIMEDOUT)
            return result;
    }
    return ETIMEDOUT;
}
