#include "studio/downloads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"

#define UNFINISHED "('queued', 'running', 'paused')"

/* ---- new ones ---- */

static bool may_begin(kn_store *s, const kn_new_download *d, kn_error *err) {
    int64_t all = 0, same = 0;
    kn_query r = kn_query_open(s, err,
                               "SELECT count(*), ifnull(sum(artifact = ? AND directory = ?), 0) FROM downloads"
                               " WHERE state IN " UNFINISHED,
                               "tt", d->artifact->id, d->directory);
    if (kn_query_next(&r)) {
        all = kn_query_int(&r, 0);
        same = kn_query_int(&r, 1);
    }
    if (!kn_query_close(&r))
        return false;
    if (same)
        return kn_fail(err, KN_E_USAGE, "this artifact is on its way to that directory already");
    return all < KN_DOWNLOADS_UNFINISHED || kn_fail(err, KN_E_RANGE, "%lld downloads wait already", (long long)all);
}

static bool add_rows(kn_store *s, const kn_new_download *d, const kn_id *id, kn_error *err) {
    int64_t now = kn_store_now_ms();
    return may_begin(s, d, err) &&
           kn_store_do(s, err, NULL,
                       "INSERT INTO downloads (id, artifact, directory, state, created_ms, updated_ms)"
                       " VALUES (?1, ?2, ?3, 'queued', ?4, ?4)",
                       "ttti", id->text, d->artifact->id, d->directory, now) &&
           kn_store_do(s, err, NULL,
                       "DELETE FROM downloads WHERE state NOT IN " UNFINISHED
                       " AND seq <= (SELECT max(seq) FROM downloads) - ?",
                       "i", (int64_t)KN_DOWNLOADS_HISTORY) &&
           (!d->key || kn_jobs_add_key(s, "downloads", d->key, &d->body, id, err));
}

bool kn_downloads_add(kn_store *s, const kn_new_download *d, kn_id *ret, kn_error *err) {
    kn_id id;
    if (!kn_store_new_id(s, "dl_", &id, err) || !kn_store_begin(s, err))
        return false;
    if (!kn_store_end(s, add_rows(s, d, &id, err), err))
        return false;
    *ret = id;
    return true;
}

/* ---- as clients see them ---- */

#define COLUMNS "id, artifact, directory, state, bytes_done, error, profiles, created_ms, updated_ms, seq"
enum { ID, ARTIFACT, DIRECTORY, STATE, BYTES_DONE, ERROR, PROFILES, CREATED, UPDATED, SEQ };

json_t *kn_downloads_collections(const kn_collections *all, const kn_artifact *a) {
    json_t *list = json_array();
    for (size_t i = 0; a && i < all->collection_count; i++) {
        const kn_collection *c = &all->collections[i];
        if (kn_collection_has(c, a))
            json_array_append_new(list, json_pack("{s:s, s:s}", "id", c->id, "title", c->title));
    }
    return list;
}

/* NULL: memory is out. Of an artifact that is not known any more, where it went can be told as far as that. */
static char *path_of(const kn_artifact *a, const char *directory) {
    char *path = NULL;
    return !a ? strdup(directory) : kn_artifact_path(a, directory, &path, NULL) ? path : NULL;
}

/* What is of an earlier version's catalogue has no title and no size any more. */
static json_t *row_json(const kn_query *r, const kn_collections *all) {
    const char *artifact = kn_query_text(r, ARTIFACT), *state = kn_query_text(r, STATE);
    const char *error = kn_query_text(r, ERROR), *profiles = kn_query_text(r, PROFILES);
    const kn_artifact *a = kn_artifact_named(all, artifact);
    uint64_t total = a ? a->bytes : 0;
    uint64_t done = strcmp(state, "completed") ? (uint64_t)kn_query_int(r, BYTES_DONE) : total;
    char *path = path_of(a, kn_query_text(r, DIRECTORY));
    if (!path)
        return NULL;
    json_t *j = json_pack(
        "{s:s, s:s, s:s, s:o, s:s, s:I, s:I, s:n, s:i, s:s, s:o, s:o, s:s, s:s}", "id", kn_query_text(r, ID),
        "artifact", artifact, "title", a ? a->title : artifact, "collections", kn_downloads_collections(all, a),
        "state", state, "bytes_done", (json_int_t)done, "bytes_total", (json_int_t)total, "bytes_per_second",
        "connections", 0, "path", path, "profiles", profiles ? json_loads(profiles, 0, NULL) : json_array(), "error",
        error ? json_loads(error, 0, NULL) : json_null(), "created_at", kn_date_of_ms(kn_query_int(r, CREATED)).text,
        "updated_at", kn_date_of_ms(kn_query_int(r, UPDATED)).text);
    free(path);
    return j;
}

bool kn_downloads_get(kn_store *s, const kn_collections *all, const char *id, json_t **ret, kn_error *err) {
    json_t *json = NULL;
    kn_query r = kn_query_open(s, err, "SELECT " COLUMNS " FROM downloads WHERE id = ?", "t", id);
    bool found = kn_query_next(&r);
    if (found && !(json = row_json(&r, all)))
        r.failed = !kn_fail_nomem(err, sizeof(kn_id));
    if (!kn_query_close(&r)) {
        json_decref(json);
        return false;
    }
    *ret = json;
    return found || kn_fail(err, KN_E_NOT_FOUND, "there is no such download");
}

bool kn_downloads_list(kn_store *s, const kn_collections *all, unsigned limit, int64_t before, json_t *into,
                       int64_t *ret_next, kn_error *err) {
    kn_query r =
        kn_query_open(s, err, "SELECT " COLUMNS " FROM downloads WHERE ?1 = 0 OR seq < ?1 ORDER BY seq DESC LIMIT ?2",
                      "ii", before, (int64_t)limit + 1);
    int64_t last = 0;
    unsigned n = 0;
    bool more = false;
    while (kn_query_next(&r)) {
        more = n++ == limit;
        if (more)
            break;
        last = kn_query_int(&r, SEQ);
        if (json_array_append_new(into, row_json(&r, all)) != 0)
            r.failed = !kn_fail_nomem(err, sizeof(kn_id));
    }
    *ret_next = more ? last : 0;
    return kn_query_close(&r);
}

/* ---- their way ---- */

void kn_download_work_free(kn_download_work *w) {
    free(w->artifact);
    free(w->directory);
    *w = (kn_download_work){ 0 };
}

static bool read_work(kn_query *r, kn_download_work *ret, kn_error *err) {
    kn_download_work w = { 0 };
    if (kn_query_next(r)) {
        snprintf(w.id, sizeof w.id, "%s", kn_query_text(r, 0));
        w.artifact = strdup(kn_query_text(r, 1));
        w.directory = strdup(kn_query_text(r, 2));
        if (!w.artifact || !w.directory)
            r->failed = !kn_fail_nomem(err, sizeof w);
    }
    if (!kn_query_close(r)) {
        kn_download_work_free(&w);
        return false;
    }
    *ret = w;
    return true;
}

bool kn_downloads_work(kn_store *s, const char *id, kn_download_work *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT id, artifact, directory FROM downloads WHERE id = ?", "t", id);
    return read_work(&r, ret, err) && (ret->id[0] || kn_fail(err, KN_E_NOT_FOUND, "there is no such download"));
}

bool kn_downloads_take(kn_store *s, kn_download_work *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err,
                               "SELECT id, artifact, directory FROM downloads WHERE state = 'queued'"
                               " ORDER BY seq LIMIT 1",
                               "");
    if (!read_work(&r, ret, err))
        return false;
    if (!ret->id[0] || kn_store_do(s, err, NULL, "UPDATE downloads SET state = 'running', updated_ms = ? WHERE id = ?",
                                   "it", kn_store_now_ms(), ret->id))
        return true;
    kn_download_work_free(ret);
    return false;
}

bool kn_downloads_change(kn_store *s, const char *id, kn_download_step step, kn_error *err) {
    static const char *const statements[] = {
        [KN_DOWNLOAD_PAUSE] = "UPDATE downloads SET state = 'paused', updated_ms = ?1 WHERE id = ?2 AND state IN"
                              " ('queued', 'running', 'paused')",
        [KN_DOWNLOAD_RESUME] = "UPDATE downloads SET state = iif(state = 'running', 'running', 'queued'), error = NULL,"
                               " updated_ms = ?1 WHERE id = ?2 AND state IN ('queued', 'running', 'paused', 'failed')",
        [KN_DOWNLOAD_CANCEL] = "UPDATE downloads SET state = 'cancelled', updated_ms = ?1 WHERE id = ?2 AND state IN"
                               " ('queued', 'running', 'paused', 'failed', 'cancelled')",
    };
    int changed = 0;
    kn_download_work w;
    if (!kn_downloads_work(s, id, &w, err))
        return false;
    kn_download_work_free(&w);
    return kn_store_do(s, err, &changed, statements[step], "it", kn_store_now_ms(), id) &&
           (changed || kn_fail(err, KN_E_USAGE, "the download has ended"));
}

static bool is_wanted(kn_store *s, const char *id, bool *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT 1 FROM downloads WHERE id = ? AND state <> 'cancelled'", "t", id);
    *ret = kn_query_next(&r);
    return kn_query_close(&r);
}

bool kn_downloads_end(kn_store *s, const char *id, bool completed, uint64_t bytes_done, json_t *error, bool *ret_wanted,
                      kn_error *err) {
    static const char done[] = "UPDATE downloads SET state = 'completed', error = NULL, bytes_done = ?1,"
                               " updated_ms = ?2 WHERE id = ?3 AND state <> 'cancelled' AND ?4 IS NULL";
    static const char failed[] = "UPDATE downloads SET state = 'failed', bytes_done = ?1, updated_ms = ?2, error = ?4"
                                 " WHERE id = ?3 AND state = 'running'";
    static const char stopped[] = "UPDATE downloads SET bytes_done = ?1, updated_ms = ?2 WHERE id = ?3 AND ?4 IS NULL";
    char *text = error ? json_dumps(error, JSON_COMPACT) : NULL;
    bool ok = kn_store_do(s, err, NULL,
                          completed ? done
                          : text    ? failed
                                    : stopped,
                          "iitt", (int64_t)bytes_done, kn_store_now_ms(), id, text);
    free(text);
    return ok && is_wanted(s, id, ret_wanted, err);
}

bool kn_downloads_arrived(kn_store *s, const char *after, kn_download_work *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err,
                               "SELECT id, artifact, directory FROM downloads"
                               " WHERE state = 'completed' AND profiles IS NULL AND id > ? ORDER BY id LIMIT 1",
                               "t", after);
    return read_work(&r, ret, err);
}

bool kn_downloads_settle(kn_store *s, const char *id, const json_t *profiles, kn_error *err) {
    char *text = json_dumps(profiles, JSON_COMPACT);
    bool ok = text ? kn_store_do(s, err, NULL, "UPDATE downloads SET profiles = ? WHERE id = ?", "tt", text, id)
                   : kn_fail_nomem(err, sizeof(kn_id));
    free(text);
    return ok;
}

bool kn_downloads_delete(kn_store *s, const char *id, kn_error *err) {
    int changed = 0;
    kn_download_work w;
    if (!kn_downloads_work(s, id, &w, err))
        return false;
    kn_download_work_free(&w);
    return kn_store_do(s, err, &changed, "DELETE FROM downloads WHERE id = ? AND state NOT IN ('queued', 'running')",
                       "t", id) &&
           (changed || kn_fail(err, KN_E_USAGE, "it is under way: cancel it first"));
}

bool kn_downloads_recover(kn_store *s, kn_error *err) {
    return kn_store_do(s, err, NULL, "UPDATE downloads SET state = 'queued' WHERE state = 'running'", "");
}

bool kn_downloads_was_ordered(kn_store *s, const char *artifact, bool *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT 1 FROM downloads WHERE artifact = ? LIMIT 1", "t", artifact);
    *ret = kn_query_next(&r);
    return kn_query_close(&r);
}
