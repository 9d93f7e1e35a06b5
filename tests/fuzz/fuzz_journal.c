/* Any bytes as the journal of an unfinished file, and as the lines of a server's answer. */
#include <stdlib.h>
#include <string.h>

#include "catalog/pieces.h"

static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was understood is written and read again to the same. */
static void check_journal(const kn_pieces *p, const char *etag) {
    kn_pieces again;
    char tag[KN_ETAG_BYTES];
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1 << 20);
    if (!kn_pieces_new(p->bytes, p->piece_bytes, &again, NULL) || !kn_journal_write_head(p, hash, etag, &text))
        abort();
    size_t done = 0;
    for (size_t i = 0; i < p->count; i++) {
        done += p->state[i] == KN_PIECE_DONE;
        if (!kn_journal_write_piece(p, i, &text))
            abort();
    }
    if (done != p->done || !kn_journal_read(text.data, text.len, hash, &again, tag) || strcmp(tag, etag) != 0 ||
        memcmp(p->state, again.state, p->count) != 0)
        abort();
    kn_pieces_free(&again);
}

static void check_answer(const char *data, size_t size) {
    kn_answer a;
    kn_answer_begin(&a);
    while (size) {
        const char *newline = memchr(data, '\n', size);
        size_t len = newline ? (size_t)(newline - data) + 1 : size;
        kn_answer_line(&a, data, len);
        data += len;
        size -= len;
    }
    if (!a.is_nonsense && a.has_range && (a.first > a.last || (a.total != KN_SIZE_UNKNOWN && a.last >= a.total)))
        abort();
    if (a.etag[0] && !kn_etag_is_strong(a.etag, strlen(a.etag)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_pieces p;
    char etag[KN_ETAG_BYTES];
    if (!kn_pieces_new(1001, 100, &p, NULL))
        abort();
    if (kn_journal_read((const char *)data, size, hash, &p, etag))
        check_journal(&p, etag);
    kn_pieces_free(&p);
    check_answer((const char *)data, size);
    return 0;
}
