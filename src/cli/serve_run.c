/* What `kuno serve` does: runs the gateway until it is told to stop. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cli/report.h"
#include "cli/serve.h"
#include "cli/service.h"
#include "gateway/gateway.h"
#include "gateway/state.h"

typedef struct service {
    kn_loop *loop;
    kn_gateway *gateway;
} service;

/* One line at a time on standard error, where the service manager collects them. */
static void log_line(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "kuno: %s\n", line);
}

/* What passes through here is nobody's business: it must not lie in a file after a crash, nor be read by another
 * process of the user. PR_SET_DUMPABLE also holds for collectors that the kernel pipes to. */
static void keep_memory_private(void) {
    prctl(PR_SET_DUMPABLE, 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    umask(077);
}

/* Two descriptors for each connection may be more than a process usually has. */
static void raise_descriptor_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static void stopped(void *ctx) {
    const service *s = ctx;
    kn_loop_stop(s->loop);
}

static void signal_came(void *ctx, int number) {
    service *s = ctx;
    (void)number;
    kn_gateway_stop(s->gateway, stopped, s);
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

/* Where no token was given and no configuration either, one is made and kept beside the state. */
static bool find_token(const kn_config *c, bool configured, kn_token *ret, char *told, size_t room, kn_error *err) {
    const char *from = NULL;
    if (!kn_token_take(ret, &from, err))
        return false;
    if (from) {
        snprintf(told, room, "%s", from);
        return true;
    }
    if (configured)
        return kn_fail(err, KN_E_USAGE,
                       "no control token; set KUNO_CONTROL_TOKEN or KUNO_CONTROL_TOKEN_FILE (32 to 256 characters)");
    if (snprintf(told, room, "%s/control-token", c->state_dir) >= (int)room)
        return kn_fail(err, KN_E_USAGE, "the path of the state directory is too long");
    return kn_state_make_folder(c->state_dir, err) && kn_token_make_file(told, ret, err);
}

static bool serve(service *s, const kn_config *c, const char *from, kn_error *err) {
    char told[PATH_MAX];
    kn_token token;
    if (!find_token(c, from, &token, told, sizeof told, err))
        return kn_fail_within(err, "control token");
    const kn_gateway_setup setup = { .config = c, .token = token.text, .loop = s->loop, .log = log_line };
    bool ok = kn_gateway_new(&setup, &s->gateway, err);
    explicit_bzero(&token, sizeof token);
    if (!ok)
        return false;
    fprintf(stderr, "kuno: gateway mode: %s, for the Ollama at %s\n", kn_address_print(&c->listen).text,
            kn_address_print(&c->upstream).text);
    fprintf(stderr, "kuno: control at %s with the token of %s; state in %s; settings from %s\n",
            kn_address_print(&c->control).text, told, c->state_dir, from ? from : "nowhere, these are the usual ones");
    return kn_loop_run(s->loop, err);
}

/* To pass everything on to the upstream instead would look like success. */
static bool has_no_workers(const kn_config *c, kn_error *err) {
    return c->worker_count == 0 ||
           kn_fail(err, KN_E_UNSUPPORTED,
                   "'managed' asks for workers, which this version cannot run; leave it out to serve the Ollama at %s",
                   kn_address_print(&c->upstream).text);
}

int kn_serve_run(const kn_serve_options *o) {
    service s = { 0 };
    kn_config c;
    kn_error err = { 0 };
    const char *from = NULL;
    keep_memory_private();
    raise_descriptor_limit();
    if (!kn_service_config(o->config, &c, &from, &err))
        return kn_report("config", &err);
    bool ok = has_no_workers(&c, &err) && kn_loop_new(NULL, NULL, &s.loop, &err) && watch_signals(&s, &err) &&
              serve(&s, &c, from, &err);
    kn_gateway_free(s.gateway);
    if (s.loop)
        kn_loop_free(s.loop);
    kn_config_free(&c);
    return ok ? 0 : kn_report("serve", &err);
}
