/* Before a route tells of upscalers: the image worker measures those that it has not seen yet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "studio/api_visit.h"
#include "studio/prepare.h"

struct kn_measuring {
    bool (*work)(kn_visit *v, kn_store *s, kn_error *err); /* of the route */
    void (*after)(kn_visit *v);
    size_t next; /* of the list is to be looked at */
    char *path;  /* of the present one; NULL: all are known */
    kn_upscale_choice now;
};

static void drop_present(kn_measuring *m) {
    free(m->path);
    free(m->now.file);
    m->path = m->now.file = NULL;
}

void kn_measuring_forget(kn_visit *v) {
    if (v->measuring)
        drop_present(v->measuring);
    free(v->measuring);
    v->measuring = NULL;
}

static bool take_present(kn_measuring *m, const char *folder, const kn_upscale_choice *u, kn_error *err) {
    m->now = *u;
    m->now.file = strdup(u->file);
    if (asprintf(&m->path, "%s/upscalers/%s", folder, u->file) < 0)
        m->path = NULL;
    return (m->now.file && m->path) || kn_fail_nomem(err, strlen(folder));
}

static bool work_find(kn_visit *v, kn_store *s, kn_error *err) {
    kn_measuring *m = v->measuring;
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    bool ok = true;
    drop_present(m);
    while (ok && !m->path && m->next < p.upscalers.count) {
        const kn_upscale_choice *u = &p.upscalers.items[m->next++];
        if (u->file && !u->measured)
            ok = take_present(m, p.settings.model_directory, u, err);
    }
    kn_prepared_free(&p);
    return ok;
}

static bool work_learn(kn_visit *v, kn_store *s, kn_error *err) {
    return kn_upscalers_learn(s, &v->measuring->now, err) && work_find(v, s, err);
}

static void after_find(kn_visit *v);

static void measured(void *ctx, uint32_t factor, bool certain) {
    kn_visit *v = ctx;
    v->measuring->now.factor = factor;
    if (kn_visit_is_back(v))
        kn_visit_send(v, certain ? work_learn : work_find, after_find);
}

/* Where nobody has the time to measure, the route goes on with what is known. */
static void after_find(kn_visit *v) {
    const kn_studio_runner *r = &v->studio->runner;
    kn_measuring *m = v->measuring;
    if (m->path && r->measure) {
        v->in_flight = true;
        if (r->measure(r->ctx, m->path, measured, v))
            return;
        v->in_flight = false;
    }
    kn_visit_send(v, m->work, m->after);
}

void kn_visit_send_measured(kn_visit *v, bool (*work)(kn_visit *, kn_store *, kn_error *), void (*after)(kn_visit *)) {
    v->measuring = calloc(1, sizeof *v->measuring);
    if (!v->measuring) {
        kn_visit_refuse(v, 503, "out_of_memory", "Memory is short", NULL, NULL);
        return;
    }
    v->measuring->work = work;
    v->measuring->after = after;
    kn_visit_send(v, work_find, after_find);
}
