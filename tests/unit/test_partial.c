/* The unfinished file on the disk: what is written when, and what a disk may do. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "catalog/download.h"
#include "catalog/keeper.h"

enum { PIECE = 4096, BYTES = 10 * PIECE + 5 };

/* ---- a disk that notes what is done to it, and fails on request ---- */

static char noted[400];         /* a letter each: w s of the file, j J of the journal, d of the folder, r: named */
static int file_fd, journal_fd; /* which is which */
static atomic_int fail_write, fail_sync, fail_rename, fail_reserve; /* errno; 0: none */
static uint64_t free_bytes;                                         /* 0: as it is */

ssize_t __real_pwrite64(int fd, const void *data, size_t len, off64_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t len, off64_t at);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_fallocate64(int fd, int mode, off64_t at, off64_t len);
int __wrap_fallocate64(int fd, int mode, off64_t at, off64_t len);
int __real_fstatvfs64(int fd, struct statvfs64 *ret);
int __wrap_fstatvfs64(int fd, struct statvfs64 *ret);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(char what) {
    pthread_mutex_lock(&lock);
    size_t n = strlen(noted);
    if (n + 1 < sizeof noted)
        noted[n] = what;
    pthread_mutex_unlock(&lock);
}

static int failed(int error) {
    errno = error;
    return -1;
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t len, off64_t at) {
    if (fail_write)
        return failed(fail_write);
    note(fd == journal_fd ? 'j' : 'w');
    return __real_pwrite64(fd, data, len, at);
}

int __wrap_fsync(int fd) {
    if (fail_sync)
        return failed(fail_sync);
    note(fd == file_fd ? 's' : fd == journal_fd ? 'J' : 'd');
    return __real_fsync(fd);
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    if (fail_rename)
        return failed(fail_rename);
    note('r');
    return __real_renameat2(from_fd, from, to_fd, to, flags);
}

int __wrap_fallocate64(int fd, int mode, off64_t at, off64_t len) {
    return fail_reserve ? failed(fail_reserve) : __real_fallocate64(fd, mode, at, len);
}

int __wrap_fstatvfs64(int fd, struct statvfs64 *ret) {
    int result = __real_fstatvfs64(fd, ret);
    if (free_bytes)
        ret->f_bavail = free_bytes / ret->f_frsize;
    return result;
}

/* ---- what each test begins with ---- */

typedef struct place {
    char root[40];
    kn_partial part;
    uint8_t content[BYTES];
    char hash[KN_SHA256_HEX];
} place;

static void open_part(place *p) {
    kn_error err = { 0 };
    int dir_fd = kn_partial_folder(p->root, "vae", &err);
    if (dir_fd < 0 || !kn_partial_open(dir_fd, "model.gguf", BYTES, &p->part, &err))
        fail_msg("%s", err.text);
    file_fd = p->part.fd;
    journal_fd = p->part.journal_fd;
    memset(noted, 0, sizeof noted);
}

static int begin(void **state) {
    place *p = calloc(1, sizeof *p);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    assert_non_null(p);
    fail_write = fail_sync = fail_rename = fail_reserve = 0;
    free_bytes = 0;
    snprintf(p->root, sizeof p->root, "/tmp/kuno-partial-XXXXXX");
    assert_non_null(mkdtemp(p->root));
    for (size_t i = 0; i < BYTES; i++)
        p->content[i] = (uint8_t)(i * 7 + i / 251);
    assert_true(EVP_Digest(p->content, BYTES, digest, &n, EVP_sha256(), NULL));
    for (unsigned i = 0; i < n; i++)
        snprintf(p->hash + (size_t)2 * i, 3, "%02x", digest[i]);
    open_part(p);
    *state = p;
    return 0;
}

static int end(void **state) {
    place *p = *state;
    kn_partial_close(&p->part);
    int fd = open(p->root, O_RDONLY | O_DIRECTORY);
    static const char *const names[] = { "vae/model.gguf", "vae/model.gguf.part", "vae/model.gguf.part.journal" };
    for (size_t i = 0; i < KN_COUNT(names); i++)
        unlinkat(fd, names[i], 0);
    unlinkat(fd, "vae", AT_REMOVEDIR);
    close(fd);
    rmdir(p->root);
    free(p);
    return 0;
}

static bool is_there(const place *p, const char *name) {
    struct stat st;
    return fstatat(p->part.dir_fd, name, &st, 0) == 0;
}

static kn_pieces new_pieces(void) {
    kn_pieces pieces;
    kn_error err = { 0 };
    assert_true(kn_pieces_new(BYTES, PIECE, &pieces, &err));
    return pieces;
}

static bool write_piece(const place *p, const kn_pieces *pieces, size_t i, kn_keeper *k, kn_error *err) {
    uint64_t at = kn_piece_start(pieces, i), end_at = kn_piece_end(pieces, i);
    return kn_partial_write(&p->part, at, p->content + at, (size_t)(end_at - at), err) && kn_keeper_piece(k, i, err);
}

static bool wait_for_hash(kn_keeper *k, char hash[KN_SHA256_HEX], kn_error *err) {
    for (bool done = false; !done;)
        if (!kn_keeper_finish(k, 100, &done, hash, err))
            return false;
    return true;
}

/* ---- the promises ---- */

static void pieces_in_any_order_have_the_hash_of_the_whole(void **state) {
    place *p = *state;
    kn_error err = { 0 };
    kn_keeper *k;
    kn_pieces pieces = new_pieces();
    char hash[KN_SHA256_HEX] = "";
    assert_true(kn_partial_reserve(&p->part, &err));
    assert_true(kn_keeper_new(&p->part, &pieces, p->hash, &k, &err) && kn_keeper_restart(k, "\"tag\"", &err));
    for (size_t i = 0; i < pieces.count; i++)
        assert_true(write_piece(p, &pieces, (i * 7 + 3) % pieces.count, k, &err));
    assert_true(wait_for_hash(k, hash, &err));
    assert_string_equal(hash, p->hash);
    assert_int_equal(kn_keeper_hashed_bytes(k), BYTES);
    kn_keeper_free(k);
    kn_pieces_free(&pieces);
}

/* Whatever the journal names was synced since it was written; and the name comes last. */
static void bytes_are_on_the_disk_before_the_journal_and_the_name(void **state) {
    place *p = *state;
    kn_error err = { 0 };
    kn_keeper *k;
    kn_pieces pieces = new_pieces();
    char hash[KN_SHA256_HEX] = "";
    assert_true(kn_keeper_new(&p->part, &pieces, p->hash, &k, &err) && kn_keeper_restart(k, "", &err));
    assert_string_equal(noted, "djJ");
    memset(noted, 0, sizeof noted);
    for (size_t i = 0; i < pieces.count; i++)
        assert_true(write_piece(p, &pieces, i, k, &err));
    assert_true(wait_for_hash(k, hash, &err));
    kn_keeper_free(k);
    size_t done = 0; /* on a slow machine the journal is written more than once */
    for (const char *at = noted; *at; at++) {
        assert_true(*at == "sjJ"[done % 3] || *at == 'w');
        done += *at != 'w';
    }
    assert_true(done >= 3 && done % 3 == 0 && strrchr(noted, 's') > strrchr(noted, 'w'));
    memset(noted, 0, sizeof noted);
    assert_true(kn_partial_activate(&p->part, &err));
    assert_string_equal(noted, "srd");
    kn_pieces_free(&pieces);
}

static void what_was_noted_is_taken_up_again(void **state) {
    place *p = *state;
    kn_error err = { 0 };
    kn_keeper *k;
    kn_pieces pieces = new_pieces(), again = new_pieces();
    char hash[KN_SHA256_HEX] = "", etag[KN_ETAG_BYTES] = "";
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_JOURNAL_BYTES);
    assert_true(kn_partial_reserve(&p->part, &err));
    assert_true(kn_keeper_new(&p->part, &pieces, p->hash, &k, &err) && kn_keeper_restart(k, "\"tag\"", &err));
    for (size_t i = 0; i < pieces.count; i++)
        assert_true(i == 4 ? kn_keeper_part(k, i, 9, &err) : write_piece(p, &pieces, i, k, &err));
    kn_keeper_free(k);
    kn_partial_close(&p->part);

    open_part(p);
    assert_false(p->part.is_new);
    assert_true(kn_partial_read_journal(&p->part, &text, &err));
    assert_true(kn_journal_read(text.data, text.len, p->hash, &again, etag));
    assert_string_equal(etag, "\"tag\"");
    assert_int_equal(again.done, again.count - 1);
    assert_int_equal(again.part[4], 9);
    assert_true(kn_keeper_new(&p->part, &again, p->hash, &k, &err));
    assert_true(write_piece(p, &again, 4, k, &err) && wait_for_hash(k, hash, &err));
    assert_string_equal(hash, p->hash);
    kn_keeper_free(k);
    kn_pieces_free(&pieces);
    kn_pieces_free(&again);
}

static void a_disk_that_fails_ends_it_with_its_reason(void **state) {
    place *p = *state;
    kn_error err = { 0 };
    kn_keeper *k;
    kn_pieces pieces = new_pieces();
    char hash[KN_SHA256_HEX] = "";
    assert_true(kn_keeper_new(&p->part, &pieces, p->hash, &k, &err) && kn_keeper_restart(k, "", &err));
    fail_write = ENOSPC;
    assert_false(write_piece(p, &pieces, 0, k, &err));
    assert_int_equal(err.code, KN_E_FULL);
    err = (kn_error){ 0 };
    fail_write = 0;
    fail_sync = EIO;
    for (size_t i = 0; i < pieces.count && !err.code; i++)
        write_piece(p, &pieces, i, k, &err);
    if (!err.code) /* the thread is not there yet: it will be */
        assert_true(wait_for_hash(k, hash, &err) || err.code);
    kn_keeper_free(k);
    fail_sync = 0;
    assert_false(is_there(p, "model.gguf"));
    kn_pieces_free(&pieces);
}

static void a_disk_that_may_not_be_written_is_not_told_as_full(void **state) {
    place *p = *state;
    const int refusals[] = { EROFS, EACCES, EPERM };
    for (size_t i = 0; i < KN_COUNT(refusals); i++) {
        kn_error err = { 0 };
        fail_reserve = refusals[i];
        assert_false(kn_partial_reserve(&p->part, &err));
        assert_int_equal(err.code, KN_E_READONLY);
        assert_int_equal(kn_fetch_problem_of(err.code), KN_FETCH_READONLY);
    }
}

static void too_little_space_is_told_with_numbers(void **state) {
    place *p = *state;
    kn_error err = { 0 };
    free_bytes = 8192;
    assert_false(kn_partial_reserve(&p->part, &err));
    assert_int_equal(err.code, KN_E_FULL);
    assert_non_null(strstr(err.text, "41.0 kB more"));
    assert_non_null(strstr(err.text, "8.2 kB are free"));
}

static void space_that_cannot_be_promised_is_written_to_later(void **state) {
    place *p = *state;
    struct stat st;
    kn_error err = { 0 };
    fail_reserve = EOPNOTSUPP;
    assert_true(kn_partial_reserve(&p->part, &err));
    assert_int_equal(fstat(p->part.fd, &st), 0);
    assert_int_equal(st.st_size, BYTES);
    fail_reserve = ENOSPC;
    assert_false(kn_partial_reserve(&p->part, &err));
    assert_int_equal(err.code, KN_E_FULL);
}

static void a_name_that_is_taken_stays_as_it_is(void **state) {
    place *p = *state;
    struct stat st;
    for (int with_rename = 0; with_rename < 2; with_rename++) {
        kn_error err = { 0 };
        fail_rename = with_rename ? 0 : EINVAL;
        assert_true(kn_partial_reserve(&p->part, &err));
        close(openat(p->part.dir_fd, "model.gguf", O_WRONLY | O_CREAT, 0600));
        assert_false(kn_partial_activate(&p->part, &err));
        assert_int_equal(err.code, KN_E_OUTPUT);
        assert_int_equal(fstatat(p->part.dir_fd, "model.gguf", &st, 0), 0);
        assert_int_equal(st.st_size, 0);
    }
}

static void a_file_system_without_that_rename_has_links(void **state) {
    place *p = *state;
    kn_error err = { 0 };
    fail_rename = EINVAL;
    assert_true(kn_partial_reserve(&p->part, &err));
    assert_true(kn_partial_activate(&p->part, &err));
    assert_true(is_there(p, "model.gguf"));
    assert_false(is_there(p, "model.gguf.part") || is_there(p, "model.gguf.part.journal"));
}

static void only_one_works_on_a_file(void **state) {
    place *p = *state;
    kn_error err = { 0 };
    kn_partial other;
    int dir_fd = kn_partial_folder(p->root, "vae", &err);
    assert_false(kn_partial_forget(dir_fd, "model.gguf", &err));
    err = (kn_error){ 0 };
    assert_false(kn_partial_open(dir_fd, "model.gguf", BYTES, &other, &err));
    assert_int_equal(err.code, KN_E_USAGE);
    assert_true(is_there(p, "model.gguf.part"));
    kn_partial_close(&p->part);
    dir_fd = kn_partial_folder(p->root, "vae", NULL);
    assert_true(kn_partial_forget(dir_fd, "model.gguf", NULL));
    assert_true(kn_partial_forget(dir_fd, "model.gguf", NULL)); /* again: there is nothing */
    close(dir_fd);
    open_part(p);
    assert_true(p->part.is_new);
}

static void nothing_is_written_through_a_link(void **state) {
    place *p = *state;
    kn_error err = { 0 };
    kn_partial other;
    int dir_fd = kn_partial_folder(p->root, "vae", NULL);
    kn_partial_discard(&p->part);
    assert_int_equal(symlinkat("/tmp/kuno-partial-elsewhere", dir_fd, "model.gguf.part"), 0);
    assert_false(kn_partial_open(dir_fd, "model.gguf", BYTES, &other, &err));
    assert_int_not_equal(access("/tmp/kuno-partial-elsewhere", F_OK), 0);
}

static void nothing_is_written_into_a_file_with_another_name(void **state) {
    place *p = *state;
    const char *const names[] = { "model.gguf.part", "model.gguf.part.journal" };
    int dir_fd = dup(p->part.dir_fd);
    KN_AUTO_BUF text;
    kn_buf_init(&text, 100);
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        kn_error err = { 0 };
        kn_partial other;
        kn_partial_discard(&p->part);
        kn_partial_close(&p->part);
        p->part.dir_fd = kn_partial_folder(p->root, "vae", NULL);
        if (i) { /* as a download has left it */
            close(p->part.dir_fd);
            open_part(p);
            assert_true(kn_partial_reserve(&p->part, &err));
            unlinkat(dir_fd, names[i], 0);
            kn_partial_close(&p->part);
        }
        int fd = openat(dir_fd, "theirs", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, "theirs", 6), 6);
        close(fd);
        assert_int_equal(linkat(dir_fd, "theirs", dir_fd, names[i], 0), 0);
        assert_false(kn_partial_open(dup(dir_fd), "model.gguf", BYTES, &other, &err));
        assert_non_null(strstr(err.text, "has another name"));
        struct stat st;
        assert_int_equal(fstatat(dir_fd, "theirs", &st, 0), 0);
        assert_int_equal(st.st_size, 6);
        unlinkat(dir_fd, names[i], 0);
        unlinkat(dir_fd, "theirs", 0);
        open_part(p);
    }
    close(dir_fd);
}

static void a_journal_without_its_file_is_gone_first(void **state) {
    place *p = *state;
    KN_AUTO_BUF text;
    kn_error err = { 0 };
    kn_buf_init(&text, 100);
    assert_true(kn_buf_add_text(&text, "kuno-download 1\n") && kn_partial_write_journal(&p->part, false, &text, &err));
    unlinkat(p->part.dir_fd, "model.gguf.part", 0);
    kn_partial_close(&p->part);
    open_part(p);
    kn_buf_clear(&text);
    assert_true(kn_partial_read_journal(&p->part, &text, &err));
    assert_int_equal(text.len, 0);
}

static uint64_t size_of_part(const place *p) {
    struct stat st;
    assert_int_equal(fstatat(p->part.dir_fd, "model.gguf.part", &st, 0), 0);
    return (uint64_t)st.st_size;
}

/* A promise of space makes no file shorter, and not every file system gives one. */
static void what_was_left_longer_is_cut(void **state) {
    place *p = *state;
    for (int promises = 0; promises < 2; promises++) {
        kn_error err = { 0 };
        fail_reserve = promises ? 0 : EOPNOTSUPP;
        assert_int_equal(ftruncate(p->part.fd, BYTES + 9), 0);
        assert_true(kn_partial_reserve(&p->part, &err));
        assert_int_equal(size_of_part(p), BYTES);
    }
    assert_int_equal(ftruncate(p->part.fd, BYTES + 9), 0);
    kn_partial_close(&p->part);
    open_part(p);
    assert_true(p->part.is_new);
    assert_int_equal(size_of_part(p), 0);
}

static void only_the_file_that_was_hashed_gets_the_name(void **state) {
    place *p = *state;
    static const off_t wrong[] = { BYTES + 1, BYTES - 1, 0 };
    kn_error err = { 0 };
    for (size_t i = 0; i < KN_COUNT(wrong); i++) {
        err = (kn_error){ 0 };
        assert_int_equal(ftruncate(p->part.fd, wrong[i]), 0);
        assert_false(kn_partial_activate(&p->part, &err));
        assert_int_equal(err.code, KN_E_FORMAT);
        assert_false(is_there(p, "model.gguf"));
    }
    assert_non_null(strstr(err.text, "0 bytes instead of"));
    err = (kn_error){ 0 };
    assert_true(kn_partial_reserve(&p->part, &err));
    assert_int_equal(unlinkat(p->part.dir_fd, "model.gguf.part", 0), 0);
    assert_false(kn_partial_activate(&p->part, NULL));
    int other = openat(p->part.dir_fd, "model.gguf.part", O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(ftruncate(other, BYTES), 0);
    close(other);
    assert_false(kn_partial_activate(&p->part, &err));
    assert_int_equal(err.code, KN_E_FORMAT);
    assert_false(is_there(p, "model.gguf"));
}

#define PROMISE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        PROMISE(pieces_in_any_order_have_the_hash_of_the_whole),
        PROMISE(bytes_are_on_the_disk_before_the_journal_and_the_name),
        PROMISE(what_was_noted_is_taken_up_again),
        PROMISE(a_disk_that_fails_ends_it_with_its_reason),
        PROMISE(a_disk_that_may_not_be_written_is_not_told_as_full),
        PROMISE(too_little_space_is_told_with_numbers),
        PROMISE(space_that_cannot_be_promised_is_written_to_later),
        PROMISE(a_name_that_is_taken_stays_as_it_is),
        PROMISE(a_file_system_without_that_rename_has_links),
        PROMISE(only_one_works_on_a_file),
        PROMISE(nothing_is_written_through_a_link),
        PROMISE(nothing_is_written_into_a_file_with_another_name),
        PROMISE(a_journal_without_its_file_is_gone_first),
        PROMISE(what_was_left_longer_is_cut),
        PROMISE(only_the_file_that_was_hashed_gets_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
