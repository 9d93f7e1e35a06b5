/* A thread beside the network's, for what takes a disk and a processor: it hashes a file as far as it is there without
 * a gap, and from time to time has what came written to the disk and then noted in the journal, in this order.
 *
 * Pieces come in any order, the hash is made in theirs: what lies at the front is read back from memory, where it still
 * is, while the next pieces are on their way, so that almost nothing is left to do at the end. What an earlier call has
 * fetched is read from the disk and hashed like everything else. */
#ifndef KN_CATALOG_KEEPER_H
#define KN_CATALOG_KEEPER_H

#include "catalog/partial.h"
#include "catalog/pieces.h"

typedef struct kn_keeper kn_keeper;

/* pieces: those that are there already. Both stay the caller's; the thread does not look at `pieces` again. */
bool kn_keeper_new(const kn_partial *part, const kn_pieces *pieces, const char *sha256, kn_keeper **ret, kn_error *err);
void kn_keeper_free(kn_keeper *k); /* notes what came before; NULL is fine */

/* The file begins anew: a new journal is on the disk when this returns. */
bool kn_keeper_restart(kn_keeper *k, const char *etag, kn_error *err);

/* A piece has been written. False: something that the thread did has failed. */
bool kn_keeper_piece(kn_keeper *k, size_t piece, kn_error *err);

/* So many bytes from the beginning of a piece have been written. */
bool kn_keeper_part(kn_keeper *k, size_t piece, uint32_t bytes, kn_error *err);

/* Waits a little for the end of the hash, once all pieces are there. *ret_done: whether it has come; hash: then it. */
bool kn_keeper_finish(kn_keeper *k, unsigned wait_ms, bool *ret_done, char hash[KN_SHA256_HEX], kn_error *err);
uint64_t kn_keeper_hashed_bytes(kn_keeper *k);

#endif
