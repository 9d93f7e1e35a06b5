/* A gallery whose files are the truth. */
#include <errno.h>
#include <sys/stat.h>

#include "base/file.h"
#include "studio_test.h"

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
    save_picture(s, &job, 2, "Ein Ärger in ΟΔΟΣ, ЛОДКА, Ȿ, Straße", "grün");
    static const struct {
        const char *words, *tag;
        size_t count;
    } rows[] = {
        { NULL, NULL, 3 },
        { "red", NULL, 1 },
        { "RED lake", NULL, 1 },
        { "red apple", NULL, 0 },
        { "  ", NULL, 3 },
        { "ä", NULL, 1 },
        { "ÄRGER GRÜN", NULL, 1 },
        { "a\u0308rger", NULL, 1 }, /* as other systems write it */
        { "οδος", NULL, 1 },
        { "лодка ȿ STRAẞE", NULL, 1 },
        { "ö", NULL, 0 },
        { "fruit", NULL, 1 },
        { NULL, "water", 1 },
        { NULL, "wat", 0 },
        { "100%_", NULL, 1 },
        { "%", NULL, 1 },
        { "9007199254740993", NULL, 0 }, /* their seed, of which nobody has said that it is searched */
        { "20", NULL, 0 },               /* their year */
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

static void words_of_an_earlier_version_are_made_anew_after_a_start(void **state) {
    (void)state;
    unsigned broken = 0;
    kn_store *s = open_store();
    kn_id job = add_job(s);
    save_picture(s, &job, 0, "boat", "x");
    GOOD(kn_store_do(s, &err, NULL, "UPDATE gallery SET words = words || '2026-11-30'", ""));
    assert_int_equal(found(s, "2026", NULL), 1);
    GOOD(kn_gallery_reconcile(s, &broken, &err));
    assert_int_equal(found(s, "2026", NULL), 0);
    assert_int_equal(found(s, "boat x", NULL), 1);
    save_picture(s, &job, 1, "ÄPFEL", "x");
    GOOD(kn_store_do(s, &err, NULL, "UPDATE gallery SET words = replace(words, 'ä', 'Ä')", ""));
    assert_int_equal(found(s, "äpfel", NULL), 0);
    GOOD(kn_gallery_reconcile(s, &broken, &err));
    assert_int_equal(found(s, "äpfel", NULL), 1);
    kn_store_close(s);
}

static void set_date(kn_store *s, const kn_id *id, const char *date) {
    char name[256];
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

static void what_people_write_into_a_record_stays_when_it_is_changed(void **state) {
    (void)state;
    char name[64];
    KN_AUTO_BUF text, after;
    kn_buf_init(&text, 1 << 20);
    kn_buf_init(&after, 1 << 20);
    kn_store *s = open_store();
    kn_id job = add_job(s), id = save_picture(s, &job, 0, "boat", "x");
    snprintf(name, sizeof name, "%s.json", id.text);
    GOOD(kn_store_read(s, "gallery", name, 1 << 20, &text, &err));
    const char *tag = strstr(text.data, "\"x\"");
    assert_non_null(tag);
    text.data[tag - text.data + 1] = 'y';
    write_sidecar(s, &id, text.data);
    kn_error why = { 0 };
    kn_record r = patched(s, &id, &why);
    assert_int_equal(why.code, KN_OK);
    assert_string_equal(r.tags[0], "y");
    kn_record_free(&r);
    assert_int_equal(found(s, NULL, "y"), 1);
    assert_int_equal(found(s, NULL, "x"), 0);

    write_sidecar(s, &id, "{\"title\": \"half");
    r = patched(s, &id, &why);
    assert_int_equal(why.code, KN_E_USAGE);
    assert_non_null(strstr(why.text, name));
    GOOD(kn_store_read(s, "gallery", name, 1 << 20, &after, &err));
    assert_string_equal(after.data, "{\"title\": \"half");

    kn_store_remove(s, "gallery", name); /* then the table's word is written */
    why = (kn_error){ 0 };
    r = patched(s, &id, &why);
    assert_int_equal(why.code, KN_OK);
    kn_record_free(&r);
    assert_true(kn_store_has(s, "gallery", name));
    kn_store_close(s);
}

static void a_link_in_the_place_of_a_file_is_none(void **state) {
    (void)state;
    KN_AUTO_BUF text;
    kn_buf_init(&text, 100);
    char *link = NULL, *target = NULL;
    kn_store *s = open_store();
    GOOD(kn_store_write(s, "results", "secret", "secret", 6, &err));
    GOOD(kn_store_path(s, "results", "secret", &target, &err));
    GOOD(kn_store_path(s, "gallery", "a.png", &link, &err));
    assert_int_equal(symlink(target, link), 0);
    REFUSED(kn_store_read(s, "gallery", "a.png", 100, &text, &err), KN_E_NOT_FOUND);
    assert_int_equal(text.len, 0);
    assert_false(kn_store_has(s, "gallery", "a.png"));
    assert_true(kn_store_has(s, "results", "secret"));
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
    assert_true(kn_store_has(s, KN_STORE_TRASH, r.file));
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

/* Else it would be told as deleted, and come back. */
static void nothing_is_deleted_where_it_cannot_be_moved(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id job = add_job(s), a = save_picture(s, &job, 0, "boat", "x");
    char *gallery, *away, *trash;
    kn_record r;
    GOOD(kn_store_path(s, ".", "gallery", &gallery, &err));
    GOOD(kn_store_path(s, ".", "away", &away, &err));
    GOOD(kn_store_path(s, ".", KN_STORE_TRASH, &trash, &err));
    GOOD(kn_gallery_find(s, a.text, &r, &err));
    assert_int_equal(rename(gallery, away), 0);
    REFUSED(kn_gallery_delete(s, a.text, false, &err), KN_E_IO);
    assert_int_equal(mkdir(gallery, 0700), 0); /* as where the gallery's disk is unmounted */
    REFUSED(kn_gallery_delete(s, a.text, false, &err), KN_E_IO);
    assert_int_equal(rmdir(gallery), 0);
    assert_int_equal(rename(away, gallery), 0);
    assert_int_equal(symlink("nowhere", trash), 0);
    REFUSED(kn_gallery_delete(s, a.text, false, &err), KN_E_IO);
    assert_true(kn_store_has(s, "gallery", r.file));
    kn_store_close(s);
    s = open_store();
    assert_int_equal(unlink(trash), 0);
    GOOD(kn_gallery_delete(s, a.text, false, &err));
    assert_true(kn_store_has(s, KN_STORE_TRASH, r.file));
    kn_record_free(&r);
    kn_store_close(s);
    free(gallery);
    free(away);
    free(trash);
}

static void what_earlier_versions_have_deleted_is_in_the_trash(void **state) {
    (void)state;
    char *old, *file;
    kn_store *s = open_store();
    GOOD(kn_store_path(s, ".", "trash", &old, &err));
    assert_int_equal(mkdir(old, 0700), 0);
    GOOD(kn_store_write(s, "trash", "old.png", "old", 3, &err));
    GOOD(kn_store_path(s, KN_STORE_TRASH, "old.png", &file, &err));
    kn_store_close(s);
    s = open_store();
    assert_int_equal(access(file, R_OK), 0);
    assert_int_not_equal(access(old, F_OK), 0);
    kn_store_close(s);
    free(old);
    free(file);
}

/* Each says by its code what can be done about it. */
static void what_the_disk_refuses_is_told_apart(void **state) {
    (void)state;
    assert_int_equal(kn_code_of_write(ENOSPC, KN_E_IO), KN_E_FULL);
    assert_int_equal(kn_code_of_write(EDQUOT, KN_E_IO), KN_E_FULL);
    assert_int_equal(kn_code_of_write(EROFS, KN_E_IO), KN_E_READONLY);
    assert_int_equal(kn_code_of_write(EACCES, KN_E_IO), KN_E_READONLY);
    assert_int_equal(kn_code_of_write(EPERM, KN_E_IO), KN_E_READONLY);
    assert_int_equal(kn_code_of_write(EIO, KN_E_OUTPUT), KN_E_OUTPUT);

    kn_store *s = open_store();
    GOOD(kn_store_takes(s, "gallery", 1, &err));
    REFUSED(kn_store_takes(s, "gallery", UINT64_MAX, &err), KN_E_FULL);
    GOOD(kn_store_do(s, &err, NULL, "PRAGMA query_only = ON", ""));
    REFUSED(kn_store_do(s, &err, NULL, "DELETE FROM gallery", ""), KN_E_READONLY);
    kn_store_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(pictures_are_found_by_words_and_tags),
        TEST(a_change_is_in_the_file_and_in_the_table),
        TEST(what_the_files_say_counts_after_a_start),
        TEST(words_of_an_earlier_version_are_made_anew_after_a_start),
        TEST(pictures_of_a_lost_table_come_back_the_newest_first),
        TEST(a_picture_whose_record_cannot_be_read_stays),
        TEST(what_people_write_into_a_record_stays_when_it_is_changed),
        TEST(a_link_in_the_place_of_a_file_is_none),
        TEST(a_picture_that_was_being_written_is_made_again),
        TEST(half_a_picture_of_a_job_that_was_given_up_goes),
        TEST(deleted_pictures_go_to_the_trash),
        TEST(nothing_is_deleted_where_it_cannot_be_moved),
        TEST(what_earlier_versions_have_deleted_is_in_the_trash),
        TEST(what_the_disk_refuses_is_told_apart),
    };
    return cmocka_run_group_tests_name("studio gallery", tests, NULL, NULL);
}
