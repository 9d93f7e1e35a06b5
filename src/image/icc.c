#include "image/icc.h"

#include <string.h>

#include "base/text.h"
#include "image/image.h"
#include "image/jpeg.h"
#include "image/png.h"
#include "image/webp.h"

/* A head, a table of tags, and behind it what they point to. */
enum {
    HEAD = 128,
    SIGNATURE_AT = 36,
    WORD = 4,
    ENTRY = 3 * WORD, /* signature, place, size */
    TAGS_MAX = 200,   /* real ones have about twenty */
    REPLACEMENT = 0xFFFD,
};

/* Bytes of a profile: the whole, or one tag. */
struct part {
    const uint8_t *data;
    size_t len;
};

/* 0 where there are no such bytes. */
static uint32_t number_at(struct part p, size_t at) {
    if (at > p.len || p.len - at < WORD)
        return 0;
    const uint8_t *n = p.data + at;
    return (uint32_t)n[0] << 24 | (uint32_t)n[1] << 16 | (uint32_t)n[2] << 8 | n[3];
}

static bool is_at(struct part p, size_t at, const char *word) {
    return at <= p.len && p.len - at >= WORD && memcmp(p.data + at, word, WORD) == 0;
}

/* What is not within the whole is empty. */
static struct part part_of(struct part whole, size_t at, size_t len) {
    bool within = len && at <= whole.len && len <= whole.len - at;
    return within ? (struct part){ whole.data + at, len } : (struct part){ 0 };
}

static struct part find_description(struct part profile) {
    uint32_t count = KN_MIN(number_at(profile, HEAD), (uint32_t)TAGS_MAX);
    for (uint32_t i = 0; is_at(profile, SIGNATURE_AT, "acsp") && i < count; i++) {
        size_t at = HEAD + WORD + (size_t)i * ENTRY;
        if (is_at(profile, at, "desc"))
            return part_of(profile, number_at(profile, at + WORD), number_at(profile, at + 2 * WORD));
    }
    return (struct part){ 0 };
}

/* A character that can be shown, if there is room. False: the name ends here. */
static bool add(kn_icc_name *name, uint32_t c) {
    char utf8[4];
    size_t len = strlen(name->text), n = kn_utf8_put(c, utf8);
    bool shows = c >= 0x20 && (c < 0x7F || c >= 0xA0) && (len || c != ' ');
    if (!c || n >= sizeof name->text - len)
        return false;
    if (shows)
        memcpy(name->text + len, utf8, n);
    return true;
}

/* Version 2: by its standard ASCII, and in files also UTF-8 or Latin-1. */
static void read_plain(struct part tag, kn_icc_name *name) {
    enum { LENGTH_AT = 2 * WORD, TEXT_AT = 3 * WORD };
    struct part text = part_of(tag, TEXT_AT, number_at(tag, LENGTH_AT));
    const char *at = (const char *)text.data, *end = at ? at + text.len : at;
    uint32_t c = 0;
    do {
        if (at == end)
            return;
        if (!kn_utf8_next(&at, end, &c))
            c = (unsigned char)*at++;
    } while (add(name, c));
}

/* Version 4: UTF-16 in several languages. English is what people know profiles by. */
static void read_translated(struct part tag, kn_icc_name *name) {
    enum { COUNT_AT = 2 * WORD, SIZE_AT = 3 * WORD, LIST_AT = 4 * WORD, LEAST = 3 * WORD, LANGUAGES_MAX = 200 };
    uint32_t count = KN_MIN(number_at(tag, COUNT_AT), (uint32_t)LANGUAGES_MAX), size = number_at(tag, SIZE_AT);
    struct part text = { 0 };
    for (uint32_t i = 0; size >= LEAST && i < count; i++) {
        struct part record = part_of(tag, LIST_AT + (size_t)i * size, LEAST);
        bool english = record.len && memcmp(record.data, "en", 2) == 0;
        if (i == 0 || english)
            text = part_of(tag, number_at(record, 2 * WORD), number_at(record, WORD));
        if (english)
            break;
    }
    const uint8_t *at = text.data, *end = at ? at + text.len : at;
    uint32_t c = 0;
    do {
        if (end - at < 2)
            return;
        if (!kn_utf16_next(&at, end, false, &c)) {
            c = REPLACEMENT;
            at += 2;
        }
    } while (add(name, c));
}

kn_icc_name kn_icc_name_of(const void *profile, size_t len) {
    kn_icc_name name = { { 0 } };
    struct part tag = find_description((struct part){ profile, len });
    if (is_at(tag, 0, "desc"))
        read_plain(tag, &name);
    else if (is_at(tag, 0, "mluc"))
        read_translated(tag, &name);
    for (size_t n = strlen(name.text); n && name.text[n - 1] == ' '; n--)
        name.text[n - 1] = 0;
    return name.text[0] ? name : (kn_icc_name){ KN_ICC_UNKNOWN };
}

kn_icc_name kn_icc_name_in(const void *file, size_t len) {
    KN_AUTO_BUF profile;
    bool has_one = false;
    kn_buf_init(&profile, KN_ICC_BYTES_MAX);
    switch (kn_image_kind_of(file, len)) {
    case KN_IMAGE_PNG: has_one = kn_png_profile(file, len, &profile); break;
    case KN_IMAGE_JPEG: has_one = kn_jpeg_profile(file, len, &profile); break;
    case KN_IMAGE_WEBP: has_one = kn_webp_profile(file, len, &profile); break;
    default: break;
    }
    return has_one ? kn_icc_name_of(profile.data, profile.len) : (kn_icc_name){ { 0 } };
}

bool kn_icc_is_srgb(const char *name) {
    return strstr(name, "sRGB") || strcmp(name, "c2") == 0; /* the latter is the small one of large web sites */
}
