/* Copies of pictures of the gallery in a folder of the machine's, also in another format, which the image worker
 * writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_form.h"
#include "image/write.h"
#include "studio/api_visit.h"
#include "studio/paths.h"

struct kn_copy {
    char *directory, *file_name; /* file_name NULL: as in the gallery */
    size_t format;               /* KN_PICTURE_FORMATS: as it is */
    uint64_t quality;
    char *name; /* that it gets */
    kn_buf bytes;
    bool written;
};

static void forget(kn_copy *c) {
    free(c->directory);
    free(c->file_name);
    free(c->name);
    kn_buf_free(&c->bytes);
    free(c);
}

void kn_copy_forget(kn_visit *v) {
    if (v->copy)
        forget(v->copy);
    v->copy = NULL;
}

static void take_text(kn_form *f, size_t max, char **ret) {
    kn_json_text text;
    if (kn_form_prose(f, 1, max, &text) && !(*ret = strndup(text.data, text.len)))
        kn_form_fail(f, KN_E_NOMEM, "out of memory");
}

static bool read_copy(kn_visit *v, kn_copy *ret, kn_error *err) {
    enum { DIRECTORY, NAME, FORMAT, QUALITY };
    static const char *const keys[] = {
        [DIRECTORY] = "directory", [NAME] = "file_name", [FORMAT] = "format", [QUALITY] = "quality"
    };
    const kn_json_text body = { v->body.data, v->body.len };
    kn_error why = { 0 };
    kn_json_reader j;
    kn_form f;
    kn_json_begin_inside(&j, body, "the body", err);
    j.pointer = &v->pointer;
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case DIRECTORY:
            take_text(&f, KN_PATH_BYTES, &ret->directory);
            if (ret->directory && !kn_path_check_target(ret->directory, &v->studio->own, &why))
                kn_form_fail(&f, why.code, "%s", why.text);
            break;
        case NAME:
            take_text(&f, 200, &ret->file_name);
            if (ret->file_name && !kn_path_check_name(ret->file_name, &why))
                kn_form_fail(&f, why.code, "%s", why.text);
            break;
        case FORMAT: kn_form_word(&f, kn_picture_formats, KN_PICTURE_FORMATS, &ret->format); break;
        case QUALITY: kn_form_u64(&f, 1, 100, &ret->quality); break;
        }
    }
    kn_form_need(&f, DIRECTORY);
    return kn_form_finish(&f) ||
           kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
}

/* The gallery's, with the ending of the format. */
static bool choose_name(kn_copy *c, const kn_record *r, kn_error *err) {
    const char *dot = strrchr(r->file, '.');
    int len = dot ? (int)(dot - r->file) : (int)strlen(r->file);
    if (c->file_name)
        c->name = strdup(c->file_name);
    else if (asprintf(&c->name, "%.*s.%s", len, r->file, kn_picture_endings[c->format]) < 0)
        c->name = NULL;
    return c->name || kn_fail_nomem(err, strlen(r->file));
}

static bool work_write(kn_visit *v, kn_store *s, kn_error *err) {
    (void)s;
    kn_copy *c = v->copy;
    char *path = NULL;
    if (!kn_gallery_export(c->directory, c->name, c->bytes.data, c->bytes.len, &path, err))
        return err->code == KN_E_USAGE
                   ? kn_visit_deny(v, 409, "file_exists", "A file of this name is there already", NULL)
                   : false;
    c->written = true;
    v->status = 201;
    v->json = json_pack("{s:s, s:I}", "path", path, "bytes", (json_int_t)c->bytes.len);
    free(path);
    return v->json || kn_fail_nomem(err, KN_PATH_BYTES);
}

static bool can_write(kn_visit *v, const kn_copy *c, kn_error *err) {
    if (v->studio->runner.formats >> c->format & 1)
        return true;
    kn_fail(err, KN_E_UNSUPPORTED, "pictures are not written in this format");
    kn_buf_clear(&v->pointer);
    return kn_buf_add_text(&v->pointer, "/format") &&
           kn_visit_deny(v, 422, "unsupported", "This is not supported", NULL);
}

static bool take_picture(kn_visit *v, kn_store *s, const kn_record *r, kn_error *err) {
    kn_copy *c = v->copy;
    bool same = c->format == KN_PICTURE_FORMATS || c->format == r->format;
    if (same)
        c->format = r->format;
    return (same || can_write(v, c, err)) && choose_name(c, r, err) &&
           kn_visit_read_picture(v, s, r, KN_STORE_FILE_MAX, &c->bytes, err) && (!same || work_write(v, s, err));
}

static bool work_export(kn_visit *v, kn_store *s, kn_error *err) {
    kn_record r;
    if (!read_copy(v, v->copy, err) || !kn_gallery_find(s, v->part[1], &r, err))
        return false;
    bool ok = take_picture(v, s, &r, err);
    kn_record_free(&r);
    return ok;
}

static void converted(void *ctx, const void *file, size_t len, const char *message) {
    kn_visit *v = ctx;
    (void)message; /* it is for people at this machine; the picture is one of ours, which can be converted */
    kn_buf_clear(&v->copy->bytes);
    if (file && v->x && kn_buf_add(&v->copy->bytes, file, len))
        kn_visit_send(v, work_write, NULL);
    else if (kn_visit_is_back(v) && !kn_visit_refuse_unlocked(v))
        kn_visit_refuse(v, 503, "engine_failed", "The image worker could not write the picture", NULL, NULL);
}

static void after_export(kn_visit *v) {
    const kn_studio_runner *r = &v->studio->runner;
    kn_copy *c = v->copy;
    if (c->written) {
        kn_visit_answer(v);
        return;
    }
    v->in_flight = true;
    if (!r->convert(r->ctx, c->bytes.data, c->bytes.len, (kn_picture_format)c->format, (unsigned)c->quality, converted,
                    v)) {
        v->in_flight = false;
        kn_visit_refuse(v, 503, "engine_busy", "The image worker cannot write it now", NULL, NULL);
    }
}

void kn_api_export_item(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v || !kn_visit_has_id(v, 1, "img_") || !kn_visit_has_json(v))
        return;
    v->copy = calloc(1, sizeof *v->copy);
    if (!v->copy) {
        kn_visit_refuse(v, 503, "out_of_memory", "Memory is short", NULL, NULL);
        return;
    }
    v->copy->format = KN_PICTURE_FORMATS;
    v->copy->quality = KN_IMAGE_QUALITY;
    kn_buf_init(&v->copy->bytes, KN_STORE_FILE_MAX);
    kn_visit_send(v, work_export, after_export);
}
