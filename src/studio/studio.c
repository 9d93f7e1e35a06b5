#include "studio/studio.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/date.h"
#include "base/memory.h"
#include "base/text.h"
#include "studio/fetcher.h"
#include "studio/internal.h"

enum { LINE_BYTES = 400 };

void kn_studio_log(kn_studio *s, const char *fmt, ...) {
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (s->setup.log)
        s->setup.log(s->setup.ctx, line);
}

void kn_studio_note_error(kn_studio *s, const char *code, const char *instance) {
    memmove(s->recent + 1, s->recent, (KN_RECENT_ERRORS - 1) * sizeof *s->recent);
    s->recent_count = KN_MIN(s->recent_count + 1, (size_t)KN_RECENT_ERRORS);
    s->recent[0].at_s = kn_date_now();
    snprintf(s->recent[0].code, sizeof s->recent[0].code, "%s", code);
    snprintf(s->recent[0].instance, sizeof s->recent[0].instance, "%s", instance);
}

/* ---- errands ---- */

enum {
    ERRAND_MS = 1000, /* after so long it is looked whether there are any */
    WIPE_MS = 500,    /* who deletes one thing often deletes another */
    QUIET_MS = 5000,  /* without an errand: a crowd has gone */
    TIDY_MS = 3600 * 1000,
};

/* What was deleted leaves the log of changes behind everybody's back: nobody waits for it, and not for each thing. */
static void wipe_soon(kn_studio *s) {
    if (s->wipes)
        return;
    s->wipes = true;
    kn_loop_timer_after(s->loop, &s->wipe_soon, WIPE_MS);
}

static void do_errand(kn_job *job) {
    kn_errand *e = KN_HOLDER(job, kn_errand, job);
    e->ok = e->work(e, e->store, &e->err);
    e->leaves_remains = e->store->has_remains;
}

static void errand_is_done(kn_task *t) {
    kn_errand *e = KN_HOLDER(t, kn_errand, job.done);
    kn_studio *s = e->studio;
    bool leaves_remains = e->leaves_remains;
    if (e != &s->giving_back)
        kn_loop_timer_after(s->loop, &s->quiet, QUIET_MS);
    s->errands--;
    e->back(e);
    if (leaves_remains)
        wipe_soon(s);
}

static bool wipe(kn_errand *e, kn_store *store, kn_error *err) {
    (void)e, (void)err;
    return kn_store_wipe_remains(store);
}

/* Where it could not be done, its coming back begins it again. */
static void wiped(kn_errand *e) {
    e->studio->wipes = false;
}

static void wipe_now(kn_timer *t) {
    kn_studio *s = KN_HOLDER(t, kn_studio, wipe_soon);
    s->wiping.work = wipe;
    s->wiping.back = wiped;
    kn_errand_send(s, &s->wiping);
}

static bool give_back(kn_errand *e, kn_store *store, kn_error *err) {
    (void)e, (void)err;
    kn_store_rest(store);
    kn_memory_give_back();
    return true;
}

static void gave_back(kn_errand *e) {
    e->studio->gives_back = false;
}

/* Answers to a crowd are made by one thread and freed by another, between events that stay: without this the heap only
 * grows, by what lies free in its middle. */
static void all_is_quiet(kn_timer *t) {
    kn_studio *s = KN_HOLDER(t, kn_studio, quiet);
    if (s->gives_back)
        return;
    kn_events_pack(s->events);
    s->gives_back = true;
    s->giving_back.work = give_back;
    s->giving_back.back = gave_back;
    kn_errand_send(s, &s->giving_back);
}

static bool tidy(kn_errand *e, kn_store *store, kn_error *err) {
    kn_studio *s = e->studio;
    kn_studio_settings settings;
    s->has_more = false;
    if (!kn_studio_settings_load(store, &s->own, &settings, err))
        return false;
    unsigned days = (unsigned)settings.keep_inputs_days;
    kn_studio_settings_free(&settings);
    return (!days || kn_inputs_expire(store, days, &s->has_more, err)) && kn_gallery_expire_trash(store, err) &&
           kn_jobs_trim(store, err);
}

/* Whatever failed is tried again in an hour. */
static void tidied(kn_errand *e) {
    kn_studio *s = e->studio;
    bool goes_on = s->tidies_again || (e->ok && s->has_more);
    s->tidies = s->tidies_again = false;
    kn_loop_timer_after(s->loop, &s->tidy_soon, goes_on && !kn_queue_is_stopping(s->queue) ? 0 : TIDY_MS);
}

static void tidy_now(kn_timer *t) {
    kn_studio_tidy(KN_HOLDER(t, kn_studio, tidy_soon));
}

void kn_studio_tidy(kn_studio *s) {
    if (s->tidies) {
        s->tidies_again = true;
        return;
    }
    s->tidies = true;
    s->tidying.work = tidy;
    s->tidying.back = tidied;
    kn_errand_send(s, &s->tidying);
}

void kn_errand_send(kn_studio *s, kn_errand *e) {
    e->ok = false;
    e->err = (kn_error){ 0 };
    e->studio = s;
    e->store = s->store;
    s->errands++;
    e->job = (kn_job){ .work = do_errand, .done.run = errand_is_done };
    kn_disk_do(s->disk, &e->job);
}

/* ---- events ---- */

void kn_studio_watch(kn_studio *s, kn_watch_events *w) {
    w->watches = true;
    w->prev = NULL;
    w->next = s->watchers;
    if (w->next)
        w->next->prev = w;
    s->watchers = w;
}

void kn_studio_unwatch(kn_studio *s, kn_watch_events *w) {
    if (!w->watches)
        return;
    w->watches = false;
    *(w->prev ? &w->prev->next : &s->watchers) = w->next;
    if (w->next)
        w->next->prev = w->prev;
}

void kn_studio_tell(kn_studio *s, kn_event_kind kind, const char *subject, json_t *json) {
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!text)
        return; /* memory is short; whoever watches sees the next one */
    uint64_t before = kn_events_last(s->events);
    kn_events_add(s->events, kn_loop_now_ms(s->loop), kind, subject, text);
    free(text);
    const kn_event *event = kn_events_after(s->events, before);
    for (kn_watch_events *w = s->watchers, *next; event && w; w = next) {
        next = w->next;
        w->came(w, event);
    }
}

/* ---- beginning and end ---- */

static bool take_up(kn_studio *s, kn_error *err) {
    int ended = 0;
    s->own.studio = s->store->folder;
    if (!kn_jobs_recover(s->store, &ended, err) || !kn_inputs_reconcile(s->store, err) ||
        !kn_gallery_reconcile(s->store, &s->broken_records, err) ||
        !kn_sessions_load(s->store, kn_date_now(), kn_loop_now_ms(s->loop), &s->sessions, err))
        return false;
    kn_error why = { 0 };
    if (!kn_store_look_to_write(s->store->folder, &why))
        kn_studio_log(s, "studio: %s", why.text);
    s->damaged = s->store->was_broken;
    if (s->damaged)
        kn_studio_log(s, "studio: the database was damaged; it lies beside the new one, which has the gallery's files");
    if (ended)
        kn_studio_log(s, "studio: %s ended with the service that ran them", kn_counted((uint64_t)ended, "job").text);
    if (s->broken_records)
        kn_studio_log(s, "studio: %s in the gallery cannot be understood",
                      kn_counted(s->broken_records, "record").text);
    return true;
}

/* A database that cannot be used at the start is for a person to see to. */
static void name_database(const char *folder, kn_error *err) {
    static const char database[] = "database: ";
    if (!err || err->code != KN_E_IO || strncmp(err->text, database, sizeof database - 1) != 0)
        return;
    const kn_error why = *err;
    *err = (kn_error){ 0 };
    kn_fail(err, why.code,
            "'%s/studio.db' cannot be used: %s; see that its disk is in order and no other program holds it, and "
            "start again",
            kn_quote_path(folder).text, why.text + sizeof database - 1);
}

bool kn_studio_new(const kn_studio_setup *setup, kn_studio **ret, kn_error *err) {
    kn_studio *s = calloc(1, sizeof *s);
    uint32_t boot = 0;
    if (!s)
        return kn_fail_nomem(err, sizeof *s);
    s->setup = *setup;
    s->runner = *setup->runner;
    s->loop = setup->loop;
    s->started_s = kn_date_now();
    s->own.state = setup->state_dir;
    s->wipe_soon.fired = wipe_now;
    s->quiet.fired = all_is_quiet;
    s->tidy_soon.fired = tidy_now;
    bool ok =
        (getrandom(&boot, sizeof boot, 0) == sizeof boot || kn_fail(err, KN_E_IO, "there is no randomness")) &&
        (asprintf(&s->own.models, "%s/models", setup->folder) >= 0 || kn_fail_nomem(err, strlen(setup->folder))) &&
        kn_store_open(setup->folder, setup->wait_ms, &s->store, err) && take_up(s, err) &&
        kn_events_new(boot, &s->events, err) && kn_disk_new(s->loop, &s->disk, err) &&
        kn_queue_new(s, &s->queue, err) && kn_fetcher_new(s, &s->fetcher, err);
    if (!ok) {
        name_database(setup->folder, err);
        kn_studio_free(s);
        return kn_fail_within(err, "studio");
    }
    kn_queue_look(s->queue);
    kn_fetcher_look(s->fetcher);
    kn_studio_tidy(s);
    *ret = s;
    return true;
}

void kn_studio_free(kn_studio *s) {
    if (!s)
        return;
    kn_queue_close(s->queue);
    kn_fetcher_close(s->fetcher);
    /* All errands come back first: one may send the next. */
    while (s->errands && kn_loop_turn(s->loop, ERRAND_MS, NULL))
        ;
    kn_loop_timer_close(s->loop, &s->wipe_soon); /* closing the store wipes, too */
    kn_loop_timer_close(s->loop, &s->quiet);
    kn_loop_timer_close(s->loop, &s->tidy_soon);
    kn_disk_free(s->disk);
    kn_queue_free(s->queue);
    kn_fetcher_free(s->fetcher);
    kn_events_free(s->events);
    kn_store_close(s->store);
    free(s->own.models);
    free(s);
}

void kn_studio_stop(kn_studio *s, bool cancel, void (*stopped)(void *ctx), void *ctx) {
    kn_queue_stop(s->queue, cancel, stopped, ctx);
}

void kn_studio_cut(kn_studio *s) {
    kn_queue_cut(s->queue);
}

json_t *kn_studio_engine_json(const kn_studio *s) {
    const char *state = kn_queue_is_busy(s->queue) ? "busy" : kn_queue_rests(s->queue) ? "stopped" : "ready";
    return json_pack("{s:s, s:s, s:{s:s, s:n, s:n, s:n}, s:s, s:n, s:b}", "state", state, "backend", s->runner.backend,
                     "device", "name", s->runner.device, "pci_address", "memory_total_bytes", "planning_memory_bytes",
                     "build", KN_VERSION, "reason", "owned", 1);
}
