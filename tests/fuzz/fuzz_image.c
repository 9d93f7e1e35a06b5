/* Any bytes as a picture file of any kind: what is read must be whole and in bounds, what is not must have a reason.
 * The text in its notes is UTF-8 or nothing, and so is the name of its colour profile, which the bytes may be, too. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "image/icc.h"
#include "image/read.h"
#include "image/size.h"
#include "image/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(kn_icc_name name) {
    size_t len = strnlen(name.text, sizeof name.text);
    if (len == sizeof name.text || kn_utf8_check(name.text, len) != len)
        abort();
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name.text[i] < ' ' || name.text[i] == 0x7F)
            abort();
}

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
    check_name(kn_icc_name_in(data, size));
    check_name(kn_icc_name_of(data, size));
    uint32_t width, height;
    kn_image_size_of(data, size, &width, &height);
    return 0;
}
