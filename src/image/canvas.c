#include "image/canvas.h"

#include <string.h>

uint32_t kn_side_on_grid(uint32_t side, uint32_t step) {
    return (side + step - 1) / step * step;
}

bool kn_image_extend(const kn_image *picture, kn_sides by, kn_image *ret, kn_error *err) {
    static const uint8_t grey[4] = { 128, 128, 128, 255 };
    uint32_t width = by.left + picture->width + by.right, height = by.top + picture->height + by.bottom;
    kn_image canvas = { 0 };
    if (!kn_image_new(width, height, picture->channels, &canvas, err))
        return false;
    for (size_t i = 0; i < (size_t)width * height; i++)
        memcpy(canvas.pixels + i * canvas.channels, grey, canvas.channels);
    size_t row = (size_t)picture->width * picture->channels;
    for (uint32_t y = 0; y < picture->height; y++)
        memcpy(canvas.pixels + ((size_t)(by.top + y) * width + by.left) * canvas.channels, picture->pixels + y * row,
               row);
    *ret = canvas;
    return true;
}

/* From a pixel inside the picture to the next side that something was added to. */
static uint32_t distance(uint32_t x, uint32_t y, uint32_t width, uint32_t height, kn_sides by) {
    uint32_t d = by.left ? x : UINT32_MAX;
    d = by.right ? KN_MIN(d, width - x) : d;
    d = by.top ? KN_MIN(d, y) : d;
    return by.bottom ? KN_MIN(d, height - y) : d;
}

bool kn_mask_of_sides(uint32_t width, uint32_t height, kn_sides by, uint32_t fade, kn_mask *ret, kn_error *err) {
    kn_mask m = { 0 };
    bool fades = fade > 0 && 2 * (uint64_t)fade < KN_MIN(width, height);
    if (!kn_mask_new(by.left + width + by.right, by.top + height + by.bottom, &m, err))
        return false;
    for (size_t i = 0; i < (size_t)m.width * m.height; i++)
        m.at[i] = 1;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint32_t d = distance(x, y, width, height, by);
            float share = fades && d < fade ? (float)(fade - d) / (float)fade : 0;
            m.at[(size_t)(by.top + y) * m.width + by.left + x] = share * share;
        }
    }
    *ret = m;
    return true;
}

bool kn_image_pad(const kn_image *picture, uint32_t width, uint32_t height, kn_image *ret, kn_error *err) {
    unsigned channels = picture->channels;
    kn_image canvas = { 0 };
    if (!kn_image_new(width, height, channels, &canvas, err))
        return false;
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *from = picture->pixels + (size_t)KN_MIN(y, picture->height - 1) * picture->width * channels;
        uint8_t *to = canvas.pixels + (size_t)y * width * channels;
        for (uint32_t x = 0; x < width; x++)
            memcpy(to + (size_t)x * channels, from + (size_t)KN_MIN(x, picture->width - 1) * channels, channels);
    }
    *ret = canvas;
    return true;
}

bool kn_mask_pad(const kn_mask *m, uint32_t width, uint32_t height, kn_mask *ret, kn_error *err) {
    if (!kn_mask_new(width, height, ret, err))
        return false;
    for (uint32_t y = 0; y < height; y++) {
        const float *from = m->at + (size_t)KN_MIN(y, m->height - 1) * m->width;
        for (uint32_t x = 0; x < width; x++)
            ret->at[(size_t)y * width + x] = from[KN_MIN(x, m->width - 1)];
    }
    return true;
}

void kn_image_cut(kn_image *picture, uint32_t width, uint32_t height) {
    size_t from = (size_t)picture->width * picture->channels, to = (size_t)width * picture->channels;
    for (uint32_t y = 0; y < height; y++)
        memmove(picture->pixels + y * to, picture->pixels + y * from, to);
    picture->width = width;
    picture->height = height;
}
