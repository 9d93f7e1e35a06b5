/* Any bytes as a picture file of any kind: what is read must be whole and in bounds, what is not must have a reason. */
#include <stdlib.h>

#include "image/read.h"

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
    return 0;
}
