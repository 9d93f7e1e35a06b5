/* Bodies of type multipart/form-data (RFC 7578), read as they come, however they are cut.
 *
 * Strict: the body begins with its first boundary and ends with its last, lines end with CR LF, every part has a
 * Content-Disposition with a name, and there is nothing between parts or behind them. What a part's content is, its
 * receiver decides by the content: types and file names that clients write are not looked at. */
#ifndef KN_HTTP_MULTIPART_H
#define KN_HTTP_MULTIPART_H

#include "base/error.h"
#include "http/head.h"

enum {
    KN_MULTIPART_PARTS_MAX = 64,
    KN_MULTIPART_HEAD_MAX = 4 << 10, /* bytes of the lines before a part's content */
    KN_MULTIPART_NAME_MAX = 100,     /* bytes of a field's name */
    KN_MULTIPART_BOUNDARY_MAX = 70,
};

/* What is done with the parts; false ends the reading, and the error is the receiver's. */
typedef struct kn_multipart_receiver {
    void *ctx;
    bool (*begin)(void *ctx, const char *name, bool is_file, kn_error *err);
    bool (*data)(void *ctx, kn_span data, kn_error *err); /* a piece of its content */
    bool (*end)(void *ctx, kn_error *err);
} kn_multipart_receiver;

typedef struct kn_multipart {
    kn_multipart_receiver to;
    kn_error *err;
    char delimiter[4 + KN_MULTIPART_BOUNDARY_MAX + 1]; /* CR LF "--" and the boundary */
    size_t delimiter_len;
    size_t matched; /* bytes of the delimiter, or of what follows it */
    unsigned parts;
    char head[KN_MULTIPART_HEAD_MAX];
    size_t head_len;
    uint8_t state;
    bool failed;
} kn_multipart;

/* type: the Content-Type field, which has the boundary. */
bool kn_multipart_begin(kn_multipart *m, kn_span type, const kn_multipart_receiver *to, kn_error *err);
bool kn_multipart_feed(kn_multipart *m, kn_span data);

/* No more comes: false if that was not the end. */
bool kn_multipart_end(kn_multipart *m);

#endif
