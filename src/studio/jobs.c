#include "studio/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"

const char *const kn_job_states[KN_STATES] = { "queued", "running", "completed", "failed", "cancelled" };

#define UNFINISHED "('queued', 'running')"

/* The clock may have been set back meanwhile; no job ends before it began. */
#define FINISHED "finished_ms = max(?, coalesce(started_ms, created_ms))"

/* ---- new ones ---- */

bool kn_jobs_find_key(kn_store *s, const char *route, const char *key, const kn_sha256 *body, kn_key_state *ret,
                      kn_id *ret_job, kn_error *err) {
    int64_t since = kn_store_now_ms() - (int64_t)KN_JOBS_KEY_HOURS * 3600 * 1000;
    *ret = KN_KEY_NEW;
    kn_query r =
        kn_query_open(s, err, "SELECT body_sha256, job_id FROM answers WHERE route = ? AND key = ? AND created_ms > ?",
                      "tti", route, key, since);
    if (kn_query_next(&r)) {
        *ret = strcmp(kn_query_text(&r, 0), body->text) ? KN_KEY_REUSED : KN_KEY_REPLAYED;
        snprintf(ret_job->text, sizeof ret_job->text, "%s", kn_query_text(&r, 1));
    }
    return kn_query_close(&r);
}

bool kn_jobs_count(kn_store *s, int64_t *ret_queued, int64_t *ret_running, kn_error *err) {
    *ret_queued = *ret_running = 0;
    kn_query r = kn_query_open(s, err,
                               "SELECT (SELECT count(*) FROM jobs WHERE state = 'queued'),"
                               " (SELECT count(*) FROM jobs WHERE state = 'running')",
                               "");
    if (kn_query_next(&r)) {
        *ret_queued = kn_query_int(&r, 0);
        *ret_running = kn_query_int(&r, 1);
    }
    return kn_query_close(&r);
}

bool kn_jobs_add_key(kn_store *s, const char *route, const char *key, const kn_sha256 *body, const kn_id *id,
                     kn_error *err) {
    return kn_store_do(s, err, NULL, "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", "tttti", route, key,
                       body->text, id->text, kn_store_now_ms());
}

static bool add_rows(kn_store *s, const kn_new_job *job, unsigned queue_limit, const kn_id *id, kn_error *err) {
    int64_t queued, running, now = kn_store_now_ms();
    if (!kn_jobs_count(s, &queued, &running, err))
        return false;
    if (queued >= queue_limit)
        return kn_fail(err, KN_E_RANGE, "%lld jobs wait already", (long long)queued);
    if (!kn_store_do(s, err, NULL,
                     "INSERT INTO jobs (id, kind, state, created_ms, request, plan, units, seeds, notes, wish)"
                     " VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?)",
                     "ttittdttt", id->text, kn_studio_kinds[job->kind], now, job->request, job->plan, job->units,
                     job->seeds, job->notes, job->wish))
        return false;
    for (size_t i = 0; i < job->input_count; i++)
        if (!kn_store_do(s, err, NULL, "INSERT OR IGNORE INTO job_inputs VALUES (?, ?)", "tt", id->text,
                         job->inputs[i].id) ||
            !kn_store_do(s, err, NULL, "UPDATE inputs SET last_used_ms = ? WHERE id = ?", "it", now, job->inputs[i].id))
            return false;
    return !job->key || kn_jobs_add_key(s, job->route, job->key, &job->body, id, err);
}

bool kn_jobs_add(kn_store *s, const kn_new_job *job, unsigned queue_limit, kn_id *ret, kn_error *err) {
    kn_id id;
    if (!kn_store_new_id(s, "job_", &id, err) || !kn_store_begin(s, err))
        return false;
    if (!kn_store_end(s, add_rows(s, job, queue_limit, &id, err), err))
        return false;
    *ret = id;
    return true;
}

/* ---- as clients see them ---- */

static json_t *json_of(const char *text) {
    return text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
}

static json_t *date_of(const kn_query *r, int column) {
    return kn_query_text(r, column) ? json_string(kn_date_of_ms(kn_query_int(r, column)).text) : json_null();
}

static json_t *results_of(kn_store *s, const char *id, kn_error *err) {
    json_t *list = json_array();
    kn_query r = kn_query_open(s, err,
                               "SELECT number, item, width, height, media_type, bytes, seed, sha256 FROM results"
                               " WHERE job_id = ? ORDER BY number",
                               "t", id);
    while (kn_query_next(&r)) {
        char url[100];
        snprintf(url, sizeof url, "/api/v1/jobs/%s/results/%d", id, (int)kn_query_int(&r, 0));
        json_t *one = json_pack(
            "{s:I, s:s?, s:s, s:I, s:I, s:s, s:I, s:s*, s:s}", "index", (json_int_t)kn_query_int(&r, 0), "gallery_item",
            kn_query_text(&r, 1), "content_url", url, "width", (json_int_t)kn_query_int(&r, 2), "height",
            (json_int_t)kn_query_int(&r, 3), "media_type", kn_query_text(&r, 4), "bytes",
            (json_int_t)kn_query_int(&r, 5), "seed", kn_query_text(&r, 6), "sha256", kn_query_text(&r, 7));
        if (json_array_append_new(list, one) != 0)
            r.failed = !kn_fail_nomem(err, sizeof url);
    }
    if (kn_query_close(&r))
        return list;
    json_decref(list);
    return NULL;
}

/* A running one gets its progress from whoever runs it. */
static json_t *progress_of(const char *state, size_t results, size_t batch) {
    bool waits = !strcmp(state, "queued"), runs = !strcmp(state, "running");
    double fraction = waits || runs ? 0 : !strcmp(state, "completed") ? 1 : batch ? (double)results / (double)batch : 0;
    return json_pack("{s:s, s:n, s:n, s:i, s:f, s:n, s:b}", "phase",
                     waits  ? "waiting"
                     : runs ? "loading"
                            : "done",
                     "step", "steps", "image_index", 0, "fraction", fraction, "eta_seconds", "has_preview", 0);
}

static const char columns[] =
    "SELECT id, kind, state, created_ms, started_ms, finished_ms, request, plan, seeds, error, notes, attempts,"
    " cancel_requested, seq, CASE state WHEN 'queued' THEN"
    " (SELECT count(*) FROM jobs q WHERE q.state = 'queued' AND q.seq <= jobs.seq) END FROM jobs ";

static json_t *job_of(kn_store *s, const kn_query *r, kn_error *err) {
    const char *id = kn_query_text(r, 0), *state = kn_query_text(r, 2);
    json_t *results = results_of(s, id, err);
    if (!results)
        return NULL;
    json_t *seeds = json_of(kn_query_text(r, 8));
    json_t *progress = progress_of(state, json_array_size(results), json_array_size(seeds));
    json_t *position = kn_query_text(r, 14) ? json_integer(kn_query_int(r, 14)) : json_null();
    json_t *job =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b}", "id", id, "kind",
                  kn_query_text(r, 1), "state", state, "created_at", date_of(r, 3), "started_at", date_of(r, 4),
                  "finished_at", date_of(r, 5), "queue_position", position, "request", json_of(kn_query_text(r, 6)),
                  "plan", json_of(kn_query_text(r, 7)), "seeds", seeds, "progress", progress, "results", results,
                  "error", json_of(kn_query_text(r, 9)), "notes", json_of(kn_query_text(r, 10)), "attempts",
                  (json_int_t)kn_query_int(r, 11), "cancel_requested", (int)kn_query_int(r, 12));
    if (!job)
        kn_fail_nomem(err, KN_REQUEST_BYTES);
    return job;
}

static bool is_gone(kn_store *s, const char *id) {
    kn_query r = kn_query_open(s, NULL, "SELECT 1 FROM gone_jobs WHERE id = ?", "t", id);
    bool gone = kn_query_next(&r);
    kn_query_close(&r);
    return gone;
}

bool kn_jobs_get(kn_store *s, const char *id, json_t **ret, bool *ret_gone, kn_error *err) {
    char sql[sizeof columns + 32];
    snprintf(sql, sizeof sql, "%s WHERE id = ?", columns);
    kn_query r = kn_query_open(s, err, sql, "t", id);
    bool found = kn_query_next(&r);
    json_t *job = found ? job_of(s, &r, err) : NULL;
    if (!kn_query_close(&r) || (found && !job)) {
        json_decref(job);
        return false;
    }
    if (ret_gone)
        *ret_gone = !found && is_gone(s, id);
    if (!found)
        return kn_fail(err, KN_E_NOT_FOUND, "there is no such job");
    *ret = job;
    return true;
}

bool kn_jobs_list(kn_store *s, const kn_jobs_filter *f, json_t *into, int64_t *ret_next, kn_error *err) {
    char sql[sizeof columns + 400], states[128] = "";
    size_t len = 0;
    for (int i = 0; i < KN_STATES; i++)
        if (!f->states || f->states >> i & 1)
            len += (size_t)snprintf(states + len, sizeof states - len, "%s'%s'", len ? "," : "", kn_job_states[i]);
    snprintf(sql, sizeof sql,
             "%s WHERE (?1 = 0 OR seq < ?1) AND (?2 IS NULL OR kind = ?2) AND state IN (%s) ORDER BY seq DESC LIMIT ?3",
             columns, states);
    kn_query r = kn_query_open(s, err, sql, "iti", f->before, f->kind == KN_KIND_AUTO ? NULL : kn_studio_kinds[f->kind],
                               (int64_t)f->limit + 1);
    int64_t last = 0;
    unsigned n = 0;
    bool more = false;
    while (kn_query_next(&r)) {
        more = n++ == f->limit;
        if (more)
            break;
        last = kn_query_int(&r, 13);
        json_t *job = job_of(s, &r, err);
        if (!job || json_array_append_new(into, job) != 0)
            r.failed = true;
    }
    *ret_next = more ? last : 0;
    return kn_query_close(&r);
}

/* ---- from state to state ---- */

void kn_taken_job_free(kn_taken_job *job) {
    free(job->request);
    free(job->plan);
    free(job->seeds);
    *job = (kn_taken_job){ 0 };
}

static kn_studio_kind kind_of(const char *name) {
    int kind = KN_KIND_UPSCALE;
    while (kind > KN_KIND_AUTO && strcmp(kn_studio_kinds[kind], name) != 0)
        kind--;
    return (kn_studio_kind)kind;
}

static bool take_first(kn_store *s, kn_taken_job *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err,
                               "SELECT id, kind, request, plan, seeds, (SELECT count(*) FROM results WHERE"
                               " results.job_id = jobs.id), tile_size, attempts, retries, units FROM jobs"
                               " WHERE state = 'queued' ORDER BY seq LIMIT 1",
                               "");
    bool found = kn_query_next(&r);
    if (found) {
        snprintf(ret->id.text, sizeof ret->id.text, "%s", kn_query_text(&r, 0));
        ret->kind = kind_of(kn_query_text(&r, 1));
        ret->request = strdup(kn_query_text(&r, 2));
        ret->plan = strdup(kn_query_text(&r, 3) ? kn_query_text(&r, 3) : "null");
        ret->seeds = strdup(kn_query_text(&r, 4));
        ret->done = (unsigned)kn_query_int(&r, 5);
        ret->tile_size = (uint32_t)kn_query_int(&r, 6);
        ret->attempts = (unsigned)kn_query_int(&r, 7) + 1;
        ret->retries = (unsigned)kn_query_int(&r, 8);
        ret->units = kn_query_real(&r, 9);
    }
    if (!kn_query_close(&r))
        return false;
    if (found && (!ret->request || !ret->plan || !ret->seeds))
        return kn_fail_nomem(err, KN_REQUEST_BYTES);
    return !found || kn_store_do(s, err, NULL,
                                 "UPDATE jobs SET state = 'running', attempts = attempts + 1,"
                                 " started_ms = coalesce(started_ms, max(?, created_ms)) WHERE id = ?",
                                 "it", kn_store_now_ms(), ret->id.text);
}

bool kn_jobs_take(kn_store *s, kn_taken_job *ret, kn_error *err) {
    kn_taken_job job = { 0 };
    if (!kn_store_begin(s, err))
        return false;
    if (!kn_store_end(s, take_first(s, &job, err), err)) {
        kn_taken_job_free(&job);
        return false;
    }
    *ret = job;
    return true;
}

bool kn_jobs_add_result(kn_store *s, const char *id, const kn_job_result *result, kn_error *err) {
    return kn_store_do(s, err, NULL, "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", "tittiititt", id,
                       (int64_t)result->number, result->item, result->file, (int64_t)result->width,
                       (int64_t)result->height, kn_picture_media_types[result->format], (int64_t)result->bytes,
                       result->seed, result->sha256.text);
}

bool kn_jobs_find_result(kn_store *s, const char *id, unsigned number, kn_id *ret_item, char **ret_file,
                         kn_picture_format *ret_format, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT item, file, media_type FROM results WHERE job_id = ? AND number = ?",
                               "ti", id, (int64_t)number);
    bool found = kn_query_next(&r);
    if (found) {
        const char *item = kn_query_text(&r, 0), *type = kn_query_text(&r, 2);
        snprintf(ret_item->text, sizeof ret_item->text, "%s", item ? item : "");
        *ret_file = strdup(kn_query_text(&r, 1));
        *ret_format = KN_PICTURE_PNG;
        for (int i = 0; i < KN_PICTURE_FORMATS; i++)
            if (!strcmp(type, kn_picture_media_types[i]))
                *ret_format = (kn_picture_format)i;
    }
    if (!kn_query_close(&r))
        return false;
    if (!found)
        return kn_fail(err, KN_E_NOT_FOUND, "the job has no such result");
    return *ret_file || kn_fail_nomem(err, 1);
}

/* Notes are added to those that are there. */
#define ADD_NOTES                                                                                                      \
    "notes = CASE WHEN ?2 IS NULL THEN notes WHEN notes = '[]' THEN ?2 ELSE"                                           \
    " substr(notes, 1, length(notes) - 1) || ',' || substr(?2, 2) END"

static bool finish(kn_store *s, const char *id, kn_job_state state, const char *error, const char *notes,
                   kn_error *err) {
    int changed = 0;
    return kn_store_do(s, err, &changed,
                       "UPDATE jobs SET state = ?3, error = ?4, " FINISHED ", " ADD_NOTES
                       " WHERE id = ?1 AND state = 'running'",
                       "tttti", id, notes, kn_job_states[state], error, kn_store_now_ms()) &&
           (changed == 1 || kn_fail(err, KN_E_USAGE, "the job does not run"));
}

bool kn_jobs_finish(kn_store *s, const char *id, kn_job_state state, const char *error, const char *notes,
                    kn_error *err) {
    return finish(s, id, state, error, notes, err) ||
           (kn_store_makes_room(s, err) && finish(s, id, state, error, notes, err));
}

bool kn_jobs_requeue(kn_store *s, const char *id, uint32_t tile_size, const char *notes, kn_error *err) {
    int changed = 0;
    return kn_store_do(s, err, &changed,
                       "UPDATE jobs SET state = 'queued', retries = retries + 1, tile_size = ?3, " ADD_NOTES
                       " WHERE id = ?1 AND state = 'running' AND NOT cancel_requested",
                       "tti", id, notes, (int64_t)tile_size) &&
           (changed == 1 || kn_fail(err, KN_E_USAGE, "the job does not run"));
}

static bool state_of(kn_store *s, const char *id, kn_job_state *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT state FROM jobs WHERE id = ?", "t", id);
    bool found = kn_query_next(&r);
    for (int i = 0; found && i < KN_STATES; i++)
        if (!strcmp(kn_query_text(&r, 0), kn_job_states[i]))
            *ret = (kn_job_state)i;
    return kn_query_close(&r) && (found || kn_fail(err, KN_E_NOT_FOUND, "there is no such job"));
}

static bool cancel(kn_store *s, const char *id, kn_job_state *ret, kn_error *err) {
    if (!kn_store_begin(s, err))
        return false;
    bool ok =
        kn_store_do(s, err, NULL, "UPDATE jobs SET cancel_requested = 1 WHERE id = ? AND state IN " UNFINISHED, "t",
                    id) &&
        kn_store_do(s, err, NULL, "UPDATE jobs SET state = 'cancelled', " FINISHED " WHERE id = ? AND state = 'queued'",
                    "it", kn_store_now_ms(), id) &&
        state_of(s, id, ret, err);
    return kn_store_end(s, ok, err);
}

bool kn_jobs_cancel(kn_store *s, const char *id, kn_job_state *ret, kn_error *err) {
    return cancel(s, id, ret, err) || (kn_store_makes_room(s, err) && cancel(s, id, ret, err));
}

static bool forget(kn_store *s, const char *id, kn_error *err) {
    return kn_store_do(s, err, NULL, "INSERT OR IGNORE INTO gone_jobs VALUES (?)", "t", id) &&
           kn_store_do(s, err, NULL, "DELETE FROM jobs WHERE id = ?", "t", id);
}

/* Files of results that are nowhere else. */
static bool remove_result_files(kn_store *s, const char *id, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT file FROM results WHERE job_id = ? AND item IS NULL", "t", id);
    while (kn_query_next(&r))
        kn_store_remove(s, "results", kn_query_text(&r, 0));
    return kn_query_close(&r);
}

static bool remove_job(kn_store *s, const char *id, kn_error *err) {
    kn_job_state state = KN_STATE_QUEUED;
    if (!kn_store_begin(s, err))
        return false;
    bool ok = state_of(s, id, &state, err) &&
              (state > KN_STATE_RUNNING || kn_fail(err, KN_E_USAGE, "the job is not finished")) &&
              remove_result_files(s, id, err) && forget(s, id, err);
    return kn_store_end(s, ok, err);
}

bool kn_jobs_delete(kn_store *s, const char *id, kn_error *err) {
    return remove_job(s, id, err) || (kn_store_makes_room(s, err) && remove_job(s, id, err));
}

static char *copy_of(const char *text) {
    return text ? strdup(text) : NULL;
}

bool kn_jobs_order(kn_store *s, const char *id, kn_job_order *ret, kn_error *err) {
    kn_job_order o = { 0 };
    kn_query r = kn_query_open(s, err, "SELECT request, kind, wish FROM jobs WHERE id = ?", "t", id);
    bool found = kn_query_next(&r), whole = false;
    if (found) {
        o.request = copy_of(kn_query_text(&r, 0));
        o.kind = kind_of(kn_query_text(&r, 1));
        o.wish = copy_of(kn_query_text(&r, 2));
        whole = o.request && !o.wish == !kn_query_text(&r, 2);
    }
    if (!kn_query_close(&r) || !whole) {
        free(o.request);
        free(o.wish);
        return found ? kn_fail_nomem(err, KN_REQUEST_BYTES) : kn_fail(err, KN_E_NOT_FOUND, "there is no such job");
    }
    *ret = o;
    return true;
}

/* ---- after a start ---- */

bool kn_jobs_trim(kn_store *s, kn_error *err) {
    for (bool more = true; more;) {
        kn_id id = { "" };
        kn_query r = kn_query_open(
            s, err, "SELECT id FROM jobs WHERE state NOT IN " UNFINISHED " ORDER BY seq DESC LIMIT 1 OFFSET ?", "i",
            (int64_t)KN_JOBS_HISTORY);
        more = kn_query_next(&r);
        if (more)
            snprintf(id.text, sizeof id.text, "%s", kn_query_text(&r, 0));
        if (!kn_query_close(&r) || (more && !kn_jobs_delete(s, id.text, err)))
            return false;
    }
    int64_t since = kn_store_now_ms() - (int64_t)KN_JOBS_KEY_HOURS * 3600 * 1000;
    return kn_store_do(s, err, NULL, "DELETE FROM answers WHERE created_ms < ?", "i", since) &&
           kn_store_do(s, err, NULL,
                       "DELETE FROM gone_jobs WHERE id NOT IN (SELECT id FROM gone_jobs ORDER BY id DESC LIMIT ?)", "i",
                       (int64_t)KN_JOBS_HISTORY);
}

static bool recover(kn_store *s, int *ret_ended, kn_error *err) {
    static const char lost[] = "{\"code\":\"engine_lost\",\"message\":\"The service ended several times while this job "
                               "ran\",\"retryable\":true,\"phase\":null}";
    int cancelled = 0, failed = 0;
    int64_t now = kn_store_now_ms();
    if (!kn_store_begin(s, err))
        return false;
    bool ok =
        kn_store_do(s, err, &cancelled,
                    "UPDATE jobs SET state = 'cancelled', " FINISHED " WHERE state = 'running' AND cancel_requested",
                    "i", now) &&
        kn_store_do(s, err, &failed,
                    "UPDATE jobs SET state = 'failed', error = ?, " FINISHED
                    " WHERE state = 'running' AND attempts >= ?",
                    "tii", lost, now, (int64_t)KN_JOBS_STARTS) &&
        kn_store_do(s, err, NULL, "UPDATE jobs SET state = 'queued' WHERE state = 'running'", "");
    if (!kn_store_end(s, ok, err))
        return false;
    *ret_ended = cancelled + failed;
    return true;
}

bool kn_jobs_recover(kn_store *s, int *ret_ended, kn_error *err) {
    return recover(s, ret_ended, err) || (kn_store_makes_room(s, err) && recover(s, ret_ended, err));
}

bool kn_jobs_count_starts(kn_store *s, const char *id, unsigned starts, kn_error *err) {
    return kn_store_do(s, err, NULL, "UPDATE jobs SET attempts = ? WHERE id = ? AND state = 'running'", "it",
                       (int64_t)starts, id);
}

bool kn_jobs_release(kn_store *s, const kn_taken_job *job, kn_error *err) {
    int changed = 0;
    return kn_store_do(s, err, &changed,
                       "UPDATE jobs SET state = 'queued', attempts = ?"
                       " WHERE id = ? AND state = 'running' AND NOT cancel_requested",
                       "it", (int64_t)job->attempts - 1, job->id.text) &&
           (changed == 1 || kn_fail(err, KN_E_USAGE, "the job does not run"));
}

bool kn_jobs_lacks_result(kn_store *s, const char *id, unsigned number, bool *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err,
                               "SELECT 1 FROM jobs WHERE id = ?1 AND NOT EXISTS"
                               " (SELECT 1 FROM results WHERE job_id = ?1 AND number = ?2)",
                               "ti", id, (int64_t)number);
    *ret = kn_query_next(&r);
    return kn_query_close(&r);
}
