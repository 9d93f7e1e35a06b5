#include "cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/report.h"

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP };
static atomic_bool asked, late; /* late: the end has been put off */
static atomic_int held;
static void (*stop_work)(void *context); /* both set before the handler is */
static void *stop_context;

/* Exit statuses, looked up beforehand: a handler may call next to nothing. */
static int status_stopped, status_lost;

static void on_stop(int number) {
    (void)number;
    if (atomic_exchange(&asked, true)) {
        atomic_store(&late, true);
        if (atomic_load(&held) == 0)
            _exit(status_stopped);
    } else if (stop_work)
        stop_work(stop_context);
}

/* A mapped file was cut short by somebody else while it was in use; the rest of it cannot be read. */
static void on_lost_file(int number) {
    (void)number;
    static const char text[] = "kuno: a file became shorter while it was in use; leave model files alone meanwhile\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(status_lost);
}

void kn_signals_install(void (*stop)(void *context), void *context) {
    status_stopped = kn_exit_code(KN_E_CANCELLED);
    status_lost = kn_exit_code(KN_E_TRUNCATED);
    stop_work = stop;
    stop_context = context;
    /* What was ignored stays so: nohup does that. */
    struct sigaction act = { .sa_handler = on_stop, .sa_flags = SA_RESTART }, old;
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < KN_COUNT(stopping); i++)
        sigaddset(&act.sa_mask, stopping[i]);
    for (size_t i = 0; i < KN_COUNT(stopping); i++) {
        if (sigaction(stopping[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(stopping[i], &act, NULL);
    }
    signal(SIGBUS, on_lost_file);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* so does a limit on the size of files */
}

bool kn_signals_stop(void) {
    return atomic_load(&asked);
}

void kn_signals_hold(void) {
    atomic_fetch_add(&held, 1);
}

void kn_signals_release(void) {
    if (atomic_fetch_sub(&held, 1) == 1 && atomic_load(&late))
        _exit(status_stopped);
}
