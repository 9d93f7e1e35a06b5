#include "image/write.h"

#include <string.h>

#include "image/exif.h"
#include "image/gain_map.h"
#include "image/jpeg.h"
#include "image/parameters.h"
#include "image/png.h"
#include "image/webp.h"

static const char exif_mark[6] = "Exif\0";

enum { NOTES_MAX = 16 << 20, JPEG_NOTES_MAX = KN_JPEG_SEGMENT_MAX - sizeof exif_mark, NOTES_HEAD = 52 };

/* In UTF-16 a character has two bytes, and four beyond the first 65536 of them. */
bool kn_image_has_room(kn_image_kind kind, const char *parameters) {
    size_t bytes = NOTES_HEAD;
    for (const char *p = parameters; *p; p++)
        bytes += ((unsigned char)*p & 0xC0) == 0x80 ? 0 : (unsigned char)*p >= 0xF0 ? 4 : 2;
    return kind != KN_IMAGE_JPEG || bytes <= JPEG_NOTES_MAX;
}

static bool write_png(const kn_image *image, const kn_image_form *form, kn_buf *into, kn_error *err) {
    const kn_png_text entry = { KN_PARAMETERS_KEY, form->parameters };
    return kn_png_write(image, &entry, form->parameters != NULL, into, err);
}

static bool write_jpeg(const kn_image *image, const kn_image_form *form, kn_buf *into, kn_error *err) {
    KN_AUTO_BUF notes;
    kn_buf_init(&notes, KN_JPEG_SEGMENT_MAX);
    if (form->parameters && !kn_image_has_room(form->kind, form->parameters))
        return kn_fail(err, KN_E_RANGE, "prompt and settings are too long for the notes of a JPEG file");
    if (form->parameters && !(kn_buf_add(&notes, exif_mark, sizeof exif_mark) || kn_fail_nomem(err, sizeof exif_mark)))
        return false;
    if (form->parameters && !kn_exif_write(form->parameters, &notes, err))
        return false;
    const kn_jpeg_segment exif = { 1, notes.data, notes.len };
    if (form->gain_map)
        return kn_gain_map_write(image, form->quality, form->parameters ? &exif : NULL, form->gain_map, into, err);
    return kn_jpeg_write(image, form->quality, &exif, form->parameters != NULL, into, err);
}

static bool write_webp(const kn_image *image, const kn_image_form *form, kn_buf *into, kn_error *err) {
    KN_AUTO_BUF notes;
    kn_buf_init(&notes, NOTES_MAX);
    return (!form->parameters || kn_exif_write(form->parameters, &notes, err)) &&
           kn_webp_write(image, form->quality, form->parameters ? &notes : NULL, into, err);
}

bool kn_image_write(const kn_image *image, const kn_image_form *form, kn_buf *into, kn_error *err) {
    switch (form->kind) {
    case KN_IMAGE_JPEG: return write_jpeg(image, form, into, err);
    case KN_IMAGE_WEBP: return write_webp(image, form, into, err);
    default: return write_png(image, form, into, err);
    }
}

static bool png_parameters(const void *data, size_t len, kn_buf *into) {
    const kn_image_limits limits = { .bytes = len, .side = UINT32_MAX, .pixels = UINT64_MAX };
    kn_png_texts texts = { 0 };
    if (!kn_png_texts_read(data, len, &limits, &texts, NULL))
        return false;
    const char *found = kn_png_texts_find(&texts, KN_PARAMETERS_KEY);
    bool ok = found && kn_buf_add_text(into, found);
    kn_png_texts_free(&texts);
    return ok;
}

bool kn_image_parameters(const void *data, size_t len, kn_buf *into) {
    switch (kn_image_kind_of(data, len)) {
    case KN_IMAGE_PNG: return png_parameters(data, len, into);
    case KN_IMAGE_JPEG: return kn_jpeg_comment(data, len, into);
    case KN_IMAGE_WEBP: return kn_webp_comment(data, len, into);
    default: return false;
    }
}
