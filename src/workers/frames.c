#include "workers/frames.h"

#include <string.h>

#include "base/text.h"

static const char mark[] = { 'K', 'I', 'P', '1' };

enum { WORD = 4, TEXT_BYTES = 4 << 10, REPORT_BYTES = 64 << 10, PREVIEW_WORDS = 4, PICTURE_WORDS = 4 };

static const struct kind {
    size_t limit, least; /* of the payload */
    kn_frame_side side;
    bool is_there;
} kinds[] = {
    [KN_FRAME_PREVIEW] = { KN_PREVIEW_BYTES, PREVIEW_WORDS *WORD, KN_FROM_WORKER, true },
    [KN_FRAME_FINAL] = { KN_FINAL_BYTES, 1, KN_FROM_WORKER, true },
    [KN_FRAME_READY] = { TEXT_BYTES, 0, KN_FROM_WORKER, true },
    [KN_FRAME_PROGRESS] = { 3 * WORD, 3 * WORD, KN_FROM_WORKER, true },
    [KN_FRAME_REPORT] = { REPORT_BYTES, 2, KN_FROM_WORKER, true },
    [KN_FRAME_FAILED] = { TEXT_BYTES, 1, KN_FROM_WORKER, true },
    [KN_FRAME_PICTURE] = { PICTURE_WORDS * WORD + KN_ICC_NAME_BYTES + KN_PICTURE_BYTES, PICTURE_WORDS *WORD,
                           KN_FROM_WORKER, true },
    [KN_FRAME_LARGE] = { KN_LARGE_BYTES, 1, KN_FROM_WORKER, true },
    [KN_FRAME_FACTOR] = { WORD, WORD, KN_FROM_WORKER, true },
    [KN_FRAME_FOUND] = { KN_FOUND_BYTES, 2, KN_FROM_WORKER, true },
    [KN_FRAME_DRAW] = { KN_RECIPE_BYTES, 0, KN_FROM_SERVER, true },
    [KN_FRAME_DRAW_PREVIEW] = { KN_RECIPE_BYTES, 0, KN_FROM_SERVER, true },
    [KN_FRAME_READ_PICTURE] = { WORD + KN_PICTURE_BYTES, WORD, KN_FROM_SERVER, true },
    [KN_FRAME_CANCEL] = { 0, 0, KN_FROM_SERVER, true },
    [KN_FRAME_CONVERT] = { 2 * WORD + KN_LARGE_BYTES, 2 * WORD, KN_FROM_SERVER, true },
    [KN_FRAME_MEASURE] = { TEXT_BYTES, 1, KN_FROM_SERVER, true },
    [KN_FRAME_INSPECT] = { KN_PICTURE_BYTES, 1, KN_FROM_SERVER, true },
};

static const struct kind *find(unsigned kind) {
    return kind < KN_COUNT(kinds) && kinds[kind].is_there ? &kinds[kind] : NULL;
}

size_t kn_frame_limit(unsigned kind) {
    const struct kind *k = find(kind);
    return k ? k->limit : 0;
}

void kn_frame_put(uint8_t *at, uint32_t value) {
    for (int i = 0; i < WORD; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

uint32_t kn_frame_get(const uint8_t *at) {
    uint32_t value = 0;
    for (int i = 0; i < WORD; i++)
        value = value << 8 | at[i];
    return value;
}

void kn_frame_header(unsigned kind, size_t len, uint8_t ret[KN_FRAME_HEADER]) {
    memcpy(ret, mark, sizeof mark);
    ret[sizeof mark] = (uint8_t)kind;
    kn_frame_put(ret + sizeof mark + 1, (uint32_t)len);
}

void kn_frame_reader_init(kn_frame_reader *r, kn_frame_side side) {
    *r = (kn_frame_reader){ .side = side };
    kn_buf_init(&r->payload, 0);
}

void kn_frame_reader_free(kn_frame_reader *r) {
    kn_buf_free(&r->payload);
    r->header_len = 0;
}

static bool read_header(kn_frame_reader *r, kn_error *err) {
    if (memcmp(r->header, mark, sizeof mark) != 0)
        return kn_fail(err, KN_E_FORMAT, "a frame does not begin with KIP1");
    r->kind = r->header[sizeof mark];
    r->len = kn_frame_get(r->header + sizeof mark + 1);
    const struct kind *k = find(r->kind);
    if (!k || k->side != r->side)
        return kn_fail(err, KN_E_FORMAT, "a frame of kind %u, which does not belong here", r->kind);
    if (r->len > k->limit || r->len < k->least)
        return kn_fail(err, KN_E_RANGE, "a frame of kind %u has %zu bytes, from %zu to %zu are possible", r->kind,
                       r->len, k->least, k->limit);
    kn_buf_init(&r->payload, r->len);
    return true;
}

bool kn_frame_reader_take(kn_frame_reader *r, const uint8_t **at, const uint8_t *end, bool *ret, kn_error *err) {
    *ret = false;
    if (r->header_len == KN_FRAME_HEADER && r->payload.len == r->len) /* the last one has been looked at */
        kn_frame_reader_free(r);
    if (r->header_len < KN_FRAME_HEADER) {
        size_t n = KN_MIN((size_t)(end - *at), KN_FRAME_HEADER - r->header_len);
        memcpy(r->header + r->header_len, *at, n);
        r->header_len += n;
        *at += n;
        if (r->header_len < KN_FRAME_HEADER)
            return true;
        if (!read_header(r, err))
            return false;
    }
    size_t n = KN_MIN((size_t)(end - *at), r->len - r->payload.len);
    if (n && !kn_buf_add(&r->payload, *at, n))
        return kn_fail_nomem(err, n);
    *at += n;
    *ret = r->payload.len == r->len;
    return true;
}

bool kn_frame_preview_read(const void *payload, size_t len, kn_frame_preview *ret, kn_error *err) {
    const uint8_t *at = payload;
    if (len < PREVIEW_WORDS * WORD)
        return kn_fail(err, KN_E_TRUNCATED, "a preview has %zu bytes, at least %d are needed", len,
                       PREVIEW_WORDS * WORD);
    kn_frame_preview p = { .step = kn_frame_get(at),
                           .steps = kn_frame_get(at + WORD),
                           .width = kn_frame_get(at + 2 * WORD),
                           .height = kn_frame_get(at + 3 * WORD),
                           .png = at + PREVIEW_WORDS * WORD,
                           .png_len = len - PREVIEW_WORDS * WORD };
    if (!p.width || !p.height || p.width > KN_PREVIEW_SIDE || p.height > KN_PREVIEW_SIDE || p.step > p.steps)
        return kn_fail(err, KN_E_RANGE, "a preview of %ux%u pixels after step %u of %u", p.width, p.height, p.step,
                       p.steps);
    *ret = p;
    return true;
}

static bool is_line(const char *text, size_t len) {
    const char *at = text, *end = text + len;
    uint32_t c = ' ';
    while (at < end && c >= ' ' && c != 0x7F && kn_utf8_next(&at, end, &c)) {
    }
    return at == end && c >= ' ' && c != 0x7F;
}

bool kn_frame_picture_read(const void *payload, size_t len, kn_frame_picture *ret, kn_error *err) {
    const uint8_t *at = payload;
    if (len < PICTURE_WORDS * WORD)
        return kn_fail(err, KN_E_TRUNCATED, "a picture has %zu bytes, at least %d are needed", len,
                       PICTURE_WORDS * WORD);
    kn_frame_picture p = { .width = kn_frame_get(at),
                           .height = kn_frame_get(at + WORD),
                           .traits = kn_frame_get(at + 2 * WORD) };
    size_t name_len = kn_frame_get(at + 3 * WORD), left = len - PICTURE_WORDS * WORD;
    if (name_len > left || name_len >= sizeof p.profile.text)
        return kn_fail(err, KN_E_RANGE, "a colour profile with a name of %zu bytes, at most %zu are possible", name_len,
                       KN_MIN(left, sizeof p.profile.text - 1));
    const uint8_t *name = at + PICTURE_WORDS * WORD;
    if (!is_line((const char *)name, name_len))
        return kn_fail(err, KN_E_FORMAT, "the name of a colour profile is not a line of UTF-8");
    memcpy(p.profile.text, name, name_len);
    p.png = name + name_len;
    p.png_len = left - name_len;
    *ret = p;
    return true;
}
