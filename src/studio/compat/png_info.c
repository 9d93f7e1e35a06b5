/* A1111's png-info: what a picture's file says of its settings. The image worker looks; nothing of a client's picture
 * is taken apart in this process. */
#include <string.h>

#include "studio/compat/compat.h"

/* The picture of the body, in v->body. */
static bool read_picture(kn_visit *v, kn_order *o, kn_error *err) {
    enum { IMAGE };
    static const char *const keys[] = { [IMAGE] = "image" };
    kn_json_reader j;
    kn_form f;
    kn_order_open(&f, &j, v, (kn_json_text){ v->body.data, v->body.len }, keys, KN_COUNT(keys), err);
    for (int key; kn_form_next(&f, &key);)
        kn_order_take_picture(&f, o, KN_INPUT_REFERENCE);
    kn_form_need(&f, IMAGE);
    if (!kn_form_finish(&f))
        return err->code == KN_E_NOMEM
                   ? false
                   : kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
    kn_buf_free(&v->body);
    v->body = o->pictures[0].bytes;
    kn_buf_init(&o->pictures[0].bytes, 0);
    return true;
}

static bool work_read(kn_visit *v, kn_store *s, kn_error *err) {
    kn_order o;
    (void)s;
    kn_order_init(&o);
    bool ok = kn_visit_check_json(v) && read_picture(v, &o, err);
    kn_order_free(&o);
    return ok;
}

/* Of a damaged file nothing is known; of others, settings that cannot be taken over are settings. */
static bool work_tell(kn_visit *v, kn_store *s, kn_error *err) {
    (void)s;
    json_t *found = json_loadb(v->body.data, v->body.len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *settings = json_object_get(found, "settings");
    const char *refused = json_string_value(json_object_get(found, "refused"));
    const char *source = json_string_value(json_object_get(found, "source"));
    bool damaged = !settings && refused && source && !strcmp(source, "none");
    if (damaged)
        kn_fail(err, KN_E_FORMAT, "the file %s", refused);
    else if (settings)
        v->json = json_pack("{s:O, s:{}, s:O}", "info", json_object_get(settings, "text"), "items", "parameters",
                            json_object_get(settings, "pairs"));
    else
        v->json = json_pack("{s:s, s:{}, s:{}}", "info", "", "items", "parameters");
    json_decref(found);
    if (damaged)
        return kn_visit_deny(v, 422, "input_invalid", "The picture cannot be used", NULL);
    return v->json || kn_fail_nomem(err, v->body.len);
}

static void ask_worker(kn_visit *v) {
    kn_visit_inspect(v, work_tell);
}

void kn_a1111_png_info(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_visit_send(v, work_read, ask_worker);
}
