#include "image/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weights are fixed-point numbers: 8 bits for the sample, 2 for overshoot, the rest of 32 for the weight. */
enum { FRACTION_BITS = 32 - 8 - 2 };

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

static uint8_t clamped(int32_t sum) {
    int32_t v = sum >> FRACTION_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static bool resize_rows(kn_image *image, uint32_t width, const struct filter *f, kn_error *err) {
    AUTO_AXIS a;
    kn_image wide = { 0 };
    if (!axis_new(&a, image->width, width, f, err) || !kn_image_new(width, image->height, image->channels, &wide, err))
        return false;
    unsigned channels = image->channels;
    uint8_t *to = wide.pixels;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + (size_t)y * image->width * channels;
        for (uint32_t x = 0; x < width; x++) {
            int32_t sum[4] = { 1 << (FRACTION_BITS - 1), 1 << (FRACTION_BITS - 1), 1 << (FRACTION_BITS - 1),
                               1 << (FRACTION_BITS - 1) };
            const uint8_t *at = row + (size_t)a.first[x] * channels;
            const int32_t *weight = a.weight + x * a.taps;
            for (uint32_t k = 0; k < a.count[x]; k++, at += channels)
                for (unsigned c = 0; c < channels; c++)
                    sum[c] += at[c] * weight[k];
            for (unsigned c = 0; c < channels; c++)
                *to++ = clamped(sum[c]);
        }
    }
    kn_image_free(image);
    *image = wide;
    return true;
}

static bool resize_columns(kn_image *image, uint32_t height, const struct filter *f, kn_error *err) {
    AUTO_AXIS a;
    kn_image high = { 0 };
    size_t row_bytes = (size_t)image->width * image->channels;
    int32_t *sum = NULL;
    if (!axis_new(&a, image->height, height, f, err) ||
        !kn_image_new(image->width, height, image->channels, &high, err))
        return false;
    sum = malloc(row_bytes * sizeof *sum);
    if (!sum) {
        kn_image_free(&high);
        return kn_fail_nomem(err, row_bytes * sizeof *sum);
    }
    for (uint32_t y = 0; y < height; y++) {
        for (size_t x = 0; x < row_bytes; x++)
            sum[x] = 1 << (FRACTION_BITS - 1);
        for (uint32_t k = 0; k < a.count[y]; k++) {
            const uint8_t *row = image->pixels + (a.first[y] + k) * row_bytes;
            int32_t weight = a.weight[y * a.taps + k];
            for (size_t x = 0; x < row_bytes; x++)
                sum[x] += row[x] * weight;
        }
        for (size_t x = 0; x < row_bytes; x++)
            high.pixels[y * row_bytes + x] = clamped(sum[x]);
    }
    free(sum);
    kn_image_free(image);
    *image = high;
    return true;
}

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

bool kn_image_resize_by(const kn_image *from, uint32_t width, uint32_t height, kn_filter filter, kn_image *ret,
                        kn_error *err) {
    const struct filter *f = &filters[filter];
    kn_image image = { 0 };
    if (!kn_image_new(from->width, from->height, from->channels, &image, err))
        return false;
    memcpy(image.pixels, from->pixels, (size_t)from->width * from->height * from->channels);
    bool wider = width != from->width, higher = height != from->height, transparent = from->channels == 4;
    if (transparent && (wider || higher))
        premultiply(&image);
    /* The axis that loses more goes first. An axis that keeps its size is not filtered. */
    int64_t lost_columns = (int64_t)from->width - width, lost_rows = (int64_t)from->height - height;
    bool columns_first = lost_rows > 0 && lost_rows > 2 * lost_columns;
    bool ok = !higher || !columns_first || resize_columns(&image, height, f, err);
    ok = ok && (!wider || resize_rows(&image, width, f, err));
    ok = ok && (!higher || columns_first || resize_columns(&image, height, f, err));
    if (!ok) {
        kn_image_free(&image);
        return false;
    }
    if (transparent && (wider || higher))
        unpremultiply(&image);
    *ret = image;
    return true;
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
