/* The studio on a port of its own, with a runner that draws nothing: for tests that speak to /api/v1 over the network.
 *
 *     studio-rig FOLDER TOKEN [MIRROR]
 *
 * prints "port=PORT" and runs until SIGTERM, which lets the running job end; a second one ends it at once. SIGUSR1 puts
 * its clocks on by a minute, SIGUSR2 by an hour (kn_date_now goes through here, too: meson.build). What becomes of a
 * picture is in its prompt: "steps=N" and "ms=N" (of each step), "fails=WORD" with a word of runner.h, "waits=N" has it
 * wait for what that is in admission.h until it is cancelled, "kill" ends
 * the whole process as if by the hand of the kernel, "tells=N" has its job's events say N MiB more. An upscaler
 * enlarges by the first digit of its file. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/text.h"
#include "http/server.h"
#include "image/canvas.h"
#include "image/gain_map.h"
#include "image/png.h"
#include "image/read.h"
#include "image/resize.h"
#include "image/write.h"
#include "studio/api.h"
#include "studio/internal.h"
#include "workers/inspect_job.h"

static struct {
    kn_loop *loop;
    kn_server *server;
    kn_studio *studio;
    kn_api *api;
    kn_mcp *mcp;
    bool stopping;
    unsigned ahead_s; /* of the system's clocks */
} own;

/* ---- time ---- */

static uint64_t rig_clock(void *ctx) {
    (void)ctx;
    return (uint64_t)(kn_now() * 1000) + own.ahead_s * 1000ULL;
}

int64_t __real_kn_date_now(void);
int64_t __wrap_kn_date_now(void);
int64_t __wrap_kn_date_now(void) {
    return __real_kn_date_now() + own.ahead_s;
}

/* ---- a runner that draws a grey picture ---- */

static struct {
    kn_timer timer;
    const kn_task_heard *heard;
    void *ctx;
    const kn_studio_task *task;
    unsigned step, steps, ms;
    bool cancelled, waits;
} picture;

static unsigned number_of(const char *text, const char *name, unsigned usual) {
    const char *at = text ? strstr(text, name) : NULL;
    unsigned n = 0;
    if (!at)
        return usual;
    for (at += strlen(name); *at >= '0' && *at <= '9'; at++)
        n = n * 10 + (unsigned)(*at - '0');
    return n;
}

static bool is_to_fail(const char *prompt, kn_task_failure *ret) {
    const char *at = prompt ? strstr(prompt, "fails=") : NULL;
    for (int i = 0; at && i < KN_TASK_FAILURES; i++) {
        *ret = (kn_task_failure)i;
        if (!strncmp(at + 6, kn_task_failures[i], strlen(kn_task_failures[i])))
            return true;
    }
    return false;
}

static const kn_image_kind kinds[] = { KN_IMAGE_PNG, KN_IMAGE_JPEG, KN_IMAGE_WEBP };

static bool draw_grey(kn_picture_format format, uint32_t width, uint32_t height, kn_buf *into) {
    const kn_image_form form = { .kind = kinds[format], .quality = KN_IMAGE_QUALITY };
    kn_image grey;
    if (!kn_image_new(width, height, 3, &grey, NULL))
        return false;
    memset(grey.pixels, 128, (size_t)width * height * 3);
    bool ok = kn_image_write(&grey, &form, into, NULL);
    kn_image_free(&grey);
    return ok;
}

static void go_on(kn_timer *t) {
    (void)t;
    const char *prompt = picture.task->request->prompt;
    KN_AUTO_BUF png;
    kn_task_failure why;
    kn_buf_init(&png, 64 << 20);
    if (picture.cancelled) {
        picture.heard->failed(picture.ctx, KN_TASK_CANCELLED, "");
    } else if (picture.step < picture.steps) {
        picture.heard->progress(picture.ctx, KN_TASK_SAMPLING, ++picture.step, picture.steps);
        if (draw_grey(KN_PICTURE_PNG, 16, 16, &png)) {
            const kn_task_picture small = { KN_PICTURE_PNG, 16, 16, png.data, png.len, NULL };
            picture.heard->preview(picture.ctx, picture.step, &small);
        }
        kn_loop_timer_after(own.loop, &picture.timer, picture.ms);
    } else if (is_to_fail(prompt, &why)) {
        picture.heard->failed(picture.ctx, why, "It was asked to fail");
    } else {
        uint32_t width = (uint32_t)json_integer_value(json_object_get(picture.task->plan, "result_width"));
        uint32_t height = (uint32_t)json_integer_value(json_object_get(picture.task->plan, "result_height"));
        kn_picture_format format = picture.task->request->output.format;
        if (!draw_grey(format, width, height, &png))
            picture.heard->failed(picture.ctx, KN_TASK_OUT_OF_MEMORY, "");
        const kn_task_picture made = { format, width, height, png.data, png.len, NULL };
        if (png.len)
            picture.heard->done(picture.ctx, &made);
    }
}

/* Of a kind of which every one is kept. */
static void tell_much(const char *job, unsigned mib) {
    enum { MIB = 1 << 20 };
    char *much = calloc(1, MIB + 1);
    if (!much)
        return;
    memset(much, 'x', MIB);
    for (unsigned i = 0; i < mib; i++)
        kn_studio_tell(own.studio, KN_EVENT_JOB_QUEUED, job, json_pack("{s:s, s:s}", "id", job, "much", much));
    free(much);
}

static bool start(void *ctx, const kn_studio_task *task, const kn_task_heard *heard, void *heard_ctx, kn_error *err) {
    (void)ctx, (void)err;
    const char *prompt = task->request->prompt;
    if (prompt && strstr(prompt, "kill"))
        raise(SIGKILL);
    tell_much(task->job, number_of(prompt, "tells=", 0));
    picture.heard = heard;
    picture.ctx = heard_ctx;
    picture.task = task;
    picture.step = 0;
    picture.steps = number_of(prompt, "steps=", 2);
    picture.ms = number_of(prompt, "ms=", 0);
    picture.cancelled = false;
    picture.timer.fired = go_on;
    unsigned what_for = number_of(prompt, "waits=", KN_WAITS);
    picture.waits = what_for < KN_WAITS;
    if (picture.waits)
        heard->waits(heard_ctx, (kn_wait)what_for);
    else
        kn_loop_timer_after(own.loop, &picture.timer, picture.ms);
    return true;
}

static void cancel(void *ctx) {
    (void)ctx;
    picture.cancelled = true;
    if (picture.waits)
        kn_loop_timer_after(own.loop, &picture.timer, 0);
}

/* ---- and looks at pictures at once ---- */

typedef struct glance {
    kn_task task;
    kn_looked_fn *looked;
    void *ctx;
    kn_input_facts facts;
    kn_buf png;
    kn_error err;
} glance;

static void tell_glance(kn_task *t) {
    glance *g = KN_HOLDER(t, glance, task);
    g->looked(g->ctx, g->err.code ? NULL : &g->facts, g->png.data, g->png.len, g->err.text);
    kn_buf_free(&g->png);
    free(g);
}

static void shrink(const kn_image *image, unsigned largest, glance *g) {
    uint32_t side = KN_MAX(image->width, image->height);
    double scale = side > largest ? (double)largest / side : 1;
    kn_image small;
    if (kn_image_resize(image, (uint32_t)KN_MAX(1.0, image->width * scale),
                        (uint32_t)KN_MAX(1.0, image->height * scale), &small, &g->err)) {
        kn_png_write(&small, NULL, 0, &g->png, &g->err);
        kn_image_free(&small);
    }
}

static bool look(void *ctx, const void *data, size_t len, unsigned largest, kn_looked_fn *looked, void *looked_ctx) {
    (void)ctx;
    glance *g = calloc(1, sizeof *g);
    kn_image image;
    if (!g)
        return false;
    g->task.run = tell_glance;
    g->looked = looked;
    g->ctx = looked_ctx;
    kn_buf_init(&g->png, 64 << 20);
    if (kn_image_read(data, len, &KN_IMAGE_LIMITS, &image, &g->err)) {
        kn_image_kind kind = kn_image_kind_of(data, len);
        kn_gain_map_state map = kn_gain_map_look(data, len, &KN_IMAGE_LIMITS);
        g->facts = (kn_input_facts){ .format = kind == KN_IMAGE_PNG    ? KN_PICTURE_PNG
                                               : kind == KN_IMAGE_JPEG ? KN_PICTURE_JPEG
                                                                       : KN_PICTURE_WEBP,
                                     .width = image.width,
                                     .height = image.height,
                                     .has_gain_map = map == KN_GAIN_MAP_GOOD,
                                     .has_damaged_map = map == KN_GAIN_MAP_DAMAGED,
                                     .icc_profile = kn_icc_name_in(data, len),
                                     .mask_lacks = kn_mask_lacks_of(&image, kn_side_on_grid(image.width, 16),
                                                                    kn_side_on_grid(image.height, 16)) };
        if (largest)
            shrink(&image, largest, g);
        kn_image_free(&image);
    }
    kn_loop_later(own.loop, &g->task);
    return true;
}

/* ---- and writes and measures likewise ---- */

typedef struct answer {
    kn_task task;
    kn_converted_fn *converted;
    kn_measured_fn *measured;
    kn_inspected_fn *inspected;
    void *ctx;
    kn_buf file;
    kn_error err;
    uint32_t factor;
} answer;

static void tell_answer(kn_task *t) {
    answer *a = KN_HOLDER(t, answer, task);
    if (a->measured)
        a->measured(a->ctx, a->factor, true);
    else if (a->inspected)
        a->inspected(a->ctx, a->err.code ? NULL : a->file.data, a->file.len, a->err.text);
    else
        a->converted(a->ctx, a->err.code ? NULL : a->file.data, a->file.len, a->err.text);
    kn_buf_free(&a->file);
    free(a);
}

static answer *new_answer(void *ctx) {
    answer *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->task.run = tell_answer;
    a->ctx = ctx;
    kn_buf_init(&a->file, 64 << 20);
    kn_loop_later(own.loop, &a->task);
    return a;
}

static bool convert(void *ctx, const void *data, size_t len, kn_picture_format format, unsigned quality,
                    kn_converted_fn *converted, void *converted_ctx) {
    (void)ctx;
    answer *a = new_answer(converted_ctx);
    const kn_image_form form = { .kind = kinds[format], .quality = quality };
    kn_image image;
    if (!a)
        return false;
    a->converted = converted;
    if (kn_image_read(data, len, &KN_IMAGE_LIMITS, &image, &a->err)) {
        kn_image_write(&image, &form, &a->file, &a->err);
        kn_image_free(&image);
    }
    return true;
}

static bool measure(void *ctx, const char *path, kn_measured_fn *measured, void *measured_ctx) {
    (void)ctx;
    answer *a = new_answer(measured_ctx);
    FILE *file = a ? fopen(path, "re") : NULL;
    int digit = file ? fgetc(file) : 0;
    if (!a)
        return false;
    a->measured = measured;
    a->factor = digit > '0' && digit <= '9' ? (uint32_t)(digit - '0') : 0;
    if (file)
        fclose(file);
    return true;
}

static bool inspect(void *ctx, const void *data, size_t len, kn_inspected_fn *inspected, void *inspected_ctx) {
    (void)ctx;
    answer *a = new_answer(inspected_ctx);
    if (!a)
        return false;
    a->inspected = inspected;
    kn_inspect_job(data, len, &a->file, &a->err);
    return true;
}

/* ---- the program ---- */

static void leave(void *ctx) {
    (void)ctx;
    kn_loop_stop(own.loop);
}

static void signal_came(void *ctx, int signal) {
    (void)ctx;
    if (signal != SIGTERM) {
        own.ahead_s += signal == SIGUSR1 ? 60 : 3600;
        return;
    }
    if (own.stopping)
        kn_loop_stop(own.loop);
    own.stopping = true;
    kn_studio_stop(own.studio, false, leave, NULL);
}

static void log_line(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "rig: %s\n", line);
}

static bool run(kn_http *http, const char *folder, const char *token, const char *mirror, kn_error *err) {
    const kn_studio_runner runner = { .backend = "cpu",
                                      .device = "a rig",
                                      .formats = (1u << KN_PICTURE_FORMATS) - 1,
                                      .kinds = ~0u,
                                      .resizes = true,
                                      .start = start,
                                      .cancel = cancel,
                                      .look = look,
                                      .convert = convert,
                                      .inspect = inspect,
                                      .measure = measure };
    const kn_studio_setup setup = { .loop = own.loop,
                                    .folder = folder,
                                    .models_toml = "/dev/null",
                                    .runner = &runner,
                                    .mirror = mirror,
                                    .offline = !mirror,
                                    .download_timeout_s = 2,
                                    .wait_ms = 100,
                                    .log = log_line,
                                    .leave = leave };
    kn_server_limits limits = kn_server_limits_default();
    kn_address any, at;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    signal(SIGPIPE, SIG_IGN);
    if (!kn_loop_signals(own.loop, &signals, signal_came, NULL, err) || !kn_address_parse("127.0.0.1:0", &any, err) ||
        !kn_studio_new(&setup, &own.studio, err) || !kn_api_new(own.loop, token, 0, &own.api, err) ||
        !kn_server_new(http, &limits, &own.server, err) ||
        !kn_server_listen(own.server, &any, &kn_api_service, own.api, &at, err))
        return false;
    const kn_mcp_setup mcp = { .http = http, .studio = &at, .token = kn_api_give_token, .ctx = own.api };
    if (!kn_mcp_new(&mcp, &own.mcp, err))
        return false;
    kn_api_set_studio(own.api, own.studio);
    kn_api_set_port(own.api, kn_address_port(&at));
    kn_api_set_mcp(own.api, own.mcp);
    printf("port=%u\n", kn_address_port(&at));
    fflush(stdout);
    return kn_loop_run(own.loop, err);
}

int main(int argc, char **argv) {
    kn_error err = { 0 };
    kn_http *http = NULL;
    if (argc != 3 && argc != 4)
        return 2;
    bool ok = kn_loop_new(rig_clock, NULL, &own.loop, &err) && kn_http_new(own.loop, &http, &err) &&
              run(http, argv[1], argv[2], argv[3], &err);
    if (!ok)
        fprintf(stderr, "rig: %s\n", err.text);
    kn_loop_timer_stop(&picture.timer);
    kn_server_free(own.server);
    kn_mcp_free(own.mcp);
    kn_studio_free(own.studio);
    kn_api_free(own.api);
    if (http)
        kn_http_free(http);
    kn_loop_free(own.loop);
    return ok ? 0 : 1;
}
