#include "catalog/pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { LINE_BYTES = KN_ETAG_BYTES + 32, NUMBER_BYTES = 24 };

bool kn_pieces_new(uint64_t bytes, uint64_t piece_bytes, kn_pieces *ret, kn_error *err) {
    size_t count = (size_t)((bytes - 1) / piece_bytes + 1);
    kn_pieces p = { .bytes = bytes, .piece_bytes = piece_bytes, .count = count, .free = count };
    p.state = calloc(count, sizeof *p.state);
    p.part = calloc(count, sizeof *p.part);
    if (!p.state || !p.part) {
        kn_pieces_free(&p);
        return kn_fail_nomem(err, count);
    }
    *ret = p;
    return true;
}

void kn_pieces_free(kn_pieces *p) {
    free(p->state);
    free(p->part);
    *p = (kn_pieces){ 0 };
}

void kn_pieces_clear(kn_pieces *p) {
    memset(p->state, KN_PIECE_FREE, p->count);
    memset(p->part, 0, p->count * sizeof *p->part);
    p->done = 0;
    p->free = p->count;
}

size_t kn_piece_at(const kn_pieces *p, uint64_t at) {
    return (size_t)(at / p->piece_bytes);
}

uint64_t kn_piece_start(const kn_pieces *p, size_t piece) {
    return piece * p->piece_bytes;
}

uint64_t kn_piece_end(const kn_pieces *p, size_t piece) {
    return piece + 1 < p->count ? (piece + 1) * p->piece_bytes : p->bytes;
}

bool kn_pieces_take(kn_pieces *p, size_t most, kn_stretch *ret) {
    const uint8_t *first = p->free ? memchr(p->state, KN_PIECE_FREE, p->count) : NULL;
    if (!first)
        return false;
    size_t from = (size_t)(first - p->state), to = from;
    while (to < p->count && to - from < most && p->state[to] == KN_PIECE_FREE && (to == from || !p->part[to]))
        p->state[to++] = KN_PIECE_TAKEN;
    p->free -= to - from;
    *ret = (kn_stretch){ kn_piece_start(p, from) + p->part[from], kn_piece_end(p, to - 1) };
    return true;
}

void kn_pieces_return(kn_pieces *p, uint64_t from, uint64_t end) {
    for (size_t i = kn_piece_at(p, from); i < p->count && kn_piece_start(p, i) < end; i++) {
        if (p->state[i] != KN_PIECE_TAKEN)
            continue;
        uint64_t start = kn_piece_start(p, i);
        p->state[i] = KN_PIECE_FREE;
        p->part[i] = from > start ? (uint32_t)(from - start) : 0;
        p->free++;
    }
}

void kn_piece_finish(kn_pieces *p, size_t piece) {
    p->free -= p->state[piece] == KN_PIECE_FREE;
    p->done += p->state[piece] != KN_PIECE_DONE;
    p->state[piece] = KN_PIECE_DONE;
}

/* ---- the journal ---- */

static const char title[] = "kuno-download 1";

bool kn_journal_write_head(const kn_pieces *p, const char *sha256, const char *etag, kn_buf *into) {
    return kn_buf_printf(into, "%s\nbytes %" PRIu64 "\nsha256 %s\npiece %" PRIu64 "\n", title, p->bytes, sha256,
                         p->piece_bytes) &&
           (!etag[0] || kn_buf_printf(into, "etag %s\n", etag));
}

bool kn_journal_write_piece(const kn_pieces *p, size_t piece, kn_buf *into) {
    return p->state[piece] == KN_PIECE_DONE ? kn_buf_printf(into, "done %zu\n", piece)
                                            : kn_buf_printf(into, "part %zu %" PRIu32 "\n", piece, p->part[piece]);
}

/* The next whole line without its end, as a text. False: there is none, or no room for it. */
static bool next_line(const char **at, const char *end, char line[LINE_BYTES]) {
    const char *newline = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
    size_t len = newline ? (size_t)(newline - *at) : 0;
    if (!newline || len >= LINE_BYTES || memchr(*at, 0, len))
        return false;
    memcpy(line, *at, len);
    line[len] = 0;
    *at = newline + 1;
    return true;
}

/* What follows the word and a space; NULL: the line begins with something else. */
static const char *after(const char *line, const char *word) {
    size_t n = strlen(word);
    return !strncmp(line, word, n) && line[n] == ' ' ? line + n + 1 : NULL;
}

static bool next_is(const char **at, const char *end, const char *word, uint64_t number) {
    char line[LINE_BYTES];
    uint64_t found;
    const char *value = next_line(at, end, line) ? after(line, word) : NULL;
    return value && kn_parse_u64(value, &found) && found == number;
}

static bool read_head(const char **at, const char *end, const char *sha256, const kn_pieces *p) {
    char line[LINE_BYTES];
    if (!next_line(at, end, line) || strcmp(line, title) != 0 || !next_is(at, end, "bytes", p->bytes) ||
        !next_line(at, end, line))
        return false;
    const char *hash = after(line, "sha256");
    return hash && !strcmp(hash, sha256) && next_is(at, end, "piece", p->piece_bytes);
}

/* "3 524288" */
static bool read_part(const char *value, kn_pieces *p) {
    char number[NUMBER_BYTES];
    const char *space = strchr(value, ' ');
    size_t len = space ? (size_t)(space - value) : 0;
    uint64_t piece, bytes;
    if (!len || len >= sizeof number)
        return false;
    memcpy(number, value, len);
    number[len] = 0;
    if (!kn_parse_u64(number, &piece) || piece >= p->count || !kn_parse_u64(space + 1, &bytes) ||
        bytes >= kn_piece_end(p, (size_t)piece) - kn_piece_start(p, (size_t)piece))
        return false;
    p->part[piece] = (uint32_t)bytes;
    return true;
}

bool kn_journal_read(const char *text, size_t len, const char *sha256, kn_pieces *p, char etag[KN_ETAG_BYTES]) {
    const char *at = text, *end = text + len;
    char line[LINE_BYTES];
    uint64_t piece;
    if (!read_head(&at, end, sha256, p))
        return false;
    etag[0] = 0;
    for (bool first = true; next_line(&at, end, line); first = false) {
        const char *tag = first ? after(line, "etag") : NULL;
        const char *done = after(line, "done"), *part = after(line, "part");
        if (tag && kn_etag_is_strong(tag, strlen(tag)))
            memcpy(etag, tag, strlen(tag) + 1);
        else if (done && kn_parse_u64(done, &piece) && piece < p->count)
            kn_piece_finish(p, (size_t)piece);
        else if (!part || !read_part(part, p))
            break;
    }
    return true;
}
