/* One stage of a picture, through the pipeline that draws it: encoding a prompt, a step of the diffusion model,
 * decoding the latent. Pictures are drawn as ever, ended when what is measured is there, and drawn again until that was
 * often enough; the moments at which pipelines tell of their progress are where the clock is read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/bench.h"
#include "pipelines/plan.h"
#include "pipelines/settings.h"

enum { TEXT_LIMIT = 64 << 10, TOKENS = 100, PROMPT_LIMIT = 8192 };

struct stage_bench {
    kn_bench *bench;
    const char *phase; /* whose end is waited for: "encode", "step", "decode" */
    kn_stage stage;
    kn_model *model;
    kn_settings settings;
    kn_buf prompt;
    kn_draw_report report;
    kn_bench_times times;
    double first_seconds;     /* the first time, with what is then done once */
    double load_seconds;      /* likewise */
    double since, cpu_since;  /* when the pipeline last told something */
    double products_since;    /* its count then */
    double work;              /* floating-point operations of the last that was measured */
    bool is_warm, has_enough; /* one was measured; all that are wanted were */
};

/* ---- measuring ---- */

/* So many digits, each of which is a token of its own, from the first-th on of an endless row. */
static bool write_prompt(struct stage_bench *s, size_t digits, size_t first, kn_error *err) {
    kn_buf_clear(&s->prompt);
    for (size_t i = first; i < first + digits; i++)
        if (!kn_buf_printf(&s->prompt, "%zu", (i * 7 + i / 10) % 10))
            return kn_fail_nomem(err, PROMPT_LIMIT);
    s->settings.recipe.prompt = s->prompt.data;
    return true;
}

static bool watch(void *ctx, const char *phase, int step, int steps) {
    struct stage_bench *s = ctx;
    kn_bench_times *t = &s->times;
    double seconds = kn_now() - s->since, cpu_seconds = kn_now_process() - s->cpu_since;
    bool is_it = strcmp(phase, s->phase) == 0, is_last = step == steps;
    if (is_it && !s->is_warm) {
        s->first_seconds = seconds;
        s->is_warm = true;
    } else if (is_it && (step != 1 || steps == 1)) { /* a picture's first step has other work with it */
        kn_bench_count(s->bench, t, seconds, cpu_seconds);
    }
    if (is_it)
        s->work = 2 * (s->report.products - s->products_since);
    s->has_enough = t->count == s->bench->repeat || (is_it && !is_last && !kn_bench_wait(s->bench));
    s->products_since = s->report.products;
    s->cpu_since = kn_now_process();
    s->since = kn_now();
    return !s->has_enough && !(is_it && is_last); /* after that nothing of this picture is wanted */
}

static bool measure(struct stage_bench *s, kn_error *err) {
    const kn_given_integer *tokens = &s->bench->o->tokens;
    const kn_hooks hooks = { .progress = watch, .progress_ctx = s, .stop = &s->bench->stop };
    bool is_whole = s->stage != KN_STAGE_DIFFUSE; /* a picture has this once: its turn comes before the picture */
    for (size_t i = 0; !s->has_enough && (i == 0 || !is_whole || kn_bench_wait(s->bench)); i++) {
        kn_image picture = { 0 };
        kn_error why = { 0 };
        size_t first = s->stage == KN_STAGE_ENCODE ? i : 0; /* a prompt that comes again is not encoded again */
        if (!write_prompt(s, tokens->set ? (size_t)tokens->value : TOKENS, first, err))
            return false;
        bool done = kn_model_draw(s->model, &s->settings.recipe, &hooks, &picture, &s->report, &why);
        kn_image_free(&picture);
        if (i == 0)
            s->load_seconds = s->report.stage[s->stage].load_seconds;
        if (!done && (why.code != KN_E_CANCELLED || atomic_load(&s->bench->stop))) {
            *err = why;
            return false;
        }
    }
    return true;
}

static bool open_model(struct stage_bench *s, kn_error *err) {
    const kn_bench_options *o = s->bench->o;
    const kn_model_wish wish = {
        .config = o->config,
        .profile = o->model_profile,
        .precision = o->precision,
        .residency = "cached",
        .threads = { .given = o->threads.set, .value = (double)o->threads.value },
    };
    return kn_model_open(&wish, &s->model, err);
}

/* The model's own settings, without guidance, and with as many steps as are to be measured where that can be chosen. */
static bool make_settings(struct stage_bench *s, kn_error *err) {
    const kn_bench_options *o = s->bench->o;
    const kn_model_choice *c = &s->model->choice;
    bool free = !c->variant->why_fixed;
    const kn_wish wish = {
        .prompt = "0",
        .width = { .given = o->size.set, .value = o->size.width },
        .height = { .given = o->size.set, .value = o->size.height },
        .steps = { .given = free, .value = KN_MIN((double)s->bench->repeat + 1, KN_MAX_STEPS) },
        .cfg = { .given = free, .value = c->architecture->added_guidance ? 0 : 1 },
        .seed_given = true,
        .sampler = "euler",
    };
    if (!kn_settings_make(&wish, &c->defaults, c->architecture, c->variant, &s->settings, err))
        return false;
    if (s->stage == KN_STAGE_DECODE)
        s->settings.recipe.sigmas.steps = 0; /* noise is decoded no faster and no slower than a picture */
    return true;
}

/* ---- telling ---- */

static bool print(const struct stage_bench *s, const kn_bench_speed *speed, uint64_t rss, kn_buf *text) {
    const kn_model *m = s->model;
    const kn_recipe *r = &s->settings.recipe;
    const kn_stage_report *stage = &s->report.stage[s->stage];
    const kn_bench_times *t = &s->times;
    bool ok = kn_buf_printf(text,
                            "%s, %s: %s at %dx%d, %s; %s kernels, %s, %s\n"
                            "median of %-4zu %.4f s, %.4f s of processor time; ",
                            m->choice.profile->name, m->choice.architecture->title, s->phase, r->width, r->height,
                            kn_counted((uint64_t)s->report.prompt_tokens, "token").text, kn_device_kernels(m->device),
                            kn_counted(kn_device_threads(m->device), "thread").text,
                            m->precision == KN_EXACT ? "exact" : "fast", t->count,
                            kn_bench_median(t->seconds, t->count), kn_bench_median(t->cpu_seconds, t->count)) &&
              kn_bench_print_speed(text, speed) &&
              kn_buf_printf(text,
                            "\nthe first      %.4f s, with what is done once; %.4f s to load before\n"
                            "runs          ",
                            s->first_seconds, s->load_seconds);
    for (size_t i = 0; i < t->count; i++)
        ok = ok && kn_buf_printf(text, " %.4f", t->seconds[i]);
    return ok &&
           kn_buf_printf(text, "\nmemory         %s of weights, %s to work in; %s at most in all\n",
                         kn_bytes(stage->weight_bytes).text, kn_bytes(stage->peak_bytes).text, kn_bytes(rss).text);
}

static json_t *describe(const struct stage_bench *s, uint64_t rss) {
    const kn_model *m = s->model;
    const kn_recipe *r = &s->settings.recipe;
    const kn_stage_report *stage = &s->report.stage[s->stage];
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:i, s:s, s:f, s:f, s:I, s:I, s:I}", "bench", s->phase,
                     "model", m->choice.profile->name, "architecture", m->choice.architecture->name, "variant",
                     m->choice.variant->name, "width", r->width, "height", r->height, "prompt_tokens",
                     s->report.prompt_tokens, "kernels", kn_device_kernels(m->device), "threads",
                     (int)kn_device_threads(m->device), "precision", m->precision == KN_EXACT ? "exact" : "fast",
                     "first_seconds", s->first_seconds, "load_seconds", s->load_seconds, "weight_bytes",
                     (json_int_t)stage->weight_bytes, "peak_bytes", (json_int_t)stage->peak_bytes, "peak_rss_bytes",
                     (json_int_t)rss);
}

static bool tell(const struct stage_bench *s, kn_error *err) {
    const kn_model *m = s->model;
    kn_bench_speed speed;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used); /* before measuring the limit takes memory, too */
    uint64_t rss = (uint64_t)used.ru_maxrss * 1024;
    if (!kn_bench_speed_measure(m->device, m->precision, s->work, &s->times, &speed, err))
        return false;
    KN_AUTO_BUF text;
    kn_buf_init(&text, TEXT_LIMIT);
    json_t *result = describe(s, rss);
    if (print(s, &speed, rss, &text) && result && kn_bench_add_times(result, &s->times) &&
        kn_bench_add_speed(result, &speed))
        return kn_bench_tell(s->bench, result, &text, err);
    json_decref(result);
    return kn_fail_nomem(err, TEXT_LIMIT);
}

static bool run(kn_bench *b, const char *phase, kn_stage stage, kn_error *err) {
    static struct stage_bench s;
    s = (struct stage_bench){ .bench = b, .phase = phase, .stage = stage };
    kn_buf_init(&s.prompt, PROMPT_LIMIT);
    bool ok = open_model(&s, err) && make_settings(&s, err) && measure(&s, err) && tell(&s, err);
    kn_buf_free(&s.prompt);
    kn_model_close(s.model);
    return ok;
}

bool kn_bench_encode(kn_bench *b, kn_error *err) {
    return run(b, "encode", KN_STAGE_ENCODE, err);
}

bool kn_bench_step(kn_bench *b, kn_error *err) {
    return run(b, "step", KN_STAGE_DIFFUSE, err);
}

bool kn_bench_decode(kn_bench *b, kn_error *err) {
    return run(b, "decode", KN_STAGE_DECODE, err);
}
