#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>

#include "failing_alloc.h"
#include "golden.h"
#include "image/parameters.h"
#include "image/png.h"

/* ---- files made here ---- */

static const kn_image_limits limits = { .bytes = 1 << 20, .side = 4096, .pixels = 1 << 20 };

static void load(const char *name, kn_buf *into) {
    char path[300];
    snprintf(path, sizeof path, "image/%s", name);
    golden_read(path, into);
}

/* A picture that differs in every pixel and channel. */
static kn_image gradient(uint32_t width, uint32_t height, unsigned channels) {
    kn_image p = {
        .width = width, .height = height, .channels = channels, .pixels = malloc((size_t)width * height * channels)
    };
    assert_non_null(p.pixels);
    for (size_t i = 0; i < (size_t)width * height * channels; i++)
        p.pixels[i] = (uint8_t)(i * 7 + i / 11);
    return p;
}

static void append(png_structp png, png_bytep data, size_t len) {
    assert_true(kn_buf_add(png_get_io_ptr(png), data, len));
}

static void flush_nothing(png_structp png) {
    (void)png;
}

enum { SIDE = 11 };

/* The sample of one channel: all values of the depth occur. */
static unsigned sample(unsigned x, unsigned y, unsigned channel, int depth) {
    return (x * 5077 + y * 12289 + channel * 20011) & ((1u << depth) - 1);
}

static unsigned channels_of(int type) {
    return (type & PNG_COLOR_MASK_COLOR && !(type & PNG_COLOR_MASK_PALETTE) ? 3 : 1) + !!(type & PNG_COLOR_MASK_ALPHA);
}

static png_color palette_entry(unsigned i) {
    return (png_color){ (png_byte)(i * 3), (png_byte)(255 - i), (png_byte)(i ^ 0x5A) };
}

/* Writes SIDE x SIDE samples in a form that kn_png_write itself never uses. */
static void make_png(int type, int depth, bool interlaced, bool transparent, bool animated, kn_buf *into) {
    kn_buf_init(into, 1 << 20);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, into, append, flush_nothing);
    png_set_IHDR(png, info, SIDE, SIDE, depth, type, interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_color palette[256];
    png_byte alphas[256];
    for (unsigned i = 0; i < 256; i++) {
        palette[i] = palette_entry(i);
        alphas[i] = (png_byte)(i * 31);
    }
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 1 << depth);
    /* One colour is transparent: that of the pixel at (1, 2). */
    png_color_16 key = { .gray = (png_uint_16)sample(1, 2, 0, depth),
                         .red = (png_uint_16)sample(1, 2, 0, depth),
                         .green = (png_uint_16)sample(1, 2, 1, depth),
                         .blue = (png_uint_16)sample(1, 2, 2, depth) };
    if (transparent)
        png_set_tRNS(png, info, alphas, 1 << (depth < 8 ? depth : 8), &key);
    png_write_info(png, info);
    if (animated)
        png_write_chunk(png, (png_const_bytep) "acTL", (png_const_bytep) "\0\0\0\2\0\0\0\0", 8);
    if (depth < 8)
        png_set_packing(png);
    int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++) {
        for (unsigned y = 0; y < SIDE; y++) {
            png_byte row[SIDE * 8], *at = row;
            for (unsigned x = 0; x < SIDE; x++) {
                for (unsigned c = 0; c < channels_of(type); c++) {
                    if (depth == 16)
                        *at++ = (png_byte)(sample(x, y, c, depth) >> 8);
                    *at++ = (png_byte)sample(x, y, c, depth);
                }
            }
            png_write_row(png, row);
        }
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
}

static unsigned to_8_bits(unsigned v, int depth) {
    return depth == 16 ? v >> 8 : (unsigned)((v * 255.0 / ((1u << depth) - 1)) + 0.5);
}

static void expect_pixel(int type, int depth, bool transparent, unsigned x, unsigned y, unsigned rgba[4]) {
    unsigned first = sample(x, y, 0, depth), colours = channels_of(type) - !!(type & PNG_COLOR_MASK_ALPHA);
    rgba[3] = 255;
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_color c = palette_entry(first);
        rgba[0] = c.red;
        rgba[1] = c.green;
        rgba[2] = c.blue;
        if (transparent)
            rgba[3] = (first * 31) & 255;
        return;
    }
    bool is_key = true;
    for (unsigned c = 0; c < 3; c++) {
        unsigned channel = c < colours ? c : 0;
        rgba[c] = to_8_bits(sample(x, y, channel, depth), depth);
        is_key &= sample(x, y, channel, depth) == sample(1, 2, channel, depth);
    }
    if (type & PNG_COLOR_MASK_ALPHA)
        rgba[3] = to_8_bits(sample(x, y, colours, depth), depth);
    else if (transparent && is_key)
        rgba[3] = 0;
}

/* ---- reading ---- */

static void other_formats_are_refused_by_name(void **state) {
    (void)state;
    static const char *const rows[][2] = { { "exif-6.jpg", "is a JPEG file; only PNG is supported here" },
                                           { "webp-named.jpg", "is a WebP file; only PNG is supported here" },
                                           { "text.png", "is not a picture of a known format" } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF data;
        load(rows[i][0], &data);
        kn_image image = { 0 };
        kn_error err = { 0 };
        assert_false(kn_png_read(data.data, data.len, &limits, &image, &err));
        assert_string_equal(err.text, rows[i][1]);
    }
}

static void every_kind_of_png_gives_its_exact_pixels(void **state) {
    (void)state;
    static const struct {
        int type, depths[6];
    } kinds[] = {
        { PNG_COLOR_TYPE_GRAY, { 1, 2, 4, 8, 16 } }, { PNG_COLOR_TYPE_PALETTE, { 1, 2, 4, 8 } },
        { PNG_COLOR_TYPE_RGB, { 8, 16 } },           { PNG_COLOR_TYPE_GRAY_ALPHA, { 8, 16 } },
        { PNG_COLOR_TYPE_RGB_ALPHA, { 8, 16 } },
    };
    unsigned seen = 0;
    for (size_t k = 0; k < KN_COUNT(kinds); k++) {
        for (const int *depth = kinds[k].depths; *depth; depth++) {
            for (unsigned form = 0; form < 4; form++) {
                bool interlaced = form & 1, transparent = form & 2;
                int type = kinds[k].type;
                if (transparent && type & PNG_COLOR_MASK_ALPHA)
                    continue;
                KN_AUTO_BUF file;
                make_png(type, *depth, interlaced, transparent, false, &file);
                kn_image image = { 0 };
                kn_error err = { 0 };
                if (!kn_png_read(file.data, file.len, &limits, &image, &err))
                    fail_msg("type %d, depth %d, form %u: %s", type, *depth, form, err.text);
                for (unsigned at = 0; at < SIDE * SIDE; at++) {
                    unsigned want[4];
                    expect_pixel(type, *depth, transparent, at % SIDE, at / SIDE, want);
                    for (unsigned c = 0; c < 4; c++) {
                        if (image.pixels[at * 4 + c] != want[c])
                            fail_msg("type %d, depth %d, form %u: channel %u of pixel %u is %d, not %u", type, *depth,
                                     form, c, at, image.pixels[at * 4 + c], want[c]);
                    }
                }
                kn_image_free(&image);
                seen++;
            }
        }
    }
    assert_int_equal(seen, 4 * 11 + 2 * 4);
}

static void refuses_an_animation_by_name(void **state) {
    (void)state;
    KN_AUTO_BUF file;
    make_png(PNG_COLOR_TYPE_RGB, 8, false, false, true, &file);
    kn_image image = { 0 };
    kn_error err = { 0 };
    assert_false(kn_png_read(file.data, file.len, &limits, &image, &err));
    assert_int_equal(err.code, KN_E_UNSUPPORTED);
    assert_string_equal(err.text, "is an animated PNG file; only still pictures are supported");
}

static void limits_are_told_from_the_header(void **state) {
    (void)state;
    kn_image wide = gradient(64, 2, 3), image = { 0 };
    KN_AUTO_BUF file;
    kn_buf_init(&file, 1 << 20);
    kn_error err = { 0 };
    assert_true(kn_png_write(&wide, NULL, 0, &file, &err));
    kn_image_free(&wide);
    static const struct {
        kn_image_limits limits;
        const char *says;
    } rows[] = {
        { { 1 << 20, 63, 1 << 20 }, "is 64x2 pixels large; at most 63 are allowed on a side" },
        { { 1 << 20, 64, 127 }, "is 64x2 pixels large; at most 127 are allowed in all" },
        { { 20, 64, 128 }, " bytes, at most 20 are allowed" },
        { { 1 << 20, 64, 128 }, NULL },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        err = (kn_error){ 0 };
        bool ok = kn_png_read(file.data, file.len, &rows[i].limits, &image, &err);
        assert_int_equal(ok, !rows[i].says);
        if (rows[i].says) {
            assert_int_equal(err.code, KN_E_RANGE);
            assert_non_null(strstr(err.text, rows[i].says));
        }
        kn_image_free(&image);
    }
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    kn_image made = gradient(9, 7, 4), image = { 0 };
    const kn_png_text entry = { "parameters", "caf\xC3\xA9" };
    KN_AUTO_BUF file;
    kn_buf_init(&file, 1 << 20);
    kn_error err = { 0 };
    assert_true(kn_png_write(&made, &entry, 1, &file, &err));
    kn_png_texts texts = { 0 };
    for (size_t len = 0; len < file.len; len++) {
        uint8_t *exact = malloc(KN_MAX(len, 1)); /* so that a sanitizer sees a read beyond the end */
        assert_non_null(exact);
        memcpy(exact, file.data, len);
        assert_false(kn_png_read(exact, len, &limits, &image, NULL));
        assert_false(kn_png_texts_read(exact, len, &limits, &texts, NULL));
        free(exact);
    }
    kn_image_free(&made);
}

static void a_flipped_bit_never_changes_pixels(void **state) {
    (void)state;
    kn_image made = gradient(9, 7, 4);
    const kn_png_text entry = { "parameters", "Steps: 8" };
    KN_AUTO_BUF file;
    kn_buf_init(&file, 1 << 20);
    kn_error err = { 0 };
    assert_true(kn_png_write(&made, &entry, 1, &file, &err));
    unsigned accepted = 0;
    for (size_t bit = 0; bit < file.len * 8; bit++) {
        file.data[bit / 8] ^= (char)(1 << bit % 8);
        kn_image image = { 0 };
        if (kn_png_read(file.data, file.len, &limits, &image, NULL)) {
            accepted++;
            assert_memory_equal(image.pixels, made.pixels, (size_t)9 * 7 * 4);
            kn_image_free(&image);
        }
        kn_png_texts texts = { 0 };
        assert_false(kn_png_texts_read(file.data, file.len, &limits, &texts, NULL));
        file.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_in_range(accepted, 1, 8 * (12 + strlen("parameters") + 1 + strlen("Steps: 8"))); /* within the text chunk */
    kn_image_free(&made);
}

static void add_number(kn_buf *into, uint32_t n) {
    const png_byte bytes[] = { (png_byte)(n >> 24), (png_byte)(n >> 16), (png_byte)(n >> 8), (png_byte)n };
    assert_true(kn_buf_add(into, bytes, sizeof bytes));
}

static void add_chunk(kn_buf *into, const char *type, const void *data, size_t len) {
    add_number(into, (uint32_t)len);
    size_t from = into->len;
    assert_true(kn_buf_add(into, type, 4) && kn_buf_add(into, data, len));
    uint32_t sum = UINT32_MAX;
    for (size_t i = from; i < into->len; i++) {
        sum ^= (uint8_t)into->data[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ 0xEDB88320 : sum >> 1;
    }
    add_number(into, ~sum);
}

/* 4 x 4 grey pixels, and so many bytes more of the same in their data, uncompressed. */
static void make_surplus(size_t surplus, kn_buf *into) {
    static const png_byte header[] = { 0, 0, 0, 4, 0, 0, 0, 4, 8, PNG_COLOR_TYPE_GRAY, 0, 0, 0 };
    enum { PIXELS = 4 * (1 + 4) };
    KN_AUTO_BUF data;
    kn_buf_init(&data, 1 << 22);
    assert_true(kn_buf_add(&data, "\x78\x01", 2));
    size_t left = PIXELS + surplus;
    while (left > 0) {
        static const png_byte zeros[UINT16_MAX];
        size_t n = KN_MIN(left, sizeof zeros);
        const png_byte block[] = { n == left, (png_byte)n, (png_byte)(n >> 8), (png_byte)~n, (png_byte)(~n >> 8) };
        assert_true(kn_buf_add(&data, block, sizeof block) && kn_buf_add(&data, zeros, n));
        left -= n;
    }
    add_number(&data, (uint32_t)((PIXELS + surplus) % 65521) << 16 | 1); /* the check sum of so many zeros */
    kn_buf_init(into, 1 << 22);
    assert_true(kn_buf_add(into, "\x89PNG\r\n\x1A\n", 8));
    add_chunk(into, "IHDR", header, sizeof header);
    add_chunk(into, "IDAT", data.data, data.len);
    add_chunk(into, "IEND", NULL, 0);
}

/* A small file could keep its reader at work for minutes. */
static void data_behind_the_pixels_is_not_expanded_without_end(void **state) {
    (void)state;
    static const struct {
        size_t surplus;
        bool accepted;
    } rows[] = { { 0, true }, { 1000, true }, { 200000, false }, { 900000, false } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF file;
        make_surplus(rows[i].surplus, &file);
        kn_image image = { 0 };
        kn_error err = { 0 };
        if (kn_png_read(file.data, file.len, &limits, &image, &err) != rows[i].accepted)
            fail_msg("%zu: %s", rows[i].surplus, err.text);
        if (!rows[i].accepted)
            assert_string_equal(err.text, "is a damaged PNG file: it has more data than its pixels need");
        kn_image_free(&image);
    }
}

static void damaged_transparency_is_not_dropped(void **state) {
    (void)state;
    KN_AUTO_BUF file;
    make_png(PNG_COLOR_TYPE_PALETTE, 8, false, true, false, &file);
    char *chunk = memmem(file.data, file.len, "tRNS", 4);
    assert_non_null(chunk);
    chunk[5] ^= 1;
    kn_image image = { 0 };
    kn_error err = { 0 };
    assert_false(kn_png_read(file.data, file.len, &limits, &image, &err));
    assert_int_equal(err.code, KN_E_FORMAT);
}

/* ---- writing ---- */

static void written_pixels_come_back(void **state) {
    (void)state;
    static const uint32_t sizes[][2] = { { 1, 1 }, { 1, 300 }, { 300, 1 }, { 33, 17 }, { 128, 128 } };
    for (size_t i = 0; i < KN_COUNT(sizes); i++) {
        for (unsigned channels = 3; channels <= 4; channels++) {
            kn_image made = gradient(sizes[i][0], sizes[i][1], channels), image = { 0 };
            KN_AUTO_BUF file;
            kn_buf_init(&file, 1 << 20);
            kn_error err = { 0 };
            assert_true(kn_png_write(&made, NULL, 0, &file, &err));
            assert_true(kn_png_read(file.data, file.len, &limits, &image, &err));
            assert_int_equal(image.width, made.width);
            assert_int_equal(image.height, made.height);
            for (size_t p = 0; p < (size_t)made.width * made.height; p++) {
                assert_memory_equal(image.pixels + p * 4, made.pixels + p * channels, channels);
                assert_true(channels == 4 || image.pixels[p * 4 + 3] == 255);
            }
            kn_image_free(&made);
            kn_image_free(&image);
        }
    }
}

/* The numbers of the filters that a file's rows have, as bits; how long the file is. */
static unsigned filters_of(const kn_image *made, size_t *ret_len) {
    size_t stored = (1 + (size_t)made->width * made->channels) * made->height;
    uint8_t *rows = malloc(stored);
    KN_AUTO_BUF file, data;
    kn_buf_init(&file, 1 << 24);
    kn_buf_init(&data, 1 << 24);
    kn_error err = { 0 };
    assert_true(kn_png_write(made, NULL, 0, &file, &err));
    for (const uint8_t *at = (uint8_t *)file.data + 8; at < (uint8_t *)file.data + file.len;) {
        size_t len = (size_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
        assert_true(memcmp(at + 4, "IDAT", 4) != 0 || kn_buf_add(&data, at + 8, len));
        at += 12 + len;
    }
    uLongf len = stored;
    assert_int_equal(uncompress(rows, &len, (const Bytef *)data.data, data.len), Z_OK);
    assert_int_equal(len, stored);
    unsigned found = 0;
    for (size_t y = 0; y < made->height; y++)
        found |= 1u << rows[y * (stored / made->height)];
    free(rows);
    *ret_len = file.len;
    kn_image read = { 0 };
    const kn_image_limits any = { .bytes = SIZE_MAX, .side = UINT32_MAX, .pixels = UINT64_MAX };
    assert_true(kn_png_read(file.data, file.len, &any, &read, &err));
    for (size_t i = 0; i < (size_t)made->width * made->height; i++)
        assert_memory_equal(read.pixels + i * 4, made->pixels + i * made->channels, made->channels);
    kn_image_free(&read);
    return found;
}

/* Bands of a picture, each made for one filter. */
static void every_row_has_the_filter_that_suits_it(void **state) {
    (void)state;
    enum { WIDTH = 333, BAND = 20 };
    kn_image made;
    assert_true(kn_image_new(WIDTH, 5 * BAND, 3, &made, NULL));
    uint32_t noise = 1;
    for (uint32_t y = 0; y < made.height; y++)
        for (uint32_t i = 0; i < WIDTH * 3; i++) {
            noise = noise * 1664525 + 1013904223;
            uint32_t x = i / 3;
            uint8_t *at = made.pixels + (size_t)y * WIDTH * 3 + i;
            switch (y / BAND) {
            case 0: *at = (uint8_t)(noise >> 24 < 4); break;                         /* hardly anything: none */
            case 1: *at = (uint8_t)(x * 3 + y * 90); break;                          /* along the row: Sub */
            case 2: *at = (uint8_t)(x * x * 7 + i % 3 * 50); break;                  /* along columns: Up */
            case 3: *at = (uint8_t)(100 + (x + y) % 100 / 2 + (noise >> 28)); break; /* noise: Average */
            default: *at = (uint8_t)(x / 9 * 31 + y * 13); break;                    /* steps both ways: Paeth */
            }
        }
    size_t len = 0;
    assert_int_equal(filters_of(&made, &len), 0x1F);
    kn_image_free(&made);
}

/* What a network draws has nothing that comes again, a diagram has; either is told from samples of its rows. */
static void noise_and_repetitions_are_both_small(void **state) {
    (void)state;
    enum { SIDE_OF_BOTH = 500 };
    kn_image noisy, drawn;
    assert_true(kn_image_new(SIDE_OF_BOTH, SIDE_OF_BOTH, 3, &noisy, NULL));
    assert_true(kn_image_new(SIDE_OF_BOTH, SIDE_OF_BOTH, 3, &drawn, NULL));
    uint32_t noise = 1;
    for (uint32_t y = 0; y < SIDE_OF_BOTH; y++)
        for (uint32_t i = 0; i < SIDE_OF_BOTH * 3; i++) {
            uint32_t sum = 0;
            for (int k = 0; k < 4; k++)
                sum += (noise = noise * 1664525 + 1013904223) >> 30;
            noisy.pixels[y * SIDE_OF_BOTH * 3 + i] = (uint8_t)(y / 4 + i / 16 + sum);
            drawn.pixels[y * SIDE_OF_BOTH * 3 + i] = (uint8_t)((y % 16 * 48 + i % 48) * 2654435761u >> 9);
        }
    /* The sum of four such numbers has a deviation of 2.2: with what neighbours add, 3.6 bits. What is drawn
     * with a pattern of 16 x 16 pixels costs next to nothing. */
    size_t len = 0, samples = (size_t)SIDE_OF_BOTH * SIDE_OF_BOTH * 3;
    filters_of(&noisy, &len);
    assert_in_range(len, 1, samples * 37 / 80);
    filters_of(&drawn, &len);
    assert_in_range(len, 1, samples / 40);
    kn_image_free(&noisy);
    kn_image_free(&drawn);
}

static void the_same_picture_gives_the_same_bytes(void **state) {
    (void)state;
    kn_image made = gradient(40, 30, 3);
    KN_AUTO_BUF one, two;
    kn_buf_init(&one, 1 << 20);
    kn_buf_init(&two, 1 << 20);
    kn_error err = { 0 };
    assert_true(kn_png_write(&made, NULL, 0, &one, &err));
    assert_true(kn_png_write(&made, NULL, 0, &two, &err));
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    assert_null(memmem(one.data, one.len, "tIME", 4));
    kn_image_free(&made);
}

static void writing_stops_at_the_limit_of_the_buffer(void **state) {
    (void)state;
    kn_image made = gradient(64, 64, 4);
    for (size_t i = 0, v = 1; i < 64 * 64 * 4; i++, v = v * 48271 % 2147483647)
        made.pixels[i] = (uint8_t)(v >> 8); /* noise does not compress */
    KN_AUTO_BUF file;
    kn_buf_init(&file, 1000);
    kn_error err = { 0 };
    assert_false(kn_png_write(&made, NULL, 0, &file, &err));
    assert_int_equal(err.code, KN_E_RANGE);
    assert_string_equal(err.text, "becomes larger than 1000 bytes as a PNG file");
    kn_image_free(&made);
}

/* ---- texts ---- */

static void texts_come_back_byte_for_byte(void **state) {
    (void)state;
    static const char *const values[] = {
        "",
        "Steps: 8, Seed: 18446744073709551615",
        "line\nline\n\n tab\t \"quoted\" \\ end ",
        "caf\xC3\xA9",
        "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80 \xE5\x8F\xA4\xE6\xB1\xA0\n\xD7\xA9",
    };
    for (size_t i = 0; i < KN_COUNT(values); i++) {
        kn_image made = gradient(3, 3, 3);
        const kn_png_text entries[] = { { KN_PARAMETERS_KEY, values[i] }, { "Software", "kuno" } };
        KN_AUTO_BUF file;
        kn_buf_init(&file, 1 << 20);
        kn_error err = { 0 };
        assert_true(kn_png_write(&made, entries, 2, &file, &err));
        bool ascii = i < 3;
        assert_int_equal(!!memmem(file.data, file.len, "tEXtparameters", 14), ascii);
        assert_int_equal(!!memmem(file.data, file.len, "iTXtparameters\0\0\0\0\0", 19), !ascii);
        assert_non_null(memmem(file.data, file.len, values[i], strlen(values[i]))); /* not compressed */
        kn_png_texts texts = { 0 };
        assert_true(kn_png_texts_read(file.data, file.len, &limits, &texts, &err));
        assert_int_equal(texts.count, 2);
        assert_string_equal(kn_png_texts_find(&texts, KN_PARAMETERS_KEY), values[i]);
        assert_string_equal(kn_png_texts_find(&texts, "Software"), "kuno");
        assert_null(kn_png_texts_find(&texts, "prompt"));
        kn_png_texts_free(&texts);
        kn_image_free(&made);
    }
}

/* What is more than 64 KiB has its pixels in pieces. */
static void texts_of_a_picture_in_pieces_are_read(void **state) {
    (void)state;
    kn_image made;
    assert_true(kn_image_new(200, 200, 3, &made, NULL));
    uint32_t noise = 1;
    for (size_t i = 0; i < (size_t)200 * 200 * 3; i++)
        made.pixels[i] = (uint8_t)((noise = noise * 1664525 + 1013904223) >> 24);
    const kn_png_text entry = { KN_PARAMETERS_KEY, "a boat" };
    KN_AUTO_BUF file;
    kn_buf_init(&file, 1 << 20);
    assert_true(kn_png_write(&made, &entry, 1, &file, NULL));
    const char *first = memmem(file.data, file.len, "IDAT", 4);
    assert_non_null(first);
    assert_non_null(memmem(first + 4, file.len - (size_t)(first + 4 - file.data), "IDAT", 4));
    kn_png_texts texts = { 0 };
    kn_error err = { 0 };
    if (!kn_png_texts_read(file.data, file.len, &limits, &texts, &err))
        fail_msg("%s", err.text);
    assert_string_equal(kn_png_texts_find(&texts, KN_PARAMETERS_KEY), "a boat");
    kn_png_texts_free(&texts);
    kn_image_free(&made);
}

/* What stands between the header of a file and all else. */
static void insert_chunk(kn_buf *file, const char *type, const void *data, size_t len) {
    enum { BEHIND_HEADER = 8 + 12 + 13 };
    KN_AUTO_BUF whole;
    kn_buf_init(&whole, 1 << 22);
    assert_true(kn_buf_add(&whole, file->data, BEHIND_HEADER));
    add_chunk(&whole, type, data, len);
    assert_true(kn_buf_add(&whole, file->data + BEHIND_HEADER, file->len - BEHIND_HEADER));
    kn_buf_clear(file);
    assert_true(kn_buf_add(file, whole.data, whole.len));
}

static void texts_are_read_whatever_chunks_stand_beside_them(void **state) {
    (void)state;
    static const char *const beside[] = { "tRNS", "bKGD", "hIST", "pHYs", "tIME", "gAMA", "sRGB",
                                          "cHRM", "eXIf", "iCCP", "sBIT", "oFFs", "sPLT", "sTER",
                                          "pCAL", "sCAL", "acTL", "caBX", "prVt" };
    static const kn_png_text entry = { KN_PARAMETERS_KEY, "a boat" };
    kn_image made = gradient(3, 3, 3);
    for (size_t i = 0; i <= KN_COUNT(beside); i++) {
        KN_AUTO_BUF file;
        kn_buf_init(&file, 1 << 22);
        assert_true(kn_png_write(&made, &entry, 1, &file, NULL));
        insert_chunk(&file, i < KN_COUNT(beside) ? beside[i] : "KUNO", "123456789", 9);
        kn_png_texts texts = { 0 };
        kn_error err = { 0 };
        bool read = kn_png_texts_read(file.data, file.len, &limits, &texts, &err);
        if (i == KN_COUNT(beside)) { /* nobody can do without it, and nobody knows it */
            assert_false(read);
            break;
        }
        if (!read)
            fail_msg("%s: %s", beside[i], err.text);
        assert_string_equal(kn_png_texts_find(&texts, KN_PARAMETERS_KEY), "a boat");
        kn_png_texts_free(&texts);
    }
    kn_image_free(&made);
}

static void texts_that_png_cannot_hold_are_refused(void **state) {
    (void)state;
    kn_image made = gradient(3, 3, 3);
    static const kn_png_text rows[] = { { "key", "\xFF" }, { "", "empty key" }, { "line\nkey", "x" } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF file;
        kn_buf_init(&file, 1 << 20);
        kn_error err = { 0 };
        assert_false(kn_png_write(&made, &rows[i], 1, &file, &err));
        assert_int_not_equal(err.code, KN_OK);
    }
    kn_image_free(&made);
}

static void texts_of_other_programs_are_read(void **state) {
    (void)state;
    static const struct {
        const char *file, *key, *starts;
    } rows[] = {
        { "workflow-a1111.png", "parameters", "a red boat on a quiet lake, second line\nwith a break\nNegative" },
        { "workflow-2512-itxt.png", "prompt", "{\"37\": {\"class_type\": \"UNETLoader\"" },
        { "workflow-2512-compressed.png", "prompt", "{\"37\": {\"class_type\": \"UNETLoader\"" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF file;
        load(rows[i].file, &file);
        kn_png_texts texts = { 0 };
        kn_error err = { 0 };
        if (!kn_png_texts_read(file.data, file.len, &limits, &texts, &err))
            fail_msg("%s: %s", rows[i].file, err.text);
        const char *text = kn_png_texts_find(&texts, rows[i].key);
        assert_non_null(text);
        assert_memory_equal(text, rows[i].starts, strlen(rows[i].starts));
        kn_png_texts_free(&texts);
    }
}

static void texts_that_are_damaged_or_expand_without_end_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *file, *says;
    } rows[] = {
        { "workflow-refuse-bad-crc.png", "CRC" },
        { "crc-text.png", "CRC" },
        { "ztxt-8MB.png", "zTXt" },
        { "text.png", "known format" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF file;
        load(rows[i].file, &file);
        kn_png_texts texts = { 0 };
        kn_error err = { 0 };
        assert_false(kn_png_texts_read(file.data, file.len, &limits, &texts, &err));
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: says '%s', not '%s'", rows[i].file, err.text, rows[i].says);
    }
}

static void many_texts_together_are_bounded(void **state) {
    (void)state;
    /* One compressed text of 4 MiB, forty times: 180 kB that would become 160 MiB. */
    char *long_text = malloc((4 << 20) + 1);
    assert_non_null(long_text);
    memset(long_text, 'x', 4 << 20);
    long_text[4 << 20] = 0;
    KN_AUTO_BUF file;
    kn_buf_init(&file, 1 << 20);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &file, append, flush_nothing);
    png_set_IHDR(png, info, 1, 1, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_text entry = { .compression = PNG_TEXT_COMPRESSION_zTXt, .key = (char[]){ "key" }, .text = long_text };
    for (int i = 0; i < 40; i++)
        png_set_text(png, info, &entry, 1);
    png_write_info(png, info);
    png_write_row(png, (png_const_bytep) "x");
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(long_text);

    kn_png_texts texts = { 0 };
    kn_error err = { 0 };
    assert_false(kn_png_texts_read(file.data, file.len, &limits, &texts, &err));
    assert_int_equal(err.code, KN_E_RANGE);
    kn_image image = { 0 };
    err = (kn_error){ 0 };
    assert_true(kn_png_read(file.data, file.len, &limits, &image, &err)); /* the pixels do not need them */
    kn_image_free(&image);
}

/* ---- memory ---- */

static bool write_read_and_list(void *made, kn_error *err) {
    const kn_png_text entries[] = { { "parameters", "caf\xC3\xA9" }, { "Software", "kuno" } };
    KN_AUTO_BUF file;
    kn_buf_init(&file, 1 << 20);
    kn_image image = { 0 };
    kn_png_texts texts = { 0 };
    bool ok = kn_png_write(made, entries, 2, &file, err) && kn_png_read(file.data, file.len, &limits, &image, err) &&
              kn_png_texts_read(file.data, file.len, &limits, &texts, err);
    kn_image_free(&image);
    kn_png_texts_free(&texts);
    return ok;
}

static void any_failed_allocation_is_an_error_without_a_leak(void **state) {
    (void)state;
    kn_image made = gradient(20, 20, 4);
    alloc_fail_each(write_read_and_list, &made, 20, 1000); /* libpng's own allocations are among them */
    kn_image_free(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_formats_are_refused_by_name),
        cmocka_unit_test(every_kind_of_png_gives_its_exact_pixels),
        cmocka_unit_test(refuses_an_animation_by_name),
        cmocka_unit_test(limits_are_told_from_the_header),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_flipped_bit_never_changes_pixels),
        cmocka_unit_test(data_behind_the_pixels_is_not_expanded_without_end),
        cmocka_unit_test(damaged_transparency_is_not_dropped),
        cmocka_unit_test(written_pixels_come_back),
        cmocka_unit_test(every_row_has_the_filter_that_suits_it),
        cmocka_unit_test(noise_and_repetitions_are_both_small),
        cmocka_unit_test(the_same_picture_gives_the_same_bytes),
        cmocka_unit_test(writing_stops_at_the_limit_of_the_buffer),
        cmocka_unit_test(texts_come_back_byte_for_byte),
        cmocka_unit_test(texts_of_a_picture_in_pieces_are_read),
        cmocka_unit_test(texts_are_read_whatever_chunks_stand_beside_them),
        cmocka_unit_test(texts_that_png_cannot_hold_are_refused),
        cmocka_unit_test(texts_of_other_programs_are_read),
        cmocka_unit_test(texts_that_are_damaged_or_expand_without_end_are_refused),
        cmocka_unit_test(many_texts_together_are_bounded),
        cmocka_unit_test(any_failed_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
