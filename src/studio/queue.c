/* One job after the other: taken from the database, computed picture by picture, saved, ended. What of this is done
 * with the store is in running.c; here is when, and what clients hear of it.
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
#include "studio/running.h"
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

    kn_running run; /* the job that runs; only read while the errand is away */
    bool cancelled;
    double begun_s;               /* when its present picture was begun */
    kn_trouble gallery, database; /* whether they can be written, for the log */

    /* Its progress, as it is shown. */
    kn_wait waits_for; /* while it waits, … */
    double waits_s;    /* … since then */
    unsigned at, steps;
    double fraction, first_s;
    uint64_t shown_ms;
    bool has_news, has_new_preview;
    kn_buf preview;
    uint32_t preview_width, preview_height;
    unsigned preview_step, preview_number;
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
    return q->run.phase == KN_TASK_WAITING ? kn_note_json(n) : NULL;
}

static json_t *progress_json(const kn_queue *q) {
    double spent = kn_now() - q->first_s;
    bool has_steps = q->run.phase == KN_TASK_SAMPLING && q->steps;
    bool guessed = q->run.phase >= KN_TASK_SAMPLING && q->fraction > 0.1;
    return json_pack("{s:s, s:o*, s:o, s:o, s:I, s:f, s:o, s:b}", "phase", kn_task_phases[q->run.phase], "waiting",
                     wait_json(q), "step", has_steps ? json_integer(q->at) : json_null(), "steps",
                     has_steps ? json_integer(q->steps) : json_null(), "image_index", (json_int_t)q->run.task.number,
                     "fraction", q->fraction, "eta_seconds",
                     guessed ? json_real(spent * (1 - q->fraction) / q->fraction) : json_null(), "has_preview",
                     q->preview.len > 0);
}

void kn_queue_show_progress(const kn_queue *q, json_t *job) {
    const char *id = json_string_value(json_object_get(job, "id"));
    const char *state = json_string_value(json_object_get(job, "state"));
    if (q->step >= COMPOSING && id && state && !strcmp(id, q->run.job.id.text) && !strcmp(state, "running"))
        json_object_set_new(job, "progress", progress_json(q));
}

const char *kn_queue_job(const kn_queue *q) {
    return q->step >= COMPOSING ? q->run.job.id.text : NULL;
}

const void *kn_queue_preview(const kn_queue *q, const char *job, size_t *ret_len) {
    if (q->step < COMPOSING || !q->preview.len || strcmp(job, q->run.job.id.text) != 0)
        return NULL;
    *ret_len = q->preview.len;
    return q->preview.data;
}

unsigned kn_queue_preview_number(const kn_queue *q) {
    return q->preview_number;
}

static void show_now(kn_queue *q) {
    kn_studio *s = q->studio;
    const char *id = q->run.job.id.text;
    char url[100];
    q->shown_ms = kn_loop_now_ms(s->loop);
    if (q->has_news)
        kn_studio_tell(s, KN_EVENT_JOB_PROGRESS, id,
                       json_pack("{s:s, s:o}", "job_id", id, "progress", progress_json(q)));
    snprintf(url, sizeof url, "/api/v1/jobs/%s/preview", id);
    if (q->has_new_preview)
        kn_studio_tell(s, KN_EVENT_JOB_PREVIEW, id,
                       json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "job_id", id, "image_index",
                                 (json_int_t)q->run.task.number, "step", (json_int_t)q->preview_step, "width",
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
    double batch = (double)q->run.request.batch;
    double fraction = (q->run.task.number + share_of(phase, at, steps)) / batch;
    q->run.phase = phase;
    q->at = at;
    q->steps = steps;
    q->fraction = KN_MAX(q->fraction, KN_MIN(fraction, 1.0));
    q->has_news = true;
    show(q);
}

/* ---- saving ---- */

static bool save_work(kn_errand *e, kn_store *store, kn_error *err) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    return kn_running_save(&q->run, store, &q->studio->own, &q->studio->runner, err);
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
    kn_buf_free(&q->run.picture);
    kn_buf_init(&q->run.picture, KN_STORE_FILE_MAX);
    if (!e->ok) {
        const char *message;
        const kn_task_failure why = kn_task_unsaved(e->err.code, &message);
        end(q, KN_STATE_FAILED, why, message);
        return;
    }
    if (q->run.item) {
        char id[KN_ID_BYTES];
        snprintf(id, sizeof id, "%s", json_string_value(json_object_get(q->run.item, "id")));
        kn_studio_tell(s, KN_EVENT_GALLERY_ADDED, id, q->run.item);
        q->run.item = NULL;
        if (q->run.copy_failed)
            kn_studio_log(s, "studio: a picture could not be copied to the output directory; the gallery has it");
    }
    if (++q->run.task.number < q->run.request.batch)
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
    if (q->run.phase != KN_TASK_WAITING) {
        q->waits_s = kn_now();
        kn_starts_tell(&q->starts, q->studio, &q->run.job.id, q->run.job.attempts - 1);
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
    if (q->run.phase == KN_TASK_WAITING) {
        leave_out_wait(q);
        kn_starts_tell(&q->starts, q->studio, &q->run.job.id, q->run.job.attempts);
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
    kn_buf_clear(&q->run.picture);
    if (!kn_buf_add(&q->run.picture, picture->data, picture->len)) {
        end(q, KN_STATE_FAILED, KN_TASK_INTERNAL, "The picture is too large, or memory is short");
        return;
    }
    q->run.made = *picture;
    q->run.made.data = q->run.made.hdr_lost = NULL;
    if (picture->hdr_lost && !q->run.hdr_lost[0])
        snprintf(q->run.hdr_lost, sizeof q->run.hdr_lost, "The result is saved without the gain map of its source: %s",
                 picture->hdr_lost);
    q->run.seconds = kn_now() - q->begun_s;
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
    if (!s->runner.start(s->runner.ctx, &q->run.task, &heard, q, &err))
        end(q, KN_STATE_FAILED, KN_TASK_ENGINE_FAILED, err.text);
}

static bool compose_work(kn_errand *e, kn_store *store, kn_error *err) {
    (void)store;
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    kn_buf_clear(&q->run.recipe);
    return !q->studio->runner.compose || q->studio->runner.compose(&q->run.task, &q->run.recipe, err);
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
    const char *seed = json_string_value(json_array_get(q->run.seeds, q->run.task.number));
    q->run.task.has_seed = seed && kn_seed_parse(seed, strlen(seed), &q->run.task.seed);
    q->run.task.recipe = &q->run.recipe;
    q->step = COMPOSING;
    enter_phase(q, KN_TASK_LOADING, 0, 0);
    q->errand.work = compose_work;
    q->errand.back = composed;
    kn_errand_send(q->studio, &q->errand);
}

/* ---- the end of a job ---- */

static void forget_job(kn_queue *q) {
    kn_running_forget(&q->run);
    kn_buf_clear(&q->preview);
    kn_loop_timer_stop(&q->show);
    q->cancelled = q->has_news = q->has_new_preview = false;
    q->fraction = 0;
}

static bool end_work(kn_errand *e, kn_store *store, kn_error *err) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    return kn_running_end(&q->run, store, err);
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
    bool again = kn_running_goes_on(&q->run);
    if (!again && q->run.end == KN_STATE_FAILED)
        kn_studio_note_error(s, kn_task_failures[q->run.why], q->run.job.id.text);
    if (e->ok) {
        json_t *told = q->run.told;
        q->run.told = NULL;
        kn_studio_tell(s, again ? KN_EVENT_JOB_QUEUED : events[q->run.end], q->run.job.id.text, told);
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
    bool may_try_again = state == KN_STATE_FAILED && !q->run.job.retries && !q->cancelled;
    q->run.put_off = why == KN_TASK_CANCELLED && q->stopping && !q->cancelled;
    q->step = ENDING;
    q->run.end = state;
    q->run.why = why;
    q->run.again_smaller = may_try_again && why == KN_TASK_OUT_OF_MEMORY && kn_plan_smaller_tile(q->run.task.tile_size);
    q->run.again_anew = may_try_again && why == KN_TASK_ENGINE_LOST;
    snprintf(q->run.message, sizeof q->run.message, "%s", message);
    send_end(q);
}

/* ---- the beginning of a job ---- */

static bool take_work(kn_errand *e, kn_store *store, kn_error *err) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    return kn_running_take(&q->run, store, &q->studio->own, err);
}

static void begin_job(kn_queue *q) {
    kn_studio *s = q->studio;
    json_t *told = q->run.told;
    q->run.told = NULL;
    q->run.phase = KN_TASK_LOADING;
    q->first_s = kn_now();
    q->step = COMPOSING;
    kn_queue_show_progress(q, told);
    kn_studio_tell(s, KN_EVENT_JOB_STARTED, q->run.job.id.text, told);
    kn_studio_tell(s, KN_EVENT_ENGINE_UPDATED, "", kn_studio_engine_json(s));
    if (q->run.why == KN_TASK_INPUT_INVALID)
        end(q, KN_STATE_FAILED, KN_TASK_INPUT_INVALID, "A picture that the job works from is not there any more");
    else if (q->run.task.number >= q->run.request.batch) /* the service ended after its last picture */
        end(q, KN_STATE_COMPLETED, KN_TASK_FAILURES, "");
    else
        compute(q);
}

static void taken(kn_errand *e) {
    kn_queue *q = KN_HOLDER(e, kn_queue, errand);
    if (q->closing)
        return;
    if (q->run.job.request) {
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
    if (q->step == COMPUTING && q->run.phase == KN_TASK_WAITING)
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
    if (q->step >= COMPOSING && !strcmp(job, q->run.job.id.text))
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
    kn_running_init(&q->run);
    *ret = q;
    return true;
}

void kn_queue_free(kn_queue *q) {
    if (!q)
        return;
    if (q->run.job.request)
        kn_jobs_release(q->studio->store, &q->run.job, NULL); /* if that cannot be written, the next start does it */
    kn_running_free(&q->run);
    kn_buf_free(&q->preview);
    free(q);
}
