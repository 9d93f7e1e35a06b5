#include "studio/arrivals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "studio/paths.h"
#include "studio/profiles.h"

_Static_assert((int)KN_COLLECTION_PARTS_MAX <= (int)KN_PROFILE_FILES, "every collection fits into a profile");
_Static_assert(KN_COLLECTION_ID_BYTES + sizeof "-500" - 1 <= KN_NAME_BYTES && KN_PROFILES_MAX <= 500,
               "a number fits behind the name");

static bool is_complete(const kn_collection *c, const char *directory) {
    for (size_t i = 0; i < c->count; i++)
        if (!kn_artifact_is_there(c->artifacts[i], directory))
            return false;
    return true;
}

/* ---- the profile ---- */

static kn_model_role role_named(const char *word) {
    int role = 0;
    while (role < KN_MODEL_ROLES && strcmp(kn_model_roles[role], word) != 0)
        role++;
    return (kn_model_role)role;
}

/* The file's place in the plain form that profiles have; that of the state directory may be written otherwise. */
static bool find_place(const kn_artifact *a, const char *directory, char **ret, kn_error *err) {
    char *path;
    if (!kn_artifact_path(a, directory, &path, err))
        return false;
    if (!kn_path_check(path, NULL)) {
        char *plain = realpath(path, NULL);
        free(path);
        if (!plain || !kn_path_check(plain, err)) {
            free(plain);
            return kn_fail(err, KN_E_IO, "'%s' cannot be found again", a->name);
        }
        path = plain;
    }
    *ret = path;
    return true;
}

static bool draft(const kn_collection *c, const char *directory, kn_model_profile *ret, kn_error *err) {
    kn_model_profile p = { .title = strdup(c->title), .architecture = c->model, .variant = c->variant };
    bool ok = p.title || kn_fail_nomem(err, strlen(c->title));
    for (size_t i = 0; ok && i < c->count; i++) {
        kn_model_file *file = &p.files[p.file_count];
        file->role = role_named(c->artifacts[i]->role);
        if (file->role != KN_MODEL_ROLES && (ok = find_place(c->artifacts[i], directory, &file->path, err)))
            p.file_count++;
    }
    if (ok)
        *ret = p;
    else
        kn_profile_free_model(&p);
    return ok;
}

static bool has_file(const kn_model_profile *p, const kn_model_file *file) {
    for (size_t i = 0; i < p->file_count; i++)
        if (p->files[i].role == file->role && !strcmp(p->files[i].path, file->path))
            return true;
    return false;
}

static bool is_same_model(const kn_model_profile *a, const kn_model_profile *b) {
    bool same = a->architecture == b->architecture && a->variant == b->variant && a->file_count == b->file_count;
    for (size_t i = 0; same && i < a->file_count; i++)
        same = has_file(b, &a->files[i]);
    return same;
}

static const kn_model_profile *same_in(const kn_model_list *l, const kn_model_profile *p) {
    for (size_t i = 0; i < l->count; i++)
        if (is_same_model(&l->profiles[i], p))
            return &l->profiles[i];
    return NULL;
}

/* A stored profile that cannot be read any more is in no list, and has its name all the same. */
static bool is_taken(kn_store *s, const kn_model_list *l, const char *name, bool *ret, kn_error *err) {
    *ret = kn_profiles_named(l, name);
    return *ret || kn_profile_is_ours(s, name, ret, err);
}

static bool choose_name(kn_store *s, const kn_model_list *l, const char *wanted, kn_model_profile *p, kn_error *err) {
    bool ok = true, taken = true;
    for (int n = 1; ok && taken && n <= KN_PROFILES_MAX; n++) {
        int len = snprintf(p->name, sizeof p->name, "%s", wanted);
        if (n > 1)
            snprintf(p->name + len, sizeof p->name - (size_t)len, "-%d", n);
        ok = is_taken(s, l, p->name, &taken, err);
    }
    return ok && (!taken || kn_fail(err, KN_E_RANGE, "all names like '%s' are taken", wanted));
}

/* Makes a profile, or finds one that is as good. */
static bool make_profile(kn_store *s, const kn_model_list *l, const kn_collection *c, const char *directory,
                         json_t *usable, json_t *made, kn_error *err) {
    kn_model_profile p;
    bool is_new;
    if (!draft(c, directory, &p, err))
        return false;
    const kn_model_profile *same = same_in(l, &p);
    bool ok = same || (choose_name(s, l, c->id, &p, err) && kn_profile_put(s, &p, &is_new, err));
    if (ok)
        json_array_append_new(usable, json_string(same ? same->name : p.name));
    if (ok && !same)
        json_array_append_new(made, json_string(p.name));
    kn_profile_free_model(&p);
    return ok;
}

/* ---- what has arrived ---- */

static bool look_at(kn_store *s, const kn_collections *all, const kn_download_work *w, const char *models_toml,
                    json_t *usable, json_t *made, kn_error *err) {
    const kn_artifact *a = kn_artifact_named(all, w->artifact);
    bool ok = true;
    for (size_t i = 0; ok && i < all->collection_count; i++) {
        const kn_collection *c = &all->collections[i];
        kn_model_list list;
        kn_error problem = { 0 };
        if (!c->model || !kn_collection_has(c, a) || !is_complete(c, w->directory))
            continue;
        if (!kn_profiles_list(s, models_toml, &list, &problem, err))
            return false;
        ok = make_profile(s, &list, c, w->directory, usable, made, err);
        kn_profiles_list_free(&list);
    }
    return ok;
}

static bool settle(kn_store *s, const kn_collections *all, const kn_download_work *w, const char *models_toml,
                   json_t *made, kn_error *err) {
    json_t *usable = json_array();
    bool ok = look_at(s, all, w, models_toml, usable, made, err) && kn_downloads_settle(s, w->id, usable, err);
    json_decref(usable);
    return ok;
}

bool kn_arrivals_settle(kn_store *s, const kn_collections *all, const char *models_toml, json_t *made, kn_error *err) {
    char last[KN_ID_BYTES] = "";
    for (bool ok = true;;) {
        kn_download_work w;
        if (!kn_downloads_arrived(s, last, &w, err))
            return false;
        if (!w.id[0])
            return ok;
        ok = settle(s, all, &w, models_toml, made, err) && ok; /* one that fails is in nobody's way */
        memcpy(last, w.id, sizeof last);
        kn_download_work_free(&w);
    }
}
