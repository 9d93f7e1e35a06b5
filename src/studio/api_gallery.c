#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_form.h"
#include "base/text.h"
#include "image/image.h"
#include "studio/api_visit.h"

enum { THUMBNAIL_MIN = 32, THUMBNAIL_USUAL = 320, PATCH_BYTES = 64 << 10 };

/* ---- lists and facts ---- */

static bool work_list(kn_visit *v, kn_store *s, kn_error *err) {
    const kn_gallery_filter f = { .words = kn_visit_parameter(v, "q"),
                                  .tag = kn_visit_parameter(v, "tag"),
                                  .job = kn_visit_parameter(v, "job_id"),
                                  .has_favorite = v->topics,
                                  .favorite = v->flag,
                                  .limit = (unsigned)v->end,
                                  .before = (int64_t)v->number };
    int64_t next = 0;
    json_t *items = json_array();
    if (kn_gallery_list(s, &f, items, &next, err))
        return kn_visit_list(v, items, next, err);
    json_decref(items);
    return false;
}

static bool is_long(kn_visit *v, const char *name, size_t characters) {
    const char *text = kn_visit_parameter(v, name);
    char pointer[64];
    size_t n = 0;
    for (; text && *text; text++)
        n += (*text & 0xC0) != 0x80;
    if (n <= characters)
        return false;
    snprintf(pointer, sizeof pointer, "query/%s", name);
    kn_visit_refuse(v, 422, "parameter_invalid", "A parameter's value is not allowed", NULL, pointer);
    return true;
}

void kn_api_list_gallery(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "limit cursor q favorite tag job_id");
    if (!v || !kn_visit_page(v) || is_long(v, "q", 200) || is_long(v, "tag", KN_TAG_MAX) ||
        !kn_visit_flag(v, "favorite", false, &v->flag))
        return;
    const char *job = kn_visit_parameter(v, "job_id");
    if (job && !kn_id_is_valid(job, "job_")) {
        kn_visit_refuse(v, 422, "parameter_invalid", "A parameter's value is not allowed", NULL, "query/job_id");
        return;
    }
    v->topics = kn_visit_parameter(v, "favorite") != NULL;
    kn_visit_send(v, work_list, NULL);
}

static bool show(kn_visit *v, const kn_store *s, kn_record *r, kn_error *err) {
    v->json = kn_gallery_json(s, r);
    kn_record_free(r);
    return v->json || kn_fail_nomem(err, KN_RECORD_BYTES);
}

static bool work_get(kn_visit *v, kn_store *s, kn_error *err) {
    kn_record r;
    return kn_gallery_find(s, v->part[1], &r, err) && show(v, s, &r, err);
}

void kn_api_get_item(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, "img_"))
        kn_visit_send(v, work_get, NULL);
}

/* ---- changes ---- */

static bool work_change(kn_visit *v, kn_store *s, kn_error *err) {
    kn_record_patch patch;
    kn_record r;
    if (!kn_record_patch_read(v->body.data, v->body.len, &patch, &v->pointer, err))
        return kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
    bool ok = kn_gallery_change(s, v->part[1], &patch, &r, err);
    kn_record_patch_free(&patch);
    return ok && show(v, s, &r, err);
}

static void after_change(kn_visit *v) {
    kn_studio_tell(v->studio, KN_EVENT_GALLERY_UPDATED, v->part[1], json_incref(v->json));
    kn_visit_answer(v);
}

void kn_api_change_item(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, "img_") && kn_visit_has_json(v))
        kn_visit_send(v, work_change, after_change);
}

static bool work_delete(kn_visit *v, kn_store *s, kn_error *err) {
    v->status = 204;
    return kn_gallery_delete(s, v->part[1], v->flag, err);
}

static void after_delete(kn_visit *v) {
    kn_studio_tell(v->studio, KN_EVENT_GALLERY_DELETED, v->part[1], json_pack("{s:s}", "id", v->part[1]));
    kn_visit_answer(v);
}

void kn_api_delete_item(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "keep_file");
    if (v && kn_visit_has_id(v, 1, "img_") && kn_visit_flag(v, "keep_file", false, &v->flag))
        kn_visit_send(v, work_delete, after_delete);
}

/* ---- pictures ---- */

static bool work_content(kn_visit *v, kn_store *s, kn_error *err) {
    kn_record r;
    if (!kn_gallery_find(s, v->part[1], &r, err))
        return false;
    v->format = r.format;
    memcpy(v->id, r.sha256.text, sizeof v->id);
    bool ok = kn_visit_open_picture(v, s, "gallery", r.file, r.bytes, err);
    kn_record_free(&r);
    return ok;
}

static void after_content(kn_visit *v) {
    kn_visit_send_file(v, kn_picture_media_types[v->format], v->id);
}

void kn_api_item_content(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, "img_"))
        kn_visit_send(v, work_content, after_content);
}

/* ---- thumbnails: made by the image worker, kept until the picture goes ---- */

typedef struct thumbnail_name {
    char text[KN_ID_BYTES + 16];
} thumbnail_name;

static thumbnail_name thumbnail_of(const kn_visit *v) {
    thumbnail_name n;
    snprintf(n.text, sizeof n.text, "%.31s-%u.png", v->part[1], (unsigned)v->number);
    return n;
}

/* Opens the thumbnail, or reads the picture that it is to be made of. */
static bool work_thumbnail(kn_visit *v, kn_store *s, kn_error *err) {
    kn_record r;
    if (!kn_gallery_find(s, v->part[1], &r, err))
        return false;
    snprintf(v->id, sizeof v->id, "%.48s-%u", r.sha256.text, (unsigned)v->number);
    kn_buf_clear(&v->body);
    bool ok = kn_visit_open_file(v, s, "thumbnails", thumbnail_of(v).text, NULL) ||
              kn_visit_read_picture(v, s, &r, KN_INPUT_BYTES_MAX, &v->body, err);
    kn_record_free(&r);
    return ok;
}

static void after_thumbnail(kn_visit *v);

/* The picture may have gone while its thumbnail was made. */
static bool work_keep(kn_visit *v, kn_store *s, kn_error *err) {
    kn_record r;
    if (!kn_gallery_find(s, v->part[1], &r, err))
        return false;
    kn_record_free(&r);
    return kn_store_write(s, "thumbnails", thumbnail_of(v).text, v->body.data, v->body.len, err) &&
           work_thumbnail(v, s, err);
}

static void made(void *ctx, const kn_input_facts *facts, const void *png, size_t len, const char *message) {
    (void)message;
    kn_visit *v = ctx;
    kn_buf_clear(&v->body);
    if (facts && len && kn_buf_add(&v->body, png, len))
        kn_visit_send(v, work_keep, after_thumbnail);
    else if (kn_visit_is_back(v) && !kn_visit_refuse_unlocked(v))
        kn_visit_refuse(v, 503, "engine_failed", "The image worker could not make it", NULL, NULL);
}

static void after_thumbnail(kn_visit *v) {
    const kn_studio_runner *r = &v->studio->runner;
    if (v->fd >= 0) {
        kn_visit_send_file(v, "image/png", v->id);
        return;
    }
    v->in_flight = true;
    if (!r->look(r->ctx, v->body.data, v->body.len, (unsigned)v->number, made, v)) {
        v->in_flight = false;
        kn_visit_refuse(v, 503, "engine_busy", "The image worker cannot make it now", NULL, NULL);
    }
}

void kn_api_item_thumbnail(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "size");
    if (v && kn_visit_has_id(v, 1, "img_") &&
        kn_visit_number(v, "size", THUMBNAIL_MIN, KN_THUMBNAIL_MAX, THUMBNAIL_USUAL, &v->number))
        kn_visit_send(v, work_thumbnail, after_thumbnail);
}
