/* What happens to a finished picture: its way to a file, and to another size. That is one thread's work, and knows no
 * device. The picture is smooth structure with a little noise, as one that was drawn: neither flat nor random. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/bench.h"
#include "image/png.h"
#include "image/resize.h"

enum { TEXT_LIMIT = 4096, CHANNELS = 3, FILE_LIMIT = 256 << 20 };

struct bench_picture {
    kn_bench *bench;
    kn_image from;
    kn_buf file;
};

/* One work at one size; to: 0 where the size stays. */
static const struct row {
    const char *name;
    uint32_t width, height, to_width, to_height;
} rows[] = {
    { "png 3840x2160", 3840, 2160, 0, 0 },
    { "lanczos 1024x1024 to 4096x4096", 1024, 1024, 4096, 4096 },
    { "lanczos 3840x2160 to 1365x768", 3840, 2160, 1365, 768 },
};

/* About normally distributed, of deviation 1: the sum of twelve even numbers. */
static double noise(uint32_t *state) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (double)*state * 0x1p-32;
    }
    return sum;
}

static uint8_t byte_of(double value) {
    return (uint8_t)fmin(fmax(value, 0), 255);
}

static bool make_picture(const struct row *r, kn_image *ret, kn_error *err) {
    if (!kn_image_new(r->width, r->height, CHANNELS, ret, err))
        return false;
    uint32_t state = 3;
    for (uint32_t y = 0; y < r->height; y++) {
        uint8_t *row = ret->pixels + (size_t)y * r->width * CHANNELS;
        for (uint32_t x = 0; x < r->width; x++) {
            double base = 128 + 60 * sin(x / 190.0) * cos(y / 130.0) + 30 * sin((x + y) / 37.0);
            row[x * CHANNELS] = byte_of(base + 2 * noise(&state));
            row[x * CHANNELS + 1] = byte_of(base * 0.8 + 20 + 2 * noise(&state));
            row[x * CHANNELS + 2] = byte_of(255 - base + 2 * noise(&state));
        }
    }
    return true;
}

static bool work(struct bench_picture *p, const struct row *r, kn_error *err) {
    if (!r->to_width) {
        kn_buf_free(&p->file);
        return kn_png_write(&p->from, NULL, 0, &p->file, err);
    }
    kn_image to = { 0 };
    bool ok = kn_image_resize(&p->from, r->to_width, r->to_height, &to, err);
    kn_image_free(&to);
    return ok;
}

static bool tell(const struct bench_picture *p, const struct row *r, const kn_bench_times *t, kn_error *err) {
    uint64_t pixels = (uint64_t)KN_MAX(r->width, r->to_width) * KN_MAX(r->height, r->to_height);
    double seconds = kn_bench_median(t->seconds, t->count), per_second = seconds > 0 ? (double)pixels / seconds : 0;
    KN_AUTO_BUF text;
    kn_buf_init(&text, TEXT_LIMIT);
    bool ok = kn_buf_printf(&text, "%-32s %9.2f ms  %.1f megapixels/s", r->name, seconds * 1e3, per_second * 1e-6) &&
              (r->to_width || kn_buf_printf(&text, ", %s", kn_bytes(p->file.len).text)) && kn_buf_add_text(&text, "\n");
    json_t *result = json_pack("{s:s, s:s, s:i, s:I, s:f}", "bench", "picture", "name", r->name, "threads", 1, "pixels",
                               (json_int_t)pixels, "per_second", per_second);
    ok = ok && result && kn_bench_add_times(result, t) &&
         (r->to_width || json_object_set_new(result, "file_bytes", json_integer((json_int_t)p->file.len)) == 0);
    if (ok)
        return kn_bench_tell(p->bench, result, &text, err);
    json_decref(result);
    return kn_fail_nomem(err, TEXT_LIMIT);
}

/* After once to warm up. */
static bool measure(struct bench_picture *p, const struct row *r, kn_error *err) {
    static kn_bench_times t;
    t.count = 0;
    bool ok = make_picture(r, &p->from, err) && work(p, r, err);
    while (ok && t.count < p->bench->repeat && kn_bench_wait(p->bench)) {
        double cpu_start = kn_now_process(), start = kn_now();
        ok = work(p, r, err);
        double seconds = kn_now() - start, cpu_seconds = kn_now_process() - cpu_start;
        if (ok)
            kn_bench_count(p->bench, &t, seconds, cpu_seconds);
        ok = ok && (!atomic_load(&p->bench->stop) || kn_fail(err, KN_E_CANCELLED, "cancelled"));
    }
    ok = ok && tell(p, r, &t, err);
    kn_image_free(&p->from);
    return ok;
}

bool kn_bench_picture(kn_bench *b, kn_error *err) {
    struct bench_picture p = { .bench = b };
    const char *wanted = b->o->filter ? b->o->filter : "";
    bool ok = true, found = false;
    kn_buf_init(&p.file, FILE_LIMIT);
    for (size_t i = 0; i < KN_COUNT(rows) && ok; i++) {
        bool fits = strstr(rows[i].name, wanted) != NULL;
        found = found || fits;
        ok = !fits || measure(&p, &rows[i], err);
    }
    kn_buf_free(&p.file);
    return found ? ok : kn_bench_fail_filter(b, err);
}
