/* Which parts of a file are there: pieces of 8 MiB, each of them free, taken by a connection, or done; and the journal,
 * the text that says so beside an unfinished file:
 *
 *     kuno-download 1
 *     bytes 7256783064
 *     sha256 cb74113cb03faecd79611b01fd7fd642f0aa60d6f0b95086abee214d75eaa57d
 *     piece 8388608
 *     etag "5f2c"
 *     done 0
 *     part 3 524288
 *     done 4
 *
 * A part is the beginning of a piece: on slow lines a piece takes minutes. Lines are only added, each after the bytes
 * that it speaks of are on the disk. Whatever is not understood ends the reading: a line that was cut off by the end of
 * the power is as if it had never been. */
#ifndef KN_CATALOG_PIECES_H
#define KN_CATALOG_PIECES_H

#include "base/buf.h"
#include "catalog/answer.h"
#include "catalog/collections.h"

enum { KN_PIECE_BYTES = 8 << 20, KN_JOURNAL_BYTES = 64 << 20 };

typedef enum kn_piece_state { KN_PIECE_FREE, KN_PIECE_TAKEN, KN_PIECE_DONE } kn_piece_state;

typedef struct kn_pieces {
    uint64_t bytes; /* of the file */
    uint64_t piece_bytes;
    size_t count, done, free;
    uint8_t *state; /* kn_piece_state of each */
    uint32_t *part; /* of each that is free: how many of its first bytes are there */
} kn_pieces;

/* Bytes from `at` to `end`, which begins where a piece does or inside of one. */
typedef struct kn_stretch {
    uint64_t at, end;
} kn_stretch;

bool kn_pieces_new(uint64_t bytes, uint64_t piece_bytes, kn_pieces *ret, kn_error *err);
void kn_pieces_free(kn_pieces *p);
void kn_pieces_clear(kn_pieces *p); /* nothing is there any more */

size_t kn_piece_at(const kn_pieces *p, uint64_t at);
uint64_t kn_piece_start(const kn_pieces *p, size_t piece);
uint64_t kn_piece_end(const kn_pieces *p, size_t piece);

/* Takes the first free piece and the free ones behind it, at most so many. False: none is free. */
bool kn_pieces_take(kn_pieces *p, size_t most, kn_stretch *ret);

/* Bytes from `from` to `end` were not fetched: pieces become free, what comes before `from` in its piece is there. */
void kn_pieces_return(kn_pieces *p, uint64_t from, uint64_t end);
void kn_piece_finish(kn_pieces *p, size_t piece);

/* The journal's first lines. etag may be empty. */
bool kn_journal_write_head(const kn_pieces *p, const char *sha256, const char *etag, kn_buf *into) KN_MUST_USE;
bool kn_journal_write_piece(const kn_pieces *p, size_t piece, kn_buf *into) KN_MUST_USE;

/* Marks in p, where nothing is done yet, what a journal tells. False: it is none, or of another file; nothing is
 * changed then. */
bool kn_journal_read(const char *text, size_t len, const char *sha256, kn_pieces *p, char etag[KN_ETAG_BYTES]);

#endif
