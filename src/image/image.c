#include "image/image.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory that is new is dear: pages of 4 KiB, one by one, take longer than to resize into them. */
static void wish_for_huge_pages(void *p, size_t bytes) {
    enum { WORTH_IT = 4 << 20 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)p % page;
    if (bytes >= WORTH_IT)
        madvise((uint8_t *)p + before, (bytes - before) / page * page, MADV_HUGEPAGE);
}

bool kn_image_new(uint32_t width, uint32_t height, unsigned channels, kn_image *ret, kn_error *err) {
    size_t bytes = channels;
    bool fits = !KN_MUL_OVERFLOWS(bytes, width, &bytes) && !KN_MUL_OVERFLOWS(bytes, height, &bytes);
    kn_image image = { .width = width, .height = height, .channels = channels };
    image.pixels = fits ? malloc(bytes) : NULL;
    if (!image.pixels)
        return kn_fail(err, KN_E_NOMEM, "out of memory for a picture of %ux%u pixels", width, height);
    wish_for_huge_pages(image.pixels, bytes);
    *ret = image;
    return true;
}

void kn_image_free(kn_image *image) {
    free(image->pixels);
    *image = (kn_image){ 0 };
}

kn_image_kind kn_image_kind_of(const void *data, size_t len) {
    static const struct {
        kn_image_kind kind;
        size_t at, len;
        const char *bytes;
    } signs[] = {
        { KN_IMAGE_PNG, 0, 8, "\x89PNG\r\n\x1a\n" },
        { KN_IMAGE_JPEG, 0, 3, "\xFF\xD8\xFF" },
        { KN_IMAGE_WEBP, 8, 4, "WEBP" },
        { KN_IMAGE_GIF, 0, 6, "GIF87a" },
        { KN_IMAGE_GIF, 0, 6, "GIF89a" },
        { KN_IMAGE_BMP, 0, 2, "BM" },
        { KN_IMAGE_TIFF, 0, 4, "II*\0" },
        { KN_IMAGE_TIFF, 0, 4, "MM\0*" },
        { KN_IMAGE_AVIF, 4, 8, "ftypavif" },
        { KN_IMAGE_AVIF, 4, 8, "ftypavis" },
        { KN_IMAGE_HEIF, 4, 8, "ftypheic" },
        { KN_IMAGE_HEIF, 4, 8, "ftypheix" },
        { KN_IMAGE_HEIF, 4, 8, "ftypmif1" },
        { KN_IMAGE_JXL, 0, 2, "\xFF\x0A" },
        { KN_IMAGE_JXL, 0, 8, "\0\0\0\x0CJXL " },
    };
    for (size_t i = 0; i < KN_COUNT(signs); i++) {
        bool fits = len >= signs[i].at + signs[i].len;
        if (fits && memcmp((const char *)data + signs[i].at, signs[i].bytes, signs[i].len) == 0)
            return signs[i].kind;
    }
    return KN_IMAGE_UNKNOWN;
}

const char *kn_image_kind_name(kn_image_kind kind) {
    static const char *const names[] = {
        [KN_IMAGE_UNKNOWN] = "unknown", [KN_IMAGE_PNG] = "PNG",     [KN_IMAGE_JPEG] = "JPEG", [KN_IMAGE_WEBP] = "WebP",
        [KN_IMAGE_GIF] = "GIF",         [KN_IMAGE_BMP] = "BMP",     [KN_IMAGE_TIFF] = "TIFF", [KN_IMAGE_AVIF] = "AVIF",
        [KN_IMAGE_HEIF] = "HEIF",       [KN_IMAGE_JXL] = "JPEG XL",
    };
    return names[kind];
}

bool kn_image_check_file(const void *data, size_t len, const kn_image_limits *limits, kn_image_kind *ret,
                         kn_error *err) {
    if (!len)
        return kn_fail(err, KN_E_FORMAT, "is empty");
    if (len > limits->bytes)
        return kn_fail(err, KN_E_RANGE, "has %zu bytes, at most %zu are allowed", len, limits->bytes);
    kn_image_kind kind = kn_image_kind_of(data, len);
    if (kind == KN_IMAGE_UNKNOWN)
        return kn_fail(err, KN_E_FORMAT, "is not a picture of a known format");
    *ret = kind;
    return true;
}

bool kn_image_check_size(uint32_t width, uint32_t height, const kn_image_limits *limits, kn_error *err) {
    if (width > limits->side || height > limits->side)
        return kn_fail(err, KN_E_RANGE, "is %ux%u pixels large; at most %u are allowed on a side", width, height,
                       limits->side);
    if ((uint64_t)width * height > limits->pixels)
        return kn_fail(err, KN_E_RANGE, "is %ux%u pixels large; at most %llu are allowed in all", width, height,
                       (unsigned long long)limits->pixels);
    return true;
}
