#include "cli/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/threads.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/signals.h"

enum { TEXT_LIMIT = 1 << 20, REPEAT = 5, MAX_TOKENS = 500 };

static bool measure_peak(kn_bench *b, kn_error *err);

static const struct subject {
    kn_name name;
    bool (*measure)(kn_bench *b, kn_error *err);
    bool has_model;
} subjects[] = {
    { { "peak", { NULL }, "what the processor can do at most" }, measure_peak, false },
    { { "ops", { "op" }, "single operations at sizes that models have" }, kn_bench_ops, false },
    { { "encode", { NULL }, "a prompt's way through the text encoder" }, kn_bench_encode, true },
    { { "step", { NULL }, "one step of the diffusion model" }, kn_bench_step, true },
    { { "decode", { NULL }, "the way from the latent to the picture" }, kn_bench_decode, true },
    { { "upscale", { NULL }, "a picture's way through an upscaler" }, kn_bench_upscale, false },
    { { "picture", { NULL }, "a finished picture's way to a file, and to another size" }, kn_bench_picture, false },
};

#define AT(member) offsetof(kn_bench_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to measure"),
    { .kind = KN_OPTION_CHOICE,
      .arg = "WHAT",
      .at = AT(what),
      .help = "the processor's limits, single operations, a stage of a picture, an upscaler, or finished pictures",
      .names = subjects,
      .name_bytes = sizeof subjects[0],
      .name_count = KN_COUNT(subjects) },
    KN_OPT(TEXT, 0, "filter", "TEXT", AT(filter), "only operations, or works on pictures, whose name holds this"),
    KN_OPT_RANGE(INTEGER, 'r', "repeat", "N", AT(repeat), 1, KN_BENCH_REPEAT_MAX,
                 "how often each is measured, after once to warm up (default: 5)"),

    KN_OPT_GROUP("The picture of a stage"),
    KN_OPT(TEXT, 0, "model-profile", "NAME", AT(model_profile), "the model to use, a profile in models.toml"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "read profiles from this models.toml"),
    KN_OPT_RANGE(SIZE, 0, "size", "WxH", AT(size), 16, 16384, "width and height in pixels, multiples of 16"),
    KN_OPT_RANGE(INTEGER, 0, "tokens", "N", AT(tokens), 1, MAX_TOKENS,
                 "length of the prompt, without the model's template around it (default: 100)"),

    KN_OPT_GROUP("The upscaler"),
    KN_OPT(PATH, 0, "upscaler", "FILE", AT(upscaler), "the network that enlarges a picture of --size (128x128)"),

    KN_OPT_GROUP("Machine"),
    KN_OPT_RANGE(INTEGER, 't', "threads", "N", AT(threads), 1, 1024,
                 "threads to compute with (default: one for each core that this process may use)"),
    KN_OPT_CHOICE(0, "precision", AT(precision), kn_precision_names,
                  "narrower products where the processor gains from them, or float32 throughout"),

    KN_OPT_GROUP("Output"),
    KN_OPT(FLAG, 0, "json", NULL, AT(json), "tell each result as one JSON object on a line of its own"),
    KN_OPT(
        FLAG, 0, "paced", NULL, AT(paced),
        "measure when a line comes on standard input and tell each time at once, for programs that take turns; needs "
        "--json"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

static const struct subject *subject_of(const kn_bench_options *o) {
    const struct subject *s = subjects;
    while (strcmp(s->name.name, o->what) != 0)
        s++;
    return s;
}

/* What single options cannot know. */
static bool check(const void *given, kn_error *err) {
    const kn_bench_options *o = given;
    if (!o->what)
        return kn_fail(err, KN_E_USAGE, "needs to know what to measure, like: kuno bench ops");
    bool upscales = strcmp(o->what, "upscale") == 0;
    const char *of_model = o->model_profile           ? "--model-profile"
                           : o->config                ? "--config"
                           : o->tokens.set            ? "--tokens"
                           : o->size.set && !upscales ? "--size"
                                                      : NULL;
    if (of_model && !subject_of(o)->has_model)
        return kn_fail(err, KN_E_USAGE, "%s is for the stages of a picture; %s needs no model", of_model, o->what);
    if (upscales != (o->upscaler != NULL))
        return kn_fail(err, KN_E_USAGE, "--upscaler names the network of kuno bench upscale; give both");
    bool finished = strcmp(o->what, "picture") == 0;
    if (o->filter && strcmp(o->what, "ops") != 0 && !finished)
        return kn_fail(err, KN_E_USAGE, "--filter chooses operations; it is for kuno bench ops and picture");
    if (finished && o->threads.set && o->threads.value != 1)
        return kn_fail(err, KN_E_USAGE, "--threads: what happens to finished pictures is done by 1 thread");
    if (finished && o->precision)
        return kn_fail(err, KN_E_USAGE, "--precision is for networks; pictures are finished");
    if (o->paced && (!o->json || strcmp(o->what, "peak") == 0))
        return kn_fail(err, KN_E_USAGE, "--paced is for programs: it needs --json, and something that is repeated");
    return true;
}

bool kn_bench_fail_filter(const kn_bench *b, kn_error *err) {
    return kn_fail(err, KN_E_NOT_FOUND, "--filter: no operation has '%s' in its name; without it all are told",
                   kn_quote_z(b->o->filter).text);
}

bool kn_bench_wait(const kn_bench *b) {
    if (!b->o->paced)
        return true;
    puts("{\"bench\":\"ready\"}");
    fflush(stdout);
    int c = getchar();
    while (c != '\n' && c != EOF)
        c = getchar();
    return c == '\n';
}

void kn_bench_count(const kn_bench *b, kn_bench_times *t, double seconds, double cpu_seconds) {
    t->seconds[t->count] = seconds;
    t->cpu_seconds[t->count] = cpu_seconds;
    t->count++;
    if (!b->o->paced)
        return;
    printf("{\"bench\":\"run\",\"seconds\":%.9g,\"cpu_seconds\":%.9g}\n", seconds, cpu_seconds);
    fflush(stdout);
}

static int compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double kn_bench_median(const double *values, size_t count) {
    double sorted[KN_BENCH_REPEAT_MAX];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    return count ? (sorted[(count - 1) / 2] + sorted[count / 2]) / 2 : 0;
}

bool kn_bench_add_times(json_t *result, const kn_bench_times *t) {
    json_t *list = json_array();
    for (size_t i = 0; i < t->count; i++)
        json_array_append_new(list, json_real(t->seconds[i]));
    return json_object_set_new(result, "seconds", list) == 0 &&
           json_object_set_new(result, "median_seconds", json_real(kn_bench_median(t->seconds, t->count))) == 0 &&
           json_object_set_new(result, "cpu_seconds", json_real(kn_bench_median(t->cpu_seconds, t->count))) == 0;
}

bool kn_bench_tell(const kn_bench *b, json_t *result, const kn_buf *text, kn_error *err) {
    if (!b->o->json) {
        json_decref(result);
        return kn_print(text, err);
    }
    KN_AUTO_BUF line;
    kn_buf_init(&line, TEXT_LIMIT);
    char *json = result ? json_dumps(result, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    bool ok = (json && kn_buf_printf(&line, "%s\n", json)) || kn_fail_nomem(err, TEXT_LIMIT);
    free(json);
    json_decref(result);
    return ok && kn_print(&line, err);
}

kn_precision kn_bench_precision(const kn_bench *b) {
    return b->o->precision && strcmp(b->o->precision, "exact") == 0 ? KN_EXACT : KN_FAST;
}

bool kn_bench_device_open(const kn_bench *b, kn_device **ret, kn_error *err) {
    return kn_device_open_cpu(b->o->threads.set ? (unsigned)b->o->threads.value : 0, ret, err);
}

/* ---- speed ---- */

kn_unit kn_bench_limit(const double peak[KN_UNIT_COUNT], kn_precision precision, bool int8) {
    kn_unit best = KN_UNIT_FMA;
    for (kn_unit u = KN_UNIT_BF16; u <= KN_UNIT_AMX_INT8 && precision == KN_FAST; u++) {
        bool is_int8 = u == KN_UNIT_INT8 || u == KN_UNIT_AMX_INT8;
        if ((int8 || !is_int8) && peak[u] > peak[best])
            best = u;
    }
    return best;
}

kn_bench_speed kn_bench_speed_of(double work, const kn_bench_times *t, unsigned threads, kn_unit limit,
                                 const double peak[KN_UNIT_COUNT]) {
    double seconds = kn_bench_median(t->seconds, t->count), cpu = kn_bench_median(t->cpu_seconds, t->count);
    kn_bench_speed s = { .work = work, .limit = limit };
    memcpy(s.peak, peak, sizeof s.peak);
    s.per_second = seconds > 0 ? work / seconds : 0;
    s.per_second_by_cpu = cpu > 0 ? work * KN_MIN(threads, kn_threads_available()) / cpu : 0;
    s.share = peak[limit] > 0 ? s.per_second_by_cpu / peak[limit] : 0;
    return s;
}

bool kn_bench_speed_measure(kn_device *d, kn_precision precision, double work, const kn_bench_times *t,
                            kn_bench_speed *ret, kn_error *err) {
    double peak[KN_UNIT_COUNT];
    kn_roofline *roofline = NULL;
    if (!kn_roofline_open(d, &roofline, err))
        return false;
    kn_roofline_measure(roofline, peak);
    kn_roofline_close(roofline);
    *ret = kn_bench_speed_of(work, t, kn_device_threads(d), kn_bench_limit(peak, precision, false), peak);
    return true;
}

static json_t *json_peaks(const double peak[KN_UNIT_COUNT]) {
    json_t *peaks = json_object();
    for (kn_unit u = 0; u < KN_UNIT_COUNT; u++)
        if (peak[u] > 0)
            json_object_set_new(peaks, kn_unit_name(u), json_real(peak[u]));
    return peaks;
}

static const char *per_second(kn_unit u) {
    return kn_unit_is_memory(u) ? "B/s" : "FLOP/s";
}

bool kn_bench_add_speed(json_t *result, const kn_bench_speed *s) {
    json_t *speed =
        json_pack("{s:I, s:s, s:f, s:f, s:o}", "work", (json_int_t)s->work, "unit", per_second(s->limit), "per_second",
                  s->per_second, "per_second_by_cpu", s->per_second_by_cpu, "peak", json_peaks(s->peak));
    bool ok = speed && json_object_update(result, speed) == 0;
    json_decref(speed);
    return ok && (s->share <= 0 || (json_object_set_new(result, "limit", json_string(kn_unit_name(s->limit))) == 0 &&
                                    json_object_set_new(result, "share", json_real(s->share)) == 0));
}

bool kn_bench_print_speed(kn_buf *text, const kn_bench_speed *s) {
    return kn_buf_printf(text, "%.1f G%s", s->per_second * 1e-9, per_second(s->limit)) &&
           (s->share <= 0 || kn_buf_printf(text, ", %.0f %% of %s", s->share * 100, kn_unit_name(s->limit)));
}

/* ---- the processor alone ---- */

static bool tell_peaks(const kn_bench *b, const kn_device *d, const double peak[KN_UNIT_COUNT], kn_error *err) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, TEXT_LIMIT);
    unsigned cores = kn_threads_default(), processors = kn_threads_available();
    bool ok = kn_buf_printf(&text, "%s kernels, %s; %s, %s may be used\n", kn_device_kernels(d),
                            kn_counted(kn_device_threads(d), "thread").text, kn_counted(cores, "core").text,
                            kn_counted(processors, "processor").text);
    for (kn_unit u = 0; u < KN_UNIT_COUNT; u++)
        if (peak[u] > 0)
            ok = ok && kn_buf_printf(&text, "%-10s %10.1f G%s\n", kn_unit_name(u), peak[u] * 1e-9, per_second(u));
    json_t *result = json_pack("{s:s, s:s, s:i, s:i, s:i, s:o}", "bench", "peak", "kernels", kn_device_kernels(d),
                               "threads", (int)kn_device_threads(d), "cores", (int)cores, "processors", (int)processors,
                               "peak", json_peaks(peak));
    return (ok || kn_fail_nomem(err, TEXT_LIMIT)) && kn_bench_tell(b, result, &text, err);
}

static bool measure_peak(kn_bench *b, kn_error *err) {
    kn_device *d = NULL;
    kn_roofline *roofline = NULL;
    double best[KN_UNIT_COUNT] = { 0 };
    bool ok = kn_bench_device_open(b, &d, err) && kn_roofline_open(d, &roofline, err);
    for (size_t i = 0; i < b->repeat && ok; i++) {
        kn_roofline_measure_again(roofline, best);
        ok = !atomic_load(&b->stop) || kn_fail(err, KN_E_CANCELLED, "cancelled");
    }
    ok = ok && tell_peaks(b, d, best, err);
    kn_roofline_close(roofline);
    kn_device_close(d);
    return ok;
}

static void ask_to_stop(void *ctx) {
    kn_bench *b = ctx;
    atomic_store(&b->stop, true);
}

static int run(const void *given) {
    static kn_bench b; /* signals reach it as long as the process lives */
    kn_error err = { 0 };
    b.o = given;
    b.repeat = b.o->repeat.set ? (size_t)b.o->repeat.value : REPEAT;
    kn_signals_install(ask_to_stop, &b);
    return subject_of(b.o)->measure(&b, &err) ? 0 : kn_report(NULL, &err);
}

const kn_command kn_command_bench = {
    .name = "bench",
    .help = "Measure how fast this machine draws",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(kn_bench_options),
    .check = check,
    .run = run,
};
