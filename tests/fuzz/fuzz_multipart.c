/* Forms: the first line is the boundary. However the body is cut, the same parts come out of it. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool begin(void *ctx, const char *name, bool is_file, kn_error *err) {
    assert(strlen(name) && strlen(name) <= KN_MULTIPART_NAME_MAX);
    return kn_buf_printf(ctx, "<%s %d>", name, is_file) || kn_fail_nomem(err, strlen(name));
}

static bool content(void *ctx, kn_span piece, kn_error *err) {
    assert(piece.len);
    return kn_buf_add(ctx, piece.data, piece.len) || kn_fail_nomem(err, piece.len);
}

static bool end(void *ctx, kn_error *err) {
    return kn_buf_add_text(ctx, "</>") || kn_fail_nomem(err, 3);
}

static bool read_in_pieces(kn_span type, kn_span body, size_t piece, kn_buf *into) {
    const kn_multipart_receiver to = { into, begin, content, end };
    kn_multipart m;
    bool ok = kn_multipart_begin(&m, type, &to, NULL);
    for (size_t at = 0; ok && at < body.len; at += piece)
        ok = kn_multipart_feed(&m, (kn_span){ body.data + at, KN_MIN(piece, body.len - at) });
    return ok && kn_multipart_end(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    KN_AUTO_BUF whole;
    KN_AUTO_BUF pieces;
    KN_AUTO_BUF type;
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    kn_buf_init(&whole, 1 << 20);
    kn_buf_init(&pieces, 1 << 20);
    kn_buf_init(&type, 1 << 20);
    if (!line || !kn_buf_add(&type, data, (size_t)(line - data)))
        return 0;
    const kn_span body = { (const char *)line + 1, size - (size_t)(line + 1 - data) };
    const kn_span field = { type.data, type.len };
    bool one = read_in_pieces(field, body, size, &whole), other = read_in_pieces(field, body, 1, &pieces);
    assert(one == other);
    assert(!one || (whole.len == pieces.len && !memcmp(whole.data, pieces.data, whole.len)));
    return 0;
}
