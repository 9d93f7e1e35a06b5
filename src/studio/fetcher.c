#include "studio/fetcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "studio/arrivals.h"

enum { TELL_MS = 500 };

struct kn_fetcher {
    kn_studio *studio;
    kn_collections *all;
    kn_origin origin;
    bool closed;

    kn_errand errand; /* takes the next one, or writes down how one ended */
    bool busy, again; /* it is on its way; it is to be sent once more when it comes back */
    kn_download_work work;
    json_t *row;   /* of the one that runs, as it was told; NULL: none runs */
    json_t *found; /* its row, in the hands of the errand until that is back */
    bool wanted;   /* what has come of it may stay */

    json_t *arrivals; /* names of the profiles that are new with it, until they are told; NULL: none */
    kn_error unsettled;

    kn_fetch order;
    pthread_t thread;
    bool runs; /* there is the thread */
    atomic_bool stop;

    /* Between the two threads. */
    pthread_mutex_t lock;
    kn_task news;
    bool has_news, ended, ok;
    kn_fetch_progress progress;
    kn_fetch_result result;
    kn_error err;

    kn_fetch_progress seen; /* the loop's copy of it */
    uint64_t told_ms;
};

/* ---- in the thread ---- */

static void tell_loop(kn_fetcher *f, const kn_fetch_progress *p, bool ended) {
    pthread_mutex_lock(&f->lock);
    if (p)
        f->progress = *p;
    f->ended = ended;
    bool is_first = !f->has_news;
    f->has_news = true;
    pthread_mutex_unlock(&f->lock);
    if (is_first)
        kn_loop_post(f->studio->loop, &f->news);
}

static void progress(void *ctx, const kn_fetch_progress *p) {
    tell_loop(ctx, p, false);
}

static bool stops(void *ctx) {
    kn_fetcher *f = ctx;
    return atomic_load(&f->stop);
}

static void *fetch(void *arg) {
    kn_fetcher *f = arg;
    const kn_studio_setup *setup = &f->studio->setup;
    f->ok = (setup->offline || f->origin.base || kn_origin_open(f->all, setup->mirror, &f->origin, &f->err)) &&
            kn_fetch_run(&f->order, &f->result, &f->err);
    tell_loop(f, NULL, true);
    return NULL;
}

/* ---- what clients see ---- */

void kn_fetcher_show(const kn_fetcher *f, json_t *download) {
    const char *id = json_string_value(json_object_get(download, "id"));
    const char *state = json_string_value(json_object_get(download, "state"));
    if (!f->row || !id || strcmp(id, f->work.id) != 0 || !state || strcmp(state, "running") != 0)
        return;
    const kn_fetch_progress *p = &f->seen;
    if (p->state == KN_FETCH_VERIFYING || p->state == KN_FETCH_CHECKING)
        json_object_set_new(download, "state", json_string("verifying"));
    json_object_set_new(download, "bytes_done", json_integer((json_int_t)p->bytes_done));
    json_object_set_new(download, "connections", json_integer(p->connections));
    if (p->bytes_per_second > 0 || p->state == KN_FETCH_STALLED)
        json_object_set_new(download, "bytes_per_second", json_real(p->bytes_per_second));
}

static void tell(kn_fetcher *f) {
    json_t *json = json_deep_copy(f->row);
    kn_fetcher_show(f, json);
    kn_studio_tell(f->studio, KN_EVENT_DOWNLOAD_UPDATED, f->work.id, json);
}

static json_t *error_json(const kn_fetcher *f) {
    char *page = NULL;
    if (f->order.artifact)
        kn_artifact_page(f->all, f->order.artifact, &page, NULL);
    json_t *j = json_pack("{s:s, s:s, s:s?}", "code", kn_fetch_problems[f->result.problem], "message", f->err.text,
                          "manual_page", page);
    free(page);
    return j;
}

/* ---- the next one ---- */

static bool work_take(kn_errand *e, kn_store *store, kn_error *err) {
    kn_fetcher *f = KN_HOLDER(e, kn_fetcher, errand);
    return kn_downloads_take(store, &f->work, err) &&
           (!f->work.id[0] || kn_downloads_get(store, f->all, f->work.id, &f->found, err));
}

static void take_found(kn_fetcher *f) {
    if (!f->found)
        return;
    json_decref(f->row);
    f->row = f->found;
    f->found = NULL;
}

static void look_again(kn_fetcher *f) {
    bool again = f->again;
    f->again = false;
    if (again)
        kn_fetcher_look(f);
}

static void end(kn_fetcher *f);

static void back_take(kn_errand *e) {
    kn_fetcher *f = KN_HOLDER(e, kn_fetcher, errand);
    f->busy = false;
    take_found(f);
    if (f->closed)
        return;
    if (!e->ok)
        kn_studio_log(f->studio, "studio: the next download cannot be found: %s", e->err.text);
    if (!e->ok || !f->row) {
        kn_download_work_free(&f->work);
        look_again(f);
        return;
    }
    f->order = (kn_fetch){ .origin = &f->origin,
                           .artifact = kn_artifact_named(f->all, f->work.artifact),
                           .directory = f->work.directory,
                           .offline = f->studio->setup.offline,
                           .timeout_s = f->studio->setup.download_timeout_s,
                           .progress = progress,
                           .stops = stops,
                           .ctx = f };
    f->err = (kn_error){ 0 };
    f->result = (kn_fetch_result){ .problem = KN_FETCH_INTERNAL };
    f->seen = f->progress = (kn_fetch_progress){ .state = KN_FETCH_CONNECTING };
    f->ended = f->ok = false;
    f->told_ms = 0;
    atomic_store(&f->stop, false);
    tell(f);
    if (!f->order.artifact)
        kn_fail(&f->err, KN_E_NOT_FOUND, "this version's catalogue has no such artifact");
    else if (!(f->runs = pthread_create(&f->thread, NULL, fetch, f) == 0))
        kn_fail(&f->err, KN_E_NOMEM, "a thread cannot be started");
    if (f->runs)
        f->studio->errands++; /* it will come back */
    else
        end(f);
}

void kn_fetcher_look(kn_fetcher *f) {
    if (f->closed || f->row)
        return;
    f->again = f->busy;
    if (f->busy)
        return;
    f->busy = true;
    f->errand.work = work_take;
    f->errand.back = back_take;
    kn_errand_send(f->studio, &f->errand);
}

/* ---- the end of one ---- */

/* What cannot be done now is done at the next start. In the disk's thread, and at the start. */
static void settle(kn_fetcher *f, kn_store *store) {
    f->arrivals = json_array();
    kn_arrivals_settle(store, f->all, f->studio->setup.models_toml, f->arrivals, &f->unsettled);
}

static void tell_of_model(kn_fetcher *f, const char *id) {
    kn_studio_tell(f->studio, KN_EVENT_MODELS_UPDATED, id, json_pack("{s:s}", "id", id));
}

static void tell_arrivals(kn_fetcher *f) {
    for (size_t i = 0; !f->closed && i < json_array_size(f->arrivals); i++)
        tell_of_model(f, json_string_value(json_array_get(f->arrivals, i)));
    if (f->unsettled.code)
        kn_studio_log(f->studio, "studio: no profile for what was downloaded: %s", f->unsettled.text);
    json_decref(f->arrivals);
    f->arrivals = NULL;
    f->unsettled = (kn_error){ 0 };
}

static bool work_end(kn_errand *e, kn_store *store, kn_error *err) {
    kn_fetcher *f = KN_HOLDER(e, kn_fetcher, errand);
    bool wanted = true;
    json_t *error = f->ok || f->result.problem == KN_FETCH_STOPPED ? NULL : error_json(f);
    kn_store_be_patient(store);
    bool ok = kn_downloads_end(store, f->work.id, f->ok, f->seen.bytes_done, error, &wanted, err);
    json_decref(error);
    if (ok && !f->ok && !wanted && f->order.artifact)
        kn_fetch_forget(f->order.artifact, f->work.directory, NULL);
    if (ok && f->ok)
        settle(f, store);
    if (ok) /* else what was told last is all that is known */
        kn_downloads_get(store, f->all, f->work.id, &f->found, NULL);
    f->wanted = wanted;
    return ok;
}

static void back_end(kn_errand *e) {
    kn_fetcher *f = KN_HOLDER(e, kn_fetcher, errand);
    f->busy = false;
    take_found(f);
    if (!e->ok)
        kn_studio_log(f->studio, "studio: the end of a download cannot be written down: %s", e->err.text);
    if (!f->closed && f->wanted)
        kn_studio_tell(f->studio, KN_EVENT_DOWNLOAD_UPDATED, f->work.id, json_incref(f->row));
    if (!f->closed && f->ok)
        tell_of_model(f, f->work.artifact);
    tell_arrivals(f);
    json_decref(f->row);
    f->row = NULL;
    kn_download_work_free(&f->work);
    kn_fetcher_look(f);
}

static void end(kn_fetcher *f) {
    f->busy = true;
    f->errand.work = work_end;
    f->errand.back = back_end;
    kn_errand_send(f->studio, &f->errand);
}

static void join(kn_fetcher *f) {
    if (f->runs)
        pthread_join(f->thread, NULL);
    f->runs = false;
}

static void hear(kn_task *t) {
    kn_fetcher *f = KN_HOLDER(t, kn_fetcher, news);
    pthread_mutex_lock(&f->lock);
    f->has_news = false;
    bool ended = f->ended;
    f->seen = f->progress;
    pthread_mutex_unlock(&f->lock);
    if (ended) {
        f->studio->errands--;
        join(f);
        if (!f->closed)
            end(f);
        return;
    }
    uint64_t now = kn_loop_now_ms(f->studio->loop);
    if (!f->closed && !atomic_load(&f->stop) && now - f->told_ms >= TELL_MS) {
        tell(f);
        f->told_ms = now;
    }
}

void kn_fetcher_stop(kn_fetcher *f, const char *id) {
    if (f->row && !strcmp(f->work.id, id))
        atomic_store(&f->stop, true);
}

/* ---- beginning and end ---- */

bool kn_fetcher_new(kn_studio *s, kn_fetcher **ret, kn_error *err) {
    kn_fetcher *f = calloc(1, sizeof *f);
    if (!f)
        return kn_fail_nomem(err, sizeof *f);
    f->studio = s;
    f->news.run = hear;
    pthread_mutex_init(&f->lock, NULL);
    if (!kn_collections_load(&f->all, err) || !kn_downloads_recover(s->store, err)) {
        kn_fetcher_free(f);
        return false;
    }
    settle(f, s->store); /* a service was killed between a download's end and this */
    tell_arrivals(f);
    *ret = f;
    return true;
}

void kn_fetcher_close(kn_fetcher *f) {
    if (!f)
        return;
    f->closed = true;
    atomic_store(&f->stop, true);
    join(f);
}

void kn_fetcher_free(kn_fetcher *f) {
    if (!f)
        return;
    json_decref(f->row);
    json_decref(f->arrivals);
    json_decref(f->found);
    kn_download_work_free(&f->work);
    kn_origin_close(&f->origin);
    kn_collections_free(f->all);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

const kn_collections *kn_fetcher_collections(const kn_fetcher *f) {
    return f->all;
}

bool kn_fetcher_is_offline(const kn_fetcher *f) {
    return f->studio->setup.offline;
}
