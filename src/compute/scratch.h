/* The memory of one run: tensors come and go in one reserved range of addresses.
 *
 * The range is reserved whole and made usable in steps as it fills, so memory that no tensor ever reached costs
 * nothing. Blocks are 64-byte aligned; the smallest hole that fits is taken, so the range stays as short as it can.
 * Every block belongs to the scope in which it was made. Offsets are from the start of the range. Under
 * AddressSanitizer everything outside live blocks is poisoned, a gap behind each block included. */
#ifndef KN_COMPUTE_SCRATCH_H
#define KN_COMPUTE_SCRATCH_H

#include <stdint.h>

#include "base/error.h"

typedef struct kn_scratch kn_scratch;

/* limit_bytes: 0 = physical memory. */
bool kn_scratch_new(uint64_t limit_bytes, kn_scratch **ret, kn_error *err);
/* Gives out addresses that must not be touched: tells what a computation would need, were it more than there is. */
bool kn_scratch_new_unbacked(kn_scratch **ret, kn_error *err);
void kn_scratch_free(kn_scratch *s);

void *kn_scratch_take(kn_scratch *s, uint64_t bytes, kn_error *err); /* NULL: no room */
void kn_scratch_give(kn_scratch *s, const void *address);            /* the address that take returned */

int kn_scratch_open_scope(kn_scratch *s); /* the new depth */
/* Gives back what was made at this depth or deeper, but hands the block that holds `keep` (may be NULL) outwards. */
void kn_scratch_close_scope(kn_scratch *s, int depth, const void *keep);

/* Highest end of a live block since the last call: the memory that the run really needed, holes included. */
uint64_t kn_scratch_peak(kn_scratch *s);

#endif
