/* What `kuno serve` does: runs the gateway until it is told to stop. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "cli/report.h"
#include "cli/serve.h"
#include "cli/serve_studio.h"
#include "cli/service.h"
#include "gateway/gateway.h"

enum { STUDIO_MS = 5000 };

typedef struct service {
    kn_log *log; /* standard error, where the service manager collects it; nothing else writes there */
    kn_loop *loop;
    kn_gateway *gateway;
    const kn_config *config;
    const char *config_from; /* NULL: there is none */
    kn_service_token token;
    kn_error failure;        /* why it could not begin */
    kn_serve_studio *studio; /* NULL: there is none */
    kn_timer patience;       /* for the studio, when the gateway has ended */
    bool stops, gateway_ended, studio_ended;
} service;

static void log_line(void *ctx, const char *line) {
    const service *s = ctx;
    kn_log_say(s->log, "%s", line);
}

/* Two descriptors for each connection may be more than a process usually has. */
static void raise_descriptor_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static void end(kn_timer *t) {
    const service *s = KN_HOLDER(t, service, patience);
    kn_loop_stop(s->loop);
}

static void end_if_all_ended(service *s) {
    if (s->gateway_ended && s->studio_ended)
        kn_loop_stop(s->loop);
    else if (s->gateway_ended) /* it has waited for what runs; the studio may still be writing it down */
        kn_loop_timer_after(s->loop, &s->patience, STUDIO_MS);
}

static void gateway_ended(void *ctx) {
    service *s = ctx;
    s->gateway_ended = true;
    if (!s->studio_ended)
        kn_serve_studio_cut(s->studio);
    end_if_all_ended(s);
}

static void studio_ended(void *ctx) {
    service *s = ctx;
    s->studio_ended = true;
    end_if_all_ended(s);
}

/* Again: at once. */
static void stop(void *ctx) {
    service *s = ctx;
    if (s->stops) {
        kn_loop_stop(s->loop);
        return;
    }
    s->stops = true;
    s->studio_ended = !s->studio;
    if (s->studio)
        kn_serve_studio_stop(s->studio, studio_ended, s);
    kn_gateway_stop(s->gateway, gateway_ended, s);
}

static void signal_came(void *ctx, int number) {
    (void)number;
    stop(ctx);
}

static bool watch_signals(service *s, kn_error *err) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return kn_loop_signals(s->loop, &set, signal_came, s, err);
}

static void ready(void *ctx) {
    const service *s = ctx;
    const kn_config *c = s->config;
    if (c->worker_count)
        kn_log_say(s->log, "managed mode: clients of Ollama at %s, with %zu %s", kn_address_print(&c->listen).text,
                   c->worker_count, c->worker_count == 1 ? "worker" : "workers");
    else
        kn_log_say(s->log, "gateway mode: clients of Ollama at %s", kn_address_print(&c->listen).text);
    kn_log_say(s->log, "control at %s with the token of %s; state in %s; settings from %s",
               kn_address_print(&c->control).text, s->token.from, c->state_dir,
               s->config_from ? s->config_from : "nowhere, these are the usual ones");
}

static void failed(void *ctx, const kn_error *err) {
    service *s = ctx;
    s->failure = *err;
    kn_loop_stop(s->loop);
}

static bool begin_studio(service *s, const char *token, kn_error *err) {
    const kn_serve_studio_setup setup = { .loop = s->loop,
                                          .config = s->config,
                                          .token = token,
                                          .gateway = s->gateway,
                                          .log = log_line,
                                          .leave = stop,
                                          .ctx = s };
    if (!s->config->studio.len)
        return true;
    if (!kn_serve_studio_new(&setup, &s->studio, err))
        return false;
    kn_log_say(s->log, "studio at http://%s/api/v1 with the control token", kn_address_print(&s->config->studio).text);
    return true;
}

/* What is missing on this machine; `kuno check` tells all of it. */
static bool find_all(const kn_config *c, kn_error *err) {
    kn_needs *needs = malloc(sizeof *needs);
    if (!needs)
        return kn_fail_nomem(err, sizeof *needs);
    kn_service_look(c, needs);
    bool ok = !needs->count || kn_fail(err, needs->items[0].code, "%s", needs->items[0].text);
    free(needs);
    return ok;
}

static bool serve(service *s, kn_error *err) {
    if (!find_all(s->config, err) || !kn_service_find_token(s->config, s->config_from, true, &s->token, err))
        return false;
    const kn_gateway_setup setup = { .config = s->config,
                                     .token = s->token.token.text,
                                     .loop = s->loop,
                                     .ready = ready,
                                     .failed = failed,
                                     .log = log_line,
                                     .ctx = s };
    bool ok = kn_gateway_new(&setup, &s->gateway, err) && begin_studio(s, s->token.token.text, err);
    explicit_bzero(&s->token.token, sizeof s->token.token);
    ok = ok && kn_loop_run(s->loop, err);
    return ok && (!s->failure.code || kn_fail(err, s->failure.code, "%s", s->failure.text));
}

/* Nothing blocks here any more, the last word included. */
static int run(service *s, kn_error *err) {
    bool ok = kn_loop_new(NULL, NULL, &s->loop, err) && watch_signals(s, err) && serve(s, err);
    if (s->loop)
        kn_loop_timer_close(s->loop, &s->patience);
    kn_serve_studio_free(s->studio);
    kn_gateway_free(s->gateway);
    if (s->loop)
        kn_loop_free(s->loop);
    if (!ok)
        kn_log_say(s->log, "serve: %s", err->text);
    kn_log_free(s->log);
    return ok ? 0 : kn_exit_code(err->code);
}

int kn_serve_run(const kn_serve_options *o) {
    kn_config c;
    service s = { .config = &c, .patience.fired = end };
    kn_error err = { 0 };
    kn_service_keep_private();
    umask(077);
    kn_memory_keep_little();
    raise_descriptor_limit();
    if (!kn_service_config(o->config, &c, &s.config_from, &err))
        return kn_report("config", &err);
    int status = kn_log_new(STDERR_FILENO, "kuno: ", &s.log, &err) ? run(&s, &err) : kn_report("serve", &err);
    kn_config_free(&c);
    return status;
}
