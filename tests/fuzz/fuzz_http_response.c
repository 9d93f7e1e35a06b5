/* The strict reader of answers, as answers to GET and to HEAD; the same promises as in fuzz_http_request.c. */
#include <stdint.h>

#include "fuzz_http.h"
#include "http/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void pass_on(const kn_head *h, bool to_head) {
    static char text[KN_HTTP_WRITE_MAX];
    static kn_head next;
    bool chunked = h->framing == KN_BODY_CHUNKED || h->framing == KN_BODY_UNTIL_CLOSE;
    kn_writer w = { text, 0, sizeof text, false };
    kn_write_response(&w, h, &(kn_rewrite){ .chunked = chunked });
    require(!w.full);
    if (!scans_again(h, text, w.len, chunked))
        return;
    require(kn_response_parse(&next, text, w.len, to_head));
    if (h->framing == KN_BODY_NONE && !h->content_length && !kn_head_find(&next, KN_FIELD_CONTENT_LENGTH, NULL))
        require(next.framing == KN_BODY_NONE);
    else
        require(next.framing == (chunked ? KN_BODY_CHUNKED : h->framing) && next.status == h->status &&
                next.reason.len == h->reason.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kn_head h;
    const char *text = (const char *)data;
    size_t len, len_by_bytes;
    unsigned scanned = scan_in_steps(text, size, size ? size : 1, &len);
    require(scan_in_steps(text, size, 1, &len_by_bytes) == scanned && len == len_by_bytes);
    if (scanned != KN_SCAN_COMPLETE)
        return 0;
    for (int to_head = 0; to_head <= 1; to_head++) {
        if (!kn_response_parse(&h, text, len, to_head))
            continue;
        require(h.status >= 100 && h.status <= 999 && h.status != 101);
        require(!to_head || h.framing == KN_BODY_NONE);
        look_at_head(&h, text, len);
        read_body_both_ways(&h, text + len, size - len);
        pass_on(&h, to_head);
    }
    return 0;
}
