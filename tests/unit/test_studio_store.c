/* What the studio keeps: jobs that end once, inputs by their content. */
#include "studio_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "studio/inputs.h"
#include "studio/speed.h"
#include "studio/upscalers.h"

static void identifiers_sort_by_their_time(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id before = { "" }, id;
    for (int i = 0; i < 1000; i++) {
        GOOD(kn_store_new_id(s, "job_", &id, &err));
        assert_true(kn_id_is_valid(id.text, "job_"));
        assert_true(strcmp(before.text, id.text) < 0);
        before = id;
    }
    assert_false(kn_id_is_valid(id.text, "img_"));
    assert_false(kn_id_is_valid("job_", "job_"));
    assert_false(kn_id_is_valid("job_0123456789abcdefghjkmnpqriu", "job_"));
    kn_store_close(s);
}

static void jobs_are_taken_in_their_order(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = add_job(s);
    assert_string_equal(member_of(s, &ids[2], "queue_position"), "3");
    for (int i = 0; i < 3; i++) {
        kn_taken_job job;
        GOOD(kn_jobs_take(s, &job, &err));
        assert_string_equal(job.id.text, ids[i].text);
        assert_string_equal(job.request, REQUEST);
        assert_string_equal(member_of(s, &ids[i], "state"), "running");
        assert_string_equal(member_of(s, &ids[i], "attempts"), "1");
        kn_taken_job_free(&job);
        GOOD(kn_jobs_finish(s, ids[i].text, KN_STATE_COMPLETED, NULL, NULL, &err));
    }
    kn_taken_job none;
    GOOD(kn_jobs_take(s, &none, &err));
    assert_null(none.request);
    kn_store_close(s);
}

/* From each state to each end: only what runs ends, and what has ended stays so. */
static void every_job_ends_once(void **state) {
    (void)state;
    kn_store *s = open_store();
    for (int first = KN_STATE_COMPLETED; first < KN_STATES; first++) {
        for (int second = KN_STATE_COMPLETED; second < KN_STATES; second++) {
            kn_taken_job job;
            kn_job_state now;
            kn_id id = add_job(s);
            REFUSED(kn_jobs_finish(s, id.text, (kn_job_state)first, NULL, NULL, &err), KN_E_USAGE);
            GOOD(kn_jobs_take(s, &job, &err));
            kn_taken_job_free(&job);
            GOOD(kn_jobs_finish(s, id.text, (kn_job_state)first, NULL, NULL, &err));
            REFUSED(kn_jobs_finish(s, id.text, (kn_job_state)second, NULL, NULL, &err), KN_E_USAGE);
            REFUSED(kn_jobs_requeue(s, id.text, 0, NULL, &err), KN_E_USAGE);
            GOOD(kn_jobs_cancel(s, id.text, &now, &err));
            assert_int_equal(now, first);
            assert_string_equal(member_of(s, &id, "state"), kn_job_states[first]);
        }
    }
    kn_store_close(s);
}

static void a_queued_job_is_cancelled_at_once_and_the_others_keep_their_order(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_job_state now;
    kn_taken_job job;
    kn_id a = add_job(s), b = add_job(s), c = add_job(s);
    GOOD(kn_jobs_cancel(s, b.text, &now, &err));
    assert_int_equal(now, KN_STATE_CANCELLED);
    assert_string_equal(member_of(s, &c, "queue_position"), "2");
    GOOD(kn_jobs_take(s, &job, &err));
    assert_string_equal(job.id.text, a.text);
    kn_taken_job_free(&job);
    GOOD(kn_jobs_cancel(s, a.text, &now, &err));
    assert_int_equal(now, KN_STATE_RUNNING); /* marked only */
    REFUSED(kn_jobs_requeue(s, a.text, 0, NULL, &err), KN_E_USAGE);
    GOOD(kn_jobs_finish(s, a.text, KN_STATE_CANCELLED, NULL, NULL, &err));
    GOOD(kn_jobs_take(s, &job, &err));
    assert_string_equal(job.id.text, c.text);
    kn_taken_job_free(&job);
    REFUSED(kn_jobs_cancel(s, "job_0123456789abcdefghjkmnpqrs", &now, &err), KN_E_NOT_FOUND);
    kn_store_close(s);
}

static void the_queue_has_a_limit(void **state) {
    (void)state;
    kn_store *s = open_store();
    const kn_new_job job = { .kind = KN_KIND_EDIT, .request = REQUEST, .seeds = "[]", .notes = "[]" };
    kn_id id;
    for (int i = 0; i < 3; i++)
        GOOD(kn_jobs_add(s, &job, 3, &id, &err));
    REFUSED(kn_jobs_add(s, &job, 3, &id, &err), KN_E_RANGE);
    kn_store_close(s);
}

static void the_same_key_is_the_same_job(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_sha256 body, other;
    kn_key_state key;
    kn_id id, found;
    GOOD(kn_sha256_of(REQUEST, strlen(REQUEST), &body, &err));
    GOOD(kn_sha256_of("x", 1, &other, &err));
    const kn_new_job job = { .kind = KN_KIND_EDIT,
                             .request = REQUEST,
                             .seeds = "[]",
                             .notes = "[]",
                             .route = "jobs",
                             .key = "k1",
                             .body = body };
    GOOD(kn_jobs_find_key(s, "jobs", "k1", &body, &key, &found, &err));
    assert_int_equal(key, KN_KEY_NEW);
    GOOD(kn_jobs_add(s, &job, 9, &id, &err));
    GOOD(kn_jobs_find_key(s, "jobs", "k1", &body, &key, &found, &err));
    assert_int_equal(key, KN_KEY_REPLAYED);
    assert_string_equal(found.text, id.text);
    GOOD(kn_jobs_find_key(s, "jobs", "k1", &other, &key, &found, &err));
    assert_int_equal(key, KN_KEY_REUSED);
    GOOD(kn_jobs_find_key(s, "upscale", "k1", &body, &key, &found, &err));
    assert_int_equal(key, KN_KEY_NEW);
    kn_store_close(s);
}

static void lists_go_on_where_they_ended_whatever_comes_meanwhile(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id ids[5];
    int64_t next = 0;
    for (int i = 0; i < 5; i++)
        ids[i] = add_job(s);
    json_t *page = json_array();
    const kn_jobs_filter first = { .limit = 2 };
    GOOD(kn_jobs_list(s, &first, page, &next, &err));
    assert_int_equal(json_array_size(page), 2);
    assert_true(next > 0);
    add_job(s); /* is newer than the first page */
    json_array_clear(page);
    const kn_jobs_filter second = { .limit = 2, .before = next };
    GOOD(kn_jobs_list(s, &second, page, &next, &err));
    assert_string_equal(json_string_value(json_object_get(json_array_get(page, 0), "id")), ids[2].text);
    json_array_clear(page);
    const kn_jobs_filter third = { .limit = 2, .before = next };
    GOOD(kn_jobs_list(s, &third, page, &next, &err));
    assert_int_equal(json_array_size(page), 1);
    assert_int_equal(next, 0);
    json_array_clear(page);
    const kn_jobs_filter none = { .limit = 9, .states = 1 << KN_STATE_FAILED };
    GOOD(kn_jobs_list(s, &none, page, &next, &err));
    assert_int_equal(json_array_size(page), 0);
    json_decref(page);
    kn_store_close(s);
}

static void a_job_is_forgotten_when_it_has_ended(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_job_state now;
    json_t *job = NULL;
    bool gone = false;
    kn_id id = add_job(s);
    REFUSED(kn_jobs_delete(s, id.text, &err), KN_E_USAGE);
    GOOD(kn_jobs_cancel(s, id.text, &now, &err));
    GOOD(kn_jobs_delete(s, id.text, &err));
    REFUSED(kn_jobs_get(s, id.text, &job, &gone, &err), KN_E_NOT_FOUND);
    assert_true(gone);
    REFUSED(kn_jobs_get(s, "job_0123456789abcdefghjkmnpqrs", &job, &gone, &err), KN_E_NOT_FOUND);
    assert_false(gone);
    kn_store_close(s);
}

/* ---- after a crash ---- */

static void what_ran_is_queued_again_in_its_place(void **state) {
    (void)state;
    int ended = 0;
    kn_taken_job job;
    kn_store *s = open_store();
    kn_id a = add_job(s), b = add_job(s);
    GOOD(kn_jobs_take(s, &job, &err));
    kn_taken_job_free(&job);
    kn_store_close(s);

    s = open_store();
    GOOD(kn_jobs_recover(s, &ended, &err));
    assert_int_equal(ended, 0);
    assert_string_equal(member_of(s, &a, "state"), "queued");
    assert_string_equal(member_of(s, &a, "queue_position"), "1");
    assert_string_equal(member_of(s, &b, "queue_position"), "2");
    kn_store_close(s);
}

static void what_was_to_be_cancelled_is_cancelled(void **state) {
    (void)state;
    int ended = 0;
    kn_job_state now;
    kn_taken_job job;
    kn_store *s = open_store();
    kn_id a = add_job(s);
    GOOD(kn_jobs_take(s, &job, &err));
    kn_taken_job_free(&job);
    GOOD(kn_jobs_cancel(s, a.text, &now, &err));
    GOOD(kn_jobs_recover(s, &ended, &err));
    assert_int_equal(ended, 1);
    assert_string_equal(member_of(s, &a, "state"), "cancelled");
    kn_store_close(s);
}

static void a_job_that_brings_the_service_down_is_given_up(void **state) {
    (void)state;
    int ended = 0;
    kn_taken_job job;
    kn_store *s = open_store();
    kn_id a = add_job(s);
    for (int i = 1; i <= KN_JOBS_STARTS; i++) {
        GOOD(kn_jobs_take(s, &job, &err));
        assert_int_equal(job.attempts, i);
        kn_taken_job_free(&job);
        GOOD(kn_jobs_recover(s, &ended, &err));
        assert_int_equal(ended, i == KN_JOBS_STARTS);
    }
    assert_string_equal(member_of(s, &a, "state"), "failed");
    kn_store_close(s);
}

static void a_damaged_database_is_moved_aside_and_the_gallery_comes_back(void **state) {
    (void)state;
    char path[100];
    unsigned broken = 0;
    int64_t next = 0;
    kn_store *s = open_store();
    kn_id id = add_job(s);
    kn_record r = {
        .job = id, .width = 64, .height = 32, .kind = KN_KIND_TEXT_TO_IMAGE, .prompt = strdup("a red boat")
    };
    GOOD(kn_gallery_save(s, &r, "PNG", 3, &err));
    kn_id picture = r.id;
    kn_record_free(&r);
    kn_store_close(s);

    snprintf(path, sizeof path, "%s/studio.db", folder);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(pwrite(fd, "no database at all", 18, (off_t)i * 100), 18);
    close(fd);

    s = open_store();
    assert_true(s->was_broken);
    GOOD(kn_gallery_reconcile(s, &broken, &err));
    assert_int_equal(broken, 0);
    json_t *page = json_array();
    const kn_gallery_filter all = { .limit = 10 };
    GOOD(kn_gallery_list(s, &all, page, &next, &err));
    assert_int_equal(json_array_size(page), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(page, 0), "id")), picture.text);
    assert_string_equal(json_string_value(json_object_get(json_array_get(page, 0), "prompt")), "a red boat");
    json_decref(page);
    kn_store_close(s);
}

/* As the first version left it: without what came with the second one. */
static void a_database_of_an_earlier_version_is_brought_up(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id id = add_job(s);
    GOOD(kn_store_do(s, &err, NULL, "ALTER TABLE jobs DROP COLUMN wish", ""));
    GOOD(kn_store_do(s, &err, NULL, "DROP TABLE upscalers", ""));
    GOOD(kn_store_do(s, &err, NULL, "DROP TABLE downloads", ""));
    GOOD(kn_store_do(s, &err, NULL, "DROP TABLE sessions", ""));
    GOOD(kn_store_do(s, &err, NULL, "PRAGMA user_version = 1", ""));
    kn_store_close(s);
    s = open_store();
    assert_false(s->was_broken);
    kn_job_order order;
    GOOD(kn_jobs_order(s, id.text, &order, &err));
    assert_string_equal(order.request, REQUEST);
    assert_null(order.wish);
    free(order.request);
    const kn_new_job job = { .kind = KN_KIND_EDIT, .request = REQUEST, .seeds = "[]", .notes = "[]", .wish = "{}" };
    GOOD(kn_jobs_add(s, &job, 10, &id, &err));
    GOOD(kn_jobs_order(s, id.text, &order, &err));
    assert_string_equal(order.wish, "{}");
    assert_int_equal(order.kind, KN_KIND_EDIT);
    free(order.request);
    free(order.wish);
    REFUSED(kn_jobs_order(s, "job_none", &order, &err), KN_E_NOT_FOUND);
    kn_store_close(s);
}

/* ---- upscalers ---- */

static void write_upscaler(const char *name, const char *content) {
    char path[200];
    snprintf(path, sizeof path, "%s/models/upscalers/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void an_upscaler_is_known_as_long_as_it_is_the_same_file(void **state) {
    (void)state;
    char models[100], upscalers[120];
    snprintf(models, sizeof models, "%s/models", folder);
    snprintf(upscalers, sizeof upscalers, "%s/upscalers", models);
    assert_int_equal(mkdir(models, 0700), 0);
    assert_int_equal(mkdir(upscalers, 0700), 0);
    write_upscaler("4x-Ultra Sharp.safetensors", "one");
    write_upscaler("notes.txt", "none");
    kn_store *s = open_store();
    for (int round = 0; round < 3; round++) {
        kn_upscaler_list list;
        kn_upscalers_find(models, &list);
        GOOD(kn_upscalers_recall(s, &list, &err));
        assert_int_equal(list.count, 2);
        kn_upscale_choice *u = &list.items[1];
        assert_string_equal(u->id, "4x-ultra-sharp");
        assert_int_equal(u->measured, round == 1);
        assert_int_equal(u->factor, round == 1 ? 4 : 0);
        u->factor = 4;
        GOOD(kn_upscalers_learn(s, u, &err));
        kn_upscalers_free(&list);
        if (round == 1)
            write_upscaler("4x-Ultra Sharp.safetensors", "another");
    }
    kn_store_close(s);
}

/* ---- inputs ---- */

static const kn_input_facts facts = { .format = KN_PICTURE_JPEG, .width = 640, .height = 480, .has_alpha = true };

static void the_same_picture_is_stored_once(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_input a, b, c;
    bool known = true;
    GOOD(kn_inputs_receive(s, "abc", 3, &a, &known, &err));
    assert_false(known);
    /* of the standard */
    assert_string_equal(a.id.text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    REFUSED(kn_inputs_find(s, a.id.text, &b, &err), KN_E_NOT_FOUND); /* nobody has looked at it yet */
    GOOD(kn_inputs_accept(s, &a.id, &facts, &b, &err));
    assert_int_equal(b.bytes, 3);
    GOOD(kn_inputs_receive(s, "abc", 3, &c, &known, &err));
    assert_true(known);
    assert_int_equal(c.facts.width, 640);
    kn_inputs_refuse(s, &a.id); /* a known one stays */
    GOOD(kn_inputs_find(s, a.id.text, &b, &err));
    GOOD(kn_inputs_delete(s, a.id.text, &err));
    REFUSED(kn_inputs_delete(s, a.id.text, &err), KN_E_NOT_FOUND);
    assert_false(kn_store_has(s, "inputs", a.id.text));
    kn_store_close(s);
}

static void a_file_that_was_damaged_is_stored_anew_when_its_picture_comes_again(void **state) {
    (void)state;
    static const char *const damages[] = { "abX", "ab", "" };
    kn_store *s = open_store();
    kn_input in;
    bool known;
    for (size_t i = 0; i < KN_COUNT(damages); i++) {
        GOOD(kn_inputs_receive(s, "abc", 3, &in, &known, &err));
        GOOD(kn_inputs_accept(s, &in.id, &facts, &in, &err));
        GOOD(kn_store_write(s, "inputs", in.id.text, damages[i], strlen(damages[i]), &err));
        GOOD(kn_inputs_receive(s, "abc", 3, &in, &known, &err));
        assert_false(known);
        KN_AUTO_BUF bytes;
        kn_buf_init(&bytes, 100);
        GOOD(kn_store_read(s, "inputs", in.id.text, 100, &bytes, &err));
        assert_int_equal(bytes.len, 3);
        assert_memory_equal(bytes.data, "abc", 3);
    }
    kn_store_close(s);
}

static void an_input_stays_while_a_job_needs_it(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_input in;
    kn_id id;
    bool known, more;
    kn_job_state now;
    GOOD(kn_inputs_receive(s, "abc", 3, &in, &known, &err));
    GOOD(kn_inputs_accept(s, &in.id, &facts, &in, &err));
    kn_request_input given = { .role = KN_INPUT_SOURCE };
    memcpy(given.id, in.id.text, sizeof given.id);
    const kn_new_job job = {
        .kind = KN_KIND_EDIT, .request = REQUEST, .seeds = "[]", .notes = "[]", .inputs = &given, .input_count = 1
    };
    GOOD(kn_jobs_add(s, &job, 9, &id, &err));
    REFUSED(kn_inputs_delete(s, in.id.text, &err), KN_E_USAGE);
    GOOD(kn_store_do(s, &err, NULL, "UPDATE inputs SET last_used_ms = 0", ""));
    GOOD(kn_inputs_expire(s, 1, &more, &err));
    GOOD(kn_inputs_find(s, in.id.text, &in, &err));
    GOOD(kn_jobs_cancel(s, id.text, &now, &err));
    GOOD(kn_inputs_expire(s, 1, &more, &err));
    REFUSED(kn_inputs_find(s, in.id.text, &in, &err), KN_E_NOT_FOUND);
    kn_store_close(s);
}

static void inputs_that_nobody_looked_at_go_and_lost_rows_come_back(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_input good, half;
    bool known;
    GOOD(kn_inputs_receive(s, "abc", 3, &good, &known, &err));
    GOOD(kn_inputs_accept(s, &good.id, &facts, &good, &err));
    GOOD(kn_inputs_receive(s, "abcd", 4, &half, &known, &err));
    GOOD(kn_store_do(s, &err, NULL, "DELETE FROM inputs", ""));
    GOOD(kn_inputs_reconcile(s, &err));
    GOOD(kn_inputs_find(s, good.id.text, &good, &err));
    assert_int_equal(good.facts.height, 480);
    assert_false(kn_store_has(s, "inputs", half.id.text));
    kn_store_close(s);
}

/* ---- trouble ---- */

static void a_database_that_another_program_holds_is_told_and_nothing_is_lost(void **state) {
    (void)state;
    char path[100];
    sqlite3 *other;
    kn_id id;
    const kn_new_job job = { .kind = KN_KIND_EDIT, .request = REQUEST, .seeds = "[]", .notes = "[]" };
    kn_store *s = open_store();
    snprintf(path, sizeof path, "%s/studio.db", folder);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    REFUSED(kn_jobs_add(s, &job, 9, &id, &err), KN_E_IO);
    kn_id holder = { "job_0123456789abcdefghjkmnpqrs" };
    kn_record r = { .job = holder, .width = 64, .height = 64 };
    REFUSED(kn_gallery_save(s, &r, "x", 1, &err), KN_E_IO);
    assert_false(kn_store_has(s, "gallery", r.file)); /* no half of it stays */
    kn_record_free(&r);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    GOOD(kn_jobs_add(s, &job, 9, &id, &err));
    kn_store_close(s);
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void a_database_in_other_hands_is_waited_for_once_and_not_by_each_in_turn(void **state) {
    (void)state;
    enum { WRITERS = 100 }; /* each of them would wait as long as the first: 20 seconds in all */
    char path[100];
    sqlite3 *other;
    kn_id id;
    const kn_new_job job = { .kind = KN_KIND_EDIT, .request = REQUEST, .seeds = "[]", .notes = "[]" };
    kn_store *s = open_store();
    kn_id known = add_job(s);
    snprintf(path, sizeof path, "%s/studio.db", folder);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    for (int round = 0; round < 2; round++) { /* the patience of before is back when the lock is gone */
        assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
        int64_t begun = now_ms();
        REFUSED(kn_jobs_add(s, &job, 99, &id, &err), KN_E_IO);
        int64_t refused = now_ms();
        assert_true(refused - begun >= STORE_WAIT_MS);
        for (int i = 0; i < WRITERS; i++) {
            REFUSED(kn_jobs_add(s, &job, 99, &id, &err), KN_E_IO);
            assert_string_equal(member_of(s, &known, "state"), "queued"); /* reading goes on */
        }
        assert_true(now_ms() - refused < (int64_t)WRITERS * STORE_WAIT_MS);
        kn_store_be_patient(s); /* what is not tried again */
        begun = now_ms();
        REFUSED(kn_jobs_add(s, &job, 99, &id, &err), KN_E_IO);
        assert_true(now_ms() - begun >= STORE_WAIT_MS);
        assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
        GOOD(kn_jobs_add(s, &job, 99, &id, &err));
    }
    sqlite3_close(other);
    kn_store_close(s);
}

static void speed_is_learned_and_fades(void **state) {
    (void)state;
    kn_store *s = open_store();
    const kn_speed_key key = { "cpu", "this machine", "staged" };
    kn_speed v;
    GOOD(kn_speed_find(s, &key, &v, &err));
    assert_int_equal(v.samples, 0);
    GOOD(kn_speed_learn(s, &key, 10, 20, &err));
    GOOD(kn_speed_learn(s, &key, 10, 40, &err));
    GOOD(kn_speed_learn(s, &key, 0, 40, &err)); /* cannot be */
    GOOD(kn_speed_find(s, &key, &v, &err));
    assert_int_equal(v.samples, 2);
    assert_true(v.ratio > 2.999 && v.ratio < 3.001);
    for (int i = 0; i < 100; i++)
        v = kn_speed_after(v, 1, 1);
    assert_true(v.ratio > 0.999 && v.ratio < 1.001);
    kn_store_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(identifiers_sort_by_their_time),
        TEST(jobs_are_taken_in_their_order),
        TEST(every_job_ends_once),
        TEST(a_queued_job_is_cancelled_at_once_and_the_others_keep_their_order),
        TEST(the_queue_has_a_limit),
        TEST(the_same_key_is_the_same_job),
        TEST(lists_go_on_where_they_ended_whatever_comes_meanwhile),
        TEST(a_job_is_forgotten_when_it_has_ended),
        TEST(what_ran_is_queued_again_in_its_place),
        TEST(what_was_to_be_cancelled_is_cancelled),
        TEST(a_job_that_brings_the_service_down_is_given_up),
        TEST(a_damaged_database_is_moved_aside_and_the_gallery_comes_back),
        TEST(a_database_of_an_earlier_version_is_brought_up),
        TEST(an_upscaler_is_known_as_long_as_it_is_the_same_file),
        TEST(the_same_picture_is_stored_once),
        TEST(a_file_that_was_damaged_is_stored_anew_when_its_picture_comes_again),
        TEST(an_input_stays_while_a_job_needs_it),
        TEST(inputs_that_nobody_looked_at_go_and_lost_rows_come_back),
        TEST(a_database_that_another_program_holds_is_told_and_nothing_is_lost),
        TEST(a_database_in_other_hands_is_waited_for_once_and_not_by_each_in_turn),
        TEST(speed_is_learned_and_fades),
    };
    return cmocka_run_group_tests_name("studio store", tests, NULL, NULL);
}
