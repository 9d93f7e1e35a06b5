/* The queue at work, with a runner that only pretends: every job ends once, whatever happens to it. */
#include "studio_test.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "studio/internal.h"

/* ---- a runner that draws nothing ---- */

typedef struct pretender {
    kn_loop *loop;
    kn_timer timer;
    const kn_task_heard *heard;
    void *ctx;
    const kn_studio_task *task;
    unsigned step, steps, delay_ms;
    bool cancelled, waits;
    kn_task_failure failure; /* of the next picture; KN_TASK_FAILURES: none */
    unsigned failures;       /* how many pictures fail so */
    unsigned started, tiles[8];
    const char *hdr_lost;
    int dies_in; /* pictures until the whole process is killed; 0: never */
} pretender;

static pretender fake;

static void pretend(kn_timer *t) {
    (void)t;
    kn_task_picture picture = { .format = KN_PICTURE_PNG, .width = 64, .height = 64, .data = "a picture", .len = 9 };
    picture.hdr_lost = fake.hdr_lost;
    if (fake.cancelled) {
        fake.heard->failed(fake.ctx, KN_TASK_CANCELLED, "");
    } else if (fake.step < fake.steps) {
        fake.heard->progress(fake.ctx, KN_TASK_SAMPLING, ++fake.step, fake.steps);
        fake.heard->preview(fake.ctx, fake.step, &picture);
        kn_loop_timer_after(fake.loop, &fake.timer, fake.delay_ms);
    } else if (fake.failures) {
        fake.failures--;
        fake.heard->failed(fake.ctx, fake.failure, "it was to fail");
    } else {
        fake.heard->done(fake.ctx, &picture);
    }
}

static bool fake_start(void *ctx, const kn_studio_task *task, const kn_task_heard *heard, void *heard_ctx,
                       kn_error *err) {
    (void)ctx, (void)err;
    if (fake.dies_in && !--fake.dies_in)
        raise(SIGKILL);
    fake.heard = heard;
    fake.ctx = heard_ctx;
    fake.task = task;
    fake.step = 0;
    fake.cancelled = false;
    fake.tiles[fake.started++ % KN_COUNT(fake.tiles)] = task->tile_size;
    fake.timer.fired = pretend;
    if (fake.waits)
        heard->waits(heard_ctx, KN_WAITS_FOR_TURN);
    else
        kn_loop_timer_after(fake.loop, &fake.timer, fake.delay_ms);
    return true;
}

static void fake_cancel(void *ctx) {
    (void)ctx;
    fake.cancelled = true;
    if (fake.waits)
        kn_loop_timer_after(fake.loop, &fake.timer, 0);
}

static const kn_studio_runner runner = { .backend = "cpu",
                                         .device = "nowhere",
                                         .formats = 1,
                                         .kinds = ~0u,
                                         .resizes = true,
                                         .start = fake_start,
                                         .cancel = fake_cancel };

/* ---- a studio and its loop ---- */

static kn_loop *loop;
static kn_studio *studio;

enum { WATCHED = 2000 };
typedef struct watched {
    char id[KN_ID_BYTES];
    unsigned ends;
} watched;
static watched watched_jobs[WATCHED];
static size_t watched_count;
static kn_watch_events watcher;

static watched *watched_of(const char *id) {
    for (size_t i = 0; i < watched_count; i++)
        if (!strcmp(watched_jobs[i].id, id))
            return &watched_jobs[i];
    size_t bytes = strlen(id) + 1;
    assert_true(watched_count < WATCHED && bytes <= KN_ID_BYTES);
    memcpy(watched_jobs[watched_count].id, id, bytes);
    return &watched_jobs[watched_count++];
}

static void event_came(kn_watch_events *w, const kn_event *event) {
    (void)w;
    bool last = event->kind == KN_EVENT_JOB_COMPLETED || event->kind == KN_EVENT_JOB_FAILED ||
                event->kind == KN_EVENT_JOB_CANCELLED;
    if (last)
        watched_of(event->subject)->ends++;
}

/* What the log was told of the disk. */
static char told[1000];

static void note_line(void *ctx, const char *line) {
    (void)ctx;
    size_t len = strlen(told);
    if (strncmp(line, "disk: ", 6) == 0)
        snprintf(told + len, sizeof told - len, "%s\n", line);
}

static void begin(void) {
    const kn_studio_setup setup = {
        .folder = folder, .models_toml = "/dev/null", .runner = &runner, .wait_ms = 20, .log = note_line
    };
    told[0] = 0;
    kn_studio_setup with_loop = setup;
    GOOD(kn_loop_new(NULL, NULL, &loop, &err));
    with_loop.loop = fake.loop = loop;
    GOOD(kn_studio_new(&with_loop, &studio, &err));
    watched_count = 0;
    memset(watched_jobs, 0, sizeof watched_jobs);
    watcher = (kn_watch_events){ .came = event_came };
    kn_studio_watch(studio, &watcher);
}

static void finish(void) {
    kn_studio_unwatch(studio, &watcher);
    kn_loop_timer_stop(&fake.timer);
    kn_studio_free(studio);
    kn_loop_free(loop);
}

/* Something for the disk's thread, waited for. */
typedef struct order {
    kn_errand errand;
    bool (*work)(kn_store *s, kn_id *id, kn_error *err);
    kn_id id;
    bool back;
} order;

static bool order_work(kn_errand *e, kn_store *s, kn_error *err) {
    order *o = KN_HOLDER(e, order, errand);
    return o->work(s, &o->id, err);
}

static void order_back(kn_errand *e) {
    KN_HOLDER(e, order, errand)->back = true;
}

static kn_id do_order(bool (*work)(kn_store *, kn_id *, kn_error *), kn_id id) {
    order o = { .errand = { .work = order_work, .back = order_back }, .work = work, .id = id };
    kn_errand_send(studio, &o.errand);
    while (!o.back)
        GOOD(kn_loop_turn(loop, 100, &err));
    if (!o.errand.ok)
        fail_msg("%s", o.errand.err.text);
    return o.id;
}

static unsigned batch = 1;
static bool work_add(kn_store *s, kn_id *id, kn_error *err) {
    char request[100], seeds[100] = "[\"1\",\"2\",\"3\",\"4\"]";
    snprintf(request, sizeof request, "{\"prompt\":\"a red boat\",\"batch\":%u}", batch);
    const kn_new_job job = { .kind = KN_KIND_TEXT_TO_IMAGE,
                             .request = request,
                             .plan = "{\"profile\":\"demo\"}",
                             .seeds = seeds,
                             .notes = "[]",
                             .units = 1 };
    return kn_jobs_add(s, &job, 5000, id, err);
}

static kn_job_state cancelled_state;
static bool work_cancel(kn_store *s, kn_id *id, kn_error *err) {
    return kn_jobs_cancel(s, id->text, &cancelled_state, err);
}

static kn_id add(void) {
    kn_id id = do_order(work_add, (kn_id){ "" });
    kn_queue_look(studio->queue);
    return id;
}

static void cancel(kn_id id) {
    do_order(work_cancel, id);
    if (cancelled_state == KN_STATE_RUNNING)
        kn_queue_cancel(studio->queue, id.text);
    else if (cancelled_state == KN_STATE_CANCELLED && !watched_of(id.text)->ends)
        watched_of(id.text)->ends++; /* its event is told by whoever cancelled it */
}

static int64_t left;
static bool work_count(kn_store *s, kn_id *id, kn_error *err) {
    (void)id;
    int64_t queued, running;
    bool ok = kn_jobs_count(s, &queued, &running, err);
    left = queued + running;
    return ok;
}

/* Until no job is queued or runs. */
static void work_off(void) {
    do {
        GOOD(kn_loop_turn(loop, 20, &err));
        do_order(work_count, (kn_id){ "" });
    } while (left);
    while (kn_queue_is_busy(studio->queue))
        GOOD(kn_loop_turn(loop, 20, &err));
}

static char state_text[32], code_text[64];
static int attempts, results, notes;
static bool work_look(kn_store *s, kn_id *id, kn_error *err) {
    json_t *job = NULL;
    if (!kn_jobs_get(s, id->text, &job, NULL, err))
        return false;
    const char *code = json_string_value(json_object_get(json_object_get(job, "error"), "code"));
    snprintf(state_text, sizeof state_text, "%s", json_string_value(json_object_get(job, "state")));
    snprintf(code_text, sizeof code_text, "%s", code ? code : "");
    attempts = (int)json_integer_value(json_object_get(job, "attempts"));
    results = (int)json_array_size(json_object_get(job, "results"));
    notes = (int)json_array_size(json_object_get(job, "notes"));
    json_decref(job);
    return true;
}

static void expect(kn_id id, const char *state, const char *code, int tries) {
    do_order(work_look, id);
    assert_string_equal(state_text, state);
    assert_string_equal(code_text, code);
    assert_int_equal(attempts, tries);
    assert_int_equal(watched_of(id.text)->ends, 1);
}

static int setup(void **state) {
    fake = (pretender){ .failure = KN_TASK_FAILURES, .steps = 2 };
    batch = 1;
    return make_folder(state);
}

/* ---- tests ---- */

static void a_job_becomes_pictures_in_the_gallery(void **state) {
    (void)state;
    begin();
    batch = 3;
    kn_id id = add();
    work_off();
    expect(id, "completed", "", 1);
    assert_int_equal(results, 3);
    finish();
}

static void a_gain_map_that_is_lost_is_noted_once(void **state) {
    (void)state;
    begin();
    batch = 2;
    fake.hdr_lost = "its gain map is damaged";
    kn_id id = add();
    work_off();
    expect(id, "completed", "", 1);
    int of_a_loss = notes;
    fake.hdr_lost = NULL;
    id = add();
    work_off();
    expect(id, "completed", "", 1);
    assert_int_equal(of_a_loss, notes + 1);
    finish();
}

/* What is told of how far the job is, and, while it waits, what it waits for. */
static void expect_wait(kn_id id, const char *phase, const char *code, const char *words) {
    json_t *job = json_pack("{s:s, s:s}", "id", id.text, "state", "running");
    kn_queue_show_progress(studio->queue, job);
    const json_t *progress = json_object_get(job, "progress"), *wait = json_object_get(progress, "waiting");
    assert_string_equal(json_string_value(json_object_get(progress, "phase")), phase);
    assert_int_equal(json_is_object(wait), code != NULL);
    if (code) {
        assert_string_equal(json_string_value(json_object_get(wait, "code")), code);
        assert_non_null(strstr(json_string_value(json_object_get(wait, "message")), words));
    }
    json_decref(job);
}

static double ratio;
static bool work_speed(kn_store *s, kn_id *id, kn_error *err) {
    (void)id;
    const kn_speed_key key = { runner.backend, runner.device, "staged" };
    kn_speed speed;
    if (!kn_speed_find(s, &key, &speed, err))
        return false;
    ratio = speed.ratio;
    return true;
}

static void a_job_tells_what_it_waits_for_and_waiting_is_no_drawing(void **state) {
    (void)state;
    begin();
    fake.waits = true;
    double first_s = kn_now();
    kn_id id = add();
    while (!fake.started)
        GOOD(kn_loop_turn(loop, 20, &err));
    double wait_s = kn_now();
    expect_wait(id, "waiting", "waits_for_turn", "place in the line");
    fake.heard->waits(fake.ctx, KN_WAITS_FOR_RESUME);
    expect_wait(id, "waiting", "admission_paused", "/kuno/v1/admission/resume");
    fake.heard->waits(fake.ctx, KN_WAITS_FOR_RECOVERY);
    expect_wait(id, "waiting", "recovery_required", "start both again");
    nanosleep(&(struct timespec){ .tv_nsec = 300 * 1000000L }, NULL); /* longer than the rest takes */
    wait_s = kn_now() - wait_s;
    fake.heard->progress(fake.ctx, KN_TASK_LOADING, 0, 0);
    expect_wait(id, "loading", NULL, NULL);
    kn_loop_timer_after(loop, &fake.timer, 0);
    work_off();
    double all_s = kn_now() - first_s;
    expect(id, "completed", "", 1);
    do_order(work_speed, id);
    assert_true(ratio > 0 && ratio <= all_s - wait_s);
    finish();
}

static void a_job_that_only_waits_has_not_been_begun(void **state) {
    (void)state;
    begin();
    fake.waits = true;
    batch = 2;
    kn_id id = add();
    for (unsigned picture = 1; picture <= batch; picture++) {
        while (fake.started < picture)
            GOOD(kn_loop_turn(loop, 20, &err));
        do_order(work_look, id);
        assert_string_equal(state_text, "running");
        assert_int_equal(attempts, 0);
        fake.heard->progress(fake.ctx, KN_TASK_LOADING, 0, 0);
        do_order(work_look, id);
        assert_int_equal(attempts, 1);
        kn_loop_timer_after(loop, &fake.timer, 0);
    }
    work_off();
    expect(id, "completed", "", 1);
    finish();
}

static void a_running_job_is_cancelled(void **state) {
    (void)state;
    begin();
    fake.steps = 1000000;
    fake.delay_ms = 1;
    kn_id id = add(), next = add();
    while (fake.step < 2)
        GOOD(kn_loop_turn(loop, 20, &err));
    cancel(id);
    fake.steps = 2;
    work_off();
    expect(id, "cancelled", "", 1);
    expect(next, "completed", "", 1);
    finish();
}

static void memory_that_runs_out_is_tried_again_once_with_smaller_tiles(void **state) {
    (void)state;
    begin();
    fake.failure = KN_TASK_OUT_OF_MEMORY;
    fake.failures = 1;
    kn_id id = add();
    work_off();
    expect(id, "completed", "", 2);
    assert_int_equal(notes, 1);
    assert_int_equal(fake.tiles[0], 0);
    assert_true(fake.tiles[1] > 0);
    fake.failures = 2;
    id = add();
    work_off();
    expect(id, "failed", "out_of_memory", 2);
    finish();
}

static void each_failure_ends_the_job_with_its_code(void **state) {
    (void)state;
    static const struct {
        kn_task_failure why;
        const char *state;
        int tries;
    } rows[] = {
        { KN_TASK_MISSING_MODEL, "failed", 1 }, { KN_TASK_INPUT_INVALID, "failed", 1 },
        { KN_TASK_ENGINE_FAILED, "failed", 1 }, { KN_TASK_ENGINE_LOST, "failed", 2 },
        { KN_TASK_CANCELLED, "cancelled", 1 },
    };
    begin();
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        fake.failure = rows[i].why;
        fake.failures = (unsigned)rows[i].tries;
        kn_id id = add();
        work_off();
        expect(id, rows[i].state, rows[i].why == KN_TASK_CANCELLED ? "" : kn_task_failures[rows[i].why], rows[i].tries);
    }
    fake.failures = 0;
    kn_id good = add(); /* the queue goes on */
    work_off();
    expect(good, "completed", "", 1);
    finish();
}

static void a_locked_database_loses_nothing(void **state) {
    (void)state;
    char path[100];
    sqlite3 *other;
    begin();
    kn_id id = add();
    while (!fake.started)
        GOOD(kn_loop_turn(loop, 20, &err));
    snprintf(path, sizeof path, "%s/studio.db", folder);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i < 20; i++)
        GOOD(kn_loop_turn(loop, 20, &err)); /* the picture is there and cannot be saved */
    assert_int_equal(watched_of(id.text)->ends, 0);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    work_off();
    expect(id, "completed", "", 1);
    assert_int_equal(fake.started, 1); /* and was computed once */
    finish();
}

static void a_disk_that_refuses_fails_the_job_and_not_the_next(void **state) {
    (void)state;
    char path[100], aside[120];
    begin();
    snprintf(path, sizeof path, "%s/gallery", folder);
    snprintf(aside, sizeof aside, "%s.aside", path);
    assert_int_equal(rename(path, aside), 0);
    for (int i = 0; i < 2; i++) {
        kn_id id = add();
        work_off();
        expect(id, "failed", "internal", 1);
    }
    assert_string_equal(told, "disk: the studio's gallery cannot be written\n");
    assert_int_equal(rename(aside, path), 0);
    for (int i = 0; i < 2; i++) {
        kn_id id = add();
        work_off();
        expect(id, "completed", "", 1);
    }
    assert_string_equal(told, "disk: the studio's gallery cannot be written\n"
                              "disk: the studio's gallery can be written again\n");
    finish();
}

static void nothing_begins_while_the_queue_rests(void **state) {
    (void)state;
    begin();
    kn_queue_rest(studio->queue, true);
    kn_id id = add();
    for (int i = 0; i < 5; i++)
        GOOD(kn_loop_turn(loop, 10, &err));
    assert_int_equal(fake.started, 0);
    kn_queue_rest(studio->queue, false);
    work_off();
    expect(id, "completed", "", 1);
    finish();
}

static bool has_stopped;
static void stopped(void *ctx) {
    (void)ctx;
    has_stopped = true;
}

static void stopping_lets_the_running_job_end_and_keeps_the_others(void **state) {
    (void)state;
    begin();
    fake.steps = 5;
    kn_id a = add(), b = add();
    while (!fake.started)
        GOOD(kn_loop_turn(loop, 20, &err));
    has_stopped = false;
    kn_studio_stop(studio, false, stopped, NULL);
    while (!has_stopped)
        GOOD(kn_loop_turn(loop, 20, &err));
    expect(a, "completed", "", 1);
    do_order(work_look, b);
    assert_string_equal(state_text, "queued");
    finish();
    begin();
    work_off();
    expect(b, "completed", "", 1);
    finish();
}

static void until_stopped(void) {
    has_stopped = false;
    kn_studio_stop(studio, false, stopped, NULL);
    while (!has_stopped)
        GOOD(kn_loop_turn(loop, 20, &err));
}

static void stopping_does_not_wait_for_a_turn(void **state) {
    (void)state;
    begin();
    fake.waits = true;
    kn_id id = add();
    while (!fake.started)
        GOOD(kn_loop_turn(loop, 20, &err));
    until_stopped();
    do_order(work_look, id);
    assert_string_equal(state_text, "queued");
    assert_int_equal(attempts, 0);
    assert_int_equal(watched_of(id.text)->ends, 0);
    finish();
    fake.waits = false;
    begin();
    work_off();
    expect(id, "completed", "", 1);
    finish();
}

static void the_second_picture_of_a_job_does_not_keep_a_service_that_stops(void **state) {
    (void)state;
    begin();
    batch = 2;
    kn_id id = add();
    while (!fake.started)
        GOOD(kn_loop_turn(loop, 20, &err));
    fake.waits = true; /* from the next picture on */
    until_stopped();
    do_order(work_look, id);
    assert_string_equal(state_text, "queued");
    assert_int_equal(results, 1);
    finish();
    fake.waits = false;
    begin();
    work_off();
    expect(id, "completed", "", 1);
    assert_int_equal(results, 2);
    finish();
}

static void a_job_that_is_cancelled_while_the_service_stops_ends(void **state) {
    (void)state;
    begin();
    fake.waits = true;
    kn_id id = add();
    while (!fake.started)
        GOOD(kn_loop_turn(loop, 20, &err));
    do_order(work_cancel, id); /* its row is marked, and then the service stops */
    until_stopped();
    expect(id, "cancelled", "", 0);
    finish();
}

/* A child works on jobs and is killed: as its pictures begin, or whenever the clock says. Whatever state that was, the
 * next one takes up what is left, and the last one ends it all. */
static void jobs_survive_being_killed_at_any_moment(void **state) {
    (void)state;
    enum { JOBS = 6, KILLS = 12 };
    kn_id ids[JOBS];
    kn_store *s = open_store();
    batch = 2;
    for (int i = 0; i < JOBS; i++)
        GOOD(work_add(s, &ids[i], &err));
    kn_store_close(s);
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            fake.dies_in = i % 2 ? 1 + i % 5 : 0;
            begin();
            for (;;)
                kn_loop_turn(loop, 20, NULL);
        }
        const struct timespec pause = { .tv_nsec = (3 + 11 * i % 60) * 1000000L };
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    begin();
    work_off();
    for (int i = 0; i < JOBS; i++) {
        do_order(work_look, ids[i]);
        bool completed = !strcmp(state_text, "completed");
        if (!completed && strcmp(code_text, "engine_lost") != 0) /* was begun too often */
            fail_msg("job %d is %s %s", i, state_text, code_text);
        assert_true(!completed || results == 2);
    }
    finish();

    /* Every picture of the gallery has its row, its file and its record, and belongs to one result. */
    s = open_store();
    json_t *page = json_array();
    int64_t next;
    const kn_gallery_filter all = { .limit = 1000 };
    GOOD(kn_gallery_list(s, &all, page, &next, &err));
    int64_t count = 0;
    kn_query q = kn_query_open(s, NULL, "SELECT count(*) FROM results JOIN gallery ON gallery.id = results.item", "");
    if (kn_query_next(&q))
        count = kn_query_int(&q, 0);
    kn_query_close(&q);
    assert_int_equal(json_array_size(page), count);
    for (size_t i = 0; i < json_array_size(page); i++)
        assert_true(json_is_false(json_object_get(json_array_get(page, i), "missing")));
    json_decref(page);
    kn_store_close(s);
}

static unsigned random_number(void) {
    static unsigned x = 12345;
    x = x * 1664525 + 1013904223;
    return x >> 8;
}

static void of_many_jobs_each_ends_once(void **state) {
    (void)state;
    const char *wanted = getenv("KUNO_TEST_JOBS");
    size_t jobs = wanted && !strcmp(wanted, "1000") ? 1000 : 60;
    static kn_id ids[1000];
    begin();
    fake.steps = 1;
    for (size_t i = 0; i < jobs; i++) {
        batch = 1 + random_number() % 2;
        ids[i] = add();
        if (random_number() % 4 == 0)
            cancel(ids[random_number() % (i + 1)]);
        if (random_number() % 16 == 0 && !fake.failures) {
            fake.failure = (kn_task_failure)(random_number() % KN_TASK_DISK_FULL);
            fake.failures = 1 + random_number() % 2;
        }
    }
    work_off();
    unsigned ends[3] = { 0 };
    for (size_t i = 0; i < jobs; i++) {
        do_order(work_look, ids[i]);
        unsigned end = !strcmp(state_text, "completed") ? 0 : !strcmp(state_text, "failed") ? 1 : 2;
        assert_true(end < 2 || !strcmp(state_text, "cancelled"));
        assert_int_equal(watched_of(ids[i].text)->ends, 1);
        ends[end]++;
    }
    assert_true(ends[0] && ends[2]);
    finish();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, remove_folder)

/* ---- the end ---- */

static struct {
    kn_errand errand;
    unsigned done, back, left;
} chain;

static bool do_link(kn_errand *e, kn_store *store, kn_error *err) {
    (void)e, (void)store, (void)err;
    chain.done++;
    return true;
}

static void send_next(kn_errand *e) {
    chain.back++;
    if (chain.left--)
        kn_errand_send(studio, e);
}

static void what_sends_the_next_errand_comes_to_its_end_before_the_disk(void **state) {
    (void)state;
    begin();
    chain.errand = (kn_errand){ .work = do_link, .back = send_next };
    chain.left = 20;
    kn_errand_send(studio, &chain.errand);
    finish();
    assert_int_equal(chain.done, 21);
    assert_int_equal(chain.back, 21);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_job_becomes_pictures_in_the_gallery),
        TEST(a_gain_map_that_is_lost_is_noted_once),
        TEST(a_job_tells_what_it_waits_for_and_waiting_is_no_drawing),
        TEST(a_job_that_only_waits_has_not_been_begun),
        TEST(a_running_job_is_cancelled),
        TEST(memory_that_runs_out_is_tried_again_once_with_smaller_tiles),
        TEST(each_failure_ends_the_job_with_its_code),
        TEST(a_locked_database_loses_nothing),
        TEST(a_disk_that_refuses_fails_the_job_and_not_the_next),
        TEST(nothing_begins_while_the_queue_rests),
        TEST(stopping_lets_the_running_job_end_and_keeps_the_others),
        TEST(stopping_does_not_wait_for_a_turn),
        TEST(the_second_picture_of_a_job_does_not_keep_a_service_that_stops),
        TEST(a_job_that_is_cancelled_while_the_service_stops_ends),
        TEST(jobs_survive_being_killed_at_any_moment),
        TEST(of_many_jobs_each_ends_once),
        TEST(what_sends_the_next_errand_comes_to_its_end_before_the_disk),
    };
    return cmocka_run_group_tests_name("studio queue", tests, NULL, NULL);
}
