#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { NOTICE_BYTES = 100 };

struct kn_log {
    int fd;
    char front[32];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_news; /* a line has come */
    bool ends;    /* no line comes any more, */
    bool is_over; /* and everything is written */
    bool is_left; /* nobody waits for that: the thread frees everything */
    size_t len;
    unsigned long dropped; /* since `waiting` was full */
    char waiting[KN_LOG_BYTES], taken[KN_LOG_BYTES + NOTICE_BYTES];
};

static void destroy(kn_log *l) {
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- the log's thread ---- */

/* Whatever waits, and behind it how many lines are missing there. */
static size_t take(kn_log *l) {
    size_t len = l->len;
    memcpy(l->taken, l->waiting, len);
    if (l->dropped)
        len += (size_t)snprintf(l->taken + len, NOTICE_BYTES, "%s%lu %s dropped here\n", l->front, l->dropped,
                                l->dropped == 1 ? "line was" : "lines were");
    l->len = 0;
    l->is_news = false;
    return len;
}

/* How many lines could not be written. */
static unsigned long write_lines(int fd, const char *text, size_t len) {
    unsigned long lost = 0;
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
        else if (n < 0 && errno != EINTR)
            break;
        len -= n > 0 ? (size_t)n : 0;
        text += n > 0 ? n : 0;
    }
    for (size_t i = 0; i < len; i++)
        lost += text[i] == '\n';
    return lost;
}

static void *work(void *arg) {
    kn_log *l = arg;
    pthread_mutex_lock(&l->lock);
    while (l->is_news || !l->ends) {
        if (!l->is_news) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        unsigned long told = l->dropped;
        size_t len = take(l);
        l->dropped = 0;
        pthread_mutex_unlock(&l->lock);
        unsigned long lost = write_lines(l->fd, l->taken, len);
        pthread_mutex_lock(&l->lock);
        if (lost) /* among them the one that told of others */
            l->dropped += lost + told - (told > 0);
    }
    l->is_over = true;
    bool is_left = l->is_left;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (is_left)
        destroy(l);
    return NULL;
}

/* ---- everybody else ---- */

/* Signals are for other threads. */
static int start_thread(kn_log *l) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&l->thread, NULL, work, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

bool kn_log_new(int fd, const char *front, kn_log **ret, kn_error *err) {
    kn_log *l = calloc(1, sizeof *l);
    if (!l)
        return kn_fail_nomem(err, sizeof *l);
    l->fd = fd;
    snprintf(l->front, sizeof l->front, "%s", front);
    pthread_mutex_init(&l->lock, NULL);
    kn_condition_init(&l->changed);
    int failed = start_thread(l);
    if (failed) {
        destroy(l);
        return kn_fail(err, KN_E_IO, "a thread cannot be started: %s", strerror(failed));
    }
    *ret = l;
    return true;
}

void kn_log_say(kn_log *l, const char *fmt, ...) {
    char line[KN_LOG_LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    pthread_mutex_lock(&l->lock);
    size_t len = strlen(l->front) + strlen(line) + 1;
    if (l->dropped || len >= sizeof l->waiting - l->len) /* none passes those that are missing */
        l->dropped++;
    else
        l->len += (size_t)snprintf(l->waiting + l->len, sizeof l->waiting - l->len, "%s%s\n", l->front, line);
    l->is_news = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

void kn_log_free(kn_log *l) {
    if (!l)
        return;
    struct timespec until = kn_moment_in_ms(KN_LOG_END_MS);
    pthread_mutex_lock(&l->lock);
    l->ends = true;
    pthread_cond_signal(&l->changed);
    int late = 0;
    while (!l->is_over && !late)
        late = pthread_cond_timedwait(&l->changed, &l->lock, &until);
    bool is_left = l->is_left = !l->is_over;
    if (is_left)
        pthread_detach(l->thread);
    pthread_mutex_unlock(&l->lock);
    if (is_left)
        return;
    pthread_join(l->thread, NULL);
    destroy(l);
}
