#include "studio/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/json_form.h"
#include "base/text.h"
#include "studio/paths.h"

enum {
    ID,
    CREATED,
    JOB,
    NUMBER,
    FILE_NAME,
    TITLE,
    PROMPT,
    KIND,
    WIDTH,
    HEIGHT,
    MEDIA,
    BYTES,
    SHA256,
    FAVORITE,
    TAGS,
    PROFILE,
    SEED,
    SOURCES,
    RECIPE,
    UNREADABLE, /* only where it is so */
};
static const char *const keys[] = {
    [ID] = "id",          [CREATED] = "created_at",    [JOB] = "job_id",       [NUMBER] = "number",
    [FILE_NAME] = "file", [TITLE] = "title",           [PROMPT] = "prompt",    [KIND] = "kind",
    [WIDTH] = "width",    [HEIGHT] = "height",         [MEDIA] = "media_type", [BYTES] = "bytes",
    [SHA256] = "sha256",  [FAVORITE] = "favorite",     [TAGS] = "tags",        [PROFILE] = "profile",
    [SEED] = "seed",      [SOURCES] = "source_inputs", [RECIPE] = "recipe",    [UNREADABLE] = "recipe_unreadable",
};

static void take_text(kn_form *f, size_t max, char **ret) {
    kn_json_text text;
    if (kn_form_null(f) || !kn_form_prose(f, 0, max, &text))
        return;
    *ret = strndup(text.data, text.len);
    if (!*ret)
        kn_form_fail(f, KN_E_NOMEM, "out of memory");
}

/* Into a field that is 0 behind it. */
static size_t take_short(kn_form *f, char *ret, size_t room) {
    kn_json_text text;
    if (kn_form_null(f) || !kn_form_text(f, 0, room - 1, &text))
        return 0;
    memcpy(ret, text.data, text.len);
    return text.len;
}

static void take_id(kn_form *f, const char *prefix, kn_id *ret) {
    if (take_short(f, ret->text, sizeof ret->text) && !kn_id_is_valid(ret->text, prefix))
        kn_form_fail(f, KN_E_FORMAT, "an identifier beginning with %s is expected", prefix);
}

static void take_digest(kn_form *f, char ret[KN_SHA256_TEXT]) {
    size_t len = take_short(f, ret, KN_SHA256_TEXT);
    if (len != KN_SHA256_TEXT - 1 || !kn_text_is_hex(ret, len))
        kn_form_fail(f, KN_E_FORMAT, "64 hexadecimal digits are expected");
}

static void take_date(kn_form *f, int64_t *ret) {
    char text[40] = "";
    size_t len = take_short(f, text, sizeof text);
    if (!kn_date_parse(text, len, ret))
        kn_form_fail(f, KN_E_FORMAT, "a date is expected");
}

static void take_file(kn_form *f, char **ret) {
    take_text(f, 255, ret);
    if (!f->j->failed && (!*ret || !kn_path_check_name(*ret, NULL)))
        kn_form_fail(f, KN_E_FORMAT, "a file name is expected");
}

static void take_tags(kn_form *f, char **tags, size_t *count) {
    for (bool in = kn_form_items(f); in && kn_form_item(f);) {
        if (*count == KN_REQUEST_TAGS) {
            kn_form_fail(f, KN_E_RANGE, "more than %d tags", KN_REQUEST_TAGS);
            return;
        }
        take_text(f, KN_TAG_MAX, &tags[*count]);
        if (tags[*count])
            ++*count;
        else
            kn_form_fail(f, KN_E_FORMAT, "a text is expected");
    }
}

/* What a client gives now; records of earlier days may have others. */
static void take_new_tags(kn_form *f, kn_record_patch *p) {
    take_tags(f, p->tags, &p->tag_count);
    for (size_t i = 0; i < p->tag_count && !f->j->failed; i++)
        if (!p->tags[i][0])
            kn_form_fail(f, KN_E_RANGE, "a tag has at least one character");
    kn_tags_fold(p->tags, &p->tag_count);
}

static void take_sources(kn_form *f, kn_record *r) {
    for (bool in = kn_form_items(f); in && kn_form_item(f);) {
        if (r->source_count == KN_REQUEST_INPUTS) {
            kn_form_fail(f, KN_E_RANGE, "more than %d inputs", KN_REQUEST_INPUTS);
            return;
        }
        take_digest(f, r->sources[r->source_count]);
        r->source_count++;
    }
}

static void take_seed(kn_form *f, kn_record *r) {
    char text[24] = "";
    size_t len = take_short(f, text, sizeof text);
    r->has_seed = len && kn_seed_parse(text, len, &r->seed);
    if (len && !r->has_seed)
        kn_form_fail(f, KN_E_RANGE, "a decimal number below 2^63 in quotes is expected");
}

static void take_recipe(kn_form *f, kn_record *r) {
    kn_json_text text;
    if (kn_form_null(f))
        return;
    if (kn_json_peek(f->j) != '{')
        kn_form_fail(f, KN_E_FORMAT, "an object is expected");
    else if (kn_json_skip(f->j, &text) && !(r->recipe = strndup(text.data, text.len)))
        kn_form_fail(f, KN_E_NOMEM, "out of memory");
}

static void take_number(kn_form *f, uint64_t max, uint32_t *ret) {
    uint64_t v;
    if (kn_form_u64(f, 0, max, &v))
        *ret = (uint32_t)v;
}

static void take_member(kn_form *f, int key, kn_record *r) {
    size_t word = 0;
    switch (key) {
    case ID: take_id(f, "img_", &r->id); break;
    case CREATED: take_date(f, &r->created_s); break;
    case JOB: take_id(f, "job_", &r->job); break;
    case NUMBER: take_number(f, KN_REQUEST_BATCH - 1, &r->number); break;
    case FILE_NAME: take_file(f, &r->file); break;
    case TITLE: take_text(f, KN_TITLE_MAX, &r->title); break;
    case PROMPT: take_text(f, KN_REQUEST_PROMPT_MAX, &r->prompt); break;
    case KIND:
        kn_form_word(f, kn_studio_kinds, KN_KIND_COUNT, &word);
        r->kind = (kn_studio_kind)word;
        break;
    case WIDTH: take_number(f, KN_PICTURE_SIDE_MAX, &r->width); break;
    case HEIGHT: take_number(f, KN_PICTURE_SIDE_MAX, &r->height); break;
    case MEDIA:
        kn_form_word(f, kn_picture_media_types, KN_PICTURE_FORMATS, &word);
        r->format = (kn_picture_format)word;
        break;
    case BYTES: kn_form_u64(f, 0, UINT32_MAX, &r->bytes); break;
    case SHA256: take_digest(f, r->sha256.text); break;
    case FAVORITE: kn_form_bool(f, &r->favorite); break;
    case TAGS: take_tags(f, r->tags, &r->tag_count); break;
    case PROFILE:
        if (take_short(f, r->profile, sizeof r->profile) && !kn_name_is_valid(r->profile, strlen(r->profile)))
            kn_form_fail(f, KN_E_FORMAT, "the name of a profile is expected");
        break;
    case SEED: take_seed(f, r); break;
    case SOURCES: take_sources(f, r); break;
    case RECIPE: take_recipe(f, r); break;
    case UNREADABLE: kn_form_bool(f, &r->unreadable); break;
    }
}

bool kn_record_read(const char *text, size_t len, kn_record *ret, kn_error *err) {
    const kn_json_text file = { text, len };
    kn_record r = { 0 };
    kn_json_reader j;
    kn_form f;
    kn_json_begin(&j, file, file, err);
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);)
        take_member(&f, key, &r);
    for (int key = 0; key < UNREADABLE; key++)
        kn_form_need(&f, key);
    bool ok = kn_json_finish(&j);
    kn_json_close(&j);
    if (ok && !r.id.text[0])
        ok = kn_fail(err, KN_E_FORMAT, "the picture has no identifier");
    if (ok)
        *ret = r;
    else
        kn_record_free(&r);
    return ok;
}

static json_t *texts_of(size_t count, char *const *texts) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

json_t *kn_record_write(const kn_record *r) {
    char seed[24] = "";
    if (r->has_seed)
        snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    json_t *sources = json_array();
    for (size_t i = 0; i < r->source_count; i++)
        json_array_append_new(sources, json_string(r->sources[i]));
    json_t *recipe = r->recipe ? json_loads(r->recipe, 0, NULL) : json_null();
    json_t *j = json_pack(
        "{s:s, s:s, s:s?, s:I, s:s, s:s?, s:s?, s:s, s:I, s:I, s:s, s:I, s:s, s:b, s:o, s:s?, s:s?, s:o, "
        "s:o}",
        keys[ID], r->id.text, keys[CREATED], kn_date_of(r->created_s).text, keys[JOB],
        r->job.text[0] ? r->job.text : NULL, keys[NUMBER], (json_int_t)r->number, keys[FILE_NAME], r->file, keys[TITLE],
        r->title, keys[PROMPT], r->prompt, keys[KIND], kn_studio_kinds[r->kind], keys[WIDTH], (json_int_t)r->width,
        keys[HEIGHT], (json_int_t)r->height, keys[MEDIA], kn_picture_media_types[r->format], keys[BYTES],
        (json_int_t)r->bytes, keys[SHA256], r->sha256.text, keys[FAVORITE], r->favorite, keys[TAGS],
        texts_of(r->tag_count, r->tags), keys[PROFILE], r->profile[0] ? r->profile : NULL, keys[SEED],
        seed[0] ? seed : NULL, keys[SOURCES], sources, keys[RECIPE], recipe);
    if (j && r->unreadable)
        json_object_set_new(j, keys[UNREADABLE], json_true());
    return j;
}

static void free_texts(size_t count, char **texts) {
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
}

void kn_record_free(kn_record *r) {
    free(r->file);
    free(r->title);
    free(r->prompt);
    free(r->recipe);
    free_texts(r->tag_count, r->tags);
    *r = (kn_record){ 0 };
}

/* ---- changes ---- */

bool kn_record_patch_read(const char *text, size_t len, kn_record_patch *ret, kn_buf *pointer, kn_error *err) {
    enum { PATCH_TITLE, PATCH_FAVORITE, PATCH_TAGS };
    static const char *const patch_keys[] = {
        [PATCH_TITLE] = "title", [PATCH_FAVORITE] = "favorite", [PATCH_TAGS] = "tags"
    };
    const kn_json_text body = { text, len };
    kn_record_patch p = { 0 };
    kn_json_reader j;
    kn_form f;
    kn_json_begin_inside(&j, body, "the body", err);
    j.pointer = pointer;
    kn_form_open(&f, &j, NULL, patch_keys, KN_COUNT(patch_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case PATCH_TITLE: take_text(&f, KN_TITLE_MAX, &p.title); break;
        case PATCH_FAVORITE: kn_form_bool(&f, &p.favorite); break;
        case PATCH_TAGS: take_new_tags(&f, &p); break;
        }
    }
    p.has_title = kn_form_has(&f, PATCH_TITLE);
    p.has_favorite = kn_form_has(&f, PATCH_FAVORITE);
    p.has_tags = kn_form_has(&f, PATCH_TAGS);
    f.key = -1;
    if (!j.failed && !f.seen)
        kn_form_fail(&f, KN_E_USAGE, "title, favorite or tags are expected");
    bool ok = kn_form_finish(&f);
    if (ok)
        *ret = p;
    else
        kn_record_patch_free(&p);
    return ok;
}

void kn_record_patch_free(kn_record_patch *p) {
    free(p->title);
    free_texts(p->tag_count, p->tags);
    *p = (kn_record_patch){ 0 };
}

void kn_record_change(kn_record *r, kn_record_patch *p) {
    if (p->has_title) {
        free(r->title);
        r->title = p->title;
        p->title = NULL;
    }
    if (p->has_favorite)
        r->favorite = p->favorite;
    if (p->has_tags) {
        free_texts(r->tag_count, r->tags);
        memcpy(r->tags, p->tags, sizeof r->tags);
        r->tag_count = p->tag_count;
        p->tag_count = 0;
    }
}
