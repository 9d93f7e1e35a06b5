/* Arrays that grow by doubling. */
#ifndef KN_BASE_ARRAY_H
#define KN_BASE_ARRAY_H

#include <stddef.h>

#include "base/error.h"

/* Room for one more in an array that holds n items of `size` bytes and has *room places. Returns the array, which may
 * have moved; NULL when memory is out, and then nothing has changed. */
void *kn_array_grow(void *items, size_t n, size_t *room, size_t size, kn_error *err) KN_MUST_USE;

#endif
