/* Pictures on their way to clients, piece by piece: a slow reader holds one piece in memory, whatever the file's size.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "studio/api_visit.h"
#include "studio/compat/compat.h"

enum { PIECE_BYTES = 256 << 10 };

bool kn_visit_open_file(kn_visit *v, kn_store *s, const char *room, const char *name, kn_error *err) {
    char *path;
    struct stat st;
    if (!kn_store_path(s, room, name, &path, err))
        return false;
    v->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    free(path);
    if (v->fd < 0 || fstat(v->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return kn_fail(err, KN_E_NOT_FOUND, "the file is not there");
    v->at = 0;
    v->end = (uint64_t)st.st_size;
    return true;
}

static bool deny_damaged(kn_visit *v) {
    return kn_visit_deny(v, 409, "damaged", "The picture's file is not what was saved", NULL);
}

bool kn_visit_read_picture(kn_visit *v, kn_store *s, const kn_record *r, size_t limit, kn_buf *into, kn_error *err) {
    return kn_gallery_read(s, r, limit, into, err) || (err->code == KN_E_FORMAT && deny_damaged(v));
}

bool kn_visit_open_picture(kn_visit *v, kn_store *s, const char *room, const char *name, uint64_t bytes,
                           kn_error *err) {
    if (!kn_visit_open_file(v, s, room, name, err))
        return false;
    if (v->end == bytes)
        return true;
    kn_fail(err, KN_E_FORMAT, "it has %" PRIu64 " bytes, %" PRIu64 " were saved", v->end, bytes);
    return deny_damaged(v);
}

/* "bytes=0-99", "bytes=100-", "bytes=-50" of `size` bytes. Whatever else it says, the whole file is an answer, too. */
static bool read_range(const char *text, uint64_t size, uint64_t *ret_first, uint64_t *ret_end) {
    char digits[24] = "";
    uint64_t first = 0, last = 0;
    if (strncmp(text, "bytes=", 6) != 0 || strlen(text) > 50)
        return false;
    const char *from = text + 6, *dash = strchr(from, '-');
    if (!dash || (size_t)(dash - from) >= sizeof digits || !size)
        return false;
    memcpy(digits, from, (size_t)(dash - from));
    bool has_first = dash > from, has_last = dash[1];
    if ((!has_first && !has_last) || (has_first && !kn_parse_u64(digits, &first)) ||
        (has_last && !kn_parse_u64(dash + 1, &last)))
        return false;
    if (!has_first) {
        if (!last)
            return false;
        *ret_first = size - KN_MIN(last, size);
        *ret_end = size;
        return true;
    }
    if (first >= size || (has_last && last < first))
        return false;
    *ret_first = first;
    *ret_end = has_last && last < size - 1 ? last + 1 : size;
    return true;
}

/* `"a", W/"b"` or `*`. */
static bool names_etag(const char *list, const char *etag) {
    const char *at = strstr(list, etag);
    size_t len = strlen(etag);
    return !strcmp(list, "*") || (at && at > list && at[-1] == '"' && at[len] == '"');
}

static bool read_piece(kn_visit *v, kn_store *s, kn_error *err) {
    (void)s;
    size_t want = (size_t)KN_MIN(v->end - v->at, (uint64_t)PIECE_BYTES);
    kn_buf_clear(&v->body);
    if (!kn_buf_reserve(&v->body, want))
        return kn_fail_nomem(err, want);
    ssize_t n = pread(v->fd, v->body.data, want, (off_t)v->at);
    if (n <= 0)
        return kn_fail(err, KN_E_TRUNCATED, "the file became shorter while it was read");
    v->body.len = (size_t)n;
    v->at += (uint64_t)n;
    return true;
}

static void piece_is_there(kn_visit *v) {
    if (!v->x)
        return;
    kn_exchange_send(v->x, v->body.data, v->body.len);
    if (v->at == v->end)
        kn_exchange_send_end(v->x);
}

/* A failure in the middle must not look like the end. */
static bool try_piece(kn_visit *v, kn_store *s, kn_error *err) {
    v->flag = !read_piece(v, s, err);
    return true;
}

static void piece_was_tried(kn_visit *v) {
    if (v->flag && v->x)
        kn_exchange_break(v->x);
    else
        piece_is_there(v);
}

void kn_api_writable(kn_exchange *x) {
    kn_visit *v = *kn_exchange_user(x);
    if (v->compat)
        kn_compat_pump(v);
    else if (v->fd < 0)
        kn_events_pump(v);
    else if (!v->in_flight && v->at < v->end)
        kn_visit_send(v, try_piece, piece_was_tried);
    else if (v->at == v->end)
        kn_exchange_send_end(x);
}

void kn_visit_send_file(kn_visit *v, const char *type, const char *etag) {
    char text[200];
    uint64_t size = v->end;
    if (!v->x)
        return;
    int len = snprintf(v->fields, sizeof v->fields,
                       "ETag: \"%s\"\r\nCache-Control: private, no-cache\r\nAccept-Ranges: bytes\r\n"
                       "X-Content-Type-Options: nosniff\r\n",
                       etag);
    if (kn_visit_field(v, "If-None-Match", text, sizeof text) && names_etag(text, etag)) {
        kn_exchange_reply(v->x, &(kn_reply){ .status = 304, .fields = v->fields });
        return;
    }
    bool part = kn_visit_field(v, "Range", text, sizeof text) && read_range(text, size, &v->at, &v->end);
    if (part)
        snprintf(v->fields + len, sizeof v->fields - (size_t)len,
                 "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", v->at, v->end - 1, size);
    kn_exchange_stream(
        v->x,
        &(kn_reply){ .status = part ? 206 : 200, .type = type, .fields = v->fields, .len = (size_t)(v->end - v->at) },
        true);
}

void kn_visit_send_bytes(kn_visit *v, const char *type, const void *data, size_t len) {
    char fields[sizeof v->fields + 100];
    snprintf(fields, sizeof fields, "Cache-Control: private, no-cache\r\nX-Content-Type-Options: nosniff\r\n%s",
             v->fields);
    if (v->x)
        kn_exchange_reply(v->x, &(kn_reply){ .status = 200, .type = type, .fields = fields, .body = data, .len = len });
}
