#include "workers/inbox.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { INPUT, OUTPUT, SIGNALS, WATCHED, PIECE = 64 << 10 };

/* Whether a job is being done. */
static bool close_inbox(kn_inbox *b) {
    pthread_mutex_lock(&b->lock);
    bool at_work = b->at_work;
    b->closed = true;
    atomic_store(&b->stop, true);
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return at_work;
}

/* A job is for whoever takes it next. Two at a time is more than was agreed. */
static bool put_job(kn_inbox *b) {
    pthread_mutex_lock(&b->lock);
    bool ok = !b->kind;
    if (ok) {
        b->kind = b->reader.kind;
        b->payload = b->reader.payload;
        b->reader.len = 0;
        kn_buf_init(&b->reader.payload, 0);
        atomic_store(&b->stop, false); /* whatever was to stop came before this job */
        pthread_cond_signal(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return ok;
}

static bool take_frame(kn_inbox *b) {
    if (b->reader.kind != KN_FRAME_CANCEL)
        return put_job(b);
    atomic_store(&b->stop, true);
    return true;
}

/* False: this was all. What is wrong with frames that are no frames, nobody could be told. */
static bool read_input(kn_inbox *b) {
    uint8_t piece[PIECE];
    ssize_t n = read(b->in, piece, sizeof piece);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    bool ok = n > 0;
    for (const uint8_t *at = piece; ok && at < piece + n;) {
        bool complete = false;
        ok = kn_frame_reader_take(&b->reader, &at, piece + n, &complete, NULL) && (!complete || take_frame(b));
    }
    return ok;
}

static void *listen_to_all(void *ctx) {
    kn_inbox *b = ctx;
    bool told = false; /* by a signal */
    for (bool open = true; open;) {
        struct pollfd fds[WATCHED] = { [INPUT] = { .fd = b->in, .events = POLLIN },
                                       [OUTPUT] = { .fd = b->out },
                                       [SIGNALS] = { .fd = b->signals, .events = POLLIN } };
        int n = poll(fds, WATCHED, -1);
        if (n < 0 && errno != EINTR)
            break;
        told = n > 0 && fds[SIGNALS].revents;
        if (n > 0)
            open = !fds[OUTPUT].revents && !told && (!fds[INPUT].revents || read_input(b));
    }
    if (close_inbox(b) && b->in >= 0 && !told)
        _exit(EXIT_SUCCESS); /* nobody is left who would wait for the job */
    /* Whoever computes has seen it within a step and ended the process; what hangs in a parser or a driver never does.
     */
    for (unsigned left = KN_INBOX_GRACE_S; left;)
        left = sleep(left);
    _exit(EXIT_FAILURE);
}

bool kn_inbox_open(kn_inbox *b, int in, int out, kn_error *err) {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGHUP);
    *b = (kn_inbox){ .in = in, .out = out, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    kn_frame_reader_init(&b->reader, KN_FROM_SERVER);
    pthread_sigmask(SIG_BLOCK, &ending, NULL);
    signal(SIGPIPE, SIG_IGN);
    b->signals = signalfd(-1, &ending, SFD_CLOEXEC);
    if (b->signals < 0)
        return kn_fail(err, KN_E_IO, "cannot receive signals: %s", strerror(errno));
    pthread_t thread;
    int code = pthread_create(&thread, NULL, listen_to_all, b);
    if (!code)
        code = pthread_detach(thread);
    return code == 0 || kn_fail(err, KN_E_IO, "cannot start a thread: %s", strerror(code));
}

bool kn_inbox_take(kn_inbox *b, unsigned *ret_kind, kn_buf *ret_payload) {
    pthread_mutex_lock(&b->lock);
    b->at_work = false;
    while (!b->kind && !b->closed)
        pthread_cond_wait(&b->changed, &b->lock);
    bool any = b->at_work = b->kind && !b->closed;
    if (any) {
        *ret_kind = b->kind;
        *ret_payload = b->payload;
        b->kind = 0;
    }
    pthread_mutex_unlock(&b->lock);
    return any;
}
