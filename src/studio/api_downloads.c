/* The catalogue of models, and downloads from it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_form.h"
#include "studio/api_visit.h"
#include "studio/fetcher.h"
#include "studio/paths.h"

/* Where models go if nobody says anything. The caller frees it. */
static bool usual_directory(const kn_visit *v, kn_store *s, char **ret, kn_error *err) {
    kn_studio_settings settings;
    if (!kn_studio_settings_load(s, &v->studio->own, &settings, err))
        return false;
    *ret = settings.model_directory;
    settings.model_directory = NULL;
    kn_studio_settings_free(&settings);
    return true;
}

/* ---- the catalogue ---- */

static json_t *needed_by(const kn_collections *all, const kn_artifact *a) {
    json_t *list = json_array();
    for (size_t i = 0; i < all->collection_count; i++)
        if (kn_collection_has(&all->collections[i], a))
            json_array_append_new(list, json_string(all->collections[i].id));
    return list;
}

static bool add_entry(json_t *items, kn_store *s, const kn_collections *all, const kn_artifact *a,
                      const char *directory, kn_error *err) {
    bool accepted, installed = kn_artifact_is_there(a, directory);
    char *path;
    if (!kn_downloads_was_ordered(s, a->id, &accepted, err) || !kn_artifact_path(a, directory, &path, err))
        return false;
    json_t *entry = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:b, s:o, s:b, s:s?}", "id", a->id, "title", a->title,
                              "role", a->role, "bytes", (json_int_t)a->bytes, "sha256", a->sha256, "license",
                              a->licence->title, "license_accepted", accepted, "needed_by", needed_by(all, a),
                              "installed", installed, "path", installed ? path : NULL);
    json_object_set_new(entry, "license_page", json_string(a->licence->page));
    json_object_set_new(entry, "collections", kn_downloads_collections(all, a));
    free(path);
    return json_array_append_new(items, entry) == 0 || kn_fail_nomem(err, KN_PATH_BYTES);
}

static bool work_catalog(kn_visit *v, kn_store *s, kn_error *err) {
    const kn_collections *all = kn_fetcher_collections(v->studio->fetcher);
    char *directory = NULL;
    if (!usual_directory(v, s, &directory, err))
        return false;
    json_t *items = json_array();
    bool ok = true;
    for (size_t i = 0; ok && i < all->artifact_count; i++)
        ok = add_entry(items, s, all, &all->artifacts[i], directory, err);
    free(directory);
    v->json = json_pack("{s:o, s:b}", "items", items, "offline", kn_fetcher_is_offline(v->studio->fetcher));
    return ok && (v->json || kn_fail_nomem(err, KN_PATH_BYTES));
}

void kn_api_catalog(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, work_catalog, NULL);
}

/* ---- new ones ---- */

typedef struct order {
    char *artifact, *directory; /* directory NULL: the usual one */
    bool accepted;
} order;

static void order_free(order *o) {
    free(o->artifact);
    free(o->directory);
}

static void take_text(kn_form *f, size_t max, char **ret) {
    kn_json_text text;
    if (kn_form_prose(f, 1, max, &text) && !(*ret = strndup(text.data, text.len)))
        kn_form_fail(f, KN_E_NOMEM, "not enough memory");
}

static void take_directory(kn_form *f, char **ret) {
    kn_error why = { 0 };
    take_text(f, KN_PATH_BYTES, ret);
    if (*ret && !kn_path_check(*ret, &why))
        kn_form_fail(f, why.code, "%s", why.text);
}

static bool read_order(kn_visit *v, order *o, kn_error *err) {
    enum { ARTIFACT, DIRECTORY, ACCEPT };
    static const char *const keys[] = {
        [ARTIFACT] = "artifact", [DIRECTORY] = "directory", [ACCEPT] = "accept_license"
    };
    kn_json_reader j;
    kn_form f;
    kn_json_begin_inside(&j, (kn_json_text){ v->body.data, v->body.len }, "the body", err);
    j.pointer = &v->pointer;
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case ARTIFACT: take_text(&f, KN_ARTIFACT_ID_BYTES - 1, &o->artifact); break;
        case DIRECTORY: take_directory(&f, &o->directory); break;
        case ACCEPT: kn_form_bool(&f, &o->accepted); break;
        }
    }
    kn_form_need(&f, ARTIFACT);
    kn_form_need(&f, ACCEPT);
    return kn_form_finish(&f) ||
           kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
}

static bool show(kn_visit *v, kn_store *s, const char *id, kn_error *err) {
    json_decref(v->json);
    v->json = NULL;
    return kn_downloads_get(s, kn_fetcher_collections(v->studio->fetcher), id, &v->json, err);
}

/* Makes the usual folder if it is not there; any other has to be. */
static bool check_directory(kn_visit *v, kn_store *s, order *o, kn_error *err) {
    if (o->directory)
        return kn_path_check_target(o->directory, &v->studio->own, err);
    if (!usual_directory(v, s, &o->directory, err))
        return false;
    return mkdir(o->directory, 0700) == 0 || kn_path_check_target(o->directory, &v->studio->own, err);
}

static bool check_order(kn_visit *v, kn_store *s, order *o, const kn_artifact **ret, kn_error *err) {
    const kn_collections *all = kn_fetcher_collections(v->studio->fetcher);
    uint64_t needed, free_bytes;
    *ret = kn_artifact_named(all, o->artifact);
    if (!*ret)
        return kn_fail(err, KN_E_NOT_FOUND, "the catalogue has no such artifact");
    if (!o->accepted)
        return kn_visit_deny(v, 422, "license_not_accepted", "The licence of the model has not been accepted",
                             (*ret)->licence->page);
    if (kn_fetcher_is_offline(v->studio->fetcher))
        return kn_visit_deny(v, 409, "offline", "This service uses no network", "config.json says so");
    if (!check_directory(v, s, o, err) || !kn_artifact_space(*ret, o->directory, &needed, &free_bytes, err))
        return false;
    return needed <= free_bytes || kn_fail(err, KN_E_FULL, "%llu bytes more are needed, %llu are free",
                                           (unsigned long long)needed, (unsigned long long)free_bytes);
}

static bool add(kn_visit *v, kn_store *s, order *o, kn_error *err) {
    kn_new_download d = { .key = v->key[0] ? v->key : NULL };
    kn_id id;
    if (!kn_visit_hash(v, v->body.data, v->body.len, &d.body, err) ||
        !kn_visit_find_replayed(v, s, &d.body, "downloads", &id, err))
        return false;
    if (id.text[0])
        return show(v, s, id.text, err);
    if (!check_order(v, s, o, &d.artifact, err))
        return false;
    d.directory = o->directory;
    if (!kn_downloads_add(s, &d, &id, err))
        return err->code == KN_E_RANGE ? kn_visit_deny(v, 429, "queue_full", "The queue is full", NULL) : false;
    snprintf(v->fields, sizeof v->fields, "Location: /api/v1/downloads/%s\r\n", id.text);
    return show(v, s, id.text, err);
}

static bool work_create(kn_visit *v, kn_store *s, kn_error *err) {
    order o = { 0 };
    v->status = 202;
    bool ok = read_order(v, &o, err) && add(v, s, &o, err);
    order_free(&o);
    return ok;
}

/* The row as it is on the disk, with what is known of the one that runs. */
static void answer_now(kn_visit *v) {
    kn_fetcher_show(v->studio->fetcher, v->json);
    kn_visit_answer(v);
}

static void tell_and_answer(kn_visit *v) {
    const char *id = json_string_value(json_object_get(v->json, "id"));
    if (!v->flag)
        kn_studio_tell(v->studio, KN_EVENT_DOWNLOAD_UPDATED, id ? id : "", json_incref(v->json));
    kn_fetcher_look(v->studio->fetcher);
    answer_now(v);
}

void kn_api_create_download(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_read_key(v, "downloads") && kn_visit_has_json(v) && !kn_visit_is_too_late(v))
        kn_visit_send(v, work_create, tell_and_answer);
}

/* ---- those that there are ---- */

static bool work_list(kn_visit *v, kn_store *s, kn_error *err) {
    int64_t next = 0;
    json_t *items = json_array();
    if (kn_downloads_list(s, kn_fetcher_collections(v->studio->fetcher), (unsigned)v->end, (int64_t)v->number, items,
                          &next, err))
        return kn_visit_list(v, items, next, err);
    json_decref(items);
    return false;
}

static void after_list(kn_visit *v) {
    json_t *items = json_object_get(v->json, "items");
    for (size_t i = 0; i < json_array_size(items); i++)
        kn_fetcher_show(v->studio->fetcher, json_array_get(items, i));
    kn_visit_answer(v);
}

void kn_api_list_downloads(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "limit cursor");
    if (!v || !kn_visit_page(v))
        return;
    kn_visit_send(v, work_list, after_list);
}

static bool work_get(kn_visit *v, kn_store *s, kn_error *err) {
    return show(v, s, v->part[1], err);
}

void kn_api_get_download(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, "dl_"))
        kn_visit_send(v, work_get, answer_now);
}

/* ---- their way ---- */

static bool change(kn_visit *v, kn_store *s, kn_download_step step, kn_error *err) {
    return kn_downloads_change(s, v->part[1], step, err) && show(v, s, v->part[1], err);
}

static bool work_pause(kn_visit *v, kn_store *s, kn_error *err) {
    return change(v, s, KN_DOWNLOAD_PAUSE, err);
}

static bool work_resume(kn_visit *v, kn_store *s, kn_error *err) {
    return change(v, s, KN_DOWNLOAD_RESUME, err);
}

/* What has come of it; while it is still being fetched, whoever does that removes it in the end. */
static bool forget(kn_visit *v, kn_store *s, const char *id, kn_error *err) {
    const kn_collections *all = kn_fetcher_collections(v->studio->fetcher);
    kn_download_work w;
    if (!kn_downloads_work(s, id, &w, err))
        return false;
    const kn_artifact *a = kn_artifact_named(all, w.artifact);
    if (a)
        kn_fetch_forget(a, w.directory, NULL);
    kn_download_work_free(&w);
    return true;
}

static bool work_cancel(kn_visit *v, kn_store *s, kn_error *err) {
    return change(v, s, KN_DOWNLOAD_CANCEL, err) && forget(v, s, v->part[1], err);
}

static void stop_and_answer(kn_visit *v) {
    kn_fetcher_stop(v->studio->fetcher, v->part[1]);
    tell_and_answer(v);
}

static void begin_change(kn_exchange *x, kn_span body, bool (*work)(kn_visit *, kn_store *, kn_error *),
                         void (*after)(kn_visit *)) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, "dl_"))
        kn_visit_send(v, work, after);
}

void kn_api_pause_download(kn_exchange *x, kn_span body) {
    begin_change(x, body, work_pause, stop_and_answer);
}

void kn_api_resume_download(kn_exchange *x, kn_span body) {
    begin_change(x, body, work_resume, tell_and_answer);
}

void kn_api_cancel_download(kn_exchange *x, kn_span body) {
    begin_change(x, body, work_cancel, stop_and_answer);
}

static bool work_delete(kn_visit *v, kn_store *s, kn_error *err) {
    v->status = 204;
    return kn_downloads_delete(s, v->part[1], err);
}

static bool work_forget(kn_visit *v, kn_store *s, kn_error *err) {
    json_t *row = NULL;
    if (!kn_downloads_get(s, kn_fetcher_collections(v->studio->fetcher), v->part[1], &row, err))
        return false;
    const char *state = json_string_value(json_object_get(row, "state"));
    bool has_part = state && (!strcmp(state, "paused") || !strcmp(state, "failed"));
    json_decref(row);
    return (!has_part || forget(v, s, v->part[1], err)) && work_delete(v, s, err);
}

void kn_api_delete_download(kn_exchange *x, kn_span body) {
    begin_change(x, body, work_forget, kn_visit_answer);
}
