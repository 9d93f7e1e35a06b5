/* One way of a picture through an upscaler, as `kuno upscale` has it done. */

#include "base/clock.h"
#include "base/text.h"
#include "cli/bench.h"
#include "pipelines/upscale.h"

enum { TEXT_LIMIT = 64 << 10, USUAL_SIDE = 128 };

struct upscale_bench {
    kn_bench *bench;
    kn_device *device;
    kn_upscaler *upscaler;
    kn_image from;
    kn_upscale_report report;
    kn_bench_times times;
};

static bool make_picture(struct upscale_bench *s, kn_error *err) {
    const kn_given_size *size = &s->bench->o->size;
    uint32_t width = size->set ? size->width : USUAL_SIDE, height = size->set ? size->height : USUAL_SIDE;
    if (!kn_image_new(width, height, 3, &s->from, err))
        return false;
    for (size_t i = 0, n = (size_t)width * height * 3; i < n; i++) /* any picture takes as long */
        s->from.pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    return true;
}

static bool enlarge(struct upscale_bench *s, kn_error *err) {
    uint32_t scale = kn_upscaler_about(s->upscaler).scale;
    const kn_upscale_wish wish = { .width = s->from.width * scale,
                                   .height = s->from.height * scale,
                                   .stop = &s->bench->stop };
    kn_image to = { 0 };
    bool ok = kn_upscale(s->upscaler, &s->from, &wish, &to, &s->report, err);
    kn_image_free(&to);
    return ok;
}

/* After once to warm up. */
static bool measure(struct upscale_bench *s, kn_error *err) {
    bool ok = enlarge(s, err);
    while (ok && s->times.count < s->bench->repeat && kn_bench_wait(s->bench)) {
        double cpu_start = kn_now_process(), start = kn_now();
        ok = enlarge(s, err);
        double seconds = kn_now() - start, cpu_seconds = kn_now_process() - cpu_start;
        if (ok)
            kn_bench_count(s->bench, &s->times, seconds, cpu_seconds);
    }
    return ok;
}

static bool print(const struct upscale_bench *s, const kn_bench_speed *speed, kn_buf *text) {
    const kn_upscaler_facts facts = kn_upscaler_about(s->upscaler);
    const kn_bench_times *t = &s->times;
    return kn_buf_printf(text,
                         "%s, by %u: %ux%u in %s; %s kernels, %s, %s\n"
                         "median of %-4zu %.4f s, %.4f s of processor time; ",
                         facts.kind->title, facts.scale, s->from.width, s->from.height,
                         kn_counted((uint64_t)s->report.tiles, "tile").text, kn_device_kernels(s->device),
                         kn_counted(kn_device_threads(s->device), "thread").text,
                         kn_bench_precision(s->bench) == KN_EXACT ? "exact" : "fast", t->count,
                         kn_bench_median(t->seconds, t->count), kn_bench_median(t->cpu_seconds, t->count)) &&
           kn_bench_print_speed(text, speed) &&
           kn_buf_printf(text, "\nmemory         %s of weights, %s to work in\n", kn_bytes(s->report.weight_bytes).text,
                         kn_bytes(s->report.peak_bytes).text);
}

static bool tell(const struct upscale_bench *s, kn_error *err) {
    const kn_upscaler_facts facts = kn_upscaler_about(s->upscaler);
    kn_precision precision = kn_bench_precision(s->bench);
    kn_bench_speed speed;
    if (!kn_bench_speed_measure(s->device, precision, 2 * s->report.products, &s->times, &speed, err))
        return false;
    KN_AUTO_BUF text;
    kn_buf_init(&text, TEXT_LIMIT);
    json_t *result =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:i, s:s, s:I, s:I}", "bench", "upscale", "architecture",
                  facts.kind->id, "scale", (int)facts.scale, "width", (int)s->from.width, "height", (int)s->from.height,
                  "tiles", s->report.tiles, "kernels", kn_device_kernels(s->device), "threads",
                  (int)kn_device_threads(s->device), "precision", precision == KN_EXACT ? "exact" : "fast",
                  "weight_bytes", (json_int_t)s->report.weight_bytes, "peak_bytes", (json_int_t)s->report.peak_bytes);
    if (print(s, &speed, &text) && result && kn_bench_add_times(result, &s->times) &&
        kn_bench_add_speed(result, &speed))
        return kn_bench_tell(s->bench, result, &text, err);
    json_decref(result);
    return kn_fail_nomem(err, TEXT_LIMIT);
}

bool kn_bench_upscale(kn_bench *b, kn_error *err) {
    static struct upscale_bench s;
    s = (struct upscale_bench){ .bench = b };
    bool ok = kn_bench_device_open(b, &s.device, err) &&
              kn_upscaler_open(b->o->upscaler, s.device, kn_bench_precision(b), &s.upscaler, err) &&
              make_picture(&s, err) && measure(&s, err) && tell(&s, err);
    kn_image_free(&s.from);
    kn_upscaler_close(s.upscaler);
    kn_device_close(s.device);
    return ok;
}
