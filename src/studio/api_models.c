#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_form.h"
#include "base/text.h"
#include "pipelines/model_tree.h"
#include "studio/api_visit.h"
#include "studio/paths.h"
#include "studio/prepare.h"

static const char *active_of(const kn_prepared *p) {
    const kn_model_profile *active = kn_prepared_profile(p, "");
    return active ? active->name : "";
}

static json_t *shown(const kn_prepared *p, const kn_model_profile *profile) {
    return kn_model_json(profile, !strcmp(profile->name, active_of(p)));
}

static bool work_list(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    json_t *items = json_array();
    for (size_t i = 0; i < p.models.count; i++)
        json_array_append_new(items, shown(&p, &p.models.profiles[i]));
    v->json = json_pack("{s:o}", "items", items);
    kn_prepared_free(&p);
    return v->json || kn_fail_nomem(err, sizeof p);
}

void kn_api_list_models(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, work_list, NULL);
}

/* The profile that the path names, as it is now. */
static bool show_profile(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *profile = kn_profiles_named(&p.models, v->part[1]);
    json_decref(v->json);
    v->json = profile ? shown(&p, profile) : NULL;
    kn_prepared_free(&p);
    return v->json || kn_fail(err, KN_E_NOT_FOUND, "there is no such profile");
}

void kn_api_get_model(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, show_profile, NULL);
}

/* Those of models.toml and the built-in one are not changed from here. */
static bool may_change(kn_visit *v, kn_store *s, bool *ret_there, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *profile = kn_profiles_named(&p.models, v->part[1]);
    *ret_there = profile;
    bool fixed = profile && profile->fixed;
    kn_prepared_free(&p);
    return !fixed || kn_visit_deny(v, 409, "profile_is_fixed", "This profile cannot be changed here",
                                   "it is built in, or written in models.toml");
}

static bool work_put(kn_visit *v, kn_store *s, kn_error *err) {
    kn_model_profile p;
    bool there, is_new;
    if (!kn_name_is_valid(v->part[1], strlen(v->part[1])))
        return kn_visit_deny(v, 422, "parameter_invalid", "The name of a profile is a-z, 0-9, '.', '_' and '-'",
                             "the path names the profile");
    if (!may_change(v, s, &there, err))
        return false;
    if (!kn_profile_read(v->part[1], v->body.data, v->body.len, &p, &v->pointer, err))
        return kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
    bool ok = kn_profile_put(s, &p, &is_new, err);
    kn_profile_free_model(&p);
    v->status = ok && is_new ? 201 : 200;
    return ok && show_profile(v, s, err);
}

static void tell_models(kn_visit *v) {
    kn_studio_tell(v->studio, KN_EVENT_MODELS_UPDATED, v->part[1], json_pack("{s:s}", "id", v->part[1]));
    kn_visit_answer(v);
}

void kn_api_put_model(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_json(v))
        kn_visit_send(v, work_put, tell_models);
}

static bool work_delete(kn_visit *v, kn_store *s, kn_error *err) {
    bool there;
    v->status = 204;
    return may_change(v, s, &there, err) && kn_profile_drop(s, v->part[1], err);
}

void kn_api_delete_model(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, work_delete, tell_models);
}

static bool work_activate(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *profile = kn_profiles_named(&p.models, v->part[1]);
    bool ok = profile || kn_fail(err, KN_E_NOT_FOUND, "there is no such profile");
    if (ok && !kn_model_is_ready(profile))
        ok = kn_visit_deny(v, 409, "missing_model", kn_model_obstacle(profile), "the profile's files say which");
    if (ok) {
        memcpy(p.settings.profile, profile->name, sizeof p.settings.profile);
        ok = kn_studio_settings_save(s, &p.settings, err);
    }
    kn_prepared_free(&p);
    return ok && show_profile(v, s, err);
}

void kn_api_activate_model(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, work_activate, tell_models);
}

/* ---- what files there are ---- */

static bool read_scan(kn_visit *v, char **ret_folder, kn_error *err) {
    enum { DIRECTORY, RECURSIVE };
    static const char *const keys[] = { [DIRECTORY] = "directory", [RECURSIVE] = "recursive" };
    const kn_json_text body = { v->body.data, v->body.len };
    kn_json_text text;
    kn_error why = { 0 };
    kn_json_reader j;
    kn_form f;
    v->flag = true;
    kn_json_begin_inside(&j, body, "the body", err);
    j.pointer = &v->pointer;
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        if (key == RECURSIVE) {
            kn_form_bool(&f, &v->flag);
        } else if (kn_form_prose(&f, 1, KN_PATH_BYTES, &text)) {
            *ret_folder = strndup(text.data, text.len);
            if (!*ret_folder)
                kn_form_fail(&f, KN_E_NOMEM, "out of memory");
            else if (!kn_path_check(*ret_folder, &why))
                kn_form_fail(&f, why.code, "%s", why.text);
        }
    }
    kn_form_need(&f, DIRECTORY);
    return kn_form_finish(&f) ||
           kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
}

/* Whether a file lies in the folder itself. */
static bool is_direct(const char *path, const char *folder) {
    size_t len = strlen(folder);
    return !strncmp(path, folder, len) && path[len] == '/' && !strchr(path + len + 1, '/');
}

enum { SCAN_S = 3 }; /* others wait for the disk's thread meanwhile */

/* Model files are told by their first bytes. What is in them is for the image worker, which looks when a profile names
 * them: nothing that a file says is believed here. */
static bool list_files(kn_visit *v, const char *folder, kn_error *err) {
    static const char reason[] = "what it is will be checked when a profile uses it";
    kn_model_tree tree;
    if (!kn_path_check_folder(folder, err) || !kn_model_tree_read(folder, SCAN_S, &tree, err))
        return false;
    json_t *files = json_array();
    for (size_t i = 0; i < tree.files.count; i++) {
        const char *path = tree.files.at[i];
        struct stat st;
        if ((!v->flag && !is_direct(path, folder)) || stat(path, &st) != 0 ||
            kn_utf8_check(path, strlen(path)) != strlen(path))
            continue;
        json_array_append_new(files, json_pack("{s:s, s:I, s:n, s:n, s:n, s:b, s:s}", "path", path, "bytes",
                                               (json_int_t)st.st_size, "role", "model", "quantization", "usable", 0,
                                               "reason", reason));
    }
    v->json = json_pack("{s:o, s:b}", "files", files, "truncated", tree.cut);
    kn_model_tree_free(&tree);
    return v->json || kn_fail_nomem(err, sizeof tree);
}

static bool work_scan(kn_visit *v, kn_store *s, kn_error *err) {
    (void)s;
    char *folder = NULL;
    bool ok = read_scan(v, &folder, err) && folder && list_files(v, folder, err);
    free(folder);
    return ok;
}

void kn_api_scan_models(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_json(v))
        kn_visit_send(v, work_scan, NULL);
}
