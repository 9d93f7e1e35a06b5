/* Any bytes as a history of use: one that is taken is written and read again to the same. */
#include <stdlib.h>
#include <string.h>

#include "gateway/usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_usage u, v;
    kn_error err = { 0 };
    KN_AUTO_BUF first, second;
    kn_buf_init(&first, KN_USAGE_BYTES);
    kn_buf_init(&second, KN_USAGE_BYTES);
    if (!kn_usage_new(&u, &err) || !kn_usage_new(&v, &err))
        abort();
    if (kn_usage_read(&u, (const char *)data, size, &err)) {
        if (!kn_usage_write(&u, &first) || !kn_usage_read(&v, first.data, first.len, &err) ||
            !kn_usage_write(&v, &second) || strcmp(first.data, second.data) != 0)
            abort();
    } else if (err.code == KN_OK) {
        abort();
    }
    kn_usage_free(&u);
    kn_usage_free(&v);
    return 0;
}
