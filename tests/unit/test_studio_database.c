/* Whose a studio.db is that lies in the studio's folder: only our own is opened, and nothing is done to any other. */
#include "studio_test.h"

#include <dirent.h>
#include <signal.h>

#include "base/file.h"

enum { OUR_ID = 0x6b756e6f, FILE_MAX = 1 << 20 };

static sqlite3 *open_raw(void) {
    char path[100];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/studio.db", folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void run_raw(sqlite3 *db, const char *sql) {
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
}

static int64_t ask_raw(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return answer;
}

/* All that is in the folder: names and bytes. */
static void read_folder(kn_buf *ret) {
    struct dirent **names = NULL;
    int n = scandir(folder, &names, NULL, alphasort);
    kn_buf_init(ret, 4 * FILE_MAX);
    assert_true(n >= 2);
    for (int i = 0; i < n; i++) {
        char path[400];
        kn_buf bytes;
        kn_buf_init(&bytes, FILE_MAX);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        assert_true(kn_buf_add_text(ret, names[i]->d_name));
        if (names[i]->d_name[0] != '.') {
            GOOD(kn_file_read(path, FILE_MAX, &bytes, &err));
            assert_true(kn_buf_add(ret, bytes.data, bytes.len));
        }
        kn_buf_free(&bytes);
        free(names[i]);
    }
    free(names);
}

static bool database_has(const char *text) {
    bool found = false;
    for (int i = 0; i < 2; i++) {
        char path[100];
        KN_AUTO_BUF bytes;
        kn_buf_init(&bytes, FILE_MAX);
        snprintf(path, sizeof path, "%s/studio.db%s", folder, i ? "-wal" : "");
        GOOD(kn_file_read(path, FILE_MAX, &bytes, &err));
        found = found || memmem(bytes.data, bytes.len, text, strlen(text));
    }
    return found;
}

static void what_is_deleted_is_nowhere_in_the_database(void **state) {
    (void)state;
    static const char canary[] = "a heron nobody may know of";
    char request[12000];
    int len = snprintf(request, sizeof request, "{\"prompt\":\"%s ", canary);
    memset(request + len, 'a', 10000); /* over several pages */
    snprintf(request + len + 10000, sizeof request - (size_t)len - 10000, " %s\"}", canary);
    kn_id job, other;
    const kn_new_job new = { .kind = KN_KIND_TEXT_TO_IMAGE, .request = request, .seeds = "[\"7\"]", .notes = "[]" };
    kn_job_state ended;
    kn_store *s = open_store();
    assert_true(kn_store_wipe_remains(s)); /* there is nothing of it any more */
    assert_false(s->has_remains);
    GOOD(kn_jobs_add(s, &new, 10, &job, &err));
    other = add_job(s);
    GOOD(kn_jobs_cancel(s, job.text, &ended, &err));
    assert_true(database_has(canary));
    GOOD(kn_jobs_delete(s, job.text, &err));
    assert_true(s->has_remains);

    sqlite3 *reader = open_raw(); /* who looks into it for long */
    run_raw(reader, "BEGIN");
    ask_raw(reader, "SELECT count(*) FROM jobs");
    assert_false(kn_store_wipe_remains(s));
    assert_true(s->has_remains);
    run_raw(reader, "COMMIT");
    sqlite3_close(reader);

    assert_true(kn_store_wipe_remains(s));
    assert_false(s->has_remains);
    assert_false(database_has(canary));
    assert_string_equal(member_of(s, &other, "state"), "queued");
    kn_store_close(s);
}

static void another_programs_database_is_refused_and_left_alone(void **state) {
    (void)state;
    static const char *const others[] = {
        "CREATE TABLE notes (text)",
        "CREATE VIEW jobs AS SELECT 1",
        "PRAGMA application_id = 1",
        "PRAGMA application_id = 252006673; PRAGMA user_version = 4; CREATE TABLE jobs (id)", /* fossil's */
        "PRAGMA user_version = 3; CREATE TABLE jobs (id); CREATE TABLE settings (id)",
        "PRAGMA user_version = 99; CREATE TABLE moz_places (id)",
        "PRAGMA journal_mode = WAL; CREATE TABLE notes (text)",
    };
    for (size_t i = 0; i < KN_COUNT(others); i++) {
        kn_store *s = NULL;
        kn_buf before, after;
        kn_error why = { 0 };
        sqlite3 *db = open_raw();
        run_raw(db, others[i]);
        sqlite3_close(db);
        read_folder(&before);
        assert_false(kn_store_look(folder, &why));
        if (why.code != KN_E_USAGE || !strstr(why.text, "'studio.db' is another program's database"))
            fail_msg("%s: %s", others[i], why.text);
        REFUSED(kn_store_open(folder, 200, &s, &err), KN_E_USAGE);
        read_folder(&after);
        assert_int_equal(after.len, before.len);
        assert_memory_equal(after.data, before.data, before.len);
        kn_buf_free(&before);
        kn_buf_free(&after);
        char path[100];
        snprintf(path, sizeof path, "%s/studio.db", folder);
        assert_int_equal(unlink(path), 0);
    }
}

/* What another program has only in its log cannot be seen in the file, so it is found when that is opened. */
static void so_is_one_whose_tables_are_still_in_its_log(void **state) {
    (void)state;
    kn_store *s = NULL;
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        static sqlite3 *volatile never_closed; /* as in a crash */
        never_closed = open_raw();
        run_raw(never_closed, "PRAGMA journal_mode = WAL; CREATE TABLE notes (text); INSERT INTO notes VALUES ('x')");
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    GOOD(kn_store_look(folder, &err));
    REFUSED(kn_store_open(folder, 200, &s, &err), KN_E_USAGE);
    sqlite3 *db = open_raw();
    assert_int_equal(ask_raw(db, "SELECT count(*) FROM notes"), 1);
    assert_int_equal(ask_raw(db, "SELECT count(*) FROM sqlite_schema"), 1);
    sqlite3_close(db);
}

static void our_own_has_our_mark(void **state) {
    (void)state;
    kn_store_close(open_store());
    sqlite3 *db = open_raw();
    assert_int_equal(ask_raw(db, "PRAGMA application_id"), OUR_ID);
    run_raw(db, "PRAGMA application_id = 0"); /* as databases of earlier days have it */
    sqlite3_close(db);
    GOOD(kn_store_look(folder, &err));
    kn_store *s = open_store();
    assert_false(s->was_broken);
    kn_store_close(s);
    db = open_raw();
    assert_int_equal(ask_raw(db, "PRAGMA application_id"), OUR_ID);
    sqlite3_close(db);
}

static void one_of_a_later_version_is_refused_and_left_alone(void **state) {
    (void)state;
    kn_store *s = NULL;
    kn_buf before, after;
    kn_store_close(open_store());
    sqlite3 *db = open_raw();
    run_raw(db, "PRAGMA user_version = 5; DROP TABLE speed");
    sqlite3_close(db);
    char path[100];
    snprintf(path, sizeof path, "%s/studio.db", folder);
    kn_buf_init(&before, FILE_MAX);
    kn_buf_init(&after, FILE_MAX);
    GOOD(kn_file_read(path, FILE_MAX, &before, &err));
    REFUSED(kn_store_look(folder, &err), KN_E_UNSUPPORTED);
    REFUSED(kn_store_open(folder, 200, &s, &err), KN_E_UNSUPPORTED);
    GOOD(kn_file_read(path, FILE_MAX, &after, &err));
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.data, before.data, before.len);
    kn_buf_free(&before);
    kn_buf_free(&after);
}

static void our_own_that_lacks_tables_is_damaged(void **state) {
    (void)state;
    kn_store_close(open_store());
    sqlite3 *db = open_raw();
    run_raw(db, "DROP TABLE answers");
    sqlite3_close(db);
    GOOD(kn_store_look(folder, &err)); /* it is begun anew, which is nothing in its way */
    kn_store *s = open_store();
    assert_true(s->was_broken);
    add_job(s);
    kn_store_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(another_programs_database_is_refused_and_left_alone),
        TEST(so_is_one_whose_tables_are_still_in_its_log),
        TEST(our_own_has_our_mark),
        TEST(what_is_deleted_is_nowhere_in_the_database),
        TEST(one_of_a_later_version_is_refused_and_left_alone),
        TEST(our_own_that_lacks_tables_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
