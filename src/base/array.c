#include "base/array.h"

#include <stdlib.h>

void *kn_array_grow(void *items, size_t n, size_t *room, size_t size, kn_error *err) {
    if (n < *room)
        return items;
    size_t more = *room ? *room * 2 : 2, bytes = 0;
    void *bigger = KN_MUL_OVERFLOWS(more, size, &bytes) ? NULL : realloc(items, bytes);
    if (bigger)
        *room = more;
    else
        kn_fail_nomem(err, bytes);
    return bigger;
}
