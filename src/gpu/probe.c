/* The probe: a thread for each kind of driver, so that one that hangs takes nothing of what the others can tell. Each
 * asks its cards in turn, and tells after each step what it has found. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/drm.h"
#include "gpu/gpu.h"
#include "gpu/nvml.h"

static const char amdgpu[] = "amdgpu", xe[] = "xe", nvidia[] = "nvidia";

enum { KERNEL, XE, NVML, LANES }; /* KERNEL: which cards there are, and what its files say of them */
static const char *const names[LANES] = { [KERNEL] = "drm", [XE] = "drm-xe", [NVML] = "nvml" };

typedef struct lane {
    kn_gpu_probe *probe;
    bool running;
    unsigned look;      /* in which it was started */
    const char *asking; /* whom, while running */
    kn_gpu_report found;
} lane;

/* Shared by the owner and the threads; the last of them frees it. */
struct kn_gpu_probe {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holders;
    unsigned look, out; /* the last one, and how many lanes it still waits for */
    lane lanes[LANES];
    void (*done)(void *ctx); /* NULL: nobody is to be told, or has been */
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
    for (size_t i = 0; i < LANES; i++)
        p->lanes[i].probe = p;
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

bool kn_gpu_probe_forget(kn_gpu_probe *p) {
    pthread_mutex_lock(&p->lock);
    bool was_to_come = p->done;
    p->done = NULL;
    pthread_mutex_unlock(&p->lock);
    return was_to_come;
}

/* What is known so far may be read from now on; `next` is asked after this. */
static void publish(lane *l, const kn_gpu_report *r, const char *next) {
    pthread_mutex_lock(&l->probe->lock);
    l->found = *r;
    l->asking = next;
    pthread_mutex_unlock(&l->probe->lock);
}

/* Asks the kernel's drivers of this name; asked: what the question is called. */
static void ask_drm(lane *l, kn_gpu_report *r, const char *driver, const char *asked) {
    const char *root = l->probe->root;
    kn_drm_find(root, r);
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->devices[i].driver, driver) != 0)
            continue;
        publish(l, r, asked);
        kn_drm_ask(root, r, &r->devices[i]);
    }
}

static void ask_nvml(lane *l, kn_gpu_report *r) {
    unsigned count = 0;
    if (!kn_nvml_begin(r, &count))
        return;
    for (unsigned i = 0; i < count; i++) {
        kn_nvml_ask(r, i);
        publish(l, r, names[NVML]);
    }
    kn_nvml_end();
}

/* The last one that a look waits for tells its owner. */
static void end(lane *l, const kn_gpu_report *r) {
    kn_gpu_probe *p = l->probe;
    pthread_mutex_lock(&p->lock);
    l->found = *r;
    l->asking = NULL;
    l->running = false;
    pthread_cond_broadcast(&p->changed);
    bool is_last = l->look == p->look && --p->out == 0;
    if (is_last && p->done)
        p->done(p->ctx);
    if (is_last)
        p->done = NULL;
    release(p);
}

static void *run(void *arg) {
    lane *l = arg;
    kn_gpu_report r = { 0 };
    switch (l - l->probe->lanes) {
    case KERNEL: ask_drm(l, &r, amdgpu, "amdgpu-sysfs"); break;
    case XE: ask_drm(l, &r, xe, names[XE]); break;
    case NVML: ask_nvml(l, &r); break;
    }
    end(l, &r);
    return NULL;
}

/* What was measured before a driver began to hang is not so now. */
static void forget_numbers(kn_gpu_report *r) {
    for (size_t i = 0; i < r->count; i++) {
        kn_gpu_device *d = &r->devices[i];
        if (d->observation != KN_GPU_OK)
            continue;
        d->total = d->used = d->free = d->reserved = (kn_gpu_bytes){ 0 };
        d->used_includes_reserved = false;
        d->source = KN_GPU_SOURCE_NONE;
        d->observation = KN_GPU_TIMEOUT;
    }
}

static bool start_lane(lane *l, const pthread_attr_t *attributes) {
    kn_gpu_probe *p = l->probe;
    pthread_t thread;
    l->found = (kn_gpu_report){ 0 };
    l->asking = names[l - p->lanes];
    l->look = p->look;
    l->running = pthread_create(&thread, attributes, run, l) == 0;
    p->holders += l->running;
    p->out += l->running;
    if (l->running)
        return true;
    l->asking = NULL;
    kn_gpu_add_problem(&l->found, names[l - p->lanes], "no_thread", NULL);
    return false;
}

kn_gpu_start kn_gpu_probe_start(kn_gpu_probe *p, void (*done)(void *ctx), void *ctx) {
    pthread_attr_t attributes;
    kn_gpu_start start = KN_GPU_BUSY;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&p->lock);
    p->look++;
    p->out = 0;
    for (lane *l = p->lanes; l < p->lanes + LANES; l++) {
        if (l->running)
            forget_numbers(&l->found);
        else if (start_lane(l, &attributes))
            start = KN_GPU_STARTED;
        else if (start == KN_GPU_BUSY)
            start = KN_GPU_NO_THREAD;
    }
    p->done = start == KN_GPU_STARTED ? done : NULL;
    p->ctx = ctx;
    pthread_mutex_unlock(&p->lock);
    pthread_attr_destroy(&attributes);
    return start;
}

bool kn_gpu_probe_wait(kn_gpu_probe *p, unsigned ms) {
    struct timespec until = kn_moment_in_ms(ms);
    pthread_mutex_lock(&p->lock);
    while (p->out && pthread_cond_timedwait(&p->changed, &p->lock, &until) != ETIMEDOUT) {
    }
    bool through = !p->out;
    pthread_mutex_unlock(&p->lock);
    return through;
}

/* Adds the cards of one driver, and what was wrong with them. */
static void add(kn_gpu_report *all, const kn_gpu_report *r, const char *driver, const char *probe) {
    for (size_t i = 0; i < r->count; i++) {
        const kn_gpu_device *d = &r->devices[i];
        kn_gpu_device *to = strcmp(d->driver, driver) == 0 ? kn_gpu_device_at(all, &d->pci) : NULL;
        if (!to)
            continue;
        char node[sizeof to->node];
        memcpy(node, to->node, sizeof node);
        *to = *d;
        memcpy(to->node, node, sizeof node);
    }
    for (size_t i = 0; i < r->problem_count; i++) {
        const kn_gpu_problem *p = &r->problems[i];
        if (strcmp(p->probe, probe) == 0)
            kn_gpu_add_problem(all, p->probe, p->code, p->pci.text[0] ? &p->pci : NULL);
    }
}

void kn_gpu_probe_read(kn_gpu_probe *p, kn_gpu_report *ret) {
    pthread_mutex_lock(&p->lock);
    *ret = p->lanes[KERNEL].found;
    add(ret, &p->lanes[XE].found, xe, names[XE]);
    add(ret, &p->lanes[NVML].found, nvidia, names[NVML]);
    if (p->look && !p->lanes[NVML].running)
        kn_nvml_give_up_others(ret);
    for (const lane *l = p->lanes; l < p->lanes + LANES; l++)
        if (l->asking)
            kn_gpu_add_problem(ret, l->asking, "timeout", NULL);
    pthread_mutex_unlock(&p->lock);
}
