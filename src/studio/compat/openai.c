/* OpenAI's images: /v1/images/generations in JSON, /v1/images/edits as a form, both also as a stream; /v1/models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/text.h"
#include "http/multipart.h"
#include "studio/compat/compat.h"
#include "studio/prepare.h"

enum { COUNT_MAX = KN_REQUEST_BATCH, SIDE_STEP = 16, RATIO_MAX = 3, PARTIAL_MAX = 3, FIELD_BYTES = 256 << 10 };

/* ---- refusals ---- */

/* "/size/width" is about the parameter "size". Ours are called otherwise than theirs where they mean pictures. */
static void name_parameter(const char *pointer, char *ret, size_t room) {
    static const char *const names[][2] = { { "inputs", "image" }, { "profile", "model" }, { "batch", "n" } };
    const char *at = pointer[0] == '/' ? pointer + 1 : pointer;
    snprintf(ret, room, "%.*s", (int)strcspn(at, "/"), at);
    if (!strcmp(pointer, "/output/format"))
        snprintf(ret, room, "output_format");
    for (size_t i = 0; i < KN_COUNT(names); i++)
        if (!strcmp(ret, names[i][0]))
            snprintf(ret, room, "%s", names[i][1]);
}

static json_t *error_json(const kn_problem *p, unsigned status) {
    char parameter[64] = "";
    if (p->pointer)
        name_parameter(p->pointer, parameter, sizeof parameter);
    const char *type = status == 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error";
    bool model = !strcmp(parameter, "model") && status == 404;
    return json_pack("{s:{s:s, s:s, s:s?, s:s}}", "error", "message", p->detail ? p->detail : p->title, "type", type,
                     "param", parameter[0] ? parameter : NULL, "code",
                     model                           ? "model_not_found"
                     : status == 400 && parameter[0] ? "invalid_value"
                                                     : p->code);
}

/* What their packages understand as such: 400 for what cannot be meant so, 404 for a model that is not there. */
static unsigned status_of(const kn_problem *p) {
    bool model = p->pointer && (!strcmp(p->pointer, "/profile") || !strcmp(p->pointer, "/model"));
    return p->status != 422 ? p->status : model ? 404 : 400;
}

/* Their packages would try again of their own accord what will fail again. */
void kn_openai_refuse(kn_exchange *x, const kn_problem *p) {
    unsigned status = status_of(p);
    bool never = !p->retry_after_s && (status == 409 || status >= 500);
    kn_compat_refuse(x, p, status, error_json(p, status), never ? "X-Should-Retry: false\r\n" : "");
}

/* ---- what is ordered ---- */

static void take_model(kn_form *f, kn_order *o) {
    static const char *const theirs[] = { "gpt-image", "dall-e", "chatgpt-image" };
    kn_order_take_profile(f, o);
    for (size_t i = 0; i < KN_COUNT(theirs); i++)
        if (!strncmp(o->profile, theirs[i], strlen(theirs[i])))
            o->profile[0] = 0;
}

/* "1024x768" */
static bool read_size(kn_json_text text, uint64_t *ret_width, uint64_t *ret_height) {
    char size[16] = "";
    if (text.len >= sizeof size)
        return false;
    memcpy(size, text.data, text.len);
    char *x = strchr(size, 'x');
    if (!x)
        return false;
    *x = 0;
    return kn_parse_u64(size, ret_width) && kn_parse_u64(x + 1, ret_height);
}

static bool is_side(uint64_t side, uint64_t other) {
    return side && side <= KN_PICTURE_SIDE_MAX && side % SIDE_STEP == 0 && side <= RATIO_MAX * other;
}

static void take_size(kn_form *f, kn_order *o) {
    kn_json_text text;
    uint64_t width, height;
    if (!kn_form_prose(f, 0, 100, &text) || !text.len || kn_json_is(text, "auto"))
        return;
    if (!read_size(text, &width, &height)) {
        kn_form_fail(f, KN_E_FORMAT, "a size such as 1024x768, or auto, is expected");
    } else if (!is_side(width, height) || !is_side(height, width)) {
        kn_form_fail(f, KN_E_RANGE, "sides are multiples of 16, and one is at most three times the other");
    } else {
        o->width = (uint32_t)width;
        o->height = (uint32_t)height;
    }
}

static void take_quality(kn_form *f, kn_order *o) {
    static const char *const words[] = { "auto", "low", "medium", "standard", "high", "hd", "xhigh", "max" };
    static const int presets[] = { -1,
                                   KN_PRESET_FAST,
                                   KN_PRESET_BALANCED,
                                   KN_PRESET_BALANCED,
                                   KN_PRESET_QUALITY,
                                   KN_PRESET_QUALITY,
                                   KN_PRESET_QUALITY,
                                   KN_PRESET_QUALITY };
    size_t word = 0;
    if (kn_form_word(f, words, KN_COUNT(words), &word))
        o->preset = presets[word];
}

static void take_background(kn_form *f, kn_order *o) {
    static const char *const words[] = { "auto", "opaque", "transparent" };
    size_t word = 0;
    kn_form_word(f, words, KN_COUNT(words), &word);
    o->transparent = word == 2;
}

static void take_format(kn_form *f, kn_order *o) {
    size_t word = 0;
    if (kn_form_word(f, kn_picture_formats, KN_PICTURE_FORMATS, &word))
        o->format = (kn_picture_format)word;
}

static void take_transport(kn_form *f) {
    kn_json_text text;
    if (kn_form_prose(f, 0, 100, &text) && !kn_json_is(text, "b64_json"))
        kn_form_fail(f, KN_E_UNSUPPORTED, "pictures are sent as b64_json; no URL is given out");
}

enum {
    PROMPT,
    MODEL,
    N,
    SIZE,
    QUALITY,
    BACKGROUND,
    FORMAT,
    COMPRESSION,
    TRANSPORT,
    STREAM,
    PARTIALS,
    NEGATIVE,
    SEED,
    STEPS,
    CFG
};
static const char *const keys[] = {
    [PROMPT] = "prompt",
    [MODEL] = "model",
    [N] = "n",
    [SIZE] = "size",
    [QUALITY] = "quality",
    [BACKGROUND] = "background",
    [FORMAT] = "output_format",
    [COMPRESSION] = "output_compression",
    [TRANSPORT] = "response_format",
    [STREAM] = "stream",
    [PARTIALS] = "partial_images",
    [NEGATIVE] = "negative_prompt",
    [SEED] = "seed",
    [STEPS] = "steps",
    [CFG] = "cfg",
};

static void take_member(kn_form *f, int key, kn_order *o) {
    switch (key) {
    case PROMPT: kn_order_take_text(f, &o->prompt); break;
    case MODEL: take_model(f, o); break;
    case N: kn_form_u64(f, 1, COUNT_MAX, &o->count); break;
    case SIZE: take_size(f, o); break;
    case QUALITY: take_quality(f, o); break;
    case BACKGROUND: take_background(f, o); break;
    case FORMAT: take_format(f, o); break;
    case COMPRESSION: kn_form_u64(f, 0, 100, &o->quality); break;
    case TRANSPORT: take_transport(f); break;
    case STREAM: kn_form_bool(f, &o->stream); break;
    case PARTIALS: kn_form_u64(f, 0, PARTIAL_MAX, &o->partial_images); break;
    case NEGATIVE: kn_order_take_text(f, &o->negative_prompt); break;
    case SEED: kn_order_take_seed(f, o); break;
    case STEPS: kn_order_take_number(f, 1, &o->wish.steps); break;
    case CFG: kn_order_take_number(f, -1e6, &o->wish.cfg); break;
    }
}

static bool read_members(kn_visit *v, const char *text, size_t len, kn_order *o, kn_error *err) {
    kn_json_reader j;
    kn_form f;
    kn_order_open(&f, &j, v, (kn_json_text){ text, len }, keys, KN_COUNT(keys), err);
    for (int key; kn_form_next(&f, &key);)
        if (!kn_form_null(&f))
            take_member(&f, key, o);
    kn_order_need(&f, PROMPT, o->prompt);
    if (!j.failed && o->transparent && o->format == KN_PICTURE_JPEG) {
        f.key = BACKGROUND;
        kn_form_fail(&f, KN_E_USAGE, "a transparent background needs png or webp");
    }
    return kn_form_finish(&f);
}

bool kn_openai_read_json(kn_visit *v, kn_order *o, kn_error *err) {
    return read_members(v, v->body.data, v->body.len, o, err);
}

/* ---- forms: their texts become the same members, their files pictures ---- */

typedef struct form {
    kn_order *order;
    json_t *members;
    char name[KN_MULTIPART_NAME_MAX + 1];
    kn_buf text;
    kn_order_picture *picture; /* NULL: the part is a text */
    kn_buf *pointer;
} form;

static bool point(form *f, const char *name, kn_error *err, kn_code code, const char *what) {
    kn_buf_clear(f->pointer);
    return kn_buf_printf(f->pointer, "/%s", name) ? kn_fail(err, code, "%s", what) : kn_fail_nomem(err, 1);
}

static bool begin_part(void *ctx, const char *name, bool is_file, kn_error *err) {
    form *f = ctx;
    bool mask = !strcmp(name, "mask"), image = !strcmp(name, "image") || !strcmp(name, "image[]");
    snprintf(f->name, sizeof f->name, "%s", name);
    kn_buf_clear(&f->text);
    f->picture = NULL;
    if (is_file != (mask || image))
        return point(f, image ? "image" : name, err, KN_E_USAGE,
                     is_file ? "no file is expected here" : "a file is expected here");
    if (!is_file)
        return true;
    bool first = !f->order->picture_count;
    f->picture = kn_order_add_picture(f->order,
                                      mask    ? KN_INPUT_MASK
                                      : first ? KN_INPUT_SOURCE
                                              : KN_INPUT_REFERENCE,
                                      err);
    return f->picture;
}

static bool part_data(void *ctx, kn_span data, kn_error *err) {
    form *f = ctx;
    kn_buf *to = f->picture ? &f->picture->bytes : &f->text;
    return kn_buf_add(to, data.data, data.len) ||
           point(f, f->name, err, KN_E_RANGE, "the field is too long, or memory is short");
}

/* Numbers and truths are written as they are in JSON; everything else is a text. */
static json_t *member_of(const form *f) {
    static const char *const plain[] = { "n", "output_compression", "partial_images", "stream", "steps", "cfg" };
    for (size_t i = 0; i < KN_COUNT(plain); i++) {
        json_t *value = strcmp(f->name, plain[i]) ? NULL : json_loads(f->text.data, JSON_DECODE_ANY, NULL);
        if (value)
            return value;
    }
    return json_stringn(f->text.data, f->text.len);
}

static bool end_part(void *ctx, kn_error *err) {
    form *f = ctx;
    if (f->picture)
        return f->picture->bytes.len > 0 ||
               point(f, f->picture->role == KN_INPUT_MASK ? "mask" : "image", err, KN_E_FORMAT, "the file is empty");
    if (json_object_get(f->members, f->name))
        return point(f, f->name, err, KN_E_FORMAT, "the field comes twice");
    return json_object_set_new(f->members, f->name, member_of(f)) == 0 ||
           point(f, f->name, err, KN_E_FORMAT, "the field is not UTF-8");
}

static bool read_parts(kn_visit *v, form *f, kn_error *err) {
    const kn_multipart_receiver to = { f, begin_part, part_data, end_part };
    kn_multipart m;
    return kn_multipart_begin(&m, kn_span_of(v->compat->type), &to, err) &&
           kn_multipart_feed(&m, (kn_span){ v->body.data, v->body.len }) && kn_multipart_end(&m);
}

static bool has_image(const kn_order *o) {
    for (size_t i = 0; i < o->picture_count; i++)
        if (o->pictures[i].role != KN_INPUT_MASK)
            return true;
    return false;
}

/* The mask may come first. */
static void order_roles(kn_order *o) {
    bool source = false;
    for (size_t i = 0; i < o->picture_count; i++) {
        if (o->pictures[i].role == KN_INPUT_MASK)
            continue;
        o->pictures[i].role = source ? KN_INPUT_REFERENCE : KN_INPUT_SOURCE;
        source = true;
    }
}

bool kn_openai_read_form(kn_visit *v, kn_order *o, kn_error *err) {
    form f = { .order = o, .members = json_object(), .pointer = &v->pointer };
    kn_buf_init(&f.text, FIELD_BYTES);
    char *text = NULL;
    bool ok = read_parts(v, &f, err) &&
              (has_image(o) || point(&f, "image", err, KN_E_USAGE, "a picture to edit is missing")) &&
              ((text = json_dumps(f.members, JSON_COMPACT)) || kn_fail_nomem(err, FIELD_BYTES)) &&
              read_members(v, text, strlen(text), o, err);
    order_roles(o);
    o->wish.strength = (kn_optional){ true, KN_ORDER_STRENGTH };
    free(text);
    json_decref(f.members);
    kn_buf_free(&f.text);
    return ok;
}

/* ---- answers ---- */

/* What is said of a picture beside itself. */
static json_t *facts_of(const kn_order *o, const json_t *result) {
    static const char *const qualities[KN_PRESETS] = { "low", "medium", "high" };
    char size[32];
    snprintf(size, sizeof size, "%dx%d", (int)json_integer_value(json_object_get(result, "width")),
             (int)json_integer_value(json_object_get(result, "height")));
    return json_pack("{s:s, s:s, s:s, s:s}", "size", size, "quality",
                     qualities[o->preset < 0 ? KN_PRESET_FAST : o->preset], "background",
                     o->transparent ? "transparent" : "opaque", "output_format", kn_picture_formats[o->format]);
}

/* All members of an object but its last brace, which is the caller's. */
static bool add_open(kn_buf *into, json_t *object, kn_error *err) {
    if (!kn_compat_add_json(into, object, err))
        return false;
    into->data[--into->len] = 0;
    return true;
}

static bool write_answer(kn_visit *v, kn_store *s, const json_t *job, kn_buf *into, kn_error *err) {
    json_t *head = facts_of(&v->compat->order, kn_compat_result(job, 0));
    json_object_set_new(head, "created", json_integer(kn_date_now()));
    bool ok = add_open(into, head, err) && (kn_buf_add_text(into, ",\"data\":[") || kn_fail_nomem(err, into->len));
    for (size_t i = 0; ok && i < kn_compat_results(job); i++)
        ok = (kn_buf_add_text(into, i ? ",{\"b64_json\":" : "{\"b64_json\":") || kn_fail_nomem(err, into->len)) &&
             kn_compat_add_picture(s, v->part[1], (unsigned)i, into, err) &&
             (kn_buf_add_text(into, "}") || kn_fail_nomem(err, into->len));
    return ok && (kn_buf_add_text(into, "]}") || kn_fail_nomem(err, into->len));
}

/* ---- streams ---- */

/* The head of an event up to the picture's text. */
static bool begin_event(const kn_visit *v, const char *what, const json_t *result, kn_buf *into, kn_error *err) {
    const kn_order *o = &v->compat->order;
    const char *kind = o->picture_count ? "image_edit" : "image_generation";
    char type[64];
    snprintf(type, sizeof type, "%s.%s", kind, what);
    json_t *head = facts_of(o, result);
    json_object_set_new(head, "type", json_string(type));
    json_object_set_new(head, "created_at", json_integer(kn_date_now()));
    return (kn_buf_printf(into, "event: %s\ndata: ", type) || kn_fail_nomem(err, into->len)) &&
           add_open(into, head, err) && (kn_buf_add_text(into, ",\"b64_json\":") || kn_fail_nomem(err, into->len));
}

static bool write_events(kn_visit *v, kn_store *s, const json_t *job, kn_buf *into, kn_error *err) {
    static const char usage[] = ",\"usage\":{\"input_tokens\":0,\"input_tokens_details\":{\"text_tokens\":0,"
                                "\"image_tokens\":0},\"output_tokens\":0,\"total_tokens\":0}}\n\n";
    bool ok = true;
    for (size_t i = 0; ok && i < kn_compat_results(job); i++)
        ok = begin_event(v, "completed", kn_compat_result(job, i), into, err) &&
             kn_compat_add_picture(s, v->part[1], (unsigned)i, into, err) &&
             (kn_buf_add_text(into, usage) || kn_fail_nomem(err, into->len));
    return ok;
}

static void show_preview(kn_visit *v, const void *file, size_t len, unsigned number) {
    KN_AUTO_BUF event;
    const json_t *plan = json_object_get(v->json, "plan");
    json_t *size = json_pack("{s:O, s:O}", "width", json_object_get(plan, "result_width"), "height",
                             json_object_get(plan, "result_height"));
    kn_buf_init(&event, KN_COMPAT_ANSWER_MAX);
    if (begin_event(v, "partial_image", size, &event, NULL) && kn_compat_add_base64(&event, file, len, NULL) &&
        kn_buf_printf(&event, ",\"partial_image_index\":%u}\n\n", number))
        kn_compat_send(v, event.data, event.len);
    json_decref(size);
}

static void show_failure(kn_visit *v) {
    KN_AUTO_BUF event;
    kn_problem p = v->problem;
    if (!p.status)
        p = (kn_problem){ .status = 500, .code = "internal", .title = "Something went wrong here" };
    else if (v->errand.err.text[0])
        p.detail = v->errand.err.text;
    kn_buf_init(&event, 1 << 16);
    if (kn_buf_add_text(&event, "event: error\ndata: ") &&
        kn_compat_add_json(&event, error_json(&p, status_of(&p)), NULL) && kn_buf_add_text(&event, "\n\n"))
        kn_compat_send(v, event.data, event.len);
    else
        kn_exchange_break(v->x);
}

/* ---- routes ---- */

static bool answer(kn_visit *v, kn_store *s, const json_t *job, kn_buf *into, kn_error *err) {
    return v->compat->order.stream ? write_events(v, s, job, into, err) : write_answer(v, s, job, into, err);
}

void kn_openai_generate(kn_exchange *x, kn_span body) {
    static const kn_compat_way way = {
        .read = kn_openai_read_json, .answer = answer, .preview = show_preview, .failed = show_failure
    };
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_compat_order(v, &way);
}

void kn_openai_edit(kn_exchange *x, kn_span body) {
    static const kn_compat_way way = {
        .read = kn_openai_read_form,
        .answer = answer,
        .preview = show_preview,
        .failed = show_failure,
        .is_form = true,
    };
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_compat_order(v, &way);
}

static json_t *model_json(const kn_model_profile *m) {
    return json_pack("{s:s, s:s, s:i, s:s, s:s}", "id", m->name, "object", "model", "created", 0, "owned_by", "kuno",
                     "name", m->title ? m->title : m->name);
}

/* The one that is used if nobody says anything comes first: clients that choose for themselves take that. */
static bool work_models(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *active = kn_prepared_profile(&p, "");
    json_t *list = json_array();
    if (active)
        json_array_append_new(list, model_json(active));
    for (size_t i = 0; i < p.models.count; i++)
        if (&p.models.profiles[i] != active)
            json_array_append_new(list, model_json(&p.models.profiles[i]));
    v->json = json_pack("{s:s, s:o}", "object", "list", "data", list);
    kn_prepared_free(&p);
    return v->json || kn_fail_nomem(err, sizeof p);
}

void kn_openai_models(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_visit_send(v, work_models, NULL);
}

static bool work_model(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *m = kn_profiles_named(&p.models, v->part[1]);
    v->json = m ? model_json(m) : NULL;
    kn_prepared_free(&p);
    if (!m && !kn_buf_add_text(&v->pointer, "/model"))
        return kn_fail_nomem(err, 1);
    return v->json || kn_fail(err, KN_E_NOT_FOUND, "there is no such model");
}

void kn_openai_model(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v && kn_compat_part(v, 2, v->part[1], sizeof v->part[1]))
        kn_visit_send(v, work_model, NULL);
    else if (v)
        kn_visit_refuse(v, 404, "not_found", "There is no such model", NULL, NULL);
}
