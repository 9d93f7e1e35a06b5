/* What the studio keeps: jobs that end once, inputs by their content, a gallery whose files are the truth. */
#include "studio_test.h"

#include <fcntl.h>
#include <sys/stat.h>

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
    bool known;
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
    GOOD(kn_inputs_expire(s, 1, &err));
    GOOD(kn_inputs_find(s, in.id.text, &in, &err));
    GOOD(kn_jobs_cancel(s, id.text, &now, &err));
    GOOD(kn_inputs_expire(s, 1, &err));
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

/* ---- gallery ---- */

static kn_id save_picture(kn_store *s, const kn_id *job, unsigned number, const char *prompt, const char *tag) {
    kn_record r = { .job = *job,
                    .number = number,
                    .width = 64,
                    .height = 32,
                    .kind = KN_KIND_TEXT_TO_IMAGE,
                    .has_seed = 1,
                    .seed = 9007199254740993 };
    r.prompt = strdup(prompt);
    r.tags[0] = strdup(tag);
    r.tag_count = 1;
    GOOD(kn_gallery_save(s, &r, prompt, strlen(prompt), &err));
    kn_id id = r.id;
    kn_record_free(&r);
    return id;
}

static size_t found(kn_store *s, const char *words, const char *tag) {
    json_t *page = json_array();
    int64_t next;
    const kn_gallery_filter f = { .words = words, .tag = tag, .limit = 50 };
    GOOD(kn_gallery_list(s, &f, page, &next, &err));
    size_t n = json_array_size(page);
    json_decref(page);
    return n;
}

static void pictures_are_found_by_words_and_tags(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id job = add_job(s);
    save_picture(s, &job, 0, "A Red Boat on a lake", "water");
    save_picture(s, &job, 1, "a green apple, 100%_done", "fruit");
    static const struct {
        const char *words, *tag;
        size_t count;
    } rows[] = {
        { NULL, NULL, 2 },
        { "red", NULL, 1 },
        { "RED lake", NULL, 1 },
        { "red apple", NULL, 0 },
        { "  ", NULL, 2 },
        { "fruit", NULL, 1 },
        { NULL, "water", 1 },
        { NULL, "wat", 0 },
        { "100%_", NULL, 1 },
        { "%", NULL, 1 },
        { "9007199254740993", NULL, 2 },
        { "' OR 1=1 --", NULL, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (found(s, rows[i].words, rows[i].tag) != rows[i].count)
            fail_msg("row %zu finds %zu", i, found(s, rows[i].words, rows[i].tag));
    kn_store_close(s);
}

static void a_change_is_in_the_file_and_in_the_table(void **state) {
    (void)state;
    static const char change[] = "{\"title\":\"Evening\",\"favorite\":true,\"tags\":[\"a\",\"b\"]}";
    kn_store *s = open_store();
    kn_id job = add_job(s), id = save_picture(s, &job, 0, "boat", "x");
    kn_record_patch patch;
    kn_record r;
    KN_AUTO_BUF pointer, text;
    char name[64];
    kn_buf_init(&pointer, 100);
    kn_buf_init(&text, 1 << 20);
    GOOD(kn_record_patch_read(change, strlen(change), &patch, &pointer, &err));
    GOOD(kn_gallery_change(s, id.text, &patch, &r, &err));
    kn_record_patch_free(&patch);
    kn_record_free(&r);
    assert_int_equal(found(s, "evening", "b"), 1);
    assert_int_equal(found(s, NULL, "x"), 0);
    snprintf(name, sizeof name, "%s.json", id.text);
    GOOD(kn_store_read(s, "gallery", name, 1 << 20, &text, &err));
    GOOD(kn_record_read(text.data, text.len, &r, &err));
    assert_string_equal(r.title, "Evening");
    assert_true(r.favorite);
    assert_int_equal(r.seed, 9007199254740993);
    kn_record_free(&r);
    kn_store_close(s);
}

static void what_the_files_say_counts_after_a_start(void **state) {
    (void)state;
    unsigned broken = 0;
    char name[64];
    kn_store *s = open_store();
    kn_id job = add_job(s), keep = save_picture(s, &job, 0, "boat", "x"), lost = save_picture(s, &job, 1, "car", "y"),
          gone = save_picture(s, &job, 2, "tree", "z");
    kn_record r;
    GOOD(kn_gallery_find(s, gone.text, &r, &err)); /* somebody removed both of its files */
    kn_store_remove(s, "gallery", r.file);
    kn_record_free(&r);
    snprintf(name, sizeof name, "%s.json", gone.text);
    kn_store_remove(s, "gallery", name);
    snprintf(name, sizeof name, "%s.json", lost.text); /* and the record of this one */
    kn_store_remove(s, "gallery", name);
    GOOD(kn_store_do(s, &err, NULL, "DELETE FROM gallery WHERE id = ?", "t", keep.text)); /* the table forgot it */
    GOOD(kn_store_write(s, "gallery", "img_broken.json", "{\"id\":", 6, &err));

    GOOD(kn_gallery_reconcile(s, &broken, &err));
    assert_int_equal(broken, 1);
    assert_int_equal(found(s, "boat", NULL), 1);
    assert_int_equal(found(s, "tree", NULL), 0);
    assert_int_equal(found(s, "car", NULL), 1);
    assert_true(kn_store_has(s, "gallery", name));
    kn_store_close(s);
}

static void write_sidecar(kn_store *s, const kn_id *id, const char *text) {
    char name[64];
    snprintf(name, sizeof name, "%s.json", id->text);
    GOOD(kn_store_write(s, "gallery", name, text, strlen(text), &err));
}

static void set_date(kn_store *s, const kn_id *id, const char *date) {
    char name[64];
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1 << 20);
    snprintf(name, sizeof name, "%s.json", id->text);
    GOOD(kn_store_read(s, "gallery", name, 1 << 20, &text, &err));
    char *at = strstr(text.data, "\"created_at\": \"");
    assert_non_null(at);
    memcpy(at + strlen("\"created_at\": \""), date, strlen(date));
    GOOD(kn_store_write(s, "gallery", name, text.data, text.len, &err));
}

static void pictures_of_a_lost_table_come_back_the_newest_first(void **state) {
    (void)state;
    enum { PICTURES = 7, DATED = 4 }; /* the others are of one second */
    kn_id ids[PICTURES];
    unsigned broken = 0;
    kn_store *s = open_store();
    kn_id job = add_job(s);
    for (unsigned i = 0; i < PICTURES; i++)
        ids[i] = save_picture(s, &job, i, "boat", "x");
    for (unsigned i = 0; i < PICTURES; i++) {
        char date[24];
        snprintf(date, sizeof date, "2020-01-0%uT00:00:00Z", i < DATED ? 9 - i : 1);
        set_date(s, &ids[i], date);
    }
    GOOD(kn_store_do(s, &err, NULL, "DELETE FROM gallery", ""));
    GOOD(kn_gallery_reconcile(s, &broken, &err));
    kn_id newer = save_picture(s, &job, PICTURES, "boat", "x");

    const kn_gallery_filter all = { .limit = PICTURES + 1 };
    json_t *page = json_array();
    int64_t next;
    GOOD(kn_gallery_list(s, &all, page, &next, &err));
    assert_int_equal(json_array_size(page), PICTURES + 1);
    for (unsigned i = 0; i <= PICTURES; i++) {
        const kn_id *wanted = i == 0 ? &newer : i <= DATED ? &ids[i - 1] : &ids[PICTURES + DATED - i];
        assert_string_equal(json_string_value(json_object_get(json_array_get(page, i), "id")), wanted->text);
    }
    json_decref(page);
    kn_store_close(s);
}

static kn_record patched(kn_store *s, const kn_id *id, kn_error *err) {
    kn_record r = { 0 };
    kn_record_patch patch = { .has_favorite = true, .favorite = true };
    if (kn_gallery_change(s, id->text, &patch, &r, err))
        assert_true(r.favorite);
    return r;
}

static void a_picture_whose_record_cannot_be_read_stays(void **state) {
    (void)state;
    /* of 300 by 200 pixels */
    static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x01\x2c\0\0\0\xc8";
    unsigned broken = 0;
    kn_store *s = open_store();
    kn_id job = add_job(s);
    kn_record r = { .job = job, .kind = KN_KIND_EDIT, .width = 300, .height = 200 };
    r.prompt = strdup("a red boat");
    GOOD(kn_gallery_save(s, &r, png, sizeof png - 1, &err));
    const kn_record was = { .id = r.id, .created_s = r.created_s, .bytes = r.bytes, .sha256 = r.sha256 };
    kn_record_free(&r);
    kn_id no_picture = save_picture(s, &job, 1, "no picture", "x");

    write_sidecar(s, &was.id, "{\"id\":");
    write_sidecar(s, &no_picture, "");
    GOOD(kn_gallery_reconcile(s, &broken, &err)); /* the table knows of them */
    assert_int_equal(broken, 2);
    assert_int_equal(found(s, "boat", NULL), 1);

    GOOD(kn_store_do(s, &err, NULL, "DELETE FROM gallery", "")); /* and now it does not */
    GOOD(kn_gallery_reconcile(s, &broken, &err));
    assert_int_equal(broken, 2);
    assert_int_equal(found(s, NULL, NULL), 1);
    GOOD(kn_gallery_find(s, was.id.text, &r, &err));
    assert_true(r.unreadable);
    assert_null(r.prompt);
    assert_null(r.recipe);
    assert_int_equal(r.width, 300);
    assert_int_equal(r.height, 200);
    assert_int_equal(r.bytes, was.bytes);
    assert_string_equal(r.sha256.text, was.sha256.text);
    assert_in_range(was.created_s - r.created_s, 0, 1);
    kn_record_free(&r);

    kn_error why = { 0 };
    r = patched(s, &was.id, &why); /* what people may still read is not replaced */
    assert_int_equal(why.code, KN_E_USAGE);
    assert_non_null(strstr(why.text, was.id.text));

    char name[64];
    snprintf(name, sizeof name, "%s.json", was.id.text);
    kn_store_remove(s, "gallery", name); /* and it may be taken away */
    GOOD(kn_gallery_reconcile(s, &broken, &err));
    assert_int_equal(broken, 1);
    for (int i = 0; i < 2; i++) {
        why = (kn_error){ 0 };
        r = patched(s, &was.id, &why);
        assert_int_equal(why.code, KN_OK);
        assert_true(r.unreadable);
        kn_record_free(&r);
    }
    kn_store_close(s);
}

static void a_link_in_the_place_of_a_file_is_none(void **state) {
    (void)state;
    KN_AUTO_BUF text;
    kn_buf_init(&text, 100);
    char *link = NULL, *target = NULL;
    kn_store *s = open_store();
    GOOD(kn_store_write(s, "trash", "secret", "secret", 6, &err));
    GOOD(kn_store_path(s, "trash", "secret", &target, &err));
    GOOD(kn_store_path(s, "gallery", "a.png", &link, &err));
    assert_int_equal(symlink(target, link), 0);
    REFUSED(kn_store_read(s, "gallery", "a.png", 100, &text, &err), KN_E_NOT_FOUND);
    assert_int_equal(text.len, 0);
    assert_false(kn_store_has(s, "gallery", "a.png"));
    assert_true(kn_store_has(s, "trash", "secret"));
    free(link);
    free(target);
    kn_store_close(s);
}

static void check_half_picture(bool job_has_ended) {
    unsigned broken = 0;
    kn_taken_job taken;
    kn_record r;
    kn_store *s = open_store();
    kn_id job = add_job(s);
    GOOD(kn_jobs_take(s, &taken, &err));
    kn_taken_job_free(&taken);
    if (job_has_ended)
        GOOD(kn_jobs_finish(s, job.text, KN_STATE_FAILED, NULL, NULL, &err));
    kn_id id = save_picture(s, &job, 0, "boat", "x");
    GOOD(kn_gallery_find(s, id.text, &r, &err));
    /* as if the service had ended after the files and before the rows */
    GOOD(kn_store_do(s, &err, NULL, "DELETE FROM gallery", ""));
    GOOD(kn_store_do(s, &err, NULL, "DELETE FROM results", ""));
    GOOD(kn_gallery_reconcile(s, &broken, &err));
    assert_int_equal(found(s, NULL, NULL), 0);
    assert_false(kn_store_has(s, "gallery", r.file));
    kn_record_free(&r);
    kn_store_close(s);
}

static void a_picture_that_was_being_written_is_made_again(void **state) {
    (void)state;
    check_half_picture(false);
}

static void half_a_picture_of_a_job_that_was_given_up_goes(void **state) {
    (void)state;
    check_half_picture(true);
}

static void deleted_pictures_go_to_the_trash(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id job = add_job(s), a = save_picture(s, &job, 0, "boat", "x"), b = save_picture(s, &job, 1, "car", "y");
    kn_record r;
    unsigned broken;
    GOOD(kn_gallery_find(s, a.text, &r, &err));
    GOOD(kn_gallery_delete(s, a.text, false, &err));
    assert_true(kn_store_has(s, "trash", r.file));
    assert_false(kn_store_has(s, "gallery", r.file));
    kn_record_free(&r);
    GOOD(kn_gallery_find(s, b.text, &r, &err));
    GOOD(kn_gallery_delete(s, b.text, true, &err));
    assert_true(kn_store_has(s, "gallery", r.file));
    GOOD(kn_gallery_reconcile(s, &broken, &err));
    assert_true(kn_store_has(s, "gallery", r.file));
    assert_int_equal(found(s, NULL, NULL), 0);
    kn_record_free(&r);
    REFUSED(kn_gallery_delete(s, b.text, true, &err), KN_E_NOT_FOUND);
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
        TEST(a_picture_whose_record_cannot_be_read_stays),
        TEST(a_link_in_the_place_of_a_file_is_none),
        TEST(a_database_of_an_earlier_version_is_brought_up),
        TEST(an_upscaler_is_known_as_long_as_it_is_the_same_file),
        TEST(the_same_picture_is_stored_once),
        TEST(a_file_that_was_damaged_is_stored_anew_when_its_picture_comes_again),
        TEST(an_input_stays_while_a_job_needs_it),
        TEST(inputs_that_nobody_looked_at_go_and_lost_rows_come_back),
        TEST(pictures_are_found_by_words_and_tags),
        TEST(a_change_is_in_the_file_and_in_the_table),
        TEST(what_the_files_say_counts_after_a_start),
        TEST(pictures_of_a_lost_table_come_back_the_newest_first),
        TEST(a_picture_that_was_being_written_is_made_again),
        TEST(half_a_picture_of_a_job_that_was_given_up_goes),
        TEST(deleted_pictures_go_to_the_trash),
        TEST(a_database_that_another_program_holds_is_told_and_nothing_is_lost),
        TEST(speed_is_learned_and_fades),
    };
    return cmocka_run_group_tests_name("studio store", tests, NULL, NULL);
}
