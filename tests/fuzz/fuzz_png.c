/* Any bytes as a PNG file: pixels, texts, and the recipe among the texts. What is read must be whole and in bounds. */
#include <stdlib.h>

#include "image/parameters.h"
#include "image/png.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const kn_image_limits limits = { .bytes = 1 << 20, .side = 2048, .pixels = 1 << 16 };
    kn_error err = { 0 };
    kn_image image = { 0 };
    if (kn_png_read(data, size, &limits, &image, &err)) {
        volatile uint8_t last = image.pixels[(size_t)image.width * image.height * image.channels - 1];
        (void)last;
        if (image.channels != 4 || (uint64_t)image.width * image.height > limits.pixels)
            abort();
        kn_image_free(&image);
    } else if (err.code == KN_OK) {
        abort();
    }
    kn_png_texts texts = { 0 };
    err = (kn_error){ 0 };
    if (kn_png_texts_read(data, size, &limits, &texts, &err)) {
        for (size_t i = 0; i < texts.count; i++) {
            kn_parameters p = { 0 };
            if (kn_parameters_read(texts.items[i].text, &p, NULL))
                kn_parameters_free(&p);
        }
        kn_png_texts_free(&texts);
    } else if (err.code == KN_OK) {
        abort();
    }
    return 0;
}
