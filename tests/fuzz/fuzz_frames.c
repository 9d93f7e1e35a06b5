/* Any bytes as frames, of either side and cut in two anywhere: what is taken is the same, and never beyond its limit.
 * The first byte says the side and where the cut is. */
#include <stdlib.h>
#include <string.h>

#include "workers/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a stream holds: a sum over all frames, and whether it stayed good to the end. */
struct heard {
    uint64_t sum;
    bool good;
};

static void hear(kn_frame_reader *r, const uint8_t *at, const uint8_t *end, struct heard *h) {
    kn_error err = { 0 };
    while (h->good && at < end) {
        bool complete = false;
        h->good = kn_frame_reader_take(r, &at, end, &complete, &err);
        if (h->good == (err.code != KN_OK) || r->payload.len > r->len)
            abort();
        if (!complete)
            continue;
        kn_frame_preview preview;
        if (r->len > kn_frame_limit(r->kind))
            abort();
        if (r->kind == KN_FRAME_PREVIEW && kn_frame_preview_read(r->payload.data, r->payload.len, &preview, NULL) &&
            preview.width > KN_PREVIEW_SIDE)
            abort();
        kn_frame_picture picture;
        if (r->kind == KN_FRAME_PICTURE && kn_frame_picture_read(r->payload.data, r->payload.len, &picture, NULL) &&
            picture.png_len != r->len - 16 - strlen(picture.profile.text))
            abort();
        h->sum = h->sum * 31 + r->kind;
        for (size_t i = 0; i < r->payload.len; i++)
            h->sum = h->sum * 31 + (uint8_t)r->payload.data[i];
    }
}

static struct heard hear_all(const uint8_t *data, size_t size, size_t cut, kn_frame_side side) {
    kn_frame_reader r;
    struct heard h = { .good = true };
    kn_frame_reader_init(&r, side);
    hear(&r, data, data + cut, &h);
    hear(&r, data + cut, data + size, &h);
    kn_frame_reader_free(&r);
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    kn_frame_side side = data[0] & 1 ? KN_FROM_SERVER : KN_FROM_WORKER;
    size_t cut = KN_MIN((size_t)(data[0] >> 1), size - 1);
    struct heard whole = hear_all(data + 1, size - 1, 0, side), two = hear_all(data + 1, size - 1, cut, side);
    if (whole.sum != two.sum || whole.good != two.good)
        abort();
    return 0;
}
