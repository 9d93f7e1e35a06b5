#include "studio/running.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "studio/gallery.h"
#include "studio/inputs.h"
#include "studio/planner.h"
#include "studio/profiles.h"
#include "studio/settings.h"
#include "studio/speed.h"
#include "studio/upscalers.h"

/* ---- taken ---- */

/* A profile that a client has put here is in a file of ours. */
static bool find_profile(kn_running *r, kn_store *store, kn_error *err) {
    const char *name = json_string_value(json_object_get(r->plan, "profile"));
    bool ours = false;
    if (!name || !kn_profile_is_ours(store, name, &ours, err))
        return !name;
    if (ours && !kn_store_path(store, ".", KN_PROFILES_FILE, &r->models_toml, err))
        return false;
    r->task.models_toml = r->models_toml;
    return true;
}

/* The file of the upscaler that was planned. */
static bool find_upscaler(kn_running *r, kn_store *store, const kn_own_folders *own, kn_error *err) {
    const char *id = json_string_value(json_object_get(r->plan, "upscaler"));
    kn_studio_settings settings;
    kn_upscaler_list list;
    if (!kn_studio_settings_load(store, own, &settings, err))
        return false;
    kn_upscalers_find(settings.model_directory, &list);
    const kn_upscale_choice *found = id ? kn_upscaler_named(&list, id) : NULL;
    bool ok = !id || found || kn_fail(err, KN_E_NOT_FOUND, "the upscaler is not there any more");
    if (ok && found && found->file)
        ok = (r->upscaler = strdup(found->file)) || kn_fail_nomem(err, strlen(found->file));
    if (ok && asprintf(&r->upscalers, "%s/upscalers", settings.model_directory) < 0) {
        r->upscalers = NULL;
        ok = kn_fail_nomem(err, strlen(settings.model_directory));
    }
    r->task.upscalers = r->upscalers;
    r->task.upscaler = r->upscaler;
    const kn_upscale_spec *u = &r->request.upscale;
    r->task.blend = u->has_blend ? u->blend : settings.upscale_blend;
    r->task.prescale = u->has_prescale ? u->prescale : settings.upscale_prescale;
    kn_upscalers_free(&list);
    kn_studio_settings_free(&settings);
    return ok;
}

static bool read_job(kn_running *r, kn_store *store, const kn_own_folders *own, kn_error *err) {
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 200);
    kn_taken_job *job = &r->job;
    r->plan = json_loads(job->plan, JSON_DECODE_ANY, NULL);
    r->seeds = json_loads(job->seeds, 0, NULL);
    if (!kn_request_read(job->request, strlen(job->request), job->kind == KN_KIND_UPSCALE, &r->request, &pointer, err))
        return false;
    r->task = (kn_studio_task){ .job = job->id.text,
                                .kind = job->kind,
                                .request = &r->request,
                                .plan = r->plan,
                                .number = job->done,
                                .tile_size = job->tile_size };
    for (size_t i = 0; i < r->request.input_count; i++) {
        kn_task_input *input = &r->task.inputs[r->task.input_count];
        input->role = r->request.inputs[i].role;
        if (!kn_inputs_check(store, r->request.inputs[i].id, err) ||
            !kn_store_path(store, "inputs", r->request.inputs[i].id, &input->path, err))
            return false;
        r->task.input_count++;
    }
    if (!find_profile(r, store, err) || !find_upscaler(r, store, own, err))
        return false;
    if (r->request.gallery_item[0]) {
        kn_record record;
        if (!kn_gallery_find(store, r->request.gallery_item, &record, err))
            return false;
        bool ok = kn_store_path(store, "gallery", record.file, &r->task.inputs[0].path, err);
        kn_record_free(&record);
        r->task.input_count = ok;
        return ok;
    }
    return true;
}

bool kn_running_take(kn_running *r, kn_store *store, const kn_own_folders *own, kn_error *err) {
    if (!kn_jobs_take(store, &r->job, err))
        return false;
    if (!r->job.request)
        return true;
    kn_error why = { 0 };
    r->why = read_job(r, store, own, &why) ? KN_TASK_FAILURES : KN_TASK_INPUT_INVALID;
    return kn_jobs_get(store, r->job.id.text, &r->told, NULL, err);
}

/* ---- its pictures kept ---- */

static char *copy_of(const char *text) {
    return text ? strdup(text) : NULL;
}

/* Everything needed to run it again. */
static char *recipe_of(const kn_running *r) {
    json_t *recipe = json_loads(r->job.request, 0, NULL);
    const char *seed = json_string_value(json_array_get(r->seeds, r->task.number));
    static const char *const planned[] = {
        "profile", "steps", "guidance", "sampler", "working_width", "working_height"
    };
    if (seed)
        json_object_set_new(recipe, "seed", json_string(seed));
    for (size_t i = 0; r->job.kind != KN_KIND_UPSCALE && i < KN_COUNT(planned); i++)
        json_object_set(recipe, planned[i], json_object_get(r->plan, planned[i]));
    char *text = json_dumps(recipe, JSON_COMPACT);
    json_decref(recipe);
    return text;
}

static void fill_record(const kn_running *r, kn_record *record) {
    const kn_studio_request *request = &r->request;
    *record = (kn_record){ .job = r->job.id,
                           .number = r->task.number,
                           .title = copy_of(request->title),
                           .prompt = copy_of(request->prompt),
                           .kind = r->job.kind,
                           .width = r->made.width,
                           .height = r->made.height,
                           .format = r->made.format,
                           .has_seed = r->task.has_seed,
                           .seed = r->task.seed,
                           .recipe = recipe_of(r) };
    for (size_t i = 0; i < request->tag_count; i++)
        if ((record->tags[record->tag_count] = strdup(request->tags[i])))
            record->tag_count++;
    const char *profile = json_string_value(json_object_get(r->plan, "profile"));
    if (profile && r->job.kind != KN_KIND_UPSCALE)
        snprintf(record->profile, sizeof record->profile, "%s", profile);
    for (size_t i = 0; i < request->input_count; i++)
        memcpy(record->sources[record->source_count++], request->inputs[i].id, sizeof record->sources[0]);
}

/* A copy where people want to find their pictures. The gallery has it in any case. */
static bool copy_out(const kn_running *r, kn_store *store, const kn_own_folders *own, const kn_record *record) {
    kn_studio_settings settings;
    char *path = NULL;
    if (!kn_studio_settings_load(store, own, &settings, NULL))
        return false;
    bool ok = settings.output_directory ? kn_gallery_export(settings.output_directory, record->file, r->picture.data,
                                                            r->picture.len, &path, NULL)
                                        : !kn_studio_settings_lack_output(&settings);
    free(path);
    kn_studio_settings_free(&settings);
    return ok;
}

bool kn_running_save(kn_running *r, kn_store *store, const kn_own_folders *own, const kn_studio_runner *runner,
                     kn_error *err) {
    kn_record record;
    fill_record(r, &record);
    bool kept = r->request.output.save_to_gallery;
    bool ok = kept ? kn_gallery_save(store, &record, r->picture.data, r->picture.len, err)
                   : kn_results_save(store, &record, r->picture.data, r->picture.len, err);
    if (ok && kept) {
        r->item = kn_gallery_json(store, &record);
        r->copy_failed = !copy_out(r, store, own, &record);
    }
    const kn_speed_key key = { runner->backend, runner->device, "staged" };
    if (ok)
        kn_speed_learn(store, &key, r->job.units, r->seconds, NULL); /* a guess the less is no harm */
    kn_record_free(&record);
    return ok;
}

/* ---- its end written ---- */

static char *error_text(const kn_running *r) {
    if (r->end != KN_STATE_FAILED)
        return NULL;
    json_t *j = json_pack("{s:s, s:s, s:b, s:s}", "code", kn_task_failures[r->why], "message", r->message, "retryable",
                          kn_task_is_retryable(r->why), "phase", kn_task_phases[r->phase]);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return text;
}

static const kn_note smaller = { "retried_with_smaller_tiles", "Memory ran out once; the second try used smaller tiles",
                                 "warning" };
static const kn_note anew = { "retried", "The engine ended while it worked on this job and was started again",
                              "warning" };

static char *notes_text(const kn_note *note) {
    json_t *notes = kn_notes_json(note, 1);
    char *text = notes ? json_dumps(notes, JSON_COMPACT) : NULL;
    json_decref(notes);
    return text;
}

bool kn_running_goes_on(const kn_running *r) {
    return r->put_off || r->again_smaller || r->again_anew;
}

static bool requeue(kn_running *r, kn_store *store, kn_error *err) {
    if (r->put_off)
        return kn_jobs_release(store, &r->job, err);
    char *text = notes_text(r->again_smaller ? &smaller : &anew);
    uint32_t tile = r->again_smaller ? kn_plan_smaller_tile(r->task.tile_size) : r->task.tile_size;
    bool ok = kn_jobs_requeue(store, r->job.id.text, tile, text, err);
    free(text);
    return ok;
}

bool kn_running_end(kn_running *r, kn_store *store, kn_error *err) {
    kn_error why = { 0 };
    const char *id = r->job.id.text;
    if (kn_running_goes_on(r)) {
        if (requeue(r, store, &why))
            return kn_jobs_get(store, id, &r->told, NULL, err);
        if (why.code != KN_E_USAGE)
            return kn_fail(err, why.code, "%s", why.text);
        r->put_off = r->again_smaller = r->again_anew = false; /* somebody cancelled it meanwhile */
        r->end = KN_STATE_CANCELLED;
    }
    const kn_note dropped = { "hdr_dropped", r->hdr_lost, "info" };
    char *error = error_text(r), *notes = r->hdr_lost[0] ? notes_text(&dropped) : NULL;
    bool ok = kn_jobs_finish(store, id, r->end, error, notes, err);
    free(error);
    free(notes);
    return ok && kn_jobs_get(store, id, &r->told, NULL, err);
}

void kn_running_forget(kn_running *r) {
    for (size_t i = 0; i < r->task.input_count; i++)
        free(r->task.inputs[i].path);
    r->task = (kn_studio_task){ 0 };
    kn_taken_job_free(&r->job);
    kn_request_free(&r->request);
    json_decref(r->plan);
    json_decref(r->seeds);
    json_decref(r->told);
    r->plan = r->seeds = r->told = NULL;
    kn_buf_free(&r->recipe);
    kn_buf_init(&r->recipe, KN_RECIPE_MAX);
    free(r->models_toml);
    free(r->upscalers);
    free(r->upscaler);
    r->models_toml = r->upscalers = r->upscaler = NULL;
    r->hdr_lost[0] = 0;
}

void kn_running_init(kn_running *r) {
    *r = (kn_running){ 0 };
    kn_buf_init(&r->picture, KN_STORE_FILE_MAX);
    kn_buf_init(&r->recipe, KN_RECIPE_MAX);
}

void kn_running_free(kn_running *r) {
    kn_running_forget(r);
    json_decref(r->item);
    kn_buf_free(&r->picture);
    kn_buf_free(&r->recipe);
}
