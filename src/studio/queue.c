/* One job after the other: taken from the database, computed picture by picture, saved, ended.
 *
 *     idle ──► taking ──► composing ──► computing ──► saving ──┬──► composing …
 *      ▲                       │            │                  ▼
 *      └──────── ending ◄──────┴────────────┴──────────────────┘
 *
 * A database that cannot be used for the moment is asked again until it can: what has been computed is not thrown away,
 * and no job is left without its end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/state.h"
#include "gateway/trouble.h"
#include "studio/internal.h"
#include "studio/starts.h"

enum {
    PREVIEW_BYTES = 4 << 20,
    AGAIN_MS = 1000,         /* until the database is asked again */
    PROGRESS_EVERY_MS = 100, /* ten events a second at most */
};

typedef enum step { IDLE, TAKING, COMPOSING, COMPUTING, SAVING, ENDING } step;

struct kn_queue {
    kn_studio *studio;
    step step;
    bool wanted; /* there may be another job since the last look */
    bool rests, stopping, closing;
    bool cut; /* what is still being drawn is not waited for any more */
    void (*stopped)(void *ctx);
    void *stop_ctx;

    kn_errand errand; /* taking, saving, ending */
    kn_starts starts;
    kn_timer again, show;

    /* The job that runs. */
    kn_taken_job job;
    kn_studio_request request;
    json_t *plan, *seeds;
    kn_studio_task task;
    kn_buf recipe;
    char *models_toml, *upscalers, *upscaler;
    bool cancelled;
    double begun_s; /* when its present picture was begun */

    /* Its progress, as it is shown. */
    kn_task_phase phase;
    kn_wait waits_for; /* in that phase, … */
    double waits_s;    /* … since then */
    unsigned at, steps;
    double fraction, first_s;
    uint64_t shown_ms;
    bool has_news, has_new_preview;
    kn_buf preview;
    uint32_t preview_width, preview_height;
    unsigned preview_step, preview_number;

    /* A picture that is to be saved, and what became of it. */
    kn_buf picture;
    kn_task_picture made;
    char hdr_lost[700]; /* of a job's first picture that is without it; empty: none is */
    double seconds;
    json_t *item;
    bool copy_failed;
    kn_trouble gallery, database; /* whether they can be written, for the log */

    /* How it ends. */
    kn_job_state end;
    bool put_off, again_smaller, again_anew;
    kn_task_failure why;
    char message[sizeof((kn_error){ 0 }.text)];
    json_t *told; /* the job as it is then */
};

static void compute(kn_queue *q);
static void tell_if_stopped(kn_queue *q);
static void end(kn_queue *q, kn_job_state state, kn_task_failure why, const char *message);

/* ---- what clients see ---- */

/* What part of a picture's time is over when a phase begins. */
static double share_of(kn_task_phase phase, unsigned at, unsigned steps) {
    static const double begin[KN_TASK_PHASES + 1] = { 0, 0, 0.03, 0.06, 0.1, 0.9, 0.94, 0.98, 1 };
    double part = steps ? (double)KN_MIN(at, steps) / steps : 0;
    return begin[phase] + part * (begin[phase + 1] - begin[phase]);
}

const kn_note kn_queue_waits[KN_WAITS] = {
    [KN_WAITS_FOR_TURN] = { "waits_for_turn", "Others have their turn first; the picture keeps its place in the line",
                            "info" },
    [KN_WAITS_FOR_RESUME] = { "admission_paused",
                              "Admission is paused; the picture keeps its place until the owner resumes it with POST "
                              "/kuno/v1/admission/resume at the control address",
                              "warning" },
    [KN_WAITS_FOR_RECOVERY] = { "recovery_required",
                                ("Earlier work may still be running: " KN_STATE_RECOVERY
                                 "; the job is kept and goes on afterwards"),
                                "warning" },
};

static json_t *wait_json(const kn_queue *q) {
    const kn_note *n = &kn_queue_waits[q->waits_for];
    return q->phase == KN_TASK_WAITING ? kn_note_json(n) : NULL;
}

static json_t *progress_json(const kn_queue *q) {
    double spent = kn_now() - q->first_s;
    bool has_steps = q->phase == KN_TASK_SAMPLING && q->steps;
    bool guessed = q->phase >= KN_TASK_SAMPLING && q->fraction > 0.1;
    return json_pack(
        "{s:s, s:o*, s:o, s:o, s:I, s:f, s:o, s:b}", "phase", kn_task_phases[q->phase], "waiting", wait_json(q), "step",
        has_steps ? json_integer(q->at) : json_null(), "steps", has_steps ? json_integer(q->steps) : json_null(),
        "image_index", (json_int_t)q->task.number, "fraction", q->fraction, "eta_seconds",
        guessed ? json_real(spent * (1 - q->fraction) / q->fraction) : json_null(), "has_preview", q->preview.len > 0);
}

void kn_queue_show_progress(const kn_queue *q, json_t *job) {
    const char *id = json_string_value(json_object_get(job, "id"));
    const char *state = json_string_value(json_object_get(job, "state"));
    if (q->step >= COMPOSING && id && state && !strcmp(id, q->job.id.text) && !strcmp(state, "running"))
        json_object_set_new(job, "progress", progress_json(q));
}

const char *kn_queue_job(const kn_queue *q) {
    return q->step >= COMPOSING ? q->job.id.text : NULL;
}

const void *kn_queue_preview(const kn_queue *q, const char *job, size_t *ret_len) {
    if (q->step < COMPOSING || !q->preview.len || strcmp(job, q->job.id.text) != 0)
        return NULL;
    *ret_len = q->preview.len;
    return q->preview.data;
}

unsigned kn_queue_preview_number(const kn_queue *q) {
    return q->preview_number;
}

static void show_now(kn_queue *q) {
    kn_studio *s = q->studio;
    const char *id = q->job.id.text;
    char url[100];
    q->shown_ms = kn_loop_now_ms(s->loop);
    if (q->has_news)
        kn_studio_tell(s, KN_EVENT_JOB_PROGRESS, id,
                       json_pack("{s:s, s:o}", "job_id", id, "progress", progress_json(q)));
    snprintf(url, sizeof url, "/api/v1/jobs/%s/preview", id);
    if (q->has_new_preview)
        kn_studio_tell(s, KN_EVENT_JOB_PREVIEW, id,
                       json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "job_id", id, "image_index",
                                 (json_int_t)q->task.number, "step", (json_int_t)q->preview_step, "width",
                                 (json_int_t)q->preview_width, "height", (json_int_t)q->preview_height, "preview_url",
                                 url));
    q->has_news = q->has_new_preview = false;
}

static void show_time_has_come(kn_timer *t) {
    kn_queue *q = KN_HOLDER(t, kn_queue, show);
    if (q->step >= COMPOSING)
        show_now(q);
}

static void show(kn_queue *q) {
    uint64_t now = kn_loop_now_ms(q->studio->loop), due = q->shown_ms + PROGRESS_EVERY_MS;
    if (now >= due)
        show_now(q);
    else
        kn_loop_timer_at(q->studio->loop, &q->show, due);
}

static void enter_phase(kn_queue *q, kn_task_phase phase, unsigned at, unsigned steps) {
    double batch = (double)q->request.batch;
    double fraction = (q->task.number + share_of(phase, at, steps)) / batch;
    q->phase = phase;
    q->at = at;
    q->steps = steps;
    q->fraction = KN_MAX(q->fraction, KN_MIN(fraction, 1.0));
    q->has_news = true;
    show(q);
}

/* ---- saving ---- */

static char *copy_of(const char *text) {
    return text ? strdup(text) : NULL;
}

/* Everything needed to run it again. */
static char *recipe_of(const kn_queue *q) {
    json_t *recipe = json_loads(q->job.request, 0, NULL);
    const char *seed = json_string_value(json_array_get(q->seeds, q->task.number));
    static const char *const planned[] = {
        "profile", "steps", "guidance", "sampler", "working_width", "working_height"
    };
    if (seed)
        json_object_set_new(recipe, "seed", json_string(seed));
    for (size_t i = 0; q->job.kind != KN_KIND_UPSCALE && i < KN_COUNT(planned); i++)
        json_object_set(recipe, planned[i], json_object_get(q->plan, planned[i]));
    char *text = json_dumps(recipe, JSON_COMPACT);
    json_decref(recipe);
    return text;
}

static void fill_record(const kn_queue *q, kn_record *r) {
    const kn_studio_request *request = &q->request;
    *r = (kn_record){ .job = q->job.id,
                      .number = q->task.number,
                      .title = copy_of(request->title),
                      .prompt = copy_of(request->prompt),
                      .kind = q->job.kind,
                      .width = q->made.width,
                      .height = q->made.height,
                      .format = q->made.format,
                      .has_seed = q->task.has_seed,
                      .seed = q->task.seed,
                      .recipe = recipe_of(q) };
    for (size_t i = 0; i < request->tag_count; i++)
        if ((r->tags[r->tag_count] = strdup(request->tags[i])))
            r->tag_count++;
    const char *profile = json_string_value(json_object_get(q->plan, "profile"));
    if (profile && q->job.kind != KN_KIND_UPSCALE)
        snprintf(r->profile, sizeof r->profile, "%s", profile);
    for (size_t i = 0; i < request->input_count; i++)
        memcpy(r->sources[r->source_count++], request->inputs[i].id, sizeof r->sources[0]);
}

/* A copy where people want to find their pictures. The gallery has it in any case. */
static bool copy_out(kn_queue *q, kn_store *store, const kn_record *record) {
    kn_studio_settings settings;
    char *path = NULL;
    if (!kn_studio_settings_load(store, &q->studio->own, &settings, NULL))
        return false;
    bool ok = settings.output_directory ? kn_gallery_export(settings.output_directory, record->file, q->picture.data,
                                                            q->picture.len, &path, NULL)
                                        : !kn_studio_settings_lack_output(&settings);
    free(path);
    kn_studio_settings_free(&settings);
    return ok;
}

static bool save_work(kn_errand *e, kn_store *store, kn_error *err) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    kn_record record;
    fill_record(q, &record);
    bool kept = q->request.output.save_to_gallery;
    bool ok = kept ? kn_gallery_save(store, &record, q->picture.data, q->picture.len, err)
                   : kn_results_save(store, &record, q->picture.data, q->picture.len, err);
    if (ok && kept) {
        q->item = kn_gallery_json(store, &record);
        q->copy_failed = !copy_out(q, store, &record);
    }
    const kn_speed_key key = { q->studio->runner.backend, q->studio->runner.device, "staged" };
    if (ok)
        kn_speed_learn(store, &key, q->job.units, q->seconds, NULL); /* a guess the less is no harm */
    kn_record_free(&record);
    return ok;
}

/* Other errors are those of one picture or job. */
static void note_disk(kn_trouble *t, const kn_errand *e) {
    const kn_code why = e->err.code;
    if (e->ok || why == KN_E_IO || why == KN_E_OUTPUT || why == KN_E_FULL || why == KN_E_READONLY)
        kn_trouble_note(t, e->ok, NULL);
}

static void saved(kn_errand *e) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    kn_studio *s = q->studio;
    note_disk(&q->gallery, e);
    if (q->closing)
        return;
    if (!e->ok && e->err.code == KN_E_IO) {
        kn_loop_timer_after(s->loop, &q->again, AGAIN_MS);
        return;
    }
    kn_buf_free(&q->picture);
    kn_buf_init(&q->picture, KN_STORE_FILE_MAX);
    if (!e->ok) {
        const char *message;
        const kn_task_failure why = kn_task_unsaved(e->err.code, &message);
        end(q, KN_STATE_FAILED, why, message);
        return;
    }
    if (q->item) {
        char id[KN_ID_BYTES];
        snprintf(id, sizeof id, "%s", json_string_value(json_object_get(q->item, "id")));
        kn_studio_tell(s, KN_EVENT_GALLERY_ADDED, id, q->item);
        q->item = NULL;
        if (q->copy_failed)
            kn_studio_log(s, "studio: a picture could not be copied to the output directory; the gallery has it");
    }
    if (++q->task.number < q->request.batch)
        compute(q);
    else
        end(q, KN_STATE_COMPLETED, KN_TASK_FAILURES, "");
}

static void save(kn_queue *q) {
    q->step = SAVING;
    q->errand.work = save_work;
    q->errand.back = saved;
    kn_errand_send(q->studio, &q->errand);
}

/* ---- one picture ---- */

static void heard_waits(void *ctx, kn_wait what_for) {
    kn_queue *q = ctx;
    if (q->step != COMPUTING || q->closing)
        return;
    if (q->phase != KN_TASK_WAITING) {
        q->waits_s = kn_now();
        kn_starts_tell(&q->starts, q->studio, &q->job.id, q->job.attempts - 1);
    }
    q->waits_for = what_for;
    enter_phase(q, KN_TASK_WAITING, 0, 0);
    if (q->stopping)
        kn_loop_timer_after(q->studio->loop, &q->again, 0); /* not from within this call */
}

/* Time that was waited through tells nothing about how fast pictures are drawn. */
static void leave_out_wait(kn_queue *q) {
    double waited = kn_now() - q->waits_s;
    q->first_s += waited;
    q->begun_s += waited;
}

static void heard_progress(void *ctx, kn_task_phase phase, unsigned at, unsigned steps) {
    kn_queue *q = ctx;
    if (q->step != COMPUTING || q->closing)
        return;
    if (q->phase == KN_TASK_WAITING) {
        leave_out_wait(q);
        kn_starts_tell(&q->starts, q->studio, &q->job.id, q->job.attempts);
    }
    enter_phase(q, phase, at, steps);
}

static void heard_preview(void *ctx, unsigned at, const kn_task_picture *png) {
    kn_queue *q = ctx;
    if (q->step != COMPUTING || q->closing)
        return;
    kn_buf_clear(&q->preview);
    if (!kn_buf_add(&q->preview, png->data, png->len)) {
        kn_buf_clear(&q->preview);
        return;
    }
    q->preview_step = at;
    q->preview_number++;
    q->preview_width = png->width;
    q->preview_height = png->height;
    q->has_new_preview = true;
    show(q);
}

static void heard_done(void *ctx, const kn_task_picture *picture) {
    kn_queue *q = ctx;
    if (q->closing)
        return;
    kn_buf_clear(&q->picture);
    if (!kn_buf_add(&q->picture, picture->data, picture->len)) {
        end(q, KN_STATE_FAILED, KN_TASK_INTERNAL, "The picture is too large, or memory is short");
        return;
    }
    q->made = *picture;
    q->made.data = q->made.hdr_lost = NULL;
    if (picture->hdr_lost && !q->hdr_lost[0])
        snprintf(q->hdr_lost, sizeof q->hdr_lost, "The result is saved without the gain map of its source: %s",
                 picture->hdr_lost);
    q->seconds = kn_now() - q->begun_s;
    enter_phase(q, KN_TASK_SAVING, 0, 0);
    save(q);
}

static void heard_failed(void *ctx, kn_task_failure why, const char *message) {
    kn_queue *q = ctx;
    if (q->closing)
        return;
    bool stopped = why == KN_TASK_CANCELLED || q->cancelled;
    end(q, stopped ? KN_STATE_CANCELLED : KN_STATE_FAILED, why, message);
}

static const kn_task_heard heard = { heard_waits, heard_progress, heard_preview, heard_done, heard_failed };

static void begin_picture(kn_queue *q) {
    kn_studio *s = q->studio;
    kn_error err = { 0 };
    q->step = COMPUTING;
    q->begun_s = kn_now();
    if (!s->runner.start(s->runner.ctx, &q->task, &heard, q, &err))
        end(q, KN_STATE_FAILED, KN_TASK_ENGINE_FAILED, err.text);
}

static bool compose_work(kn_errand *e, kn_store *store, kn_error *err) {
    (void)store;
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    kn_buf_clear(&q->recipe);
    return !q->studio->runner.compose || q->studio->runner.compose(&q->task, &q->recipe, err);
}

static void composed(kn_errand *e) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    if (q->closing)
        return;
    if (q->cancelled)
        end(q, KN_STATE_CANCELLED, KN_TASK_CANCELLED, "");
    else if (!e->ok)
        end(q, KN_STATE_FAILED, e->err.code == KN_E_NOMEM ? KN_TASK_INTERNAL : KN_TASK_INPUT_INVALID, e->err.text);
    else
        begin_picture(q);
}

static void compute(kn_queue *q) {
    const char *seed = json_string_value(json_array_get(q->seeds, q->task.number));
    q->task.has_seed = seed && kn_seed_parse(seed, strlen(seed), &q->task.seed);
    q->task.recipe = &q->recipe;
    q->step = COMPOSING;
    enter_phase(q, KN_TASK_LOADING, 0, 0);
    q->errand.work = compose_work;
    q->errand.back = composed;
    kn_errand_send(q->studio, &q->errand);
}

/* ---- the end of a job ---- */

static void forget_job(kn_queue *q) {
    for (size_t i = 0; i < q->task.input_count; i++)
        free(q->task.inputs[i].path);
    q->task = (kn_studio_task){ 0 };
    kn_taken_job_free(&q->job);
    kn_request_free(&q->request);
    json_decref(q->plan);
    json_decref(q->seeds);
    json_decref(q->told);
    q->plan = q->seeds = q->told = NULL;
    kn_buf_clear(&q->preview);
    kn_buf_free(&q->recipe);
    kn_buf_init(&q->recipe, KN_RECIPE_MAX);
    free(q->models_toml);
    free(q->upscalers);
    free(q->upscaler);
    q->models_toml = q->upscalers = q->upscaler = NULL;
    kn_loop_timer_stop(&q->show);
    q->cancelled = q->has_news = q->has_new_preview = false;
    q->fraction = 0;
    q->hdr_lost[0] = 0;
}

static char *error_text(const kn_queue *q) {
    if (q->end != KN_STATE_FAILED)
        return NULL;
    json_t *j = json_pack("{s:s, s:s, s:b, s:s}", "code", kn_task_failures[q->why], "message", q->message, "retryable",
                          kn_task_is_retryable(q->why), "phase", kn_task_phases[q->phase]);
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

static bool goes_on_later(const kn_queue *q) {
    return q->put_off || q->again_smaller || q->again_anew;
}

static bool requeue(kn_queue *q, kn_store *store, kn_error *err) {
    if (q->put_off)
        return kn_jobs_release(store, &q->job, err);
    char *text = notes_text(q->again_smaller ? &smaller : &anew);
    uint32_t tile = q->again_smaller ? kn_plan_smaller_tile(q->task.tile_size) : q->task.tile_size;
    bool ok = kn_jobs_requeue(store, q->job.id.text, tile, text, err);
    free(text);
    return ok;
}

static bool end_work(kn_errand *e, kn_store *store, kn_error *err) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    kn_error why = { 0 };
    const char *id = q->job.id.text;
    if (goes_on_later(q)) {
        if (requeue(q, store, &why))
            return kn_jobs_get(store, id, &q->told, NULL, err);
        if (why.code != KN_E_USAGE)
            return kn_fail(err, why.code, "%s", why.text);
        q->put_off = q->again_smaller = q->again_anew = false; /* somebody cancelled it meanwhile */
        q->end = KN_STATE_CANCELLED;
    }
    const kn_note dropped = { "hdr_dropped", q->hdr_lost, "info" };
    char *error = error_text(q), *notes = q->hdr_lost[0] ? notes_text(&dropped) : NULL;
    bool ok = kn_jobs_finish(store, id, q->end, error, notes, err);
    free(error);
    free(notes);
    return ok && kn_jobs_get(store, id, &q->told, NULL, err);
}

static void ended(kn_errand *e) {
    static const kn_event_kind events[KN_STATES] = {
        [KN_STATE_COMPLETED] = KN_EVENT_JOB_COMPLETED,
        [KN_STATE_FAILED] = KN_EVENT_JOB_FAILED,
        [KN_STATE_CANCELLED] = KN_EVENT_JOB_CANCELLED,
    };
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    kn_studio *s = q->studio;
    note_disk(&q->database, e);
    if (q->closing)
        return;
    if (!e->ok && e->err.code != KN_E_USAGE && e->err.code != KN_E_NOT_FOUND) {
        kn_loop_timer_after(s->loop, &q->again, AGAIN_MS); /* a job is not left without its end */
        return;
    }
    bool again = goes_on_later(q);
    if (!again && q->end == KN_STATE_FAILED)
        kn_studio_note_error(s, kn_task_failures[q->why], q->job.id.text);
    if (e->ok) {
        json_t *told = q->told;
        q->told = NULL;
        kn_studio_tell(s, again ? KN_EVENT_JOB_QUEUED : events[q->end], q->job.id.text, told);
    }
    forget_job(q);
    q->step = IDLE;
    kn_studio_tell(s, KN_EVENT_ENGINE_UPDATED, "", kn_studio_engine_json(s));
    kn_queue_look(q);
    tell_if_stopped(q);
}

static void send_end(kn_queue *q) {
    q->errand.work = end_work;
    q->errand.back = ended;
    kn_errand_send(q->studio, &q->errand);
}

/* Called once for each job that was taken, however it ends. One second try is made, of what another try may do. What
 * nobody has cancelled but the service that stops goes on after its next start. */
static void end(kn_queue *q, kn_job_state state, kn_task_failure why, const char *message) {
    bool may_try_again = state == KN_STATE_FAILED && !q->job.retries && !q->cancelled;
    q->put_off = why == KN_TASK_CANCELLED && q->stopping && !q->cancelled;
    q->step = ENDING;
    q->end = state;
    q->why = why;
    q->again_smaller = may_try_again && why == KN_TASK_OUT_OF_MEMORY && kn_plan_smaller_tile(q->task.tile_size);
    q->again_anew = may_try_again && why == KN_TASK_ENGINE_LOST;
    snprintf(q->message, sizeof q->message, "%s", message);
    send_end(q);
}

/* ---- the beginning of a job ---- */

/* A profile that a client has put here is in a file of ours. */
static bool find_profile(kn_queue *q, kn_store *store, kn_error *err) {
    const char *name = json_string_value(json_object_get(q->plan, "profile"));
    bool ours = false;
    if (!name || !kn_profile_is_ours(store, name, &ours, err))
        return !name;
    if (ours && !kn_store_path(store, ".", KN_PROFILES_FILE, &q->models_toml, err))
        return false;
    q->task.models_toml = q->models_toml;
    return true;
}

/* The file of the upscaler that was planned. */
static bool find_upscaler(kn_queue *q, kn_store *store, kn_error *err) {
    const char *id = json_string_value(json_object_get(q->plan, "upscaler"));
    kn_studio_settings settings;
    kn_upscaler_list list;
    if (!kn_studio_settings_load(store, &q->studio->own, &settings, err))
        return false;
    kn_upscalers_find(settings.model_directory, &list);
    const kn_upscale_choice *found = id ? kn_upscaler_named(&list, id) : NULL;
    bool ok = !id || found || kn_fail(err, KN_E_NOT_FOUND, "the upscaler is not there any more");
    if (ok && found && found->file)
        ok = (q->upscaler = strdup(found->file)) || kn_fail_nomem(err, strlen(found->file));
    if (ok && asprintf(&q->upscalers, "%s/upscalers", settings.model_directory) < 0) {
        q->upscalers = NULL;
        ok = kn_fail_nomem(err, strlen(settings.model_directory));
    }
    q->task.upscalers = q->upscalers;
    q->task.upscaler = q->upscaler;
    const kn_upscale_spec *u = &q->request.upscale;
    q->task.blend = u->has_blend ? u->blend : settings.upscale_blend;
    q->task.prescale = u->has_prescale ? u->prescale : settings.upscale_prescale;
    kn_upscalers_free(&list);
    kn_studio_settings_free(&settings);
    return ok;
}

static bool read_job(kn_queue *q, kn_store *store, kn_error *err) {
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 200);
    kn_taken_job *job = &q->job;
    q->plan = json_loads(job->plan, JSON_DECODE_ANY, NULL);
    q->seeds = json_loads(job->seeds, 0, NULL);
    if (!kn_request_read(job->request, strlen(job->request), job->kind == KN_KIND_UPSCALE, &q->request, &pointer, err))
        return false;
    q->task = (kn_studio_task){ .job = job->id.text,
                                .kind = job->kind,
                                .request = &q->request,
                                .plan = q->plan,
                                .number = job->done,
                                .tile_size = job->tile_size };
    for (size_t i = 0; i < q->request.input_count; i++) {
        kn_task_input *input = &q->task.inputs[q->task.input_count];
        input->role = q->request.inputs[i].role;
        if (!kn_store_has(store, "inputs", q->request.inputs[i].id))
            return kn_fail(err, KN_E_NOT_FOUND, "an input of the job is not there any more");
        if (!kn_store_path(store, "inputs", q->request.inputs[i].id, &input->path, err))
            return false;
        q->task.input_count++;
    }
    if (!find_profile(q, store, err) || !find_upscaler(q, store, err))
        return false;
    if (q->request.gallery_item[0]) {
        kn_record record;
        if (!kn_gallery_find(store, q->request.gallery_item, &record, err))
            return false;
        bool ok = kn_store_path(store, "gallery", record.file, &q->task.inputs[0].path, err);
        kn_record_free(&record);
        q->task.input_count = ok;
        return ok;
    }
    return true;
}

static bool take_work(kn_errand *e, kn_store *store, kn_error *err) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    if (!kn_jobs_take(store, &q->job, err))
        return false;
    if (!q->job.request)
        return true;
    kn_error why = { 0 };
    q->why = read_job(q, store, &why) ? KN_TASK_FAILURES : KN_TASK_INPUT_INVALID;
    return kn_jobs_get(store, q->job.id.text, &q->told, NULL, err);
}

static void begin_job(kn_queue *q) {
    kn_studio *s = q->studio;
    json_t *told = q->told;
    q->told = NULL;
    q->phase = KN_TASK_LOADING;
    q->first_s = kn_now();
    q->step = COMPOSING;
    kn_queue_show_progress(q, told);
    kn_studio_tell(s, KN_EVENT_JOB_STARTED, q->job.id.text, told);
    kn_studio_tell(s, KN_EVENT_ENGINE_UPDATED, "", kn_studio_engine_json(s));
    if (q->why == KN_TASK_INPUT_INVALID)
        end(q, KN_STATE_FAILED, KN_TASK_INPUT_INVALID, "A picture that the job works from is not there any more");
    else if (q->task.number >= q->request.batch) /* the service ended after its last picture */
        end(q, KN_STATE_COMPLETED, KN_TASK_FAILURES, "");
    else
        compute(q);
}

static void taken(kn_errand *e) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    if (q->closing)
        return;
    if (q->job.request) {
        begin_job(q);
        return;
    }
    q->step = IDLE;
    if (!e->ok)
        kn_loop_timer_after(q->studio->loop, &q->again, AGAIN_MS);
    else if (q->wanted)
        kn_queue_look(q);
    tell_if_stopped(q);
}

void kn_queue_look(kn_queue *q) {
    q->wanted = true;
    if (q->step != IDLE || q->rests || q->stopping)
        return;
    q->wanted = false;
    q->step = TAKING;
    q->errand.work = take_work;
    q->errand.back = taken;
    kn_errand_send(q->studio, &q->errand);
}

/* The service stops: there is nothing to finish of a picture whose turn has not come. */
static void put_off_what_waits(kn_queue *q) {
    if (q->step == COMPUTING && q->phase == KN_TASK_WAITING)
        q->studio->runner.cancel(q->studio->runner.ctx);
}

static void ask_again(kn_timer *t) {
    kn_queue *q = KN_HOLDER(t, kn_queue, again);
    switch (q->step) {
    case IDLE: kn_queue_look(q); break;
    case SAVING: save(q); break;
    case ENDING: send_end(q); break;
    case COMPUTING: put_off_what_waits(q); break;
    case TAKING:
    case COMPOSING: break;
    }
}

/* ---- from outside ---- */

static void cancel_now(kn_queue *q) {
    if (q->cancelled)
        return;
    q->cancelled = true;
    if (q->step == COMPUTING)
        q->studio->runner.cancel(q->studio->runner.ctx);
}

void kn_queue_cancel(kn_queue *q, const char *job) {
    if (q->step >= COMPOSING && !strcmp(job, q->job.id.text))
        cancel_now(q);
}

void kn_queue_rest(kn_queue *q, bool rests) {
    q->rests = rests;
    if (rests && q->step == IDLE && q->studio->runner.rest)
        q->studio->runner.rest(q->studio->runner.ctx);
    kn_queue_look(q);
}

bool kn_queue_rests(const kn_queue *q) {
    return q->rests;
}

bool kn_queue_is_busy(const kn_queue *q) {
    return q->step >= COMPOSING;
}

static void tell_if_stopped(kn_queue *q) {
    void (*stopped)(void *ctx) = q->stopped;
    if (!q->stopping || q->step != IDLE || !stopped)
        return;
    q->stopped = NULL;
    stopped(q->stop_ctx);
}

void kn_queue_stop(kn_queue *q, bool cancel, void (*stopped)(void *ctx), void *ctx) {
    q->stopping = true;
    q->stopped = stopped;
    q->stop_ctx = ctx;
    if (cancel && q->step >= COMPOSING)
        cancel_now(q);
    else
        put_off_what_waits(q);
    kn_studio_tell(q->studio, KN_EVENT_ENGINE_UPDATED, "", kn_studio_engine_json(q->studio));
    tell_if_stopped(q);
}

void kn_queue_cut(kn_queue *q) {
    if (!q->stopping || q->step != COMPUTING)
        return;
    q->cut = true;
    q->studio->runner.cancel(q->studio->runner.ctx);
    kn_studio_tell(q->studio, KN_EVENT_ENGINE_UPDATED, "", kn_studio_engine_json(q->studio));
}

bool kn_queue_is_over(const kn_queue *q) {
    return q->stopping && q->step == IDLE;
}

bool kn_queue_leaves(const kn_queue *q, const char *job) {
    const char *now = kn_queue_job(q);
    return q->stopping && (q->cut || !now || strcmp(job, now) != 0);
}

bool kn_queue_is_stopping(const kn_queue *q) {
    return q->stopping;
}

void kn_queue_close(kn_queue *q) {
    if (!q)
        return;
    q->closing = true;
    if (q->step == COMPUTING)
        q->studio->runner.cancel(q->studio->runner.ctx);
    kn_loop_timer_close(q->studio->loop, &q->again);
    kn_loop_timer_close(q->studio->loop, &q->show);
}

bool kn_queue_new(kn_studio *s, kn_queue **ret, kn_error *err) {
    kn_queue *q = calloc(1, sizeof *q);
    if (!q)
        return kn_fail_nomem(err, sizeof *q);
    q->studio = s;
    q->gallery = (kn_trouble){ .what = "the studio's gallery", .log = s->setup.log, .ctx = s->setup.ctx };
    q->database = (kn_trouble){ .what = "the studio's database", .log = s->setup.log, .ctx = s->setup.ctx };
    q->again.fired = ask_again;
    q->show.fired = show_time_has_come;
    kn_buf_init(&q->preview, PREVIEW_BYTES);
    kn_buf_init(&q->picture, KN_STORE_FILE_MAX);
    kn_buf_init(&q->recipe, KN_RECIPE_MAX);
    *ret = q;
    return true;
}

void kn_queue_free(kn_queue *q) {
    if (!q)
        return;
    if (q->job.request)
        kn_jobs_release(q->studio->store, &q->job, NULL); /* if that cannot be written, the next start does it */
    forget_job(q);
    json_decref(q->item);
    kn_buf_free(&q->preview);
    kn_buf_free(&q->picture);
    kn_buf_free(&q->recipe);
    free(q);
}
