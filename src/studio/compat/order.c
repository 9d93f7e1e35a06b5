#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/text.h"
#include "sampling/sampler.h"
#include "studio/compat/compat.h"

enum { WORD_MAX = 1000 };

void kn_order_init(kn_order *o) {
    *o = (kn_order){ .preset = -1, .count = 1, .quality = 100 };
}

void kn_order_free(kn_order *o) {
    free(o->prompt);
    free(o->negative_prompt);
    for (size_t i = 0; i < o->picture_count; i++)
        kn_buf_free(&o->pictures[i].bytes);
    kn_order_init(o);
}

static json_t *inputs_of(const kn_order *o) {
    json_t *list = json_array();
    for (size_t i = 0; i < o->picture_count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "input_id", o->pictures[i].id.text, "role",
                                              kn_input_roles[o->pictures[i].role]));
    return list;
}

/* Pictures of a quality of 0 are not made. */
static json_t *output_of(const kn_order *o) {
    return json_pack("{s:s, s:I, s:b, s:b}", "format", kn_picture_formats[o->format], "quality",
                     (json_int_t)KN_MAX(o->quality, (uint64_t)1), "transparent", o->transparent, "embed_metadata",
                     !o->plain);
}

static json_t *enlarging_of(const kn_order *o) {
    const kn_order_enlarging *e = &o->enlarging;
    return json_pack("{s:s, s:{s:s*, s:I, s:I, s:I}, s:o}", "input_id", o->pictures[0].id.text, "upscale", "upscaler",
                     e->upscaler[0] ? e->upscaler : NULL, "width", (json_int_t)e->width, "height",
                     (json_int_t)e->height, "tile_size", (json_int_t)e->tile_size, "output", output_of(o));
}

static bool has_mask(const kn_order *o) {
    for (size_t i = 0; i < o->picture_count; i++)
        if (o->pictures[i].role == KN_INPUT_MASK)
            return true;
    return false;
}

static char *text_of(json_t *request) {
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    return text;
}

char *kn_order_request(const kn_order *o) {
    if (o->enlarging.wanted)
        return text_of(enlarging_of(o));
    json_t *r =
        json_pack("{s:s*, s:s*, s:s*, s:s*, s:s*, s:I, s:o, s:o}", "prompt", o->prompt, "negative_prompt",
                  o->negative_prompt, "profile", o->profile[0] ? o->profile : NULL, "sampler",
                  o->sampler[0] ? o->sampler : NULL, "preset", o->preset < 0 ? NULL : kn_preset_names[o->preset],
                  "batch", (json_int_t)o->count, "inputs", inputs_of(o), "output", output_of(o));
    if (r && o->width)
        json_object_set_new(r, "size",
                            json_pack("{s:s, s:I, s:I}", "mode", "custom", "width", (json_int_t)o->width, "height",
                                      (json_int_t)o->height));
    if (r && o->feather.given && has_mask(o))
        json_object_set_new(r, "feather", json_integer((json_int_t)o->feather.value));
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
    if (r && o->has_seed)
        json_object_set_new(r, "seed", json_string(seed));
    return text_of(r);
}

/* ---- members ---- */

void kn_order_need(kn_form *f, int key, bool there) {
    if (there || f->j->failed)
        return;
    f->key = -1;
    kn_form_fail(f, KN_E_FORMAT, "the key '%s' is missing", f->keys[key]);
}

void kn_order_open(kn_form *f, kn_json_reader *j, kn_visit *v, kn_json_text body, const char *const *keys, size_t count,
                   kn_error *err) {
    kn_json_begin_inside(j, body, "the body", err);
    j->pointer = &v->pointer;
    kn_form_open(f, j, NULL, keys, count);
    f->tolerant = true;
}

void kn_order_take_text(kn_form *f, char **ret) {
    kn_json_text text;
    if (!kn_form_prose(f, 0, KN_REQUEST_PROMPT_MAX, &text))
        return;
    free(*ret);
    *ret = strndup(text.data, text.len);
    if (!*ret)
        kn_form_fail(f, KN_E_NOMEM, "out of memory");
    else if (strstr(*ret, "<sd_cpp_extra_args>"))
        kn_form_fail(f, KN_E_UNSUPPORTED, "arguments inside a prompt are not understood; give them as members");
}

void kn_order_take_profile(kn_form *f, kn_order *o) {
    kn_json_text text;
    if (!kn_form_prose(f, 0, WORD_MAX, &text))
        return;
    memset(o->profile, 0, sizeof o->profile);
    if (text.len && !kn_name_is_valid(text.data, text.len))
        kn_form_fail(f, KN_E_NOT_FOUND, "there is no such model");
    else
        memcpy(o->profile, text.data, text.len);
}

void kn_order_take_side(kn_form *f, uint32_t *ret) {
    uint64_t v;
    if (kn_form_u64(f, KN_PICTURE_SIDE_MIN, KN_PICTURE_SIDE_MAX, &v))
        *ret = (uint32_t)v;
}

void kn_order_take_seed(kn_form *f, kn_order *o) {
    kn_json_text text;
    double below = 0;
    char c = kn_json_peek(f->j);
    o->has_seed = false;
    if (c == '-') {
        if (kn_form_real(f, -(double)INT64_MAX, 0, &below) && floor(below) < below)
            kn_form_fail(f, KN_E_FORMAT, "a whole number is expected");
    } else if (c == '"') {
        if (!kn_form_prose(f, 0, WORD_MAX, &text) || !text.len || kn_json_is(text, "-1"))
            return;
        o->has_seed = kn_seed_parse(text.data, text.len, &o->seed);
        if (!o->has_seed)
            kn_form_fail(f, KN_E_RANGE, "a decimal number below 2^63 is expected");
    } else {
        o->has_seed = kn_form_u64(f, 0, INT64_MAX, &o->seed);
    }
}

void kn_order_take_number(kn_form *f, double least, kn_optional *ret) {
    ret->given = kn_form_real(f, least, 1e6, &ret->value);
}

void kn_order_take_sampler(kn_form *f, kn_order *o) {
    kn_json_text text;
    const kn_sampler *found = NULL;
    char name[sizeof o->sampler] = "";
    if (!kn_form_prose(f, 0, WORD_MAX, &text))
        return;
    if (text.len < sizeof name)
        memcpy(name, text.data, text.len);
    char *space = strrchr(name, ' ');
    if (!kn_sampler_find(name, &found, NULL) && space) { /* "DPM++ 2M Karras" */
        *space = 0;
        kn_sampler_find(name, &found, NULL);
    }
    snprintf(o->sampler, sizeof o->sampler, "%s", found ? found->name.name : "");
}

void kn_order_take_format(kn_form *f, kn_order *o) {
    kn_json_text text;
    if (!kn_form_prose(f, 1, 100, &text))
        return;
    for (int i = 0; i < KN_PICTURE_FORMATS; i++) {
        kn_span word = { text.data, text.len };
        if (kn_span_is_like(word, kn_picture_formats[i]) || kn_span_is_like(word, kn_picture_endings[i])) {
            o->format = (kn_picture_format)i;
            return;
        }
    }
    kn_form_fail(f, KN_E_FORMAT, "png, jpeg or webp is expected");
}

kn_order_picture *kn_order_add_picture(kn_order *o, kn_input_role role, kn_error *err) {
    if (o->picture_count == KN_REQUEST_INPUTS) {
        kn_fail(err, KN_E_RANGE, "more than %d pictures", KN_REQUEST_INPUTS);
        return NULL;
    }
    kn_order_picture *p = &o->pictures[o->picture_count++];
    *p = (kn_order_picture){ .role = role };
    kn_buf_init(&p->bytes, KN_COMPAT_BODY_MAX);
    return p;
}

void kn_order_take_picture(kn_form *f, kn_order *o, kn_input_role role) {
    static const char address[] = "data:";
    kn_json_text text;
    kn_error err = { 0 };
    if (kn_json_peek(f->j) != '"') {
        kn_form_fail(f, KN_E_FORMAT, "a picture in base64 is expected");
        return;
    }
    if (!kn_json_string(f->j, &text))
        return;
    const char *comma = kn_json_starts(text, address) ? memchr(text.data, ',', text.len) : NULL;
    const char *at = comma ? comma + 1 : text.data;
    kn_order_picture *p = kn_order_add_picture(o, role, &err);
    if (!p || !kn_base64_decode(at, (size_t)(text.data + text.len - at), &p->bytes, &err))
        kn_form_fail(f, err.code, "%s", err.text);
    else if (!p->bytes.len)
        kn_form_fail(f, KN_E_FORMAT, "the picture is empty");
}
