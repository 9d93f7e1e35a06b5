#include "image/size.h"

#include <string.h>

#include "image/image.h"

/* ---- PNG: the first chunk ---- */

static uint32_t big(const uint8_t *p, unsigned bytes) {
    uint32_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

static uint32_t little(const uint8_t *p, unsigned bytes) {
    uint32_t v = 0;
    while (bytes--)
        v = v << 8 | p[bytes];
    return v;
}

static bool png_size(const uint8_t *p, size_t len, uint32_t *w, uint32_t *h) {
    enum { TYPE = 12, WIDTH = 16, HEIGHT = 20, END = 24 };
    if (len < END || memcmp(p + TYPE, "IHDR", 4) != 0)
        return false;
    *w = big(p + WIDTH, 4);
    *h = big(p + HEIGHT, 4);
    return true;
}

/* ---- JPEG: the segment that begins a frame (ITU-T T.81, table B.1) ---- */

static bool begins_frame(uint8_t marker) {
    enum { SOF0 = 0xC0, DHT = 0xC4, JPG = 0xC8, DAC = 0xCC, SOF15 = 0xCF };
    return marker >= SOF0 && marker <= SOF15 && marker != DHT && marker != JPG && marker != DAC;
}

static bool jpeg_size(const uint8_t *p, size_t len, uint32_t *w, uint32_t *h) {
    enum { FRAME_BYTES = 9 };
    for (size_t at = 2; len - at >= FRAME_BYTES && p[at] == 0xFF;) {
        if (p[at + 1] == 0xFF) { /* fills */
            at++;
            continue;
        }
        if (begins_frame(p[at + 1])) {
            *h = big(p + at + 5, 2);
            *w = big(p + at + 7, 2);
            return true;
        }
        size_t step = 2 + (size_t)big(p + at + 2, 2);
        if (step < 4 || step > len - at)
            return false;
        at += step;
    }
    return false;
}

/* ---- WebP: the first chunk (RFC 9649, section 2) ---- */

static bool webp_size(const uint8_t *p, size_t len, uint32_t *w, uint32_t *h) {
    enum { TYPE = 12, DATA = 20, END = 30 };
    if (len < END)
        return false;
    if (!memcmp(p + TYPE, "VP8X", 4)) {
        *w = little(p + DATA + 4, 3) + 1;
        *h = little(p + DATA + 7, 3) + 1;
    } else if (!memcmp(p + TYPE, "VP8L", 4)) {
        uint32_t bits = little(p + DATA + 1, 4);
        *w = (bits & 0x3FFF) + 1;
        *h = (bits >> 14 & 0x3FFF) + 1;
    } else if (!memcmp(p + TYPE, "VP8 ", 4)) {
        *w = little(p + DATA + 6, 2) & 0x3FFF;
        *h = little(p + DATA + 8, 2) & 0x3FFF;
    } else {
        return false;
    }
    return true;
}

bool kn_image_size_of(const void *data, size_t len, uint32_t *ret_width, uint32_t *ret_height) {
    switch (kn_image_kind_of(data, len)) {
    case KN_IMAGE_PNG: return png_size(data, len, ret_width, ret_height);
    case KN_IMAGE_JPEG: return jpeg_size(data, len, ret_width, ret_height);
    case KN_IMAGE_WEBP: return webp_size(data, len, ret_width, ret_height);
    default: return false;
    }
}
