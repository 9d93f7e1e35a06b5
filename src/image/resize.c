#include "image/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cpu/kernels.h"

/* Weights are fixed-point numbers: 8 bits for the sample, 2 for overshoot, the rest of 32 for the weight. */
enum { FRACTION_BITS = 32 - 8 - 2 };
_Static_assert((int)FRACTION_BITS == (int)KN_BYTE_WEIGHT_BITS, "weights are those of the kernels");

static double sinc(double x) {
    return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

static double lanczos(double x) {
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static double bicubic(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double hamming(double x) {
    x = fabs(x);
    return x < 1 ? sinc(x) * (0.54 + 0.46 * cos(M_PI * x)) : 0;
}

static double bilinear(double x) {
    return fmax(1 - fabs(x), 0);
}

static double box(double x) {
    return x > -0.5 && x <= 0.5 ? 1 : 0;
}

static const struct filter {
    double support;
    double (*weight)(double x);
} filters[KN_FILTER_COUNT] = {
    [KN_LANCZOS] = { 3, lanczos },   [KN_BICUBIC] = { 2, bicubic }, [KN_HAMMING] = { 1, hamming },
    [KN_BILINEAR] = { 1, bilinear }, [KN_BOX] = { 0.5, box },
};

/* How one axis is resized: sample i of the result is a weighted sum of `count[i]` samples from `first[i]` on. */
struct axis {
    uint32_t to;
    size_t taps; /* room for weights per sample */
    uint32_t *first, *count;
    int32_t *weight; /* [to, taps] */
};

static void axis_free(struct axis *a) {
    free(a->first);
    free(a->count);
    free(a->weight);
}
#define AUTO_AXIS KN_CLEANUP(axis_free) struct axis

static bool axis_new(struct axis *a, uint32_t from, uint32_t to, const struct filter *f, kn_error *err) {
    double scale = (double)from / to, stretch = fmax(scale, 1), support = f->support * stretch;
    *a = (struct axis){ .to = to, .taps = (size_t)ceil(support) * 2 + 1 };
    a->first = calloc(to, sizeof *a->first);
    a->count = calloc(to, sizeof *a->count);
    a->weight = calloc(to * a->taps, sizeof *a->weight);
    double *exact = calloc(a->taps, sizeof *exact);
    bool ok = a->first && a->count && a->weight && exact;
    for (uint32_t i = 0; ok && i < to; i++) {
        double centre = (i + 0.5) * scale, sum = 0;
        uint32_t first = (uint32_t)fmax(centre - support + 0.5, 0);
        uint32_t count = (uint32_t)fmin(centre + support + 0.5, from) - first;
        for (uint32_t k = 0; k < count; k++) {
            exact[k] = f->weight((k + first - centre + 0.5) * (1 / stretch));
            sum += exact[k];
        }
        for (uint32_t k = 0; k < count; k++) {
            double w = (sum != 0 ? exact[k] / sum : exact[k]) * (1 << FRACTION_BITS);
            a->weight[i * a->taps + k] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
        }
        a->first[i] = first;
        a->count[i] = count;
    }
    free(exact);
    return ok || kn_fail(err, KN_E_NOMEM, "out of memory for resizing a picture");
}

/* ---- columns to columns ---- */

static bool resize_columns(const kn_image *from, uint32_t height, const struct filter *f, const kn_kernels *kernels,
                           kn_image *ret, kn_error *err) {
    AUTO_AXIS a;
    if (!axis_new(&a, from->height, height, f, err) || !kn_image_new(from->width, height, from->channels, ret, err))
        return false;
    size_t row_bytes = (size_t)from->width * from->channels;
    for (uint32_t y = 0; y < height; y++)
        kernels->weigh_rows(from->pixels + a.first[y] * row_bytes, row_bytes, a.weight + y * a.taps, a.count[y],
                            row_bytes, ret->pixels + y * row_bytes);
    return true;
}

/* ---- rows to rows ---- */

/* Some rows at a time are turned, so that pixels of one column lie together: then columns are rows to the kernel.
 * Turned are a few columns of all these rows at a time, which stay in the nearest cache. */
enum { TURNED_ROWS = 16, TURNED_COLUMNS = 64 };

static inline void turn_pixels(const uint8_t *from, size_t from_row, size_t from_column, uint8_t *to, size_t to_row,
                               size_t to_column, size_t rows, size_t columns, size_t channels) {
    for (size_t first = 0; first < columns; first += TURNED_COLUMNS)
        for (size_t y = 0; y < rows; y++)
            for (size_t x = first; x < KN_MIN(columns, first + TURNED_COLUMNS); x++)
                memcpy(to + y * to_row + x * to_column, from + y * from_row + x * from_column, channels);
}

/* With a number that the compiler knows, a pixel is moved at once. */
static void turn(const uint8_t *from, size_t from_row, size_t from_column, uint8_t *to, size_t to_row, size_t to_column,
                 size_t rows, size_t columns, size_t channels) {
    switch (channels) {
    case 1: turn_pixels(from, from_row, from_column, to, to_row, to_column, rows, columns, 1); break;
    case 3: turn_pixels(from, from_row, from_column, to, to_row, to_column, rows, columns, 3); break;
    default: turn_pixels(from, from_row, from_column, to, to_row, to_column, rows, columns, 4); break;
    }
}

/* `turned` has room for the columns of both pictures. */
static void resize_some_rows(const kn_image *from, uint32_t y, size_t rows, const struct axis *a,
                             const kn_kernels *kernels, uint8_t *turned, kn_image *to) {
    size_t pixel = from->channels, column = rows * pixel;
    uint8_t *result = turned + from->width * column;
    size_t from_row = from->width * pixel, to_row = to->width * pixel;
    turn(from->pixels + y * from_row, from_row, pixel, turned, pixel, column, rows, from->width, pixel);
    for (size_t x = 0; x < to->width; x++)
        kernels->weigh_rows(turned + a->first[x] * column, column, a->weight + x * a->taps, a->count[x], column,
                            result + x * column);
    turn(result, pixel, column, to->pixels + y * to_row, to_row, pixel, rows, to->width, pixel);
}

static bool resize_rows(const kn_image *from, uint32_t width, const struct filter *f, const kn_kernels *kernels,
                        kn_image *ret, kn_error *err) {
    AUTO_AXIS a;
    if (!axis_new(&a, from->width, width, f, err) || !kn_image_new(width, from->height, from->channels, ret, err))
        return false;
    size_t bytes = ((size_t)from->width + width) * from->channels * TURNED_ROWS;
    uint8_t *turned = malloc(bytes);
    if (!turned) {
        kn_image_free(ret);
        return kn_fail_nomem(err, bytes);
    }
    for (uint32_t y = 0; y < from->height; y += TURNED_ROWS)
        resize_some_rows(from, y, KN_MIN(from->height - y, TURNED_ROWS), &a, kernels, turned, ret);
    free(turned);
    return true;
}

/* ---- transparency ---- */

static void premultiply(kn_image *image) {
    uint8_t *p = image->pixels;
    for (size_t i = 0; i < (size_t)image->width * image->height; i++, p += 4) {
        for (int c = 0; c < 3; c++) {
            unsigned t = p[c] * p[3] + 128u;
            p[c] = (uint8_t)((t + (t >> 8)) >> 8); /* t / 255, rounded */
        }
    }
}

static void unpremultiply(kn_image *image) {
    uint8_t *p = image->pixels;
    for (size_t i = 0; i < (size_t)image->width * image->height; i++, p += 4) {
        for (int c = 0; c < 3 && p[3] != 0 && p[3] != 255; c++)
            p[c] = (uint8_t)KN_MIN(255, 255 * p[c] / p[3]);
    }
}

/* ---- both ways ---- */

/* The axis that loses more goes first. An axis that keeps its size is not filtered. */
static bool resize_colours(const kn_image *from, uint32_t width, uint32_t height, const struct filter *f,
                           const kn_kernels *kernels, kn_image *ret, kn_error *err) {
    if (width == from->width)
        return resize_columns(from, height, f, kernels, ret, err);
    if (height == from->height)
        return resize_rows(from, width, f, kernels, ret, err);
    int64_t lost_columns = (int64_t)from->width - width, lost_rows = (int64_t)from->height - height;
    kn_image half = { 0 };
    bool ok =
        lost_rows > 0 && lost_rows > 2 * lost_columns
            ? resize_columns(from, height, f, kernels, &half, err) && resize_rows(&half, width, f, kernels, ret, err)
            : resize_rows(from, width, f, kernels, &half, err) && resize_columns(&half, height, f, kernels, ret, err);
    kn_image_free(&half);
    return ok;
}

static bool copy(const kn_image *from, kn_image *ret, kn_error *err) {
    if (!kn_image_new(from->width, from->height, from->channels, ret, err))
        return false;
    memcpy(ret->pixels, from->pixels, (size_t)from->width * from->height * from->channels);
    return true;
}

bool kn_image_resize_by(const kn_image *from, uint32_t width, uint32_t height, kn_filter filter, kn_image *ret,
                        kn_error *err) {
    const struct filter *f = &filters[filter];
    kn_kernels kernels;
    if (width == from->width && height == from->height)
        return copy(from, ret, err);
    if (!kn_kernels_choose(&kernels, err))
        return false;
    if (from->channels != 4)
        return resize_colours(from, width, height, f, &kernels, ret, err);
    kn_image multiplied = { 0 };
    if (!copy(from, &multiplied, err))
        return false;
    premultiply(&multiplied);
    bool ok = resize_colours(&multiplied, width, height, f, &kernels, ret, err);
    kn_image_free(&multiplied);
    if (ok)
        unpremultiply(ret);
    return ok;
}

bool kn_image_resize(const kn_image *from, uint32_t width, uint32_t height, kn_image *ret, kn_error *err) {
    return kn_image_resize_by(from, width, height, KN_LANCZOS, ret, err);
}

/* To the nearest multiple, ties to the even one, as Python rounds. */
static uint32_t on_grid(double side, unsigned step) {
    return (uint32_t)fmax(rint(side / step), 1) * step;
}

void kn_reference_size(uint32_t width, uint32_t height, unsigned resolution, uint32_t *ret_width,
                       uint32_t *ret_height) {
    enum { STEP = 32 };
    double area = (double)resolution * resolution, aspect = (double)width / height;
    *ret_width = on_grid(resolution ? sqrt(area * aspect) : width, STEP);
    *ret_height = on_grid(resolution ? sqrt(area * aspect) / aspect : height, STEP);
}

void kn_vision_size(uint32_t width, uint32_t height, unsigned factor, double least, double most, uint32_t *ret_width,
                    uint32_t *ret_height) {
    double w = rint((double)width / factor) * factor, h = rint((double)height / factor) * factor;
    double by = sqrt((double)width * height / (w * h > most ? most : least));
    if (w * h > most) {
        w = floor(width / by / factor) * factor;
        h = floor(height / by / factor) * factor;
    } else if (w * h < least) {
        w = ceil(width / by / factor) * factor;
        h = ceil(height / by / factor) * factor;
    }
    *ret_width = (uint32_t)fmax(w, factor);
    *ret_height = (uint32_t)fmax(h, factor);
}

void kn_aspect_size(unsigned a, unsigned b, double pixels, unsigned step, uint32_t *ret_width, uint32_t *ret_height) {
    double unit = sqrt(pixels / ((double)a * b));
    *ret_width = on_grid(a * unit, step);
    *ret_height = on_grid(b * unit, step);
}
