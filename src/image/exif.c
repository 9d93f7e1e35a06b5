#include "image/exif.h"

#include <stdbool.h>
#include <string.h>

/* TIFF data, whose numbers are little-endian ("II") or big-endian ("MM"). */
struct tiff {
    const uint8_t *data;
    size_t len;
    bool big;
};

static uint32_t number(const struct tiff *t, size_t at, size_t bytes) {
    uint32_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | t->data[at + (t->big ? i : bytes - 1 - i)];
    return v;
}

static bool has(const struct tiff *t, size_t at, size_t bytes) {
    return at <= t->len && bytes <= t->len - at;
}

int kn_exif_orientation(const uint8_t *data, size_t len) {
    enum { HEADER = 8, COUNT = 2, FIELD = 12, TAG = 0x0112, SHORT = 3 };
    static const char mark[6] = "Exif\0";
    if (len >= sizeof mark && memcmp(data, mark, sizeof mark) == 0) {
        data += sizeof mark;
        len -= sizeof mark;
    }
    struct tiff t = { .data = data, .len = len };
    if (!has(&t, 0, HEADER))
        return KN_EXIF_UPRIGHT;
    t.big = data[0] == 'M';
    if ((memcmp(data, "II", 2) != 0 && memcmp(data, "MM", 2) != 0) || number(&t, 2, 2) != 42)
        return KN_EXIF_UPRIGHT;
    size_t at = number(&t, 4, 4); /* the first directory: a count, then fields of tag, type, count, value */
    if (!has(&t, at, COUNT))
        return KN_EXIF_UPRIGHT;
    size_t fields = number(&t, at, COUNT);
    at += COUNT;
    for (size_t i = 0; i < fields && has(&t, at, FIELD); i++, at += FIELD) {
        if (number(&t, at, 2) != TAG)
            continue;
        uint32_t value = number(&t, at + 8, 2);
        bool good = number(&t, at + 2, 2) == SHORT && number(&t, at + 4, 4) == 1 && value >= 1 && value <= 8;
        return good ? (int)value : KN_EXIF_UPRIGHT;
    }
    return KN_EXIF_UPRIGHT;
}
