/* A picture enlarged while its client waits: A1111's extra-single-image and stable-diffusion.cpp's upscale. */
#include <math.h>
#include <string.h>

#include "studio/compat/compat.h"
#include "studio/prepare.h"
#include "workers/recipe.h"

enum { REPEATS_MAX = 4, TILE_MAX = 2048, NAME_MAX_BYTES = 200 };

/* ---- how large ---- */

static bool refuse(kn_visit *v, kn_error *err, const char *pointer, const char *why) {
    kn_buf_clear(&v->pointer);
    kn_fail(err, KN_E_USAGE, "%s", why);
    return kn_buf_add_text(&v->pointer, pointer) &&
           kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
}

/* The one that is meant; NULL: it is not there. */
static const kn_upscale_choice *find(const kn_prepared *p, const kn_order_enlarging *e) {
    return kn_upscaler_named(&p->upscalers, e->upscaler[0] ? e->upscaler : p->settings.upscaler);
}

static bool take_scale(kn_visit *v, kn_store *s, kn_order_enlarging *e, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_upscale_choice *u = find(&p, e);
    bool ok = u && u->factor > 1;
    if (ok) {
        e->scale = u->factor;
        memcpy(e->upscaler, u->id, sizeof e->upscaler);
    }
    kn_prepared_free(&p);
    return ok || refuse(v, err, "/upscaler", "the name of an upscaler's model is expected, which capabilities list");
}

/* Sides of the picture at `by` times its size. */
static bool take_factor(kn_visit *v, kn_order_enlarging *e, const kn_input_facts *from, double by, kn_error *err) {
    double width = rint(from->width * by), height = rint(from->height * by);
    if (fmax(width, height) > KN_RECIPE_RESULT_MAX)
        return refuse(v, err, "/image", "the result would have more than 8192 pixels on a side");
    if (fmin(width, height) < 1)
        return refuse(v, err, "/image", "no pixel of the picture would be left");
    e->width = (uint32_t)width;
    e->height = (uint32_t)height;
    return true;
}

bool kn_order_settle(kn_visit *v, kn_store *s, kn_order *o, kn_error *err) {
    kn_order_enlarging *e = &o->enlarging;
    const kn_input_facts *from = &o->pictures[0].facts;
    if (e->repeats)
        return take_scale(v, s, e, err) && take_factor(v, e, from, pow(e->scale, (double)e->repeats), err);
    if (e->factor > 0)
        return take_factor(v, e, from, e->factor, err);
    double wide = (double)e->width / from->width, high = (double)e->height / from->height;
    bool same = fabs(from->width * high - e->width) < 1 || fabs(from->height * wide - e->height) < 1;
    if (!same && e->crops)
        return refuse(v, err, "/upscaling_crop", "cropping is not possible here; ask for the picture's own shape");
    return same || take_factor(v, e, from, fmax(wide, high), err);
}

/* ---- A1111 ---- */

/* "None" leaves the picture as large as it is. */
static void take_upscaler(kn_form *f, kn_order_enlarging *e, bool *ret_none) {
    kn_json_text text;
    if (!kn_form_prose(f, 0, NAME_MAX_BYTES, &text) || !text.len)
        return;
    *ret_none = kn_json_is(text, "None");
    if (!*ret_none && !kn_upscaler_id_of(text.data, text.len, e->upscaler))
        kn_form_fail(f, KN_E_FORMAT, "there is no such upscaler");
}

static void refuse_share(kn_form *f, const char *what) {
    double share;
    if (kn_form_real(f, 0, 1, &share) && share > 0)
        kn_form_fail(f, KN_E_UNSUPPORTED, "%s cannot be used here", what);
}

bool kn_a1111_read_extra(kn_visit *v, kn_order *o, kn_error *err) {
    enum { IMAGE, MODE, FACTOR, WIDTH, HEIGHT, CROP, UPSCALER, SECOND, GFPGAN, CODEFORMER };
    static const char *const keys[] = {
        [IMAGE] = "image",
        [MODE] = "resize_mode",
        [FACTOR] = "upscaling_resize",
        [WIDTH] = "upscaling_resize_w",
        [HEIGHT] = "upscaling_resize_h",
        [CROP] = "upscaling_crop",
        [UPSCALER] = "upscaler_1",
        [SECOND] = "extras_upscaler_2_visibility",
        [GFPGAN] = "gfpgan_visibility",
        [CODEFORMER] = "codeformer_visibility",
    };
    kn_order_enlarging *e = &o->enlarging;
    uint64_t mode = 0;
    bool none = false;
    kn_json_reader j;
    kn_form f;
    *e = (kn_order_enlarging){ .wanted = true, .factor = 2, .crops = true };
    kn_order_open(&f, &j, v, (kn_json_text){ v->body.data, v->body.len }, keys, KN_COUNT(keys), err);
    for (int key; kn_form_next(&f, &key);) {
        if (kn_form_null(&f))
            continue;
        switch (key) {
        case IMAGE: kn_order_take_picture(&f, o, KN_INPUT_SOURCE); break;
        case MODE: kn_form_u64(&f, 0, 1, &mode); break;
        case FACTOR: kn_form_real(&f, 0.01, 16, &e->factor); break;
        case WIDTH: kn_order_take_side(&f, &e->width); break;
        case HEIGHT: kn_order_take_side(&f, &e->height); break;
        case CROP: kn_form_bool(&f, &e->crops); break;
        case UPSCALER: take_upscaler(&f, e, &none); break;
        case SECOND: refuse_share(&f, "a second upscaler"); break;
        case GFPGAN:
        case CODEFORMER: refuse_share(&f, "a restorer of faces"); break;
        }
    }
    kn_order_need(&f, IMAGE, o->picture_count);
    if (mode) {
        e->factor = 0;
        kn_order_need(&f, WIDTH, e->width);
        kn_order_need(&f, HEIGHT, e->height);
    }
    if (none)
        e->factor = 1;
    return kn_form_finish(&f);
}

static bool write_extra(kn_visit *v, kn_store *s, const json_t *job, kn_buf *into, kn_error *err) {
    (void)job;
    return (kn_buf_add_text(into, "{\"html_info\":\"\",\"image\":") || kn_fail_nomem(err, into->len)) &&
           kn_compat_add_picture(s, v->part[1], 0, into, err) &&
           (kn_buf_add_text(into, "}") || kn_fail_nomem(err, into->len));
}

void kn_a1111_extra(kn_exchange *x, kn_span body) {
    static const kn_compat_way way = { .read = kn_a1111_read_extra, .answer = write_extra };
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_compat_order(v, &way);
}

/* ---- stable-diffusion.cpp ---- */

bool kn_sdcpp_read_upscale(kn_visit *v, kn_order *o, kn_error *err) {
    enum { IMAGE, UPSCALER, REPEATS, TILE, FORMAT };
    static const char *const keys[] = {
        [IMAGE] = "image",    [UPSCALER] = "upscaler",    [REPEATS] = "repeats",
        [TILE] = "tile_size", [FORMAT] = "output_format",
    };
    kn_order_enlarging *e = &o->enlarging;
    bool none = false;
    kn_json_reader j;
    kn_form f;
    *e = (kn_order_enlarging){ .wanted = true, .repeats = 1 };
    kn_order_open(&f, &j, v, (kn_json_text){ v->body.data, v->body.len }, keys, KN_COUNT(keys), err);
    for (int key; kn_form_next(&f, &key);) {
        if (kn_form_null(&f))
            continue;
        switch (key) {
        case IMAGE: kn_order_take_picture(&f, o, KN_INPUT_SOURCE); break;
        case UPSCALER: take_upscaler(&f, e, &none); break;
        case REPEATS: kn_form_u64(&f, 1, REPEATS_MAX, &e->repeats); break;
        case TILE: kn_form_u64(&f, 0, TILE_MAX, &e->tile_size); break;
        case FORMAT: kn_order_take_format(&f, o); break;
        }
    }
    kn_order_need(&f, IMAGE, o->picture_count);
    if (none) {
        f.key = UPSCALER;
        kn_form_fail(&f, KN_E_USAGE, "the name of an upscaler's model is expected");
    }
    return kn_form_finish(&f);
}

static bool write_upscaled(kn_visit *v, kn_store *s, const json_t *job, kn_buf *into, kn_error *err) {
    const kn_order *o = &v->compat->order;
    const json_t *result = kn_compat_result(job, 0);
    return (kn_buf_add_text(into, "{\"images\":[{\"index\":0,\"b64_json\":") || kn_fail_nomem(err, into->len)) &&
           kn_compat_add_picture(s, v->part[1], 0, into, err) &&
           (kn_buf_printf(into, "}],\"output_format\":\"%s\",\"width\":%d,\"height\":%d,\"scale\":%u,\"repeats\":%d}",
                          kn_picture_formats[o->format], (int)json_integer_value(json_object_get(result, "width")),
                          (int)json_integer_value(json_object_get(result, "height")), o->enlarging.scale,
                          (int)o->enlarging.repeats) ||
            kn_fail_nomem(err, into->len));
}

void kn_sdcpp_upscale(kn_exchange *x, kn_span body) {
    static const kn_compat_way way = { .read = kn_sdcpp_read_upscale, .answer = write_upscaled, .measures = true };
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_compat_order(v, &way);
}
