/* PNG files in memory: pixels in and out, and the text entries beside them.
 *
 * Reading decides nothing by name, checks size and limits from the header first, and never gives half a picture: a file
 * that is cut short, damaged where it matters or animated is refused with the reason. Text entries are read without
 * decoding pixels, and pixels without expanding texts. Files on disk are the business of base/file.h. */
#ifndef KN_IMAGE_PNG_H
#define KN_IMAGE_PNG_H

#include "base/buf.h"
#include "image/image.h"

/* Both NUL-terminated UTF-8. A key has 1 to 79 characters; to be written, printable ASCII. */
typedef struct kn_png_text {
    const char *key, *text;
} kn_png_text;

/* Adds a whole file to `into`, whose limit is the caller's; after a failure it holds half a file. A text is stored as
 * tEXt if it is ASCII and as iTXt if not, uncompressed: both are what readers of recipes look for. */
bool kn_png_write(const kn_image *image, const kn_png_text *texts, size_t count, kn_buf *into, kn_error *err);

/* Any kind of PNG becomes RGBA with 8 bits; of 16-bit samples the high byte is kept, as the references do. Damage in
 * chunks that do not touch the pixels (texts, colour profiles, times) is passed over. */
bool kn_png_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, kn_error *err);

/* As kn_jpeg_profile. A profile that does not go with the kind of pixels counts as damaged, as the format has it. */
bool kn_png_profile(const void *data, size_t len, kn_buf *into);

enum {
    KN_PNG_TEXT_MAX = 8 << 20,   /* bytes of one text, expanded */
    KN_PNG_TEXTS_MAX = 16 << 20, /* bytes of all of them */
    KN_PNG_TEXT_COUNT_MAX = 4096,
};

typedef struct kn_png_texts {
    size_t count;
    kn_png_text *items; /* in the order of the file; a key may occur more than once */
} kn_png_texts;

/* All of tEXt, zTXt and iTXt, before and after the pixels, as UTF-8. Every checksum of the file must be right. */
bool kn_png_texts_read(const void *data, size_t len, const kn_image_limits *limits, kn_png_texts *ret, kn_error *err);
void kn_png_texts_free(kn_png_texts *texts);

/* The first text of that key, or NULL. */
const char *kn_png_texts_find(const kn_png_texts *texts, const char *key);

#endif
