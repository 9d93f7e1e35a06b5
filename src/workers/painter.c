#include "workers/painter.h"

#include <stdlib.h>
#include <string.h>

#include "pipelines/profile.h"

struct kn_painter {
    kn_image_process *process;
    uint64_t keep_warm_ms;
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    kn_cage_told told;
    /* What the worker is, or was. */
    bool known;
    char *config, *upscalers;
    kn_edition edition; /* of the models.toml when the worker began */
    kn_isolation isolation;
};

static bool is_same(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

/* What is locked in more than is needed can do the same. Profiles that were changed may be of other files, which the
 * worker has not loaded and may not read. */
static bool serves(const kn_painter *p, const kn_painter_needs *n) {
    const kn_edition e = kn_profiles_edition(n->config);
    return p->known && is_same(p->config, n->config) && kn_edition_is(&p->edition, &e) &&
           (!n->upscalers || is_same(p->upscalers, n->upscalers)) &&
           (p->isolation == KN_ISOLATION_REQUIRED || p->isolation == n->isolation);
}

static bool change(kn_painter *p, const kn_painter_needs *n, kn_error *err) {
    char *config = n->config ? strdup(n->config) : NULL, *upscalers = n->upscalers ? strdup(n->upscalers) : NULL;
    if ((n->config && !config) || (n->upscalers && !upscalers)) {
        free(config);
        free(upscalers);
        return kn_fail_nomem(err, sizeof *p);
    }
    kn_image_process_change(p->process, &(kn_image_process_options){ .config = config,
                                                                     .upscalers = upscalers,
                                                                     .isolation = n->isolation,
                                                                     .keep_warm_ms = p->keep_warm_ms,
                                                                     .log = p->log,
                                                                     .log_ctx = p->log_ctx,
                                                                     .told = &p->told });
    free(p->config);
    free(p->upscalers);
    p->config = config;
    p->upscalers = upscalers;
    p->edition = kn_profiles_edition(config);
    p->isolation = n->isolation;
    p->known = true;
    return true;
}

bool kn_painter_new(kn_loop *l, uint64_t keep_warm_ms, void (*log)(void *ctx, const char *line), void *log_ctx,
                    kn_painter **ret, kn_error *err) {
    kn_painter *p = calloc(1, sizeof *p);
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    *p = (kn_painter){ .keep_warm_ms = keep_warm_ms, .log = log, .log_ctx = log_ctx };
    if (!kn_image_process_new(l, &(kn_image_process_options){ .keep_warm_ms = keep_warm_ms }, &p->process, err)) {
        free(p);
        return false;
    }
    *ret = p;
    return true;
}

void kn_painter_free(kn_painter *p) {
    if (!p)
        return;
    kn_image_process_free(p->process);
    free(p->config);
    free(p->upscalers);
    free(p);
}

bool kn_painter_draw(kn_painter *p, const kn_painter_needs *needs, const kn_buf *recipe, bool previews,
                     const kn_image_listener *listener, kn_error *err) {
    if (kn_image_process_is_busy(p->process))
        return kn_fail(err, KN_E_USAGE, "the image worker has a job already");
    if (!serves(p, needs) && !change(p, needs, err))
        return false;
    kn_image_process_limit(p->process, needs->deadline_ms);
    return kn_image_process_draw(p->process, recipe->data, recipe->len, previews, listener, err);
}

void kn_painter_cancel(kn_painter *p) {
    kn_image_process_cancel(p->process);
}

void kn_painter_cool(kn_painter *p) {
    kn_image_process_cool(p->process);
}

void kn_painter_abandon(kn_painter *p) {
    kn_image_process_abandon(p->process);
}

bool kn_painter_is_busy(const kn_painter *p) {
    return kn_image_process_is_busy(p->process);
}

kn_cage_gaps kn_painter_gaps(const kn_painter *p) {
    return kn_image_process_gaps(p->process);
}

const char *kn_painter_obstacle(const kn_painter *p) {
    return kn_image_process_obstacle(p->process);
}

kn_cage_told *kn_painter_told(kn_painter *p) {
    return &p->told;
}
