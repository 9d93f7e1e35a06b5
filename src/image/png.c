#include "image/png.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "image/png_pixels.h"

/* libpng may allocate so much in the life of one file, beside the size of the file and whatever it frees again: this
 * bounds both memory and work. A text is held stored, expanded and copied; pixels are ours. */
enum { HEAP_BYTES = 3 * KN_PNG_TEXTS_MAX };

/* With the last row libpng expands what else there is of the pixels' data, a thousand bytes from each. It may be so
 * much, and twice the row. */
enum { SURPLUS_BYTES = 1 << 16 };

/* One file being read or written. What is made on the way hangs here, so that a jump out of libpng loses nothing. */
struct session {
    png_structp png;
    png_infop info;
    kn_error failure; /* kept here and not in the caller's error, so that "did anything fail" has an answer */
    size_t heap_left;

    const uint8_t *at, *end; /* what is left to read */
    size_t may_take;         /* of it */
    const kn_image_limits *limits;
    kn_image image;
    kn_png_texts texts;
    bool skips_pixels; /* only the texts are wanted */
    bool has_profile;  /* it may still be damaged */
    kn_buf *profile;

    const kn_image *picture; /* what is to be written */
    const kn_png_text *entries;
    size_t entry_count;
    kn_png_pixels *pixels;
    kn_buf *into;
};

static png_voidp allocate(png_structp png, png_alloc_size_t size) {
    struct session *s = png_get_mem_ptr(png);
    if (size > s->heap_left) {
        kn_fail(&s->failure, KN_E_RANGE, "expands to more than a PNG file may");
        return NULL;
    }
    void *p = malloc(size);
    if (!p)
        kn_fail_nomem(&s->failure, size);
    else
        s->heap_left -= size;
    return p;
}

static void release(png_structp png, png_voidp p) {
    (void)png;
    free(p);
}

static void on_read_error(png_structp png, png_const_charp text) {
    struct session *s = png_get_error_ptr(png);
    if (strstr(text, "TXt: truncated")) /* libpng's word for both */
        kn_fail(&s->failure, KN_E_RANGE, "has a text that is cut short, or that expands to more than %d bytes (%s)",
                KN_PNG_TEXT_MAX, text);
    else
        kn_fail(&s->failure, KN_E_FORMAT, "is a damaged PNG file: %s", text);
    png_longjmp(png, 1);
}

/* A warning means that something is changed or left out, which is a failure here. No jump: it may come from a callback
 * within zlib, which would not get to free what it holds. */
static void on_write_warning(png_structp png, png_const_charp text) {
    struct session *s = png_get_error_ptr(png);
    kn_fail(&s->failure, KN_E_FORMAT, "cannot be written as a PNG file: %s", text);
}

static void on_write_error(png_structp png, png_const_charp text) {
    on_write_warning(png, text);
    png_longjmp(png, 1);
}

/* A warning means that something is skipped. Without its transparency a picture would silently be another one. Where
 * texts are read, only pixels are: libpng wonders about a second piece of them. */
static void on_read_warning(png_structp png, png_const_charp text) {
    static const png_uint_32 trns = 0x74524E53, idat = 0x49444154, iccp = 0x69434350;
    struct session *s = png_get_error_ptr(png);
    png_uint_32 kind = png_get_io_chunk_type(png);
    s->has_profile = s->has_profile || kind == iccp;
    if (s->skips_pixels ? kind != idat : kind == trns)
        png_error(png, text);
}

/* libpng leaves by longjmp; this is where it lands. */
static bool guarded(struct session *s, void (*work)(struct session *s)) {
    if (setjmp(png_jmpbuf(s->png)))
        return false;
    work(s);
    return s->failure.code == KN_OK;
}

/* Runs the work on the libpng object of a session and ends both. */
static bool finish(struct session *s, void (*work)(struct session *s), kn_error *err) {
    s->info = s->png ? png_create_info_struct(s->png) : NULL;
    if (!s->info) /* and no memory was refused */
        kn_fail(&s->failure, KN_E_UNSUPPORTED, "libpng %s cannot be used", png_get_libpng_ver(NULL));
    bool ok = s->info && guarded(s, work);
    if (s->into)
        png_destroy_write_struct(&s->png, &s->info);
    else
        png_destroy_read_struct(&s->png, &s->info, NULL);
    return ok || kn_fail(err, s->failure.code, "%s", s->failure.text);
}

/* ---- writing ---- */

static void put(png_structp png, png_bytep data, size_t len) {
    struct session *s = png_get_io_ptr(png);
    if (kn_buf_add(s->into, data, len))
        return;
    if (len > s->into->limit - s->into->len)
        kn_fail(&s->failure, KN_E_RANGE, "becomes larger than %zu bytes as a PNG file", s->into->limit);
    else
        kn_fail_nomem(&s->failure, len);
    png_longjmp(png, 1);
}

static void flush_nothing(png_structp png) {
    (void)png;
}

static bool is_ascii(const char *text) {
    for (; *text; text++) {
        if ((unsigned char)*text >= 0x80)
            return false;
    }
    return true;
}

static void put_texts(struct session *s) {
    for (size_t i = 0; i < s->entry_count; i++) {
        const kn_png_text *t = &s->entries[i];
        if (kn_utf8_check(t->text, strlen(t->text)) != strlen(t->text)) {
            kn_fail(&s->failure, KN_E_FORMAT, "the text '%s' is not UTF-8", kn_quote_z(t->key).text);
            png_longjmp(s->png, 1);
        }
        png_text entry = {
            .compression = is_ascii(t->text) ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE,
            .key = (char *)(uintptr_t)t->key,
            .text = (char *)(uintptr_t)t->text,
            .text_length = strlen(t->text),
        };
        png_set_text(s->png, s->info, &entry, 1);
    }
}

static void write_file(struct session *s) {
    const kn_image *p = s->picture;
    png_set_write_fn(s->png, s, put, flush_nothing);
    png_set_IHDR(s->png, s->info, p->width, p->height, 8, p->channels == 4 ? PNG_COLOR_TYPE_RGBA : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    put_texts(s);
    png_write_info(s->png, s->info);
    for (size_t n; (n = kn_png_pixels_next(s->pixels)) > 0;)
        png_write_chunk(s->png, (png_const_bytep) "IDAT", s->pixels->piece, n);
    png_write_chunk(s->png, (png_const_bytep) "IEND", NULL, 0); /* png_write_end has not seen the pixels */
}

static bool write_session(struct session *s, kn_error *err) {
    if (!kn_png_pixels_open(s->pixels, s->picture, err))
        return false;
    s->png =
        png_create_write_struct_2(PNG_LIBPNG_VER_STRING, s, on_write_error, on_write_warning, s, allocate, release);
    return finish(s, write_file, err);
}

bool kn_png_write(const kn_image *image, const kn_png_text *texts, size_t count, kn_buf *into, kn_error *err) {
    kn_png_pixels *pixels = calloc(1, sizeof *pixels);
    if (!pixels)
        return kn_fail_nomem(err, sizeof *pixels);
    struct session s = {
        .picture = image,
        .entries = texts,
        .entry_count = count,
        .pixels = pixels,
        .into = into,
        .heap_left = SIZE_MAX, /* nothing here comes from outside */
    };
    bool ok = write_session(&s, err);
    kn_png_pixels_close(pixels);
    free(pixels);
    return ok;
}

/* ---- reading ---- */

static void take(png_structp png, png_bytep into, size_t len) {
    struct session *s = png_get_io_ptr(png);
    size_t left = (size_t)(s->end - s->at);
    if (len > left) {
        kn_fail(&s->failure, KN_E_TRUNCATED, "ends too early: %zu more bytes are needed, %zu are left", len, left);
        png_longjmp(png, 1);
    }
    if (len > s->may_take) {
        kn_fail(&s->failure, KN_E_FORMAT, "is a damaged PNG file: it has more data than its pixels need");
        png_longjmp(png, 1);
    }
    memcpy(into, s->at, len);
    s->at += len;
    s->may_take -= len;
}

/* What is wrong before the first chunk is looked at. */
static bool check_file(const void *data, size_t len, const kn_image_limits *limits, kn_error *err) {
    kn_image_kind kind = KN_IMAGE_UNKNOWN;
    if (!kn_image_check_file(data, len, limits, &kind, err))
        return false;
    return kind == KN_IMAGE_PNG ||
           kn_fail(err, KN_E_UNSUPPORTED, "is a %s file; only PNG is supported here", kn_image_kind_name(kind));
}

static bool read_file(struct session *s, void (*work)(struct session *s), const void *data, size_t len,
                      const kn_image_limits *limits, kn_error *err) {
    if (!check_file(data, len, limits, err))
        return false;
    s->at = data;
    s->end = s->at + len;
    s->may_take = len;
    s->limits = limits;
    s->heap_left = HEAP_BYTES + len;
    s->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, s, on_read_error, on_read_warning, s, allocate, release);
    if (s->png)
        png_set_read_fn(s->png, s, take);
    return finish(s, work, err);
}

/* Room for the size that the header tells, if that is within the limits. */
static void make_room(struct session *s) {
    uint32_t width = png_get_image_width(s->png, s->info), height = png_get_image_height(s->png, s->info);
    if (!kn_image_check_size(width, height, s->limits, &s->failure) ||
        !kn_image_new(width, height, 4, &s->image, &s->failure))
        png_longjmp(s->png, 1);
}

static void read_pixels(struct session *s) {
    /* Of what is not needed for the pixels only the mark of an animation is kept. The size of what is passed over does
     * not matter, that of the picture is checked in our own words. */
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_ALWAYS, (png_const_bytep) "acTL", 1);
    png_set_chunk_malloc_max(s->png, 0);
    png_set_user_limits(s->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(s->png, s->info);
    make_room(s);
    png_unknown_chunkp animation = NULL;
    if (png_get_unknown_chunks(s->png, s->info, &animation) > 0) {
        kn_fail(&s->failure, KN_E_UNSUPPORTED, "is an animated PNG file; only still pictures are supported");
        png_longjmp(s->png, 1);
    }

    size_t stored_row_bytes = png_get_rowbytes(s->png, s->info);
    png_set_expand(s->png);
    png_set_strip_16(s->png);
    png_set_gray_to_rgb(s->png);
    png_set_add_alpha(s->png, 255, PNG_FILLER_AFTER);
    int passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    size_t row_bytes = (size_t)s->image.width * 4;
    if (png_get_rowbytes(s->png, s->info) != row_bytes)
        png_error(s->png, "rows of unexpected size");

    for (int pass = 0; pass < passes; pass++) {
        for (uint32_t y = 0; y < s->image.height; y++) {
            if (pass == passes - 1 && y == s->image.height - 1)
                s->may_take = SURPLUS_BYTES + 2 * stored_row_bytes;
            png_read_row(s->png, s->image.pixels + y * row_bytes, NULL);
        }
    }
    s->may_take = (size_t)(s->end - s->at);
    png_read_end(s->png, NULL);
}

bool kn_png_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, kn_error *err) {
    struct session s = { 0 };
    if (!read_file(&s, read_pixels, data, len, limits, err)) {
        kn_image_free(&s.image);
        return false;
    }
    *ret = s.image;
    return true;
}

/* ---- colour profiles ---- */

static void read_profile(struct session *s) {
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "iCCP", 1);
    png_set_benign_errors(s->png, 1);
    png_set_chunk_malloc_max(s->png, KN_MAX((size_t)(s->end - s->at), s->profile->limit));
    png_read_info(s->png, s->info);
    png_charp name = NULL;
    png_bytep profile = NULL;
    png_uint_32 len = 0;
    int compression = 0;
    if (!png_get_iCCP(s->png, s->info, &name, &compression, &profile, &len))
        return;
    s->has_profile = true;
    if (!kn_buf_add(s->profile, profile, len))
        kn_buf_clear(s->profile);
}

bool kn_png_profile(const void *data, size_t len, kn_buf *into) {
    const kn_image_limits limits = { .bytes = len, .side = UINT32_MAX, .pixels = UINT64_MAX };
    struct session s = { .profile = into };
    read_file(&s, read_profile, data, len, &limits, NULL);
    return s.has_profile;
}

/* ---- texts ---- */

/* Copies a string to *at as UTF-8 and moves *at behind its NUL; returns where the copy starts. */
static const char *copy_text(char **at, const char *text, bool latin1) {
    char *start = *at;
    for (const char *p = text; *p; p++) {
        if (latin1)
            *at += kn_utf8_put((unsigned char)*p, *at);
        else
            *(*at)++ = *p;
    }
    *(*at)++ = 0;
    return start;
}

/* Entries and characters go into one block: the array first, the strings behind it. */
static void keep_texts(struct session *s, const png_text *from, size_t count) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(from[i].key) + strlen(from[i].text) + 2;
        total += len;
        if (len > KN_PNG_TEXT_MAX || total > KN_PNG_TEXTS_MAX) {
            kn_fail(&s->failure, KN_E_RANGE, "has more text than the allowed %d bytes in one entry and %d in all",
                    KN_PNG_TEXT_MAX, KN_PNG_TEXTS_MAX);
            png_longjmp(s->png, 1);
        }
    }
    size_t room = count * sizeof(kn_png_text) + 2 * total; /* a Latin-1 character takes up to two bytes */
    s->texts.items = malloc(KN_MAX(room, 1));
    if (!s->texts.items) {
        kn_fail_nomem(&s->failure, room);
        png_longjmp(s->png, 1);
    }
    char *at = (char *)(s->texts.items + count);
    for (size_t i = 0; i < count; i++) {
        bool latin1 = from[i].compression < PNG_ITXT_COMPRESSION_NONE;
        if (!latin1 && kn_utf8_check(from[i].text, strlen(from[i].text)) != strlen(from[i].text)) {
            kn_fail(&s->failure, KN_E_FORMAT, "has a text '%s' that is not UTF-8", kn_quote_z(from[i].key).text);
            png_longjmp(s->png, 1);
        }
        s->texts.items[i].key = copy_text(&at, from[i].key, true);
        s->texts.items[i].text = copy_text(&at, from[i].text, latin1);
    }
    s->texts.count = count;
}

/* Of no interest here are the pixels, and whatever pictures can be read without; the rest libpng may judge itself. */
static int pass_over(png_structp png, png_unknown_chunkp chunk) {
    enum { ANCILLARY = 0x20 };
    (void)png;
    return chunk->name[0] & ANCILLARY || memcmp(chunk->name, "IDAT", 4) == 0;
}

static void read_texts(struct session *s) {
    /* What is wrong in a chunk is an error here, not something to skip. A chunk may be as large as the file, a text may
     * expand to its limit. */
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep) "IDAT\0tRNS", 2);
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "tEXt\0zTXt\0iTXt", 3);
    png_set_read_user_chunk_fn(s->png, s, pass_over);
    png_set_crc_action(s->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_benign_errors(s->png, 1); /* become warnings */
    s->skips_pixels = true;
    png_set_chunk_malloc_max(s->png, KN_MAX((size_t)(s->end - s->at), KN_PNG_TEXT_MAX));
    png_set_chunk_cache_max(s->png, KN_PNG_TEXT_COUNT_MAX);
    png_read_info(s->png, s->info);
    png_read_end(s->png, s->info);
    png_textp list = NULL;
    int count = 0;
    png_get_text(s->png, s->info, &list, &count);
    if (!s->failure.code)
        keep_texts(s, list, (size_t)count);
}

bool kn_png_texts_read(const void *data, size_t len, const kn_image_limits *limits, kn_png_texts *ret, kn_error *err) {
    struct session s = { 0 };
    if (!read_file(&s, read_texts, data, len, limits, err)) {
        kn_png_texts_free(&s.texts);
        return false;
    }
    *ret = s.texts;
    return true;
}

void kn_png_texts_free(kn_png_texts *texts) {
    free(texts->items);
    *texts = (kn_png_texts){ 0 };
}

const char *kn_png_texts_find(const kn_png_texts *texts, const char *key) {
    for (size_t i = 0; i < texts->count; i++) {
        if (strcmp(texts->items[i].key, key) == 0)
            return texts->items[i].text;
    }
    return NULL;
}
