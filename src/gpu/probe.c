/* The probe: one thread at a time that asks the drivers in turn, and tells after each step what it has found. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/drm.h"
#include "gpu/gpu.h"
#include "gpu/nvml.h"

/* Shared by the owner and the thread; the last of the two frees it. */
struct kn_gpu_probe {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holders;
    bool running;
    const char *asking; /* which driver it is, while running */
    kn_gpu_report found;
    void (*done)(void *ctx);
    void *ctx;
    char *root;
};

static void release(kn_gpu_probe *p) {
    bool last = --p->holders == 0;
    pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p->root);
    free(p);
}

bool kn_gpu_probe_new(const char *root, kn_gpu_probe **ret, kn_error *err) {
    kn_gpu_probe *p = calloc(1, sizeof *p);
    if (!p || !(p->root = strdup(root))) {
        free(p);
        return kn_fail_nomem(err, sizeof *p);
    }
    kn_condition_init(&p->changed);
    pthread_mutex_init(&p->lock, NULL);
    p->holders = 1;
    *ret = p;
    return true;
}

void kn_gpu_probe_free(kn_gpu_probe *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->done = NULL;
    release(p);
}

/* What is known so far may be read from now on; `next` is asked after this. */
static void publish(kn_gpu_probe *p, const kn_gpu_report *r, const char *next) {
    pthread_mutex_lock(&p->lock);
    p->found = *r;
    p->asking = next;
    pthread_mutex_unlock(&p->lock);
}

static void *ask_everybody(void *arg) {
    kn_gpu_probe *p = arg;
    kn_gpu_report r = { 0 };
    kn_drm_find(p->root, &r);
    for (size_t i = 0; i < r.count; i++) {
        publish(p, &r, strcmp(r.devices[i].driver, "amdgpu") == 0 ? "amdgpu-sysfs" : "drm-xe");
        kn_drm_ask(p->root, &r, &r.devices[i]);
    }
    publish(p, &r, "nvml");
    unsigned count = 0;
    if (kn_nvml_begin(&r, &count)) {
        for (unsigned i = 0; i < count; i++) {
            kn_nvml_ask(&r, i);
            publish(p, &r, "nvml");
        }
        kn_nvml_end(&r);
    }

    pthread_mutex_lock(&p->lock);
    p->found = r;
    p->asking = NULL;
    p->running = false;
    pthread_cond_broadcast(&p->changed);
    if (p->done)
        p->done(p->ctx);
    release(p);
    return NULL;
}

kn_gpu_start kn_gpu_probe_start(kn_gpu_probe *p, void (*done)(void *ctx), void *ctx) {
    pthread_t thread;
    pthread_attr_t attributes;
    kn_gpu_start start = KN_GPU_BUSY;
    pthread_mutex_lock(&p->lock);
    if (!p->running) {
        p->found = (kn_gpu_report){ 0 };
        p->asking = "drm";
        p->done = done;
        p->ctx = ctx;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        p->running = pthread_create(&thread, &attributes, ask_everybody, p) == 0;
        pthread_attr_destroy(&attributes);
        p->holders += p->running;
        start = p->running ? KN_GPU_STARTED : KN_GPU_NO_THREAD;
        if (!p->running) {
            p->asking = NULL;
            kn_gpu_add_problem(&p->found, "drm", "no_thread", NULL);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return start;
}

bool kn_gpu_probe_wait(kn_gpu_probe *p, unsigned ms) {
    struct timespec until = kn_moment_in_ms(ms);
    pthread_mutex_lock(&p->lock);
    while (p->running && pthread_cond_timedwait(&p->changed, &p->lock, &until) != ETIMEDOUT) {
    }
    bool through = !p->running;
    pthread_mutex_unlock(&p->lock);
    return through;
}

void kn_gpu_probe_read(kn_gpu_probe *p, kn_gpu_report *ret) {
    pthread_mutex_lock(&p->lock);
    *ret = p->found;
    const char *asking = p->asking;
    pthread_mutex_unlock(&p->lock);
    if (asking)
        kn_gpu_add_problem(ret, asking, "timeout", NULL);
}
