#include "workers/ollama_worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/call.h"
#include "workers/ollama_judge.h"
#include "workers/ollama_log.h"
#include "workers/process.h"

const char *const kn_backend_names[KN_BACKEND_COUNT] = {
    [KN_BACKEND_CUDA] = "cuda",
    [KN_BACKEND_VULKAN] = "vulkan",
    [KN_BACKEND_CPU] = "cpu",
};

enum {
    REST_DOUBLINGS = 6,     /* no rest is longer than 64 of the first */
    HEALTHY_MS = 60 * 1000, /* whoever has been ready for so long begins again with a short rest */
    END_MS = 5 * 1000,      /* of a worker that is killed while everybody waits */
    VARIABLES = 24,
};

struct kn_worker {
    const kn_worker_config *config;
    kn_loop *loop;
    kn_upstream *upstream;
    char *mark;
    uint64_t start_ms, rest_ms;
    void (*changed)(void *ctx, kn_worker *w);
    void *ctx;

    kn_process process;
    kn_ollama_log log;
    kn_call *version; /* the question that it answers when it has looked for devices */
    kn_timer timer;   /* of its start, or of its rest */
    kn_worker_state state;
    const char *reason;
    bool failed; /* it rests when it has ended */
    unsigned failures;
    uint64_t ready_ms, settings;
};

static void set_state(kn_worker *w, kn_worker_state state) {
    w->state = state;
    w->changed(w->ctx, w);
}

/* ---- the environment ---- */

typedef struct environment {
    char *variables[VARIABLES + 1];
    size_t count;
    bool failed;
} environment;

static void add(environment *e, const char *fmt, ...) KN_PRINTF(2, 3);
static void add(environment *e, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (e->count == VARIABLES || vasprintf(&e->variables[e->count], fmt, args) < 0) {
        e->variables[e->count] = NULL;
        e->failed = true;
    } else {
        e->count++;
    }
    va_end(args);
}

static void free_environment(environment *e) {
    for (size_t i = 0; i < e->count; i++)
        free(e->variables[i]);
}

/* Made from nothing: what is not here, Ollama decides as it usually does. Nothing leaves the machine, nothing that
 * another server is uploading is cleared away, and models stay until they are told to go. */
static void fill_environment(environment *e, const kn_worker *w) {
    const kn_worker_config *c = w->config;
    bool cuda = c->backend == KN_BACKEND_CUDA, vulkan = c->backend == KN_BACKEND_VULKAN;
    add(e, "%s", w->mark);
    add(e, "HOME=%s", c->home);
    add(e, "PATH=/usr/local/bin:/usr/bin:/bin");
    add(e, "OLLAMA_HOST=%s", kn_address_print(&c->address).text);
    add(e, "OLLAMA_MODELS=%s", c->models);
    add(e, "OLLAMA_NOPRUNE=1");
    add(e, "OLLAMA_NO_CLOUD=1");
    add(e, "OLLAMA_KEEP_ALIVE=-1");
    add(e, "OLLAMA_NUM_PARALLEL=1");
    add(e, "OLLAMA_MAX_QUEUE=16");
    add(e, "OLLAMA_LOAD_TIMEOUT=5m");
    add(e, "OLLAMA_MAX_LOADED_MODELS=%u", c->max_loaded_models);
    add(e, "OLLAMA_CONTEXT_LENGTH=%u", c->context_length);
    add(e, "OLLAMA_VULKAN=%d", vulkan);
    add(e, "CUDA_VISIBLE_DEVICES=%s", cuda ? c->uuid : "-1");
    if (vulkan)
        add(e, "GGML_VK_VISIBLE_DEVICES=%u", c->index);
    else
        add(e, "GGML_VK_VISIBLE_DEVICES=-1");
    add(e, "ROCR_VISIBLE_DEVICES=-1");
    add(e, "HIP_VISIBLE_DEVICES=-1");
}

/* ---- the start ---- */

static void be_ready(kn_worker *w) {
    kn_loop_timer_stop(&w->timer);
    w->settings = kn_ollama_settings(&w->log, w->config);
    explicit_bzero(w->log.line, sizeof w->log.line);
    w->reason = NULL;
    w->ready_ms = kn_loop_now_ms(w->loop);
    set_state(w, KN_WORKER_READY);
}

/* It answers only when it has looked for devices, and has written of them before it answers. */
static void version_came(void *ctx, const kn_call_result *r) {
    kn_worker *w = ctx;
    w->version = NULL;
    if (r->end != KN_CALL_ANSWERED || r->status != 200) {
        kn_worker_fail(w, "no_answer");
        return;
    }
    kn_process_listen(&w->process);
    const char *wrong = kn_ollama_judge(&w->log, w->config);
    if (wrong)
        kn_worker_fail(w, wrong);
    else
        be_ready(w);
}

static void ask_version(kn_worker *w) {
    const kn_call_request request = {
        .method = "GET", .target = "/api/version", .answer_limit = 4096, .within_ms = w->start_ms
    };
    if (!kn_call_start(w->upstream, &request, version_came, w, &w->version, NULL))
        kn_worker_fail(w, "no_answer");
}

/* Nobody is asked before the worker itself says that it has the port: another program might have it. */
static void said(kn_process *p, kn_span text) {
    kn_worker *w = KN_HOLDER(p, kn_worker, process);
    if (w->state != KN_WORKER_STARTING)
        return;
    kn_ollama_log_feed(&w->log, text);
    if (w->log.listens && !w->version)
        ask_version(w);
}

static bool run(kn_worker *w, kn_error *err) {
    environment e = { .count = 0 };
    fill_environment(&e, w);
    const kn_program program = {
        .path = w->config->executable,
        .argv = (char *const[]){ w->config->executable, (char[]){ "serve" }, NULL },
        .env = e.variables,
        .folder = w->config->home,
        .mark = w->mark,
    };
    bool ok = !e.failed || kn_fail_nomem(err, sizeof e);
    ok = ok && kn_process_start(&w->process, &program, err);
    free_environment(&e);
    return ok;
}

static void rest(kn_worker *w) {
    unsigned doublings = KN_MIN(w->failures, (unsigned)REST_DOUBLINGS);
    w->failures++;
    kn_loop_timer_after(w->loop, &w->timer, w->rest_ms << doublings);
    set_state(w, KN_WORKER_RESTING);
}

void kn_worker_start(kn_worker *w) {
    if (w->state != KN_WORKER_STOPPED && w->state != KN_WORKER_RESTING)
        return;
    w->failed = false;
    kn_ollama_log_begin(&w->log);
    kn_upstream_forget_idle(w->upstream);
    if (!run(w, NULL)) {
        w->reason = "cannot_start";
        rest(w);
        return;
    }
    kn_loop_timer_after(w->loop, &w->timer, w->start_ms);
    set_state(w, KN_WORKER_STARTING);
}

static void time_is_over(kn_timer *t) {
    kn_worker *w = KN_HOLDER(t, kn_worker, timer);
    if (w->state == KN_WORKER_STARTING)
        kn_worker_fail(w, "start_timeout");
    else if (w->state == KN_WORKER_RESTING)
        kn_worker_start(w);
}

/* ---- the end ---- */

static void ended(kn_process *p, bool gone) {
    kn_worker *w = KN_HOLDER(p, kn_worker, process);
    bool expected = w->state == KN_WORKER_STOPPING;
    if (w->version)
        kn_call_cancel(w->version);
    w->version = NULL;
    kn_loop_timer_stop(&w->timer);
    if (!expected) {
        w->failed = true;
        w->reason = "exited";
    }
    if (w->ready_ms && kn_loop_now_ms(w->loop) - w->ready_ms >= HEALTHY_MS)
        w->failures = 0;
    w->ready_ms = 0;
    if (!gone) {
        w->reason = "cannot_be_ended";
        set_state(w, KN_WORKER_LOST);
    } else if (w->failed) {
        rest(w);
    } else {
        set_state(w, KN_WORKER_STOPPED);
    }
}

void kn_worker_stop(kn_worker *w) {
    switch (w->state) {
    case KN_WORKER_STARTING:
    case KN_WORKER_READY:
        kn_loop_timer_stop(&w->timer);
        w->reason = NULL;
        kn_process_stop(&w->process);
        set_state(w, KN_WORKER_STOPPING);
        break;
    case KN_WORKER_RESTING:
        kn_loop_timer_stop(&w->timer);
        w->reason = NULL;
        set_state(w, KN_WORKER_STOPPED);
        break;
    default: w->failed = false; /* on its way to an end, it needs no rest after it */
    }
}

void kn_worker_fail(kn_worker *w, const char *reason) {
    if (w->state != KN_WORKER_STARTING && w->state != KN_WORKER_READY)
        return;
    w->reason = reason;
    w->failed = true;
    kn_loop_timer_stop(&w->timer);
    kn_process_kill(&w->process);
    set_state(w, KN_WORKER_STOPPING);
}

bool kn_worker_end_now(kn_worker *w) {
    if (w->version)
        kn_call_cancel(w->version);
    w->version = NULL;
    kn_loop_timer_stop(&w->timer);
    bool gone = kn_process_end_now(&w->process, END_MS);
    w->state = gone ? KN_WORKER_STOPPED : KN_WORKER_LOST;
    return gone;
}

/* ---- */

bool kn_worker_new(const kn_worker_setup *s, kn_worker **ret, kn_error *err) {
    kn_worker *w = calloc(1, sizeof *w);
    if (!w)
        return kn_fail_nomem(err, sizeof *w);
    w->config = s->config;
    w->loop = kn_http_loop(s->http);
    w->start_ms = s->start_ms;
    w->rest_ms = s->rest_ms;
    w->changed = s->changed;
    w->ctx = s->ctx;
    w->timer.fired = time_is_over;
    w->process = (kn_process){ .loop = w->loop, .said = said, .ended = ended, .output.fd = -1, .exit.fd = -1 };
    bool ok = asprintf(&w->mark, "%s%s#", s->mark, s->config->id) >= 0 || kn_fail_nomem(err, strlen(s->mark));
    ok = ok && kn_upstream_new(s->http, &s->config->address, s->limits, &w->upstream, err);
    if (!ok) {
        kn_worker_free(w);
        return false;
    }
    *ret = w;
    return true;
}

void kn_worker_free(kn_worker *w) {
    if (!w)
        return;
    kn_worker_end_now(w);
    kn_loop_timer_close(w->loop, &w->timer);
    kn_upstream_free(w->upstream);
    free(w->mark);
    free(w);
}

const kn_worker_config *kn_worker_config_of(const kn_worker *w) {
    return w->config;
}

kn_worker_state kn_worker_state_of(const kn_worker *w) {
    return w->state;
}

const char *kn_worker_reason(const kn_worker *w) {
    return w->reason;
}

uint64_t kn_worker_settings(const kn_worker *w) {
    return w->settings;
}

kn_upstream *kn_worker_upstream(kn_worker *w) {
    return w->upstream;
}
