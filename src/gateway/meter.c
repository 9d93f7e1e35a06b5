#include "gateway/meter.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/date.h"
#include "gateway/trouble.h"
#include "http/call.h"

enum {
    NAMES_MAX = 64, /* that wait for a catalogue; what is beyond is counted without a name */
    FETCH_MS = 10 * 1000,
    RETRY_MS = 30 * 1000, /* after the disk has refused */
};

struct kn_meter {
    kn_loop *loop;
    kn_disk *disk;
    kn_upstream *upstream;
    kn_usage usage;
    kn_catalog catalog;
    kn_call *fetch;    /* NULL: none is under way */
    bool fetch_is_old; /* the catalogue may have changed since it began */
    kn_catalog_wait *first_wait;
    size_t name_count;
    char names[NAMES_MAX][KN_MODEL_NAME_MAX + 1];

    char folder[PATH_MAX], path[PATH_MAX + sizeof "/usage.json"];
    kn_job save;
    kn_timer retry;
    kn_buf json;  /* what the job writes */
    kn_error why; /* it has failed */
    kn_trouble trouble;
    bool saving, dirty, saved;
    kn_persistence persistence;
    void (*settled)(void *ctx);
    void *ctx;
};

/* ---- the history on disk ---- */

static void tell_settled(kn_meter *m) {
    void (*settled)(void *ctx) = m->settled;
    if (!settled || m->saving || m->fetch)
        return;
    m->settled = NULL;
    settled(m->ctx);
}

static void failed_to_save(kn_meter *m, const char *code) {
    m->persistence.last_error = code;
    m->dirty = true;
    kn_loop_timer_after(m->loop, &m->retry, RETRY_MS);
}

/* One writing at a time; what is counted meanwhile goes with the next. */
static void save(kn_meter *m) {
    if (m->saving)
        return;
    kn_loop_timer_stop(&m->retry);
    kn_buf_clear(&m->json);
    if (!kn_usage_write(&m->usage, &m->json)) {
        failed_to_save(m, "out_of_memory");
        return;
    }
    m->dirty = false;
    m->saving = true;
    kn_disk_do(m->disk, &m->save);
}

static void save_again(kn_timer *t) {
    save(KN_HOLDER(t, kn_meter, retry));
}

static void write_history(kn_job *j) {
    kn_meter *m = KN_HOLDER(j, kn_meter, save);
    m->why = (kn_error){ 0 };
    m->saved = kn_usage_save(m->path, &m->json, &m->why);
}

static void history_is_written(kn_task *t) {
    kn_meter *m = KN_HOLDER(t, kn_meter, save.done);
    m->saving = false;
    if (!kn_trouble_note(&m->trouble, m->saved, &m->why)) {
        failed_to_save(m, "write_failed");
    } else {
        m->persistence.last_error = NULL;
        m->persistence.last_write_s = kn_date_now();
        if (m->dirty)
            save(m);
    }
    tell_settled(m);
}

static void record(kn_meter *m, const kn_digest *digest) {
    kn_usage_record(&m->usage, digest, kn_date_now());
    m->dirty = true;
    save(m);
}

/* ---- the catalogue ---- */

static void record_name(kn_meter *m, const char *name) {
    const kn_model *model = kn_catalog_find(kn_meter_catalog(m), name, strlen(name));
    record(m, model ? &model->digest : NULL);
}

/* The fetch is over, well or not: everybody who has waited for it goes on with what there is. */
static void go_on(kn_meter *m) {
    size_t count = m->name_count;
    m->name_count = 0;
    for (size_t i = 0; i < count; i++)
        record_name(m, m->names[i]);
    explicit_bzero(m->names, sizeof m->names);
    while (m->first_wait) {
        kn_catalog_wait *w = m->first_wait;
        kn_meter_forget(m, w);
        w->ready(w);
    }
    tell_settled(m);
}

static void fetch(kn_meter *m);

static void fetched(void *ctx, const kn_call_result *r) {
    kn_meter *m = ctx;
    kn_catalog found;
    bool is_old = m->fetch_is_old;
    m->fetch = NULL;
    bool ok = r->end == KN_CALL_ANSWERED && r->status == 200 &&
              kn_catalog_read(r->body.data, r->body.len, kn_loop_now_ms(m->loop), &found, NULL);
    if (ok) {
        kn_catalog_free(&m->catalog);
        m->catalog = found;
    }
    if (!ok || is_old)
        kn_catalog_invalidate(&m->catalog);
    if (ok && is_old && (m->first_wait || m->name_count))
        fetch(m);
    else
        go_on(m);
}

static void fetch(kn_meter *m) {
    if (m->fetch)
        return;
    m->fetch_is_old = false;
    const kn_call_request request = {
        .method = "GET", .target = "/api/tags", .answer_limit = KN_CATALOG_BYTES, .within_ms = FETCH_MS
    };
    if (!kn_call_start(m->upstream, &request, fetched, m, &m->fetch, NULL)) {
        kn_catalog_invalidate(&m->catalog);
        go_on(m);
    }
}

void kn_meter_catalog_changes(kn_meter *m) {
    kn_catalog_invalidate(&m->catalog);
    m->fetch_is_old = true;
}

void kn_meter_count(kn_meter *m, kn_observed what, const char *name) {
    if (what == KN_OBSERVED_NOTHING)
        return;
    bool is_fresh = kn_meter_catalog_is_fresh(m);
    if (what == KN_OBSERVED_MODEL && !is_fresh && m->name_count < NAMES_MAX) {
        snprintf(m->names[m->name_count++], sizeof m->names[0], "%s", name);
        fetch(m);
    } else if (what == KN_OBSERVED_MODEL && is_fresh) {
        record_name(m, name);
    } else {
        record(m, NULL);
    }
}

void kn_meter_count_digest(kn_meter *m, const kn_digest *digest) {
    record(m, digest);
}

void kn_meter_refresh(kn_meter *m, kn_catalog_wait *w) {
    if (kn_meter_catalog_is_fresh(m)) {
        w->ready(w);
        return;
    }
    w->waits = true;
    w->prev = NULL;
    w->next = m->first_wait;
    if (w->next)
        w->next->prev = w;
    m->first_wait = w;
    fetch(m);
}

void kn_meter_refresh_since(kn_meter *m, uint64_t since_ms, kn_catalog_wait *w) {
    if (m->catalog.read_at_ms < since_ms)
        kn_catalog_invalidate(&m->catalog);
    kn_meter_refresh(m, w);
}

void kn_meter_forget(kn_meter *m, kn_catalog_wait *w) {
    if (!w->waits)
        return;
    w->waits = false;
    *(w->prev ? &w->prev->next : &m->first_wait) = w->next;
    if (w->next)
        w->next->prev = w->prev;
}

const kn_catalog *kn_meter_catalog(const kn_meter *m) {
    static const kn_catalog none;
    return kn_meter_catalog_is_fresh(m) ? &m->catalog : &none;
}

const kn_catalog *kn_meter_last_catalog(const kn_meter *m) {
    return &m->catalog;
}

bool kn_meter_catalog_is_fresh(const kn_meter *m) {
    return kn_catalog_is_fresh(&m->catalog, kn_loop_now_ms(m->loop));
}

const kn_usage *kn_meter_usage(const kn_meter *m) {
    return &m->usage;
}

/* Why nothing can be written now. Not every answer is counted, so that a disk may be full long before it is written to.
 */
static const char *obstacle(const kn_meter *m) {
    struct statvfs v;
    if (access(m->folder, W_OK | X_OK) != 0)
        return "not_writable";
    return statvfs(m->folder, &v) == 0 && !v.f_bavail ? "disk_full" : NULL;
}

kn_persistence kn_meter_persistence(const kn_meter *m) {
    kn_persistence p = m->persistence;
    if (!p.last_error)
        p.last_error = obstacle(m);
    p.pending = m->saving || m->dirty;
    return p;
}

void kn_meter_settle(kn_meter *m, void (*settled)(void *ctx), void *ctx) {
    m->settled = settled;
    m->ctx = ctx;
    if (m->dirty)
        save(m);
    tell_settled(m);
}

void kn_meter_tell_trouble(kn_meter *m, void (*log)(void *ctx, const char *line), void *ctx) {
    m->trouble.log = log;
    m->trouble.ctx = ctx;
}

bool kn_meter_new(kn_loop *loop, kn_disk *disk, kn_upstream *upstream, const char *state_dir, kn_meter **ret,
                  kn_error *err) {
    kn_meter *m = calloc(1, sizeof *m);
    if (!m)
        return kn_fail_nomem(err, sizeof *m);
    m->loop = loop;
    m->disk = disk;
    m->upstream = upstream;
    m->save = (kn_job){ .work = write_history, .done.run = history_is_written };
    m->retry.fired = save_again;
    m->trouble.what = "the history of use";
    kn_buf_init(&m->json, KN_USAGE_BYTES);
    bool ok = snprintf(m->folder, sizeof m->folder, "%s", state_dir) < (int)sizeof m->folder ||
              kn_fail(err, KN_E_USAGE, "the path of the state directory is too long");
    snprintf(m->path, sizeof m->path, "%s/usage.json", m->folder);
    if (!ok || !kn_usage_new(&m->usage, err) || !kn_usage_load(&m->usage, m->path, err)) {
        kn_meter_free(m);
        return false;
    }
    *ret = m;
    return true;
}

void kn_meter_free(kn_meter *m) {
    if (!m)
        return;
    if (m->fetch)
        kn_call_cancel(m->fetch);
    kn_loop_timer_close(m->loop, &m->retry);
    kn_catalog_free(&m->catalog);
    kn_usage_free(&m->usage);
    kn_buf_free(&m->json);
    free(m);
}
