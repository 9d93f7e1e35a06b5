/* Bodies that clients of other APIs send: the first byte chooses the reader. What is understood is a request of the
 * studio. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "studio/compat/compat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pictures get an identifier when they are stored. */
static void name_pictures(kn_order *o) {
    for (size_t i = 0; i < o->picture_count; i++) {
        assert(o->pictures[i].bytes.len);
        memset(o->pictures[i].id.text, 'a', sizeof o->pictures[i].id.text - 1);
    }
}

static bool has_lora(const kn_order *o) {
    return strstr(o->prompt, "<lora:") || (o->negative_prompt && strstr(o->negative_prompt, "<lora:"));
}

/* Those of a batch follow each other, and all of them must be below 2^63. */
static bool has_seeds(const kn_order *o) {
    return !o->has_seed || o->seed <= (uint64_t)INT64_MAX - (o->count - 1);
}

static void check(kn_order *o) {
    bool enlarges = o->enlarging.wanted;
    assert(enlarges ? o->picture_count == 1 : o->prompt != NULL);
    assert(o->count >= 1 && o->count <= KN_REQUEST_BATCH && o->picture_count <= KN_REQUEST_INPUTS);
    name_pictures(o);
    if (enlarges) /* what the picture's size would make of it */
        o->enlarging.width = o->enlarging.height = 100;
    char *text = kn_order_request(o);
    kn_studio_request r;
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 200);
    bool ok = text && kn_request_read(text, strlen(text), enlarges, &r, &pointer, NULL);
    assert(ok || !text || (!enlarges && (!o->prompt[0] || has_lora(o) || !has_seeds(o))));
    if (ok)
        kn_request_free(&r);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kn_compat_reader *const readers[] = { kn_openai_read_json, kn_openai_read_form, kn_a1111_read,
                                                 kn_sdcpp_read,       kn_a1111_read_extra, kn_sdcpp_read_upscale };
    kn_compat_call call = { .type = "multipart/form-data; boundary=b" };
    kn_visit *v = calloc(1, sizeof *v);
    kn_order order;
    if (!v || !size) {
        free(v);
        return 0;
    }
    kn_order_init(&order);
    kn_buf_init(&v->body, 1 << 20);
    kn_buf_init(&v->pointer, 500);
    v->compat = &call;
    v->flag = data[0] & 4;
    if (kn_buf_add(&v->body, data + 1, size - 1) && readers[data[0] % KN_COUNT(readers)](v, &order, NULL))
        check(&order);
    kn_order_free(&order);
    kn_buf_free(&v->body);
    kn_buf_free(&v->pointer);
    free(v);
    return 0;
}
