#include "workers/image_process.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/child.h"
#include "base/json_form.h"
#include "image/mask.h"

enum { WORD = 4, NUMBERS = 2, PIECE = 64 << 10, LINE_BYTES = 64, SENTENCE = 80, ARGUMENTS = 22 };

typedef enum life { GONE, ALIVE, LEAVING } life; /* LEAVING: its input is closed */
typedef enum purpose { FOR_DEADLINE, FOR_GRACE, FOR_COOLING } purpose;

/* What a job is on its way: sent, answered, told of. */
struct job {
    kn_image_listener listener;
    uint8_t head[KN_FRAME_HEADER + NUMBERS * WORD]; /* of its frame, and the numbers that may come before the body */
    size_t head_len;
    const uint8_t *body;
    size_t body_len, sent; /* sent: of both */
    bool cancelled, answered;
    kn_job_code why; /* it was cancelled */
};

struct kn_image_process {
    kn_loop *loop;
    kn_image_process_options options;
    life life;
    kn_child child;
    kn_watch in, out, err, exit;
    kn_timer timer;
    purpose purpose;
    kn_frame_reader reader;
    uint8_t cancel[KN_FRAME_HEADER]; /* being sent */
    size_t cancel_sent;
    kn_cage_gaps gaps;
    kn_error obstacle;                           /* to being locked in */
    char hdr_lost[sizeof((kn_error){ 0 }.text)]; /* of the report */
    char line[LINE_BYTES];                       /* of its standard error, so far */
    size_t line_len;
    kn_job_code last_word; /* on it; KN_JOB_CODES: none */
    bool ready;            /* it has said so: what becomes of its jobs it says there, too */
    bool broken, forced, lost;

    struct job *job; /* NULL: none */
    kn_image_result result;
    kn_buf answer, report; /* that the result points into */
    kn_error failure;
    kn_task told;
};

static void set_timer(kn_image_process *p, purpose what, uint64_t ms) {
    p->purpose = what;
    kn_loop_timer_after(p->loop, &p->timer, ms);
}

static void kill_worker(kn_image_process *p) {
    kn_child_signal(&p->child, SIGKILL);
}

/* ---- the end of a job ---- */

static void tell_result(kn_task *t) {
    kn_image_process *p = KN_HOLDER(t, kn_image_process, told);
    struct job *j = p->job;
    if (!j) /* abandoned meanwhile */
        return;
    kn_image_result result = p->result;
    kn_buf answer = p->answer, report = p->report;
    const kn_error failure = p->failure;
    kn_buf_init(&p->answer, 0);
    kn_buf_init(&p->report, 0);
    p->job = NULL; /* the next one may be given from within the call */
    result.sentence = failure.text;
    result.report = report.data;
    result.hdr_lost = p->hdr_lost;
    result.forced = p->forced;
    result.lost = p->lost;
    j->listener.done(j->listener.ctx, &result);
    free(j);
    kn_buf_free(&answer);
    kn_buf_free(&report);
}

/* Closing its input is how an idle worker is told to go. */
static void let_go(kn_image_process *p) {
    p->life = LEAVING;
    kn_watch_close(p->loop, &p->in);
    set_timer(p, FOR_GRACE, p->options.grace_ms);
}

static void end_job(kn_image_process *p, kn_job_code code) {
    p->job->answered = true;
    p->result.code = code == KN_JOB_CANCELLED && p->job->cancelled ? p->job->why : code;
    if (p->life == ALIVE && p->options.keep_warm_ms)
        set_timer(p, FOR_COOLING, p->options.keep_warm_ms);
    else if (p->life == ALIVE)
        let_go(p);
    if (p->life == GONE || p->options.keep_warm_ms)
        kn_loop_later(p->loop, &p->told);
}

static void meet_obstacle(kn_image_process *p) {
    const kn_image_process_options *o = &p->options;
    if (o->log && !p->obstacle.code && !(o->told && o->told->obstacle))
        o->log(o->log_ctx, p->failure.text);
    p->obstacle = p->failure;
    if (o->told)
        o->told->obstacle = true;
}

static void fail_job(kn_image_process *p, kn_job_code code, const char *sentence) {
    p->failure = (kn_error){ 0 };
    kn_fail(&p->failure, KN_E_IO, "%s", sentence);
    if (code == KN_JOB_ISOLATION_MISSING)
        meet_obstacle(p);
    end_job(p, code);
}

/* ---- what the worker says ---- */

/* The payload becomes that of the result; what it begins with is not part of the file. */
static void keep_answer(kn_image_process *p, size_t before) {
    p->answer = p->reader.payload;
    p->reader.len = 0;
    kn_buf_init(&p->reader.payload, 0);
    p->result.file = (const uint8_t *)p->answer.data + before;
    p->result.len = p->answer.len - before;
}

static void hear_failure(kn_image_process *p) {
    const kn_buf *text = &p->reader.payload;
    const char *end = memchr(text->data, '\n', text->len);
    size_t len = end ? (size_t)(end - text->data) : text->len;
    kn_job_code code = kn_job_code_of_word(text->data, len);
    fail_job(p, code == KN_JOB_CODES || code == KN_JOB_DONE ? KN_JOB_FAILED : code, end ? end + 1 : "");
}

static bool hear_preview(kn_image_process *p) {
    const kn_image_listener *l = &p->job->listener;
    kn_frame_preview preview;
    if (!kn_frame_preview_read(p->reader.payload.data, p->reader.payload.len, &preview, NULL))
        return false;
    if (l->preview)
        l->preview(l->ctx, &preview);
    return true;
}

static bool hear_progress(kn_image_process *p) {
    const kn_image_listener *l = &p->job->listener;
    const uint8_t *at = (const uint8_t *)p->reader.payload.data;
    uint32_t phase = kn_frame_get(at);
    if (phase >= KN_PHASES)
        return false;
    if (l->progress)
        l->progress(l->ctx, (kn_frame_phase)phase, kn_frame_get(at + WORD), kn_frame_get(at + 2 * WORD));
    return true;
}

static bool hear_picture(kn_image_process *p) {
    const kn_buf *payload = &p->reader.payload;
    kn_frame_picture picture;
    if (!kn_frame_picture_read(payload->data, payload->len, &picture, NULL))
        return false;
    p->result.width = picture.width;
    p->result.height = picture.height;
    p->result.is_transparent = picture.traits & KN_TRAIT_TRANSPARENT;
    p->result.was_turned = picture.traits & KN_TRAIT_TURNED;
    p->result.has_gain_map = picture.traits & KN_TRAIT_GAIN_MAP;
    p->result.has_damaged_map = picture.traits & KN_TRAIT_DAMAGED_MAP;
    p->result.mask_lacks = picture.traits / KN_TRAIT_MASK % (2 * KN_MASK_MISSES_CELLS_16);
    p->result.icc_profile = picture.profile;
    keep_answer(p, payload->len - picture.png_len);
    end_job(p, KN_JOB_DONE);
    return true;
}

/* The size of what was drawn is in it, and what has become of its gain map, among what is of no interest here. */
static bool hear_report(kn_image_process *p) {
    enum { WIDTH, HEIGHT, HDR_LOST };
    static const char *const keys[] = { [WIDTH] = "width", [HEIGHT] = "height", [HDR_LOST] = "hdr_lost" };
    uint32_t *const sizes[] = { [WIDTH] = &p->result.width, [HEIGHT] = &p->result.height };
    kn_error err = { 0 };
    kn_json_reader j;
    kn_form f;
    kn_buf_free(&p->report);
    kn_buf_init(&p->report, p->reader.payload.len);
    if (!kn_buf_add(&p->report, p->reader.payload.data, p->reader.payload.len))
        return false;
    kn_json_begin_inside(&j, (kn_json_text){ p->report.data, p->report.len }, "the report", &err);
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    f.tolerant = true;
    for (int key; kn_form_next(&f, &key);) {
        uint64_t side = 0;
        kn_json_text text;
        if (key == HDR_LOST) {
            if (kn_form_text(&f, 1, sizeof p->hdr_lost - 1, &text))
                snprintf(p->hdr_lost, sizeof p->hdr_lost, "%.*s", (int)text.len, text.data);
            continue;
        }
        kn_form_u64(&f, 0, UINT32_MAX, &side);
        *sizes[key] = (uint32_t)side;
    }
    return kn_form_finish(&f);
}

static bool hear_factor(kn_image_process *p) {
    p->result.factor = kn_frame_get((const uint8_t *)p->reader.payload.data);
    end_job(p, KN_JOB_DONE);
    return true;
}

static void tell_gaps(const kn_image_process *p) {
    const kn_image_process_options *o = &p->options;
    const char *remedy = kn_cage_remedy(p->gaps.parts);
    char line[200];
    if (!o->told)
        return;
    bool known = o->told->gaps.parts == p->gaps.parts;
    *o->told = (kn_cage_told){ .gaps = p->gaps };
    if (known || !remedy || !o->log)
        return;
    snprintf(line, sizeof line, "the image worker is not locked in completely. It does without: %s. %s",
             kn_cage_list_of(p->gaps.parts).text, remedy);
    o->log(o->log_ctx, line);
}

static bool hear_ready(kn_image_process *p) {
    p->ready = true;
    p->obstacle = (kn_error){ 0 };
    if (!kn_cage_gaps_read(p->reader.payload.data, p->reader.payload.len, &p->gaps))
        return false;
    tell_gaps(p);
    return true;
}

/* False: this has no place here. */
static bool hear(kn_image_process *p) {
    if (p->reader.kind == KN_FRAME_READY)
        return hear_ready(p);
    const struct job *j = p->job;
    if (!j || j->answered || (j->sent < j->head_len + j->body_len && p->reader.kind != KN_FRAME_FAILED))
        return false;
    switch (p->reader.kind) {
    case KN_FRAME_PREVIEW: return hear_preview(p);
    case KN_FRAME_PROGRESS: return hear_progress(p);
    case KN_FRAME_PICTURE: return hear_picture(p);
    case KN_FRAME_FAILED: hear_failure(p); return true;
    case KN_FRAME_REPORT: return hear_report(p);
    case KN_FRAME_FACTOR: return hear_factor(p);
    default: /* the final */
        keep_answer(p, 0);
        end_job(p, KN_JOB_DONE);
        return true;
    }
}

/* One piece at a time, so that others on the loop have their turn. False: there is no more now. */
static bool read_output(kn_image_process *p) {
    uint8_t piece[PIECE];
    ssize_t n = read(p->out.fd, piece, sizeof piece);
    if (n == 0)
        kn_watch_close(p->loop, &p->out); /* how it ended is about to be known */
    if (n <= 0)
        return false;
    for (const uint8_t *at = piece; !p->broken && at < piece + n;) {
        bool complete = false;
        p->broken = !kn_frame_reader_take(&p->reader, &at, piece + n, &complete, NULL) || (complete && !hear(p));
    }
    if (p->broken) {
        kn_watch_close(p->loop, &p->out);
        kill_worker(p);
    }
    return !p->broken;
}

static void output_came(kn_watch *w, uint32_t events) {
    (void)events;
    read_output(KN_HOLDER(w, kn_image_process, out));
}

/* Only whole lines that are one of our words count; libraries of drivers write there, too. */
static bool read_errors(kn_image_process *p) {
    char piece[1024];
    ssize_t n = read(p->err.fd, piece, sizeof piece);
    if (n == 0)
        kn_watch_close(p->loop, &p->err);
    for (ssize_t i = 0; i < n; i++) {
        if (piece[i] == '\n') {
            kn_job_code code = kn_job_code_of_word(p->line, KN_MIN(p->line_len, sizeof p->line));
            p->last_word = code == KN_JOB_CODES ? p->last_word : code;
            p->line_len = 0;
        } else {
            if (p->line_len < sizeof p->line)
                p->line[p->line_len] = piece[i];
            p->line_len++;
        }
    }
    return n > 0;
}

static void errors_came(kn_watch *w, uint32_t events) {
    (void)events;
    read_errors(KN_HOLDER(w, kn_image_process, err));
}

/* ---- what it is told ---- */

/* False: no more goes now. A worker that does not read has died, which is about to be known. */
static bool send_bytes(kn_image_process *p, const uint8_t *bytes, size_t len, size_t *sent) {
    while (*sent < len) {
        ssize_t n = write(p->in.fd, bytes + *sent, len - *sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            kn_watch_want(p->loop, &p->in, errno == EAGAIN ? EPOLLOUT : 0);
            return false;
        }
        *sent += (size_t)n;
    }
    return true;
}

static void send_job(kn_image_process *p) {
    struct job *j = p->job;
    size_t in_head = KN_MIN(j->sent, j->head_len), in_body = j->sent - in_head;
    bool all = send_bytes(p, j->head, j->head_len, &in_head) && send_bytes(p, j->body, j->body_len, &in_body);
    j->sent = in_head + in_body;
    if (!all)
        return;
    /* In the middle of a recipe nothing else can be said. */
    if (!j->cancelled || send_bytes(p, p->cancel, sizeof p->cancel, &p->cancel_sent))
        kn_watch_want(p->loop, &p->in, 0);
}

static void input_has_room(kn_watch *w, uint32_t events) {
    kn_image_process *p = KN_HOLDER(w, kn_image_process, in);
    if (p->job && !p->job->answered && !(events & (EPOLLERR | EPOLLHUP)))
        send_job(p);
    else
        kn_watch_want(p->loop, w, 0);
}

/* ---- its life ---- */

static bool start_job(kn_image_process *p, kn_error *err);

static void close_worker(kn_image_process *p) {
    kn_watch_close(p->loop, &p->in);
    kn_watch_close(p->loop, &p->out);
    kn_watch_close(p->loop, &p->err);
    kn_watch_close(p->loop, &p->exit);
    kn_loop_timer_stop(&p->timer);
    kn_frame_reader_free(&p->reader);
    p->life = GONE;
}

static void describe_end(const kn_image_process *p, int status, char sentence[SENTENCE]) {
    if (p->broken)
        snprintf(sentence, SENTENCE, "the image worker did not keep to the protocol and was ended");
    else if (p->forced)
        snprintf(sentence, SENTENCE, "the image worker did not stop in time and was ended");
    else if (status > 128)
        snprintf(sentence, SENTENCE, "the image worker was ended by signal %d", status - 128);
    else
        snprintf(sentence, SENTENCE, "the image worker ended by itself with status %d", status);
}

/* The job that it had, if it has not answered. */
static void tell_death(kn_image_process *p, const char *sentence) {
    kn_job_code code = p->job->cancelled ? p->job->why : KN_JOB_FAILED;
    if (!p->broken && !p->ready && p->last_word != KN_JOB_CODES && p->last_word != KN_JOB_DONE)
        code = p->last_word;
    p->lost = code == KN_JOB_FAILED && !p->forced;
    /* What it said of that to the job before holds for one that reached it when it was about to go. */
    fail_job(p, code, code == KN_JOB_ISOLATION_MISSING && p->obstacle.code ? p->obstacle.text : sentence);
}

static void worker_ended(kn_watch *w, uint32_t events) {
    (void)events;
    kn_image_process *p = KN_HOLDER(w, kn_image_process, exit);
    int status = 0;
    if (!kn_child_wait(&p->child, false, &status))
        return;
    p->exit.fd = -1; /* has been closed */
    bool was_sent = p->job && (p->life == ALIVE || p->job->answered);
    while (p->out.fd >= 0 && read_output(p)) {
    }
    while (p->err.fd >= 0 && read_errors(p)) {
    }
    close_worker(p);
    char sentence[SENTENCE];
    describe_end(p, status, sentence);
    if (p->options.log && (status || p->broken || p->forced) && p->last_word != KN_JOB_ISOLATION_MISSING)
        p->options.log(p->options.log_ctx, sentence);
    if (!p->job)
        return;
    kn_error err = { 0 };
    if (p->job->answered)
        kn_loop_later(p->loop, &p->told);
    else if (was_sent)
        tell_death(p, sentence);
    else if (!start_job(p, &err)) /* it had come while the last worker was leaving */
        fail_job(p, KN_JOB_FAILED, err.text);
}

static void stop_job(kn_image_process *p, kn_job_code why) {
    struct job *j = p->job;
    if (j->cancelled)
        return;
    j->cancelled = true;
    j->why = why;
    if (p->life != ALIVE) { /* the job still waits for its worker */
        fail_job(p, why, "");
        return;
    }
    p->cancel_sent = 0;
    set_timer(p, FOR_GRACE, p->options.grace_ms);
    send_job(p);
}

static void time_is_over(kn_timer *t) {
    kn_image_process *p = KN_HOLDER(t, kn_image_process, timer);
    switch (p->purpose) {
    case FOR_DEADLINE: stop_job(p, KN_JOB_DEADLINE); break;
    case FOR_COOLING: let_go(p); break;
    case FOR_GRACE:
        p->forced = true;
        kill_worker(p);
        break;
    }
}

/* What cannot be watched is closed here: nobody else will. */
static bool watch_pipe(kn_image_process *p, kn_watch *w, int fd, uint32_t wanted, void (*ready)(kn_watch *, uint32_t),
                       kn_error *err) {
    if (kn_watch_open(p->loop, w, fd, wanted, ready, err))
        return true;
    close(fd);
    return false;
}

static bool watch_worker(kn_image_process *p, kn_error *err) {
    const kn_child *c = &p->child;
    bool in = watch_pipe(p, &p->in, c->in, 0, input_has_room, err);
    bool out = watch_pipe(p, &p->out, c->out, EPOLLIN, output_came, err);
    bool errors = watch_pipe(p, &p->err, c->err, EPOLLIN, errors_came, err);
    return in && out && errors && kn_watch_open(p->loop, &p->exit, c->pid_fd, EPOLLIN, worker_ended, err);
}

static void add_option(const char **arguments, size_t *count, const char *name, const char *value) {
    if (value) {
        arguments[(*count)++] = name;
        arguments[(*count)++] = value;
    }
}

/* Of our own environment: where the user's models.toml is, and what "~" means in any. */
static const char *const passed[] = { "HOME", "XDG_CONFIG_HOME" };
enum { FIXED = 5, VARIABLE = PATH_MAX + 20 };

static bool start_worker(kn_image_process *p, kn_error *err) {
    char own[KN_COUNT(passed)][VARIABLE];
    const char *environment[FIXED + KN_COUNT(passed) + 1] = {
        "PATH=/usr/bin:/bin",       "LC_ALL=C.UTF-8", "CUDA_CACHE_DISABLE=1", "MESA_SHADER_CACHE_DISABLE=true",
        "__GL_SHADER_DISK_CACHE=0",
    };
    for (size_t i = 0, n = FIXED; i < KN_COUNT(passed); i++) {
        const char *value = getenv(passed[i]);
        if (value && snprintf(own[i], VARIABLE, "%s=%s", passed[i], value) < VARIABLE)
            environment[n++] = own[i];
    }
    const kn_image_process_options *o = &p->options;
    const char *arguments[ARGUMENTS] = { "kuno", "image-worker", "--session" };
    size_t count = 3;
    char threads[16];
    snprintf(threads, sizeof threads, "%u", o->threads);
    add_option(arguments, &count, "--isolation", kn_isolation_names[o->isolation].name);
    add_option(arguments, &count, "--residency", o->keep_warm_ms ? "cached" : "staged");
    add_option(arguments, &count, "--config", o->config);
    add_option(arguments, &count, "--upscalers", o->upscalers);
    add_option(arguments, &count, "--device", o->device);
    add_option(arguments, &count, "--model-profile", o->profile);
    add_option(arguments, &count, "--precision", o->precision);
    add_option(arguments, &count, "--threads", o->threads ? threads : NULL);
    const kn_child_plan plan = { .program = o->program ? o->program : "/proc/self/exe",
                                 .arguments = arguments,
                                 .environment = environment };
    if (!kn_child_start(&plan, &p->child, err))
        return false;
    kn_frame_reader_init(&p->reader, KN_FROM_WORKER);
    p->line_len = 0;
    p->last_word = KN_JOB_CODES;
    p->ready = p->broken = p->forced = p->lost = false;
    p->life = ALIVE;
    return true;
}

static void end_worker(kn_image_process *p) {
    int status = 0;
    kill_worker(p);
    kn_child_wait(&p->child, true, &status);
    p->exit.fd = -1;
    close_worker(p);
}

static bool start_job(kn_image_process *p, kn_error *err) {
    if (p->life == GONE) {
        if (!start_worker(p, err))
            return false;
        if (!watch_worker(p, err)) {
            end_worker(p);
            return false;
        }
    }
    if (p->options.deadline_ms)
        set_timer(p, FOR_DEADLINE, p->options.deadline_ms);
    else
        kn_loop_timer_stop(&p->timer);
    send_job(p);
    return true;
}

/* ---- for the server ---- */

static void set_options(kn_image_process *p, const kn_image_process_options *o) {
    p->options = *o;
    if (!p->options.grace_ms)
        p->options.grace_ms = KN_IMAGE_GRACE_MS;
}

bool kn_image_process_new(kn_loop *l, const kn_image_process_options *o, kn_image_process **ret, kn_error *err) {
    kn_image_process *p = calloc(1, sizeof *p);
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    p->loop = l;
    set_options(p, o);
    p->in.fd = p->out.fd = p->err.fd = p->exit.fd = -1;
    p->timer = (kn_timer){ .fired = time_is_over, .due_ms = KN_TIMER_NEVER };
    p->told.run = tell_result;
    kn_frame_header(KN_FRAME_CANCEL, 0, p->cancel);
    kn_buf_init(&p->answer, 0);
    kn_buf_init(&p->report, 0);
    kn_frame_reader_init(&p->reader, KN_FROM_WORKER);
    *ret = p;
    return true;
}

static void free_process(kn_task *t) {
    free(KN_HOLDER(t, kn_image_process, told));
}

/* Last of all: it may stand in the loop's line, and events of this turn may name its watches. */
void kn_image_process_free(kn_image_process *p) {
    if (!p)
        return;
    kn_image_process_abandon(p);
    kn_loop_timer_close(p->loop, &p->timer);
    p->told.run = free_process;
    kn_loop_later(p->loop, &p->told);
}

void kn_image_process_change(kn_image_process *p, const kn_image_process_options *o) {
    kn_image_process_cool(p);
    set_options(p, o);
}

void kn_image_process_limit(kn_image_process *p, uint64_t deadline_ms) {
    p->options.deadline_ms = deadline_ms;
}

static bool take_job(kn_image_process *p, unsigned kind, const uint32_t *numbers, size_t count, const void *body,
                     size_t len, const kn_image_listener *listener, kn_error *err) {
    size_t words = count * WORD;
    if (p->job)
        return kn_fail(err, KN_E_USAGE, "the image worker has a job already");
    if (len + words > kn_frame_limit(kind))
        return kn_fail(err, KN_E_RANGE, "%zu bytes are too many for a job, %zu are possible", len,
                       kn_frame_limit(kind) - words);
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return kn_fail_nomem(err, sizeof *j);
    *j = (struct job){ .listener = *listener, .head_len = KN_FRAME_HEADER + words, .body = body, .body_len = len };
    kn_frame_header(kind, len + words, j->head);
    for (size_t i = 0; i < count; i++)
        kn_frame_put(j->head + KN_FRAME_HEADER + i * WORD, numbers[i]);
    p->job = j;
    p->result = (kn_image_result){ 0 };
    p->hdr_lost[0] = 0;
    p->failure = (kn_error){ 0 };
    kn_error why = { 0 };
    if (p->life != LEAVING && !start_job(p, &why))
        fail_job(p, KN_JOB_FAILED, why.text);
    return true;
}

bool kn_image_process_draw(kn_image_process *p, const char *recipe, size_t len, bool previews,
                           const kn_image_listener *listener, kn_error *err) {
    return take_job(p, previews ? KN_FRAME_DRAW_PREVIEW : KN_FRAME_DRAW, NULL, 0, recipe, len, listener, err);
}

bool kn_image_process_read(kn_image_process *p, const void *file, size_t len, uint32_t largest,
                           const kn_image_listener *listener, kn_error *err) {
    return take_job(p, KN_FRAME_READ_PICTURE, &largest, 1, file, len, listener, err);
}

bool kn_image_process_convert(kn_image_process *p, const void *file, size_t len, kn_frame_format format,
                              uint32_t quality, const kn_image_listener *listener, kn_error *err) {
    const uint32_t numbers[] = { (uint32_t)format, quality };
    return take_job(p, KN_FRAME_CONVERT, numbers, KN_COUNT(numbers), file, len, listener, err);
}

bool kn_image_process_measure(kn_image_process *p, const char *upscaler, const kn_image_listener *listener,
                              kn_error *err) {
    return take_job(p, KN_FRAME_MEASURE, NULL, 0, upscaler, strlen(upscaler), listener, err);
}

bool kn_image_process_inspect(kn_image_process *p, const void *file, size_t len, const kn_image_listener *listener,
                              kn_error *err) {
    return take_job(p, KN_FRAME_INSPECT, NULL, 0, file, len, listener, err);
}

void kn_image_process_cancel(kn_image_process *p) {
    if (p->job && !p->job->answered)
        stop_job(p, KN_JOB_CANCELLED);
}

void kn_image_process_cool(kn_image_process *p) {
    if (p->life == ALIVE && !p->job)
        let_go(p);
}

void kn_image_process_abandon(kn_image_process *p) {
    if (p->life != GONE)
        end_worker(p);
    free(p->job);
    p->job = NULL;
    kn_buf_free(&p->answer);
    kn_buf_free(&p->report);
}

bool kn_image_process_is_busy(const kn_image_process *p) {
    return p->job != NULL;
}

bool kn_image_process_is_warm(const kn_image_process *p) {
    return p->life == ALIVE;
}

kn_cage_gaps kn_image_process_gaps(const kn_image_process *p) {
    return p->gaps;
}

const char *kn_image_process_obstacle(const kn_image_process *p) {
    return p->obstacle.code ? p->obstacle.text : NULL;
}
