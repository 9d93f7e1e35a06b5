#include "tensor/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void kn_shape_add(kn_shape_text *s, const char *fmt, ...) {
    size_t at = strlen(s->text);
    if (at > 0 && at + 2 < sizeof s->text) {
        memcpy(s->text + at, ", ", 3);
        at += 2;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->text + at, sizeof s->text - at, fmt, ap);
    va_end(ap);
}

kn_shape_text kn_shape(int rank, const int64_t *dim) {
    kn_shape_text s = { "" };
    for (int i = 0; i < rank && i < KN_MAX_RANK; i++)
        kn_shape_add(&s, "%lld", (long long)dim[i]);
    return s;
}
