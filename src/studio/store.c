#include "studio/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "studio/schema.h"

int64_t kn_store_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- errors ---- */

static kn_code code_of(int sqlite_code) {
    switch (sqlite_code & 0xFF) {
    case SQLITE_FULL: return KN_E_FULL;
    case SQLITE_NOMEM: return KN_E_NOMEM;
    case SQLITE_PERM: return KN_E_READONLY;
    case SQLITE_READONLY: return sqlite_code == SQLITE_READONLY_DBMOVED ? KN_E_IO : KN_E_READONLY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return KN_E_FORMAT;
    }
    return KN_E_IO;
}

/* SQLite's messages may hold what was stored, so only its fixed words for the code are passed on. */
bool kn_store_fail(kn_store *s, kn_error *err) {
    int code = sqlite3_extended_errcode(s->db);
    kn_code what = code_of(code);
    if ((code & 0xFF) == SQLITE_IOERR || (code & 0xFF) == SQLITE_CANTOPEN)
        what = kn_code_of_write(sqlite3_system_errno(s->db), what);
    return kn_fail(err, what, "database: %s (%d)", sqlite3_errstr(code), code);
}

/* ---- statements ---- */

static bool bind(sqlite3_stmt *statement, const char *types, va_list values) {
    int good = SQLITE_OK;
    for (int i = 1; *types && good == SQLITE_OK; i++, types++) {
        switch (*types) {
        case 'i': good = sqlite3_bind_int64(statement, i, va_arg(values, int64_t)); break;
        case 'd': good = sqlite3_bind_double(statement, i, va_arg(values, double)); break;
        case 'b': good = sqlite3_bind_int(statement, i, va_arg(values, int)); break;
        default: good = sqlite3_bind_text(statement, i, va_arg(values, const char *), -1, SQLITE_TRANSIENT); break;
        }
    }
    return good == SQLITE_OK;
}

static kn_query open_rows(kn_store *s, kn_error *err, const char *sql, const char *types, va_list values) {
    kn_query r = { .store = s, .err = err };
    if (sqlite3_prepare_v2(s->db, sql, -1, &r.statement, NULL) != SQLITE_OK || !bind(r.statement, types, values))
        r.failed = !kn_store_fail(s, err);
    return r;
}

kn_query kn_query_open(kn_store *s, kn_error *err, const char *sql, const char *types, ...) {
    va_list values;
    va_start(values, types);
    kn_query r = open_rows(s, err, sql, types, values);
    va_end(values);
    return r;
}

bool kn_query_next(kn_query *r) {
    if (r->failed)
        return false;
    int rc = sqlite3_step(r->statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        r->failed = !kn_store_fail(r->store, r->err);
    return rc == SQLITE_ROW;
}

int64_t kn_query_int(const kn_query *r, int column) {
    return sqlite3_column_int64(r->statement, column);
}

double kn_query_real(const kn_query *r, int column) {
    return sqlite3_column_double(r->statement, column);
}

const char *kn_query_text(const kn_query *r, int column) {
    return (const char *)sqlite3_column_text(r->statement, column);
}

bool kn_query_close(kn_query *r) {
    bool has_written = !r->failed && !sqlite3_stmt_readonly(r->statement);
    r->store->is_held = r->store->is_held && !has_written;
    sqlite3_finalize(r->statement);
    r->statement = NULL;
    return !r->failed;
}

bool kn_store_do(kn_store *s, kn_error *err, int *ret_changed, const char *sql, const char *types, ...) {
    va_list values;
    va_start(values, types);
    kn_query r = open_rows(s, err, sql, types, values);
    va_end(values);
    while (kn_query_next(&r)) /* a PRAGMA may answer */
        ;
    if (!kn_query_close(&r))
        return false;
    if (ret_changed)
        *ret_changed = sqlite3_changes(s->db);
    return true;
}

/* ---- what is kept for a full disk ---- */

static const char reserve[] = "reserve";
enum {
    RESERVE_BYTES = 4 << 20, /* the log of changes grows to about that */
    RESERVED_ABOVE = 64 << 20,
};

/* Nothing depends on it, so whatever fails here is tried again later. */
static void keep_reserve(kn_store *s) {
    char *path;
    if (s->has_reserve || kn_store_free_bytes(s) < RESERVED_ABOVE || !kn_store_path(s, ".", reserve, &path, NULL))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    s->has_reserve = fd >= 0 && posix_fallocate(fd, 0, RESERVE_BYTES) == 0;
    if (fd >= 0)
        close(fd);
    if (!s->has_reserve)
        unlink(path);
    free(path);
}

bool kn_store_makes_room(kn_store *s, kn_error *err) {
    char *path;
    if (!err || err->code != KN_E_FULL || !kn_store_path(s, ".", reserve, &path, NULL))
        return false;
    bool made = unlink(path) == 0;
    s->has_reserve = false;
    free(path);
    if (made)
        *err = (kn_error){ 0 };
    return made;
}

/* IMMEDIATE: a lock of another program is met here, not in the middle. */
bool kn_store_begin(kn_store *s, kn_error *err) {
    return kn_store_do(s, err, NULL, "BEGIN IMMEDIATE", "");
}

bool kn_store_end(kn_store *s, bool good, kn_error *err) {
    good = good && kn_store_do(s, err, NULL, "COMMIT", "");
    if (good)
        keep_reserve(s);
    if (!good && !sqlite3_get_autocommit(s->db)) /* some errors have rolled it back already */
        kn_store_do(s, NULL, NULL, "ROLLBACK", "");
    return good;
}

/* ---- the folder ---- */

bool kn_store_path(const kn_store *s, const char *room, const char *name, char **ret, kn_error *err) {
    if (asprintf(ret, "%s/%s/%s", s->folder, room, name) >= 0)
        return true;
    *ret = NULL;
    return kn_fail_nomem(err, strlen(s->folder) + strlen(name));
}

bool kn_store_is_writable(const kn_store *s) {
    return access(s->folder, W_OK | X_OK) == 0 && kn_store_free_bytes(s) > 0;
}

uint64_t kn_store_free_bytes(const kn_store *s) {
    struct statvfs v;
    return statvfs(s->folder, &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : 0;
}

/* Rights are asked for first: a disk that is full and must not be written needs more than room. */
static bool takes(const char *path, uint64_t bytes, kn_error *err) {
    struct statvfs v;
    if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0 || statvfs(path, &v) != 0)
        return kn_fail(err, kn_code_of_write(errno, KN_E_IO), "cannot be written: %s", strerror(errno));
    return (uint64_t)v.f_bavail * v.f_frsize >= bytes ||
           kn_fail(err, KN_E_FULL, "less than %llu MiB are free", (unsigned long long)(bytes >> 20));
}

bool kn_store_takes(const kn_store *s, const char *room, uint64_t bytes, kn_error *err) {
    char *path;
    if (!takes(s->folder, bytes, err))
        return kn_fail_within(err, "the studio's folder");
    if (!kn_store_path(s, ".", room, &path, err))
        return false;
    bool ok = takes(path, bytes, err) || kn_fail_within(err, "the studio's %s", room);
    free(path);
    return ok;
}

static bool look_at_gallery(const kn_store *s, struct stat *ret, kn_error *err) {
    char *path;
    if (!kn_store_path(s, ".", "gallery", &path, err))
        return false;
    bool there = stat(path, ret) == 0;
    free(path);
    return there || kn_fail(err, KN_E_IO, "the gallery's folder cannot be found: %s", strerror(errno));
}

bool kn_store_has_its_gallery(const kn_store *s, kn_error *err) {
    struct stat now;
    return look_at_gallery(s, &now, err) &&
           ((now.st_dev == s->gallery_dev && now.st_ino == s->gallery_ino) ||
            kn_fail(err, KN_E_IO,
                    "the gallery's folder is another one than at the start; bring its disk back, or start again"));
}

static bool note_gallery(kn_store *s, kn_error *err) {
    struct stat now;
    if (!look_at_gallery(s, &now, err))
        return false;
    s->gallery_dev = now.st_dev;
    s->gallery_ino = now.st_ino;
    return true;
}

static bool make_folder(const char *path, kn_error *err) {
    return mkdir(path, 0700) == 0 || errno == EEXIST ||
           kn_fail(err, kn_code_of_write(errno, KN_E_IO), "a folder of the studio cannot be made: %s", strerror(errno));
}

/* Files that were written when an earlier service was killed. */
static void sweep(const char *folder) {
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (kn_output_is_unfinished(e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

/* The trash is made when there is something for it. */
static const char *const rooms[] = { ".", "inputs", "gallery", "results", "thumbnails" };

/* What earlier versions have deleted lay beside the gallery. On another disk than the gallery's it stays there. */
static bool take_old_trash(const kn_store *s, kn_error *err) {
    char *from = NULL, *to = NULL;
    bool ok = kn_store_path(s, ".", "trash", &from, err) && kn_store_path(s, ".", KN_STORE_TRASH, &to, err);
    if (ok)
        (void)!rename(from, to);
    free(from);
    free(to);
    return ok;
}

static bool make_folders(const kn_store *s, kn_error *err) {
    bool ok = make_folder(s->folder, err);
    for (size_t i = 0; ok && i < KN_COUNT(rooms); i++) {
        char *path;
        ok = kn_store_path(s, ".", rooms[i], &path, err) && make_folder(path, err);
        if (ok)
            sweep(path);
        free(path);
    }
    return ok && take_old_trash(s, err);
}

/* ---- opening ---- */

static bool is_intact(kn_store *s, kn_error *err) {
    kn_query r = kn_query_open(s, err, "PRAGMA quick_check(1)", "");
    bool good = kn_query_next(&r) && kn_query_text(&r, 0) && !strcmp(kn_query_text(&r, 0), "ok");
    return kn_query_close(&r) && (good || kn_fail(err, KN_E_FORMAT, "the database is damaged"));
}

/* Whether it is ours as it lies in the file: SQLite then takes no locks and makes no files beside it, and does not look
 * into those that there are. What is damaged is no concern of this: it is moved aside. */
static bool is_known_database(int fd, kn_error *err) {
    char uri[64];
    kn_store s = { .db = NULL };
    kn_error why = { 0 };
    snprintf(uri, sizeof uri, "file:/proc/self/fd/%d?immutable=1", fd);
    int rc = sqlite3_open_v2(uri, &s.db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    bool refused =
        rc == SQLITE_OK && !kn_schema_is_ours(&s, &why) && (why.code == KN_E_USAGE || why.code == KN_E_UNSUPPORTED);
    sqlite3_close(s.db);
    return !refused || kn_fail(err, why.code, "%s", why.text);
}

/* Opening another program's database would change it already. */
static bool has_known_database(const kn_store *s, kn_error *err) {
    char *path;
    if (!kn_store_path(s, ".", "studio.db", &path, err))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    free(path);
    bool ok = fd < 0 || is_known_database(fd, err);
    if (fd >= 0)
        close(fd);
    return ok;
}

static void row_has_changed(void *ctx, int change, const char *database, const char *table, sqlite3_int64 row) {
    kn_store *s = ctx;
    (void)database, (void)table, (void)row;
    s->has_remains = s->has_remains || change == SQLITE_DELETE;
}

/* Called by SQLite as long as another program has the lock: 0 gives up. One thread does everything here, so that every
 * writer's patience would be added to everybody's who comes behind it, also of those who only read. */
static int wait_for_lock(void *ctx, int tries) {
    kn_store *s = ctx;
    double now = kn_now();
    if (!tries)
        s->gives_up = now + s->wait_ms * 1e-3;
    s->is_held = s->is_held || now >= s->gives_up;
    if (s->is_held)
        return 0;
    nanosleep(&(struct timespec){ .tv_nsec = 1000000L << KN_MIN(tries, 5) }, NULL);
    return 1;
}

static bool open_database(kn_store *s, unsigned wait_ms, kn_error *err) {
    char *path;
    if (!kn_store_path(s, ".", "studio.db", &path, err))
        return false;
    int rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    free(path);
    if (rc != SQLITE_OK)
        return s->db ? kn_store_fail(s, err) : kn_fail_nomem(err, sizeof *s);
    s->wait_ms = wait_ms;
    s->has_remains = true; /* of an earlier service that was killed */
    sqlite3_busy_handler(s->db, wait_for_lock, s);
    sqlite3_update_hook(s->db, row_has_changed, s);
    sqlite3_extended_result_codes(s->db, 1);
    /* FULL: what was promised to a client is on the disk, also when the power fails. */
    return kn_schema_is_ours(s, err) && kn_store_do(s, err, NULL, "PRAGMA journal_mode = WAL", "") &&
           kn_store_do(s, err, NULL, "PRAGMA synchronous = FULL", "") &&
           kn_store_do(s, err, NULL, "PRAGMA secure_delete = ON", "") &&
           kn_store_do(s, err, NULL, "PRAGMA foreign_keys = ON", "") &&
           kn_store_do(s, err, NULL, "PRAGMA trusted_schema = OFF", "") && is_intact(s, err) &&
           kn_schema_prepare(s, err);
}

/* The database, and what SQLite has beside it. */
static const char *const parts[] = { "studio.db", "studio.db-wal", "studio.db-shm", "studio.db-journal" };

/* Under another name, with what belongs to it, so that somebody may still look into it. */
static bool move_database_aside(const kn_store *s, kn_error *err) {
    bool ok = true;
    for (size_t i = 0; ok && i < KN_COUNT(parts); i++) {
        char *from = NULL, *to = NULL;
        ok = kn_store_path(s, ".", parts[i], &from, err);
        if (ok && asprintf(&to, "%s.damaged-%lld", from, (long long)kn_store_now_ms()) < 0) {
            to = NULL;
            ok = kn_fail_nomem(err, strlen(from));
        }
        if (ok && rename(from, to) != 0 && errno != ENOENT)
            ok = kn_fail(err, KN_E_IO, "the damaged database cannot be moved aside: %s", strerror(errno));
        free(from);
        free(to);
    }
    return ok;
}

/* SQLite has several words for a disk that may only be read. */
static void name_protection(const kn_store *s, kn_error *err) {
    kn_error why = { 0 };
    if (!takes(s->folder, 0, &why) && why.code == KN_E_READONLY) {
        *err = (kn_error){ 0 };
        kn_fail(err, why.code, "the studio's folder %s", why.text);
    }
}

bool kn_store_open(const char *folder, unsigned wait_ms, kn_store **ret, kn_error *err) {
    kn_store *s = calloc(1, sizeof *s);
    if (!s || !(s->folder = strdup(folder))) {
        free(s);
        return kn_fail_nomem(err, sizeof *s);
    }
    kn_error why = { 0 };
    bool ok =
        has_known_database(s, err) && make_folders(s, err) && note_gallery(s, err) && open_database(s, wait_ms, &why);
    if (!ok && kn_store_makes_room(s, &why)) {
        sqlite3_close(s->db);
        s->db = NULL;
        ok = open_database(s, wait_ms, &why);
    }
    if (!ok && why.code == KN_E_IO)
        name_protection(s, &why);
    if (!ok && why.code == KN_E_FORMAT) {
        sqlite3_close(s->db);
        s->db = NULL;
        s->was_broken = true;
        ok = move_database_aside(s, err) && open_database(s, wait_ms, err);
    } else if (!ok && why.code) {
        kn_fail(err, why.code, "%s", why.text);
    }
    if (!ok) {
        kn_store_close(s);
        return false;
    }
    keep_reserve(s);
    *ret = s;
    return true;
}

void kn_store_close(kn_store *s) {
    if (!s)
        return;
    sqlite3_close(s->db);
    free(s->folder);
    free(s);
}

void kn_store_be_patient(kn_store *s) {
    s->is_held = false;
}

bool kn_store_wipe_remains(kn_store *s) {
    if (!s->has_remains)
        return true;
    sqlite3_busy_handler(s->db, NULL, NULL); /* whoever waits for the disk does not wait for others, too */
    bool done = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK;
    sqlite3_busy_handler(s->db, wait_for_lock, s);
    s->has_remains = !done;
    return done;
}

void kn_store_rest(kn_store *s) {
    sqlite3_db_release_memory(s->db);
}

/* ---- looking ---- */

static bool is_missing(int dir_fd, const char *name) {
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

static bool is_usable_folder(int dir_fd, const char *name, kn_error *err) {
    struct stat st;
    if (fstatat(dir_fd, name, &st, 0))
        return kn_fail(err, KN_E_USAGE, "'%s' cannot be used: %s", name, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return kn_fail(err, KN_E_USAGE, "'%s' is not a folder", name);
    return faccessat(dir_fd, name, R_OK | W_OK | X_OK, AT_EACCESS) == 0 || errno == EROFS ||
           kn_fail(err, KN_E_USAGE, "'%s' cannot be used: %s", name, strerror(errno));
}

/* SQLite follows a link to the database, but none to what is beside it. */
static bool is_usable_file(int dir_fd, const char *name, bool is_database, kn_error *err) {
    struct stat st;
    int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NONBLOCK | (is_database ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return errno == EROFS || kn_fail(err, KN_E_USAGE, "'%s' cannot be used: %s", name, strerror(errno));
    bool ok =
        (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) || kn_fail(err, KN_E_USAGE, "'%s' is not a regular file", name);
    ok = ok && (!is_database || is_known_database(fd, err));
    close(fd);
    return ok;
}

bool kn_store_look(const char *folder, kn_error *err) {
    int dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return true; /* of itself others tell */
    bool ok = true;
    for (size_t i = 0; ok && i < KN_COUNT(parts); i++)
        ok = is_missing(dir_fd, parts[i]) || is_usable_file(dir_fd, parts[i], i == 0, err);
    for (size_t i = 0; ok && i < KN_COUNT(rooms); i++)
        ok = is_missing(dir_fd, rooms[i]) || is_usable_folder(dir_fd, rooms[i], err);
    close(dir_fd);
    return ok;
}

bool kn_store_look_to_write(const char *folder, kn_error *err) {
    int dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = true;
    for (size_t i = 0; dir_fd >= 0 && ok && i < KN_COUNT(rooms); i++)
        ok = faccessat(dir_fd, rooms[i], W_OK, AT_EACCESS) == 0 || errno != EROFS ||
             kn_fail(err, KN_E_READONLY, "'%s' cannot be written: %s; what is there is shown, and nothing new is drawn",
                     rooms[i], strerror(EROFS));
    if (dir_fd >= 0)
        close(dir_fd);
    return ok;
}

/* ---- identifiers ---- */

/* Crockford's base 32: no letter that looks like another or like a digit. */
static const char letters[] = "0123456789abcdefghjkmnpqrstvwxyz";
enum { ID_LETTERS = 26, TIME_LETTERS = 10 };
#define ALL_TIMES ((int64_t)1 << 48) /* milliseconds that an identifier can tell */

bool kn_store_new_id(kn_store *s, const char *prefix, kn_id *ret, kn_error *err) {
    uint64_t now = (uint64_t)kn_store_now_ms();
    if (now > s->last_id_ms) {
        if (getrandom(s->last_id, sizeof s->last_id, 0) != sizeof s->last_id)
            return kn_fail(err, KN_E_IO, "there is no randomness to be had");
        s->last_id_ms = now;
    } else { /* within a millisecond, or the clock was set back: the one after the last */
        for (size_t i = sizeof s->last_id; i-- > 0 && ++s->last_id[i] == 0;)
            ;
    }
    uint8_t bytes[16];
    for (int i = 0; i < 6; i++)
        bytes[i] = (uint8_t)(s->last_id_ms >> (40 - 8 * i));
    memcpy(bytes + 6, s->last_id, sizeof s->last_id);

    int at = snprintf(ret->text, sizeof ret->text, "%s", prefix);
    for (int i = 0; i < ID_LETTERS; i++) { /* 130 bits, of which the first two are 0 */
        unsigned value = 0;
        for (int bit = 5 * i - 2; bit < 5 * i + 3; bit++)
            value = value << 1 | (bit < 0 ? 0 : bytes[bit / 8] >> (7 - bit % 8) & 1u);
        ret->text[at + i] = letters[value];
    }
    ret->text[at + ID_LETTERS] = 0;
    return true;
}

bool kn_id_is_valid(const char *text, const char *prefix) {
    size_t len = strlen(prefix);
    return !strncmp(text, prefix, len) && strlen(text) == len + ID_LETTERS && strspn(text + len, letters) == ID_LETTERS;
}

int64_t kn_id_made_ms(const char *text, const char *prefix) {
    int64_t ms = 0;
    for (size_t i = 0; i < TIME_LETTERS; i++)
        ms = ms << 5 | (strchr(letters, text[strlen(prefix) + i]) - letters);
    ms %= ALL_TIMES;
    return ms < ALL_TIMES / 2 ? ms : ms - ALL_TIMES; /* of a clock before 1970 */
}
