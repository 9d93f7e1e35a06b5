#include "workers/image_worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "image/png.h"
#include "workers/draw_job.h"
#include "workers/inbox.h"
#include "workers/inspect_job.h"
#include "workers/picture_job.h"

enum { IN = STDIN_FILENO, OUT = STDOUT_FILENO, WORD = 4, REPORT_BYTES = 64 << 10, PIECE = 64 << 10 };

/* The process at work. */
struct work {
    const kn_image_worker *options;
    kn_inbox inbox;
    kn_drawer drawer;
};

/* ---- saying ---- */

/* Both parts in a row. Nobody needs to know if it fails: the inbox sees that nobody reads. */
static bool write_all(const void *head, size_t head_len, const void *rest, size_t rest_len) {
    struct iovec parts[] = { { (void *)(uintptr_t)head, head_len }, { (void *)(uintptr_t)rest, rest_len } };
    while (parts[0].iov_len + parts[1].iov_len) {
        ssize_t n = writev(OUT, parts, 2);
        if (n < 0 && errno != EINTR)
            return false;
        for (size_t i = 0, left = n > 0 ? (size_t)n : 0; i < 2; i++) {
            size_t taken = KN_MIN(left, parts[i].iov_len);
            parts[i].iov_base = (char *)parts[i].iov_base + taken;
            parts[i].iov_len -= taken;
            left -= taken;
        }
    }
    return true;
}

/* numbers: at the beginning of the payload; len: of what follows them. Returns where that is. */
static uint8_t *put_head(uint8_t *head, kn_frame_kind kind, const uint32_t *numbers, size_t count, size_t len) {
    kn_frame_header(kind, count * WORD + len, head);
    for (size_t i = 0; i < count; i++)
        kn_frame_put(head + KN_FRAME_HEADER + i * WORD, numbers[i]);
    return head + KN_FRAME_HEADER + count * WORD;
}

static bool say(kn_frame_kind kind, const uint32_t *numbers, size_t count, const void *rest, size_t len) {
    uint8_t head[KN_FRAME_HEADER + 4 * WORD], *end = put_head(head, kind, numbers, count, len);
    return write_all(head, (size_t)(end - head), rest, len);
}

/* A word on standard error, and for a session the sentence to its server. */
static void say_failure(const struct work *w, kn_job_code code, const kn_error *err) {
    char text[sizeof err->text + 40];
    int len = snprintf(text, sizeof text, "%s\n", kn_job_codes[code].word);
    if (write(STDERR_FILENO, text, (size_t)len) < 0)
        return; /* nobody listens */
    if (!w->options->session)
        return;
    len += snprintf(text + len, sizeof text - (size_t)len, "%s", err->text);
    say(KN_FRAME_FAILED, NULL, 0, text, (size_t)len);
}

static void say_progress(void *ctx, kn_frame_phase phase, int step, int steps) {
    (void)ctx;
    say(KN_FRAME_PROGRESS, (uint32_t[]){ (uint32_t)phase, (uint32_t)step, (uint32_t)steps }, 3, NULL, 0);
}

/* One that cannot be made, or would be too large, is left out: the next one comes soon. */
static void say_preview(void *ctx, int step, int steps, const kn_image *picture) {
    (void)ctx;
    KN_AUTO_BUF png;
    kn_buf_init(&png, KN_PREVIEW_BYTES - 4 * WORD);
    if (kn_png_write(picture, NULL, 0, &png, NULL))
        say(KN_FRAME_PREVIEW, (uint32_t[]){ (uint32_t)step, (uint32_t)steps, picture->width, picture->height }, 4,
            png.data, png.len);
}

/* ---- jobs ---- */

static kn_job_code draw(struct work *w, const kn_buf *recipe, bool progress, bool previews, kn_buf *file,
                        kn_buf *report, bool *large, kn_error *err) {
    const kn_draw_listener listener = { .progress = progress ? say_progress : NULL,
                                        .preview = previews ? say_preview : NULL,
                                        .stop = &w->inbox.stop };
    kn_buf_init(file, KN_FINAL_BYTES);
    kn_buf_init(report, REPORT_BYTES);
    return kn_draw_job(&w->drawer, recipe->data, recipe->len, &listener, file, report, large, err);
}

static void draw_in_session(struct work *w, const kn_buf *recipe, bool previews) {
    KN_AUTO_BUF file;
    KN_AUTO_BUF report;
    kn_error err = { 0 };
    bool large = false;
    kn_job_code code = draw(w, recipe, true, previews, &file, &report, &large, &err);
    if (code == KN_JOB_DONE) {
        say(KN_FRAME_REPORT, NULL, 0, report.data, report.len);
        say(large ? KN_FRAME_LARGE : KN_FRAME_FINAL, NULL, 0, file.data, file.len);
    } else {
        say_failure(w, code, &err);
    }
}

static uint32_t traits_of(const kn_picture_facts *f) {
    static const uint32_t maps[] = {
        [KN_GAIN_MAP_NONE] = 0, [KN_GAIN_MAP_GOOD] = KN_TRAIT_GAIN_MAP, [KN_GAIN_MAP_DAMAGED] = KN_TRAIT_DAMAGED_MAP
    };
    return (f->is_transparent ? KN_TRAIT_TRANSPARENT : 0u) | (f->was_turned ? KN_TRAIT_TURNED : 0u) |
           maps[f->gain_map] | f->mask_lacks * KN_TRAIT_MASK;
}

static void say_picture(const kn_picture_facts *f, const kn_buf *png) {
    size_t name = strlen(f->icc_profile.text);
    const uint32_t numbers[] = { f->width, f->height, traits_of(f), (uint32_t)name };
    uint8_t head[KN_FRAME_HEADER + sizeof numbers + sizeof f->icc_profile.text];
    uint8_t *end = put_head(head, KN_FRAME_PICTURE, numbers, KN_COUNT(numbers), name + png->len);
    memcpy(end, f->icc_profile.text, name);
    write_all(head, (size_t)(end - head) + name, png->data, png->len);
}

/* payload: the largest side, then the file. */
static void read_in_session(const struct work *w, const kn_buf *payload) {
    KN_AUTO_BUF png;
    kn_buf_init(&png, KN_PICTURE_BYTES);
    kn_error err = { 0 };
    kn_picture_facts facts;
    uint32_t largest = kn_frame_get((const uint8_t *)payload->data);
    kn_job_code code = kn_picture_job(payload->data + WORD, payload->len - WORD, largest, &facts, &png, &err);
    if (code == KN_JOB_DONE)
        say_picture(&facts, &png);
    else
        say_failure(w, code, &err);
}

/* payload: a format and the quality, then the file. */
static void convert_in_session(const struct work *w, const kn_buf *payload) {
    static const kn_image_kind kinds[KN_FORMATS] = { KN_IMAGE_PNG, KN_IMAGE_JPEG, KN_IMAGE_WEBP };
    KN_AUTO_BUF file;
    kn_error err = { 0 };
    const uint8_t *numbers = (const uint8_t *)payload->data;
    uint32_t format = KN_MIN(kn_frame_get(numbers), (uint32_t)KN_FORMATS - 1);
    uint32_t quality = KN_MIN(KN_MAX(kn_frame_get(numbers + WORD), 1u), 100u);
    kn_buf_init(&file, KN_LARGE_BYTES);
    kn_job_code code =
        kn_convert_job(payload->data + 2 * WORD, payload->len - 2 * WORD, kinds[format], quality, &file, &err);
    if (code == KN_JOB_DONE)
        say(KN_FRAME_LARGE, NULL, 0, file.data, file.len);
    else
        say_failure(w, code, &err);
}

static void inspect_in_session(const struct work *w, const kn_buf *file) {
    KN_AUTO_BUF found;
    kn_error err = { 0 };
    kn_buf_init(&found, KN_FOUND_BYTES);
    kn_job_code code = kn_inspect_job(file->data, file->len, &found, &err);
    if (code == KN_JOB_DONE)
        say(KN_FRAME_FOUND, NULL, 0, found.data, found.len);
    else
        say_failure(w, code, &err);
}

static void measure_in_session(struct work *w, const kn_buf *path) {
    kn_error err = { 0 };
    uint32_t factor = 0;
    kn_job_code code = kn_measure_job(&w->drawer, path->data, &factor, &err);
    if (code == KN_JOB_DONE)
        say(KN_FRAME_FACTOR, &factor, 1, NULL, 0);
    else
        say_failure(w, code, &err);
}

static void do_in_session(struct work *w, unsigned kind, const kn_buf *payload) {
    switch (kind) {
    case KN_FRAME_READ_PICTURE: read_in_session(w, payload); break;
    case KN_FRAME_CONVERT: convert_in_session(w, payload); break;
    case KN_FRAME_MEASURE: measure_in_session(w, payload); break;
    case KN_FRAME_INSPECT: inspect_in_session(w, payload); break;
    default: draw_in_session(w, payload, kind == KN_FRAME_DRAW_PREVIEW);
    }
}

static int serve_session(struct work *w, unsigned missing) {
    char words[80] = "";
    unsigned kind = 0;
    KN_AUTO_BUF payload;
    kn_buf_init(&payload, 0);
    for (int i = 0, len = 0; i < KN_CAGE_PARTS; i++)
        if (missing >> i & 1)
            len += snprintf(words + len, sizeof words - (size_t)len, "%s%s", len ? " " : "", kn_cage_words[i]);
    if (!say(KN_FRAME_READY, NULL, 0, words, strlen(words)))
        return kn_job_codes[KN_JOB_FAILED].exit_status;
    while (kn_inbox_take(&w->inbox, &kind, &payload)) {
        do_in_session(w, kind, &payload);
        kn_buf_free(&payload);
    }
    return 0;
}

static kn_job_code read_recipe(kn_buf *into, kn_error *err) {
    char piece[PIECE];
    for (;;) {
        ssize_t n = read(IN, piece, sizeof piece);
        if (n == 0)
            return KN_JOB_DONE;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            kn_fail(err, KN_E_IO, "the recipe cannot be read: %s", strerror(errno));
            return KN_JOB_FAILED;
        }
        if (!kn_buf_add(into, piece, (size_t)n)) {
            kn_fail(err, KN_E_RANGE, "the recipe is longer than %d MiB", KN_RECIPE_BYTES >> 20);
            return KN_JOB_INVALID;
        }
    }
}

static int draw_one(struct work *w) {
    KN_AUTO_BUF recipe;
    KN_AUTO_BUF file;
    KN_AUTO_BUF report;
    kn_error err = { 0 };
    bool frames = w->options->frames, large = false;
    kn_buf_init(&recipe, KN_RECIPE_BYTES);
    kn_buf_init(&file, 0);
    kn_buf_init(&report, 0);
    kn_job_code code = read_recipe(&recipe, &err);
    if (code == KN_JOB_DONE)
        code = draw(w, &recipe, false, frames, &file, &report, &large, &err);
    if (code == KN_JOB_DONE && !(frames ? say(large ? KN_FRAME_LARGE : KN_FRAME_FINAL, NULL, 0, file.data, file.len)
                                        : write_all(file.data, file.len, NULL, 0)))
        code = KN_JOB_FAILED;
    if (code != KN_JOB_DONE)
        say_failure(w, code, &err);
    return kn_job_codes[code].exit_status;
}

int kn_image_worker_run(const kn_image_worker *o) {
    struct work w = { .options = o, .drawer = { .wish = o->model, .upscalers = o->upscalers } };
    kn_error err = { 0 };
    unsigned missing = 0;
    kn_job_code code = KN_JOB_DONE;
    if (!kn_sandbox_enter(o->isolation, &missing, &err))
        code = KN_JOB_ISOLATION_MISSING;
    else if (!kn_inbox_open(&w.inbox, o->session ? IN : -1, OUT, &err))
        code = KN_JOB_FAILED;
    if (code != KN_JOB_DONE) {
        say_failure(&w, code, &err);
        return kn_job_codes[code].exit_status;
    }
    int status = o->session ? serve_session(&w, missing) : draw_one(&w);
    kn_drawer_close(&w.drawer);
    return status;
}
