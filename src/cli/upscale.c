/* kuno upscale: reads a picture, has it enlarged, saves it. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/save.h"
#include "cli/signals.h"
#include "image/read.h"
#include "image/write.h"
#include "pipelines/upscale.h"

enum { FILE_LIMIT = 1 << 30, JSON_LIMIT = 1 << 20 };

typedef struct upscale_options {
    const char *image, *model;
    kn_given_size size;
    kn_given_real factor, blend;
    kn_given_integer tile, threads;
    bool prescale;
    const char *output, *precision;
    bool no_clobber, json, quiet;
} upscale_options;

#define AT(member) offsetof(upscale_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to enlarge"),
    KN_OPT(PATH, 0, NULL, "IMG", AT(image), "a PNG, JPEG or WebP file"),
    KN_OPT(PATH, 'm', "model", "FILE", AT(model),
           "the network that does it, a safetensors file: RRDBNet (ESRGAN), SRVGG or MoSR (default: none, Lanczos "
           "alone)"),
    KN_OPT_RANGE(REAL, 'f', "factor", "X", AT(factor), 0.01, 16,
                 "how much larger the result is (default: as much as the network makes it)"),
    KN_OPT_RANGE(SIZE, 0, "size", "WxH", AT(size), 1, KN_UPSCALE_SIDE, "width and height of the result in pixels"),

    KN_OPT_GROUP("How"),
    KN_OPT_RANGE(REAL, 0, "blend", "X", AT(blend), 0, 1,
                 "share of Lanczos in the result, against what a network overdoes (default: 0)"),
    KN_OPT(FLAG, 0, "prescale", NULL, AT(prescale),
           "shrink a large picture first, so that the network makes about 1.41 times what is wanted: faster, and "
           "better where the picture itself is soft"),
    KN_OPT_RANGE(INTEGER, 0, "tile", "N", AT(tile), KN_UPSCALE_TILE_MIN, KN_UPSCALE_TILE_MAX,
                 "pixels of a tile's side, a multiple of 4 (default: as memory allows)"),

    KN_OPT_GROUP("Output"),
    KN_OPT(PATH, 'o', "output", "FILE", AT(output),
           "where the picture goes (default: upscaled.png), as PNG, or as the ending says .jpg or .webp, with quality "
           "95; - is standard output"),
    KN_OPT(FLAG, 0, "no-clobber", NULL, AT(no_clobber), "never replace an existing file"),
    KN_OPT(FLAG, 0, "json", NULL, AT(json), "describe the result as one JSON object on standard output"),
    KN_OPT(FLAG, 'q', "quiet", NULL, AT(quiet), "show no progress"),

    KN_OPT_GROUP("Machine"),
    KN_OPT_RANGE(INTEGER, 't', "threads", "N", AT(threads), 1, 1024,
                 "threads to compute with (default: one for each core that this process may use)"),
    KN_OPT_CHOICE(0, "precision", AT(precision), kn_precision_names,
                  "narrower products where the processor gains from them, or float32 throughout"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

/* What single options cannot know. */
static bool check(const void *given, kn_error *err) {
    const upscale_options *o = given;
    if (!o->image)
        return kn_fail(err, KN_E_USAGE, "needs a picture, like: kuno upscale photo.jpg --model 4x.safetensors");
    if (o->size.set && o->factor.set)
        return kn_fail(err, KN_E_USAGE, "--size says what --factor would; give one of them");
    if (!o->model && !o->size.set && !o->factor.set)
        return kn_fail(err, KN_E_USAGE, "without --model it needs to know how large: --factor or --size");
    const char *of_network = o->blend.set ? "--blend" : o->prescale ? "--prescale" : o->tile.set ? "--tile" : NULL;
    if (of_network && !o->model)
        return kn_fail(err, KN_E_USAGE, "%s is about what a network makes; give --model, too", of_network);
    if (o->tile.set && o->tile.value % KN_UPSCALE_TILE_STEP)
        return kn_fail(err, KN_E_USAGE, "--tile: %lld is no multiple of %d", (long long)o->tile.value,
                       KN_UPSCALE_TILE_STEP);
    if (o->json && o->output && strcmp(o->output, "-") == 0)
        return kn_fail(err, KN_E_USAGE, "--json and --output - both want standard output; name a file");
    return true;
}

/* One run of the command. */
struct work {
    const upscale_options *o;
    const char *output;
    kn_device *device;
    kn_upscaler *upscaler;
    kn_image from, to;
    kn_upscale_wish wish;
    kn_upscale_report report;
    kn_progress progress;
};

static atomic_bool stop;

static void ask_to_stop(void *ctx) {
    (void)ctx;
    atomic_store(&stop, true);
}

static bool show(void *ctx, const char *phase, int step, int steps) {
    struct work *w = ctx;
    if (strcmp(phase, "tile") == 0 && step == 0)
        kn_progress_begin(&w->progress, "enlarge", (unsigned)steps);
    else if (strcmp(phase, "tile") == 0)
        kn_progress_step(&w->progress, (unsigned)step);
    return true;
}

static bool open_upscaler(struct work *w, kn_error *err) {
    const upscale_options *o = w->o;
    kn_precision precision = o->precision && strcmp(o->precision, "exact") == 0 ? KN_EXACT : KN_FAST;
    unsigned threads = o->threads.set ? (unsigned)o->threads.value : 0;
    return !o->model || (kn_device_open_cpu(threads, &w->device, err) &&
                         kn_upscaler_open(o->model, w->device, precision, &w->upscaler, err));
}

static bool make_wish(struct work *w, kn_error *err) {
    const upscale_options *o = w->o;
    double factor = o->factor.set ? o->factor.value : w->upscaler ? kn_upscaler_about(w->upscaler).scale : 1;
    double width = o->size.set ? o->size.width : fmax(rint(w->from.width * factor), 1);
    double height = o->size.set ? o->size.height : fmax(rint(w->from.height * factor), 1);
    if (width > KN_UPSCALE_SIDE || height > KN_UPSCALE_SIDE)
        return kn_fail(err, KN_E_RANGE,
                       "%.0fx%.0f is too large a result, at most %d are possible on a side; say less "
                       "with --factor or --size",
                       width, height, KN_UPSCALE_SIDE);
    w->wish = (kn_upscale_wish){ .width = (uint32_t)width,
                                 .height = (uint32_t)height,
                                 .blend = o->blend.set ? o->blend.value : 0,
                                 .prescale = o->prescale,
                                 .tile = o->tile.set ? (uint32_t)o->tile.value : 0,
                                 .progress = show,
                                 .progress_ctx = w,
                                 .stop = &stop };
    return true;
}

static bool save(struct work *w, kn_error *err) {
    const kn_image_form form = { .kind = kn_save_kind(w->output), .quality = KN_IMAGE_QUALITY };
    KN_AUTO_BUF file;
    kn_buf_init(&file, FILE_LIMIT);
    kn_progress_begin(&w->progress, "save", 0);
    return kn_image_write(&w->to, &form, &file, err) && kn_save(w->output, !w->o->no_clobber, file.data, file.len, err);
}

/* File names are bytes; JSON wants UTF-8. */
static json_t *json_name(const char *name) {
    json_t *text = json_string(name);
    return text ? text : json_string(kn_quote_path(name).text);
}

static bool print_json(struct work *w, kn_error *err) {
    const kn_upscale_report *r = &w->report;
    const kn_upscaler *u = w->upscaler;
    json_t *all =
        json_pack("{s:o, s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:I, s:I}", "file",
                  json_name(w->output), "width", (int)w->to.width, "height", (int)w->to.height, "architecture",
                  u ? kn_upscaler_about(u).kind->id : "lanczos", "scale", u ? (int)kn_upscaler_about(u).scale : 1,
                  "passes", r->passes, "tiles", r->tiles, "tile_width", (int)r->tile_width, "tile_height",
                  (int)r->tile_height, "alpha", w->to.channels == 4, "load_seconds", r->load_seconds, "seconds",
                  r->seconds, "weight_bytes", (json_int_t)r->weight_bytes, "peak_bytes", (json_int_t)r->peak_bytes);
    if (all && w->device)
        json_object_update_new(all,
                               json_pack("{s:s, s:s, s:i, s:s}", "device", kn_device_name(w->device), "kernels",
                                         kn_device_kernels(w->device), "threads", (int)kn_device_threads(w->device),
                                         "precision", w->o->precision ? w->o->precision : "fast"));
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    KN_AUTO_BUF out;
    kn_buf_init(&out, JSON_LIMIT);
    bool ok = (text && kn_buf_printf(&out, "%s\n", text)) || kn_fail_nomem(err, JSON_LIMIT);
    free(text);
    return ok && kn_print(&out, err);
}

static bool tell(const struct work *w, kn_error *err) {
    KN_AUTO_BUF line;
    kn_buf_init(&line, PATH_MAX);
    bool made = kn_buf_printf(&line, "%s: %ux%u\n", kn_quote_path(w->output).text, w->to.width, w->to.height);
    return (made || kn_fail_nomem(err, PATH_MAX)) && kn_print(&line, err);
}

static bool work(struct work *w, kn_error *err) {
    const upscale_options *o = w->o;
    if (!kn_image_read_file(o->image, &KN_IMAGE_LIMITS, &w->from, err))
        return kn_fail_within(err, "'%s'", kn_quote_path(o->image).text);
    if (!open_upscaler(w, err) || !make_wish(w, err) || !kn_save_check(w->output, !o->no_clobber, err))
        return false;
    kn_progress_begin(&w->progress, w->upscaler ? "load" : "enlarge", 0);
    if (!kn_upscale(w->upscaler, &w->from, &w->wish, &w->to, &w->report, err) || !save(w, err))
        return false;
    kn_progress_end(&w->progress);
    if (o->json)
        return print_json(w, err);
    return o->quiet || strcmp(w->output, "-") == 0 || tell(w, err);
}

static int run(const void *given) {
    const upscale_options *o = given;
    struct work w = { .o = o, .output = o->output ? o->output : "upscaled.png" };
    kn_error err = { 0 };
    kn_signals_install(ask_to_stop, NULL);
    kn_progress_init(&w.progress, o->quiet);
    bool ok = work(&w, &err);
    if (!ok)
        kn_progress_clear(&w.progress);
    kn_image_free(&w.from);
    kn_image_free(&w.to);
    kn_upscaler_close(w.upscaler);
    kn_device_close(w.device);
    return ok ? 0 : kn_report(NULL, &err);
}

const kn_command kn_command_upscale = {
    .name = "upscale",
    .help = "Enlarge a picture",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(upscale_options),
    .check = check,
    .run = run,
};
