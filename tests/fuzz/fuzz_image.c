/* Any bytes as a picture file of any kind: what is read must be whole and in bounds, what is not must have a reason.
 * The text in its notes is UTF-8 or nothing. */
#include <stdlib.h>

#include "base/text.h"
#include "image/read.h"
#include "image/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const kn_image_limits limits = { .bytes = 1 << 20, .side = 2048, .pixels = 1 << 16 };
    kn_error err = { 0 };
    kn_image image = { 0 };
    if (kn_image_read(data, size, &limits, &image, &err)) {
        unsigned sum = 0;
        for (size_t i = 0; i < (size_t)image.width * image.height * image.channels; i++)
            sum += image.pixels[i];
        volatile unsigned seen = sum;
        (void)seen;
        if (image.channels != 4 || (uint64_t)image.width * image.height > limits.pixels)
            abort();
        kn_image_free(&image);
    } else if (err.code == KN_OK) {
        abort();
    }
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1 << 16);
    bool any = kn_image_parameters(data, size, &text);
    if (any ? kn_utf8_check(text.data, text.len) != text.len : text.len)
        abort();
    return 0;
}
