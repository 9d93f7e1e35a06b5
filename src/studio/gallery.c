#include "studio/gallery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/file.h"
#include "base/text.h"
#include "image/size.h"
#include "studio/paths.h"
#include "text/unicode.h"

static const char room[] = "gallery";

typedef struct sidecar_name {
    char text[KN_ID_BYTES + 8];
} sidecar_name;

static sidecar_name sidecar_of(const char *id) {
    sidecar_name n;
    snprintf(n.text, sizeof n.text, "%s.json", id);
    return n;
}

/* NULL: memory is out. The caller frees it. */
static char *sidecar_text(const kn_record *r, kn_error *err) {
    json_t *j = kn_record_write(r);
    char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    if (!text)
        kn_fail_nomem(err, KN_RECORD_BYTES);
    return text;
}

/* ---- the table ---- */

static bool add_folded(const char *text, kn_buf *into) {
    return kn_fold_add(text, strlen(text), into, NULL);
}

/* What a search looks through. */
static bool add_words(const kn_record *r, kn_buf *into) {
    bool ok = add_folded(r->prompt ? r->prompt : "", into) && kn_buf_add_text(into, "\n") &&
              add_folded(r->title ? r->title : "", into);
    for (size_t i = 0; i < r->tag_count; i++)
        ok = ok && kn_buf_add_text(into, "\n") && add_folded(r->tags[i], into);
    return ok;
}

static bool put_row(kn_store *s, const kn_record *r, const char *text, kn_error *err) {
    KN_AUTO_BUF words;
    kn_buf_init(&words, 4 * KN_RECORD_BYTES);
    if (!add_words(r, &words))
        return kn_fail_nomem(err, words.len);
    bool ok = kn_store_do(s, err, NULL,
                          "INSERT INTO gallery (id, file, job_id, favorite, words, record, sha256) VALUES (?1, ?2, ?3,"
                          " ?4, ?5, ?6, ?7) ON CONFLICT (id) DO UPDATE SET file = ?2, job_id = ?3, favorite = ?4,"
                          " words = ?5, record = ?6, sha256 = ?7",
                          "tttbttt", r->id.text, r->file, r->job.text[0] ? r->job.text : NULL, r->favorite, words.data,
                          text, r->sha256.text) &&
              kn_store_do(s, err, NULL, "DELETE FROM tags WHERE item = ?", "t", r->id.text);
    for (size_t i = 0; ok && i < r->tag_count; i++)
        ok = kn_store_do(s, err, NULL, "INSERT OR IGNORE INTO tags VALUES (?, ?)", "tt", r->id.text, r->tags[i]);
    return ok;
}

static bool read_record(const char *text, kn_record *ret, kn_error *err) {
    return kn_record_read(text, strlen(text), ret, err);
}

bool kn_gallery_find(kn_store *s, const char *id, kn_record *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT record FROM gallery WHERE id = ?", "t", id);
    bool found = kn_query_next(&r), good = found && read_record(kn_query_text(&r, 0), ret, err);
    return kn_query_close(&r) && (good || kn_fail(err, KN_E_NOT_FOUND, "there is no such picture"));
}

bool kn_gallery_read(kn_store *s, const kn_record *r, size_t limit, kn_buf *into, kn_error *err) {
    uint64_t size;
    kn_sha256 digest;
    if (!kn_store_size(s, room, r->file, &size))
        return kn_fail(err, KN_E_NOT_FOUND, "the picture's file is not there");
    if (size != r->bytes)
        return kn_fail(err, KN_E_FORMAT, "the picture's file has %" PRIu64 " bytes, %" PRIu64 " were saved", size,
                       r->bytes);
    return kn_store_read(s, room, r->file, limit, into, err) && kn_sha256_of(into->data, into->len, &digest, err) &&
           (!strcmp(digest.text, r->sha256.text) ||
            kn_fail(err, KN_E_FORMAT, "the picture's file has other bytes than were saved"));
}

bool kn_gallery_recipe(kn_store *s, const kn_sha256 *digest, json_t **ret, kn_error *err) {
    *ret = NULL;
    kn_query r = kn_query_open(s, err, "SELECT record FROM gallery WHERE sha256 = ? ORDER BY seq DESC LIMIT 1", "t",
                               digest->text);
    kn_record record;
    if (kn_query_next(&r) && read_record(kn_query_text(&r, 0), &record, err)) {
        if (record.recipe)
            *ret = json_loads(record.recipe, 0, NULL);
        kn_record_free(&record);
    }
    return kn_query_close(&r);
}

json_t *kn_gallery_json(const kn_store *s, const kn_record *r) {
    char content[100], thumbnail[100];
    snprintf(content, sizeof content, "/api/v1/gallery/%s/content", r->id.text);
    snprintf(thumbnail, sizeof thumbnail, "/api/v1/gallery/%s/thumbnail", r->id.text);
    json_t *j = kn_record_write(r);
    json_object_del(j, "file");
    json_object_del(j, "number");
    json_object_set_new(j, "content_url", json_string(content));
    json_object_set_new(j, "thumbnail_url", json_string(thumbnail));
    json_object_set_new(j, "missing", json_boolean(!kn_store_has(s, room, r->file)));
    return j;
}

/* ---- new pictures ---- */

/* The JSON file first: after a crash between the two it tells that the picture is still to be made. */
static bool save_files(kn_store *s, const kn_record *r, const char *text, const void *data, size_t len, kn_error *err) {
    if (!kn_store_write(s, room, sidecar_of(r->id.text).text, text, strlen(text), err))
        return false;
    if (kn_store_write(s, room, r->file, data, len, err))
        return true;
    kn_store_remove(s, room, sidecar_of(r->id.text).text);
    return false;
}

static bool add_result(kn_store *s, const kn_record *r, bool kept, kn_error *err) {
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    const kn_job_result result = {
        .number = r->number,
        .item = kept ? r->id.text : NULL,
        .file = r->file,
        .width = r->width,
        .height = r->height,
        .format = r->format,
        .bytes = r->bytes,
        .seed = r->has_seed ? seed : NULL,
        .sha256 = r->sha256,
    };
    return kn_jobs_add_result(s, r->job.text, &result, err);
}

static bool name_picture(kn_store *s, kn_record *r, const void *data, size_t len, kn_error *err) {
    r->bytes = len;
    r->created_s = kn_date_now();
    return kn_store_new_id(s, "img_", &r->id, err) && kn_sha256_of(data, len, &r->sha256, err);
}

bool kn_gallery_save(kn_store *s, kn_record *r, const void *data, size_t len, kn_error *err) {
    if (!name_picture(s, r, data, len, err))
        return false;
    kn_slug slug = kn_slug_of(r->prompt ? r->prompt : "");
    free(r->file);
    if (asprintf(&r->file, "%s%s%s.%s", r->id.text, slug.text[0] ? "-" : "", slug.text, kn_picture_endings[r->format]) <
        0) {
        r->file = NULL;
        return kn_fail_nomem(err, sizeof slug);
    }
    char *text = sidecar_text(r, err);
    if (!text)
        return false;
    bool ok = save_files(s, r, text, data, len, err);
    if (ok &&
        !(kn_store_begin(s, err) && kn_store_end(s, put_row(s, r, text, err) && add_result(s, r, true, err), err))) {
        kn_store_remove(s, room, r->file);
        kn_store_remove(s, room, sidecar_of(r->id.text).text);
        ok = false;
    }
    free(text);
    return ok;
}

bool kn_results_save(kn_store *s, kn_record *r, const void *data, size_t len, kn_error *err) {
    if (!name_picture(s, r, data, len, err))
        return false;
    free(r->file);
    if (asprintf(&r->file, "%s-%u.%s", r->job.text, r->number, kn_picture_endings[r->format]) < 0) {
        r->file = NULL;
        return kn_fail_nomem(err, KN_ID_BYTES);
    }
    if (!kn_store_write(s, "results", r->file, data, len, err))
        return false;
    if (add_result(s, r, false, err))
        return true;
    kn_store_remove(s, "results", r->file);
    return false;
}

/* ---- lists ---- */

static bool add_condition(kn_buf *sql, int *n, const char *text) {
    return kn_buf_printf(sql, text, ++*n);
}

enum { WORDS_MAX = 20, WORDS_BYTES = 1024 };

/* Cuts it up at spaces; words beyond WORDS_MAX are of no account. */
static size_t split_words(kn_buf *text, const char *words[WORDS_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < text->len; i++) {
        char *c = &text->data[i];
        if (*c == ' ' || *c == '\t' || *c == '\n')
            *c = 0;
        else if ((!i || !c[-1]) && n < WORDS_MAX)
            words[n++] = c;
    }
    return n;
}

bool kn_gallery_list(kn_store *s, const kn_gallery_filter *f, json_t *into, int64_t *ret_next, kn_error *err) {
    KN_AUTO_BUF sql;
    KN_AUTO_BUF folded;
    const char *values[WORDS_MAX + 2];
    const char *words[WORDS_MAX];
    int n = 0;
    kn_buf_init(&sql, 8192);
    kn_buf_init(&folded, 4 * WORDS_BYTES);
    bool ok = !f->words || strlen(f->words) >= WORDS_BYTES || add_folded(f->words, &folded);
    size_t word_count = split_words(&folded, words);
    ok = ok && kn_buf_add_text(&sql, "SELECT record, seq FROM gallery WHERE 1");
    for (size_t i = 0; ok && i < word_count; i++) {
        ok = add_condition(&sql, &n, " AND instr(words, ?%d) > 0");
        values[n - 1] = words[i];
    }
    if (f->tag) {
        ok = ok && add_condition(&sql, &n, " AND id IN (SELECT item FROM tags WHERE tag = ?%d)");
        values[n - 1] = f->tag;
    }
    if (f->job) {
        ok = ok && add_condition(&sql, &n, " AND job_id = ?%d");
        values[n - 1] = f->job;
    }
    if (f->has_favorite)
        ok = ok && kn_buf_printf(&sql, " AND favorite = %d", f->favorite);
    if (f->before)
        ok = ok && kn_buf_printf(&sql, " AND seq < %" PRId64, f->before);
    if (!ok || !kn_buf_printf(&sql, " ORDER BY seq DESC LIMIT %u", f->limit + 1))
        return kn_fail_nomem(err, sql.len);

    kn_query r = kn_query_open(s, err, sql.data, "");
    for (int i = 0; !r.failed && i < n; i++)
        sqlite3_bind_text(r.statement, i + 1, values[i], -1, SQLITE_TRANSIENT);
    int64_t last = 0;
    unsigned count = 0;
    bool more = false;
    while (kn_query_next(&r)) {
        kn_record record;
        more = count++ == f->limit;
        if (more)
            break;
        last = kn_query_int(&r, 1);
        if (!read_record(kn_query_text(&r, 0), &record, err)) {
            r.failed = true;
            continue;
        }
        if (json_array_append_new(into, kn_gallery_json(s, &record)) != 0)
            r.failed = !kn_fail_nomem(err, KN_RECORD_BYTES);
        kn_record_free(&record);
    }
    *ret_next = more ? last : 0;
    return kn_query_close(&r);
}

/* ---- changes ---- */

static bool rewrite(kn_store *s, const kn_record *r, kn_error *err) {
    char *text = sidecar_text(r, err);
    if (!text)
        return false;
    /* The file last, and only if the table took it: then either both are new, or after a crash the file's word counts.
     */
    bool ok = kn_store_begin(s, err);
    ok = ok && kn_store_end(s,
                            put_row(s, r, text, err) &&
                                kn_store_write(s, room, sidecar_of(r->id.text).text, text, strlen(text), err),
                            err);
    free(text);
    return ok;
}

/* Whether it is the JSON file of the picture that its name tells. */
static bool read_sidecar(kn_store *s, const char *name, kn_buf *text, kn_record *ret) {
    if (!kn_store_read(s, room, name, KN_RECORD_BYTES, text, NULL) || strlen(text->data) != text->len ||
        !read_record(text->data, ret, NULL))
        return false;
    bool same = !strcmp(sidecar_of(ret->id.text).text, name);
    if (!same)
        kn_record_free(ret);
    return same;
}

/* As the file says it, into which somebody may have written since the start; the table's word where there is none. */
static bool find_newest(kn_store *s, const char *id, kn_record *ret, kn_error *err) {
    KN_AUTO_BUF text;
    const sidecar_name name = sidecar_of(id);
    kn_buf_init(&text, KN_RECORD_BYTES + 1);
    kn_record known, written;
    if (!kn_gallery_find(s, id, &known, err))
        return false;
    if (!kn_store_has(s, room, name.text)) {
        *ret = known;
        return true;
    }
    kn_record_free(&known);
    if (!read_sidecar(s, name.text, &text, &written))
        return kn_fail(err, KN_E_USAGE,
                       "its file in the gallery's folder, %s, cannot be understood; mend it or take it away",
                       name.text);
    *ret = written;
    return true;
}

bool kn_gallery_change(kn_store *s, const char *id, kn_record_patch *patch, kn_record *ret, kn_error *err) {
    kn_record r;
    if (!find_newest(s, id, &r, err))
        return false;
    kn_record_change(&r, patch);
    if (!rewrite(s, &r, err)) {
        kn_record_free(&r);
        return false;
    }
    *ret = r;
    return true;
}

static bool remove_thumbnail(void *ctx, kn_store *s, const char *name, kn_error *err) {
    (void)err;
    const char *id = ctx;
    if (!strncmp(name, id, strlen(id)))
        kn_store_remove(s, "thumbnails", name);
    return true;
}

/* The JSON file first: after a crash between the two it is written again from the row. */
static bool move_files(kn_store *s, const kn_record *r, bool keep_file, const char *from, const char *to,
                       kn_error *err) {
    return kn_store_move(s, from, sidecar_of(r->id.text).text, to, err) &&
           (keep_file || kn_store_move(s, from, r->file, to, err));
}

static bool forget_row(kn_store *s, const char *id, kn_error *err) {
    return kn_store_do(s, err, NULL, "DELETE FROM gallery WHERE id = ?", "t", id) &&
           kn_store_do(s, err, NULL, "UPDATE results SET item = NULL, file = '' WHERE item = ?", "t", id);
}

static bool move_to_trash(kn_store *s, const char *id, bool keep_file, kn_error *err) {
    kn_record r;
    if (!kn_store_has_its_gallery(s, err) || !kn_gallery_find(s, id, &r, err))
        return false;
    bool ok = kn_store_make_trash(s, err) && kn_store_begin(s, err);
    if (ok &&
        !kn_store_end(s, forget_row(s, id, err) && move_files(s, &r, keep_file, room, KN_STORE_TRASH, err), err)) {
        move_files(s, &r, keep_file, KN_STORE_TRASH, room, NULL); /* the row is there as before */
        ok = false;
    }
    if (ok)
        kn_store_each(s, "thumbnails", remove_thumbnail, r.id.text, NULL);
    kn_record_free(&r);
    return ok;
}

bool kn_gallery_delete(kn_store *s, const char *id, bool keep_file, kn_error *err) {
    return move_to_trash(s, id, keep_file, err) ||
           (kn_store_makes_room(s, err) && move_to_trash(s, id, keep_file, err));
}

static bool is_taken(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

bool kn_gallery_export(const char *folder, const char *name, const void *data, size_t len, char **ret_path,
                       kn_error *err) {
    kn_output o;
    char *path;
    if (!kn_path_check_folder(folder, err) || !kn_path_check_name(name, err))
        return false;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return kn_fail_nomem(err, strlen(folder));
    kn_error why = { 0 };
    bool ok = kn_output_open(path, false, &o, &why);
    if (ok) {
        ok = kn_output_write(&o, data, len, &why) && kn_output_commit(&o, false, &why);
        kn_output_drop(&o);
    }
    if (!ok)
        kn_fail(err, why.code == KN_E_OUTPUT && is_taken(path) ? KN_E_USAGE : why.code, "%s", why.text);
    if (ok)
        *ret_path = path;
    else
        free(path);
    return ok;
}

/* ---- after a start ---- */

/* Whether a row is found by that text; if that cannot be said, it is. */
static bool has_row(kn_store *s, const char *sql, const char *text) {
    kn_query r = kn_query_open(s, NULL, sql, "t", text);
    bool found = kn_query_next(&r);
    return !kn_query_close(&r) || found;
}

static const char row_of_id[] = "SELECT 1 FROM gallery WHERE id = ?";

/* Whether the table says the same already; tables of earlier versions had more words to search in. */
static bool is_known(kn_store *s, const kn_record *r, const char *text) {
    KN_AUTO_BUF words;
    kn_buf_init(&words, 4 * KN_RECORD_BYTES);
    kn_query q = kn_query_open(s, NULL, "SELECT record, words FROM gallery WHERE id = ?", "t", r->id.text);
    bool known = kn_query_next(&q) && !strcmp(kn_query_text(&q, 0), text) && add_words(r, &words) &&
                 !strcmp(kn_query_text(&q, 1), words.data);
    kn_query_close(&q);
    return known;
}

/* The picture's file has the record's id at its beginning and an ending that says its format. */
static bool find_picture(void *ctx, kn_store *s, const char *name, kn_error *err) {
    kn_record *r = ctx;
    size_t len = strlen(r->id.text);
    const char *dot = strrchr(name, '.');
    (void)s;
    if (strncmp(name, r->id.text, len) != 0 || (name[len] != '-' && name[len] != '.') || !dot)
        return true;
    for (int i = 0; !r->file && i < KN_PICTURE_FORMATS; i++) {
        if (strcmp(dot + 1, kn_picture_endings[i]) != 0)
            continue;
        r->format = (kn_picture_format)i;
        r->file = strdup(name);
        return r->file || kn_fail_nomem(err, len);
    }
    return true;
}

/* What the file itself tells. *ret: whether it is a picture. */
static bool look_at_picture(kn_store *s, kn_record *r, bool *ret, kn_error *err) {
    KN_AUTO_BUF file;
    kn_buf_init(&file, KN_STORE_FILE_MAX);
    *ret = r->file && kn_store_read(s, room, r->file, KN_STORE_FILE_MAX, &file, NULL) &&
           kn_image_size_of(file.data, file.len, &r->width, &r->height) && r->width && r->height &&
           r->width <= KN_PICTURE_SIDE_MAX && r->height <= KN_PICTURE_SIDE_MAX;
    r->bytes = file.len;
    return !*ret || kn_sha256_of(file.data, file.len, &r->sha256, err);
}

/* A picture stays although its JSON file cannot be understood and the table knows nothing of it. */
static bool take_picture(kn_store *s, const char *sidecar, kn_error *err) {
    kn_record r = { .unreadable = true };
    size_t len = strcspn(sidecar, ".");
    if (len >= sizeof r.id.text)
        return true;
    memcpy(r.id.text, sidecar, len);
    if (strcmp(sidecar_of(r.id.text).text, sidecar) != 0 || !kn_id_is_valid(r.id.text, "img_") ||
        has_row(s, row_of_id, r.id.text))
        return true;
    bool is_picture = false;
    r.created_s = KN_MAX(kn_id_made_ms(r.id.text, "img_") / 1000, KN_DATE_FIRST_S);
    bool ok = kn_store_each(s, room, find_picture, &r, err) && look_at_picture(s, &r, &is_picture, err);
    if (ok && is_picture) {
        char *text = sidecar_text(&r, err);
        ok = text && put_row(s, &r, text, err);
        free(text);
    }
    kn_record_free(&r);
    return ok;
}

/* A picture that a job was writing when the service ended. */
static bool is_half_made(kn_store *s, const kn_record *r) {
    bool lacks = false;
    return r->job.text[0] && kn_jobs_lacks_result(s, r->job.text, r->number, &lacks, NULL) && lacks;
}

/* Its job had lost it, for its file was away at an earlier start. */
static bool join_job(kn_store *s, const kn_record *r, kn_error *err) {
    return kn_store_do(s, err, NULL,
                       "UPDATE results SET item = ?, file = ?"
                       " WHERE job_id = ? AND number = ? AND sha256 = ? AND item IS NULL AND file = ''",
                       "tttit", r->id.text, r->file, r->job.text, (int64_t)r->number, r->sha256.text);
}

static bool take_record(void *ctx, kn_store *s, const char *name, kn_error *err) {
    unsigned *broken = ctx;
    KN_AUTO_BUF text;
    kn_record r;
    size_t len = strlen(name);
    kn_buf_init(&text, KN_RECORD_BYTES + 1);
    if (len < 5 || strcmp(name + len - 5, ".json") != 0)
        return true;
    if (!read_sidecar(s, name, &text, &r)) {
        ++*broken;
        return take_picture(s, name, err);
    }
    bool ok = true;
    if (is_half_made(s, &r)) {
        kn_store_remove(s, room, r.file);
        kn_store_remove(s, room, name);
    } else if (!is_known(s, &r, text.data)) {
        ok = put_row(s, &r, text.data, err) && join_job(s, &r, err);
    }
    kn_record_free(&r);
    return ok;
}

/* Rows whose JSON file is gone: written again if the picture is there, else forgotten. */
static bool check_rows(kn_store *s, kn_error *err) {
    int64_t seq = 0;
    for (bool more = true; more;) {
        kn_record record = { 0 };
        kn_id id = { "" };
        KN_AUTO_BUF text;
        kn_buf_init(&text, KN_RECORD_BYTES + 1);
        kn_query r =
            kn_query_open(s, err, "SELECT seq, record, id FROM gallery WHERE seq > ? ORDER BY seq LIMIT 1", "i", seq);
        more = kn_query_next(&r);
        bool good = false;
        if (more) {
            seq = kn_query_int(&r, 0);
            snprintf(id.text, sizeof id.text, "%s", kn_query_text(&r, 2));
            good = read_record(kn_query_text(&r, 1), &record, NULL) && kn_buf_add_text(&text, kn_query_text(&r, 1));
        }
        if (!kn_query_close(&r))
            return false;
        bool ok = true;
        if (more && (!good || !kn_store_has(s, room, sidecar_of(record.id.text).text)))
            ok = good && kn_store_has(s, room, record.file)
                     ? kn_store_write(s, room, sidecar_of(record.id.text).text, text.data, text.len, err)
                     : forget_row(s, id.text, err);
        kn_record_free(&record);
        if (!ok)
            return false;
    }
    return true;
}

/* Of a picture that went in the moment of a crash. */
static bool check_thumbnail(void *ctx, kn_store *s, const char *name, kn_error *err) {
    (void)ctx, (void)err;
    const char *dash = strchr(name, '-');
    kn_id id;
    snprintf(id.text, sizeof id.text, "%.*s", dash ? (int)(dash - name) : 0, name);
    if (!has_row(s, row_of_id, id.text))
        kn_store_remove(s, "thumbnails", name);
    return true;
}

/* Its job does not know of it: it will be made again, or the job is none any more. */
static bool check_result(void *ctx, kn_store *s, const char *name, kn_error *err) {
    (void)ctx, (void)err;
    if (!has_row(s, "SELECT 1 FROM results WHERE item IS NULL AND file = ?", name))
        kn_store_remove(s, "results", name);
    return true;
}

static bool expire(void *ctx, kn_store *s, const char *name, kn_error *err) {
    const time_t *before = ctx;
    char *path;
    struct stat st;
    if (!kn_store_path(s, KN_STORE_TRASH, name, &path, err))
        return false;
    if (stat(path, &st) == 0 && KN_MAX(st.st_ctim.tv_sec, st.st_mtim.tv_sec) < *before)
        kn_store_remove(s, KN_STORE_TRASH, name);
    free(path);
    return true;
}

/* Places only grow, so it is the last row that tells whether there are new ones. */
static bool last_place(kn_store *s, int64_t *ret, kn_error *err) {
    *ret = 0;
    kn_query r = kn_query_open(s, err, "SELECT coalesce(max(seq), 0) FROM gallery", "");
    if (kn_query_next(&r))
        *ret = kn_query_int(&r, 0);
    return kn_query_close(&r);
}

/* Rows made from files are in a folder's order, which is none: all get places by their dates, and those of one second
 * by their identifiers, which grow. Negative ones on the way are nobody else's. */
static bool arrange_rows(kn_store *s, kn_error *err) {
    return kn_store_do(s, err, NULL,
                       "UPDATE gallery SET seq = -place FROM (SELECT id AS item, row_number() OVER (ORDER BY"
                       " iif(json_valid(record), unixepoch(record ->> '$.created_at'), 0), id) AS place FROM gallery)"
                       " WHERE item = gallery.id",
                       "") &&
           kn_store_do(s, err, NULL, "UPDATE gallery SET seq = -seq", "");
}

/* Whether a file is there with that size. */
static bool is_as_known(const kn_store *s, const char *name, int64_t bytes) {
    uint64_t size;
    return kn_store_size(s, room, name, &size) && size == (uint64_t)bytes;
}

#define LOOK_S 0.3 /* at most, as others wait meanwhile */

bool kn_gallery_compare(kn_store *s, kn_gallery_agreement *ret, kn_error *err) {
    enum { LOOKS = 10000 };
    kn_gallery_agreement a = { .whole = true };
    double end = kn_now() + LOOK_S;
    kn_query r =
        kn_query_open(s, err,
                      "SELECT id, file, iif(json_valid(record), record ->> '$.bytes', -1),"
                      " iif(json_valid(record), record ->> '$.recipe_unreadable', 0), length(CAST(record AS BLOB))"
                      " FROM gallery ORDER BY seq DESC",
                      "");
    while (a.whole && kn_query_next(&r)) {
        /* What stands for a file that was not understood is no file's text; those are told at the start. */
        bool same = is_as_known(s, kn_query_text(&r, 1), kn_query_int(&r, 2)) &&
                    (kn_query_int(&r, 3) || is_as_known(s, sidecar_of(kn_query_text(&r, 0)).text, kn_query_int(&r, 4)));
        a.differing += !same;
        a.whole = ++a.seen < LOOKS && kn_now() < end;
    }
    *ret = a;
    return kn_query_close(&r);
}

static bool take_records(kn_store *s, unsigned *ret_broken, kn_error *err) {
    int64_t before, after;
    return last_place(s, &before, err) && kn_store_each(s, room, take_record, ret_broken, err) && check_rows(s, err) &&
           last_place(s, &after, err) && (after <= before || arrange_rows(s, err));
}

bool kn_gallery_expire_trash(kn_store *s, kn_error *err) {
    time_t before = (time_t)(kn_date_now() - (int64_t)KN_TRASH_DAYS * 24 * 3600);
    return !kn_store_has_trash(s) || kn_store_each(s, KN_STORE_TRASH, expire, &before, err);
}

bool kn_gallery_reconcile(kn_store *s, unsigned *ret_broken, kn_error *err) {
    *ret_broken = 0;
    bool ok = kn_store_begin(s, err);
    ok = ok && kn_store_end(s, take_records(s, ret_broken, err), err);
    return ok && kn_store_each(s, "thumbnails", check_thumbnail, NULL, err) &&
           kn_store_each(s, "results", check_result, NULL, err);
}
