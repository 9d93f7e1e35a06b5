/* The strict reader of requests. Beyond memory errors: bytes that come one by one are understood as those that come at
 * once, and a request that is passed on is understood by the next reader exactly as it was by us. */
#include <stdint.h>

#include "fuzz_http.h"
#include "http/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A request is passed on and read again. */
static void pass_on(const kn_head *h) {
    static char text[KN_HTTP_WRITE_MAX];
    static kn_head next;
    kn_writer w = { text, 0, sizeof text, false };
    kn_rewrite how = { .chunked = h->framing == KN_BODY_CHUNKED };
    kn_write_request(&w, h, &how);
    require(!w.full);
    if (!scans_again(h, text, w.len, how.chunked))
        return;
    unsigned status = kn_request_parse(&next, text, w.len);
    /* A request of HTTP/1.0 may have no Host, and gets that of the upstream, which is not at hand here. */
    if (status)
        require(!h->minor && status == 400);
    else
        require(next.framing == h->framing && next.content_length == h->content_length && next.keep_alive &&
                next.method.len == h->method.len && next.target.len == h->target.len &&
                !memcmp(next.target.data, h->target.data, h->target.len));
}

/* What is refused is looked at, too, whatever it is. */
static void glance(const char *text, size_t size) {
    kn_span method, target;
    kn_request_glance(text, size, &method, &target);
    require(is_within(text, size, method) && is_within(text, size, target));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kn_head h;
    const char *text = (const char *)data;
    size_t len, len_by_bytes;
    glance(text, size);
    unsigned scanned = scan_in_steps(text, size, size ? size : 1, &len);
    require(scan_in_steps(text, size, 1, &len_by_bytes) == scanned && len == len_by_bytes);
    if (scanned != KN_SCAN_COMPLETE || len == 2)
        return 0;
    unsigned status = kn_request_parse(&h, text, len);
    require(status == 0 || (status >= 400 && status <= 505));
    if (status)
        return 0;
    look_at_head(&h, text, len);
    require(h.framing != KN_BODY_UNTIL_CLOSE);
    read_body_both_ways(&h, text + len, size - len);
    pass_on(&h);
    return 0;
}
