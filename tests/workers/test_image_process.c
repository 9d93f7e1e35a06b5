/* An image worker as the server has it: every job ends once, whatever becomes of the process. KUNO_PROBED names the
 * program with faults (probe.c). */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "workers/image_process.h"

enum { PATIENCE_MS = 100 * 1000, SOON_MS = 300 };

/* Of what takes far longer than anybody here waits; ThreadSanitizer makes each step ten times as long. */
#ifdef __SANITIZE_THREAD__
#define LONG_SIDE "256"
#else
#define LONG_SIDE "768"
#endif

static const char quick[] = "{\"model\":\"demo\",\"prompt\":\"a red boat\",\"seed\":\"42\",\"width\":64,\"height\":64}";
static const char endless[] = "{\"model\":\"free\",\"prompt\":\"a red boat\",\"seed\":\"42\",\"width\":" LONG_SIDE
                              ",\"height\":" LONG_SIDE ",\"steps\":100,\"cfg\":1}";
static const char crashing[] = "{\"model\":\"crash\",\"prompt\":\"a red boat\"}";
static const char hanging[] = "{\"model\":\"hang\",\"prompt\":\"a red boat\"}";

/* A process, and what its listener has heard of the present job. */
struct bench {
    kn_loop *loop;
    kn_image_process *process;
    unsigned done, progress, previews;
    kn_image_result result;
    char sentence[600], report[2000];
    bool was_warm;    /* when it was told of the end */
    const char *next; /* to be drawn from within `done` */
    unsigned drawn_next;
    unsigned cancel_after; /* so many steps */
};

static char logged[200]; /* the last line that was */

static void log_line(void *ctx, const char *line) {
    (void)ctx;
    snprintf(logged, sizeof logged, "%s", line);
}

static char folder[] = "/tmp/kuno-test-process-XXXXXX", config[64];

static int make_config(void **state) {
    (void)state;
    static const char *const names[] = { "crash", "hang" };
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(folder))
        return 1;
    snprintf(config, sizeof config, "%s/models.toml", folder);
    FILE *f = fopen(config, "we");
    if (!f)
        return 1;
    for (size_t i = 0; i < KN_COUNT(names); i++)
        fprintf(f,
                "[model_profiles.%s]\narchitecture = \"qwen-image-2.1\"\nvariant = \"turbo\"\n"
                "diffusion_model = \"%s.gguf\"\n"
                "text_encoder = \"%s.gguf\"\nvae = \"%s.gguf\"\n",
                names[i], names[i], names[i], names[i]);
    fprintf(f,
            "[model_profiles.free]\narchitecture = \"qwen-image-2.1\"\nvariant = \"base\"\n"
            "diffusion_model = \"%s/models/demo/diffusion_model_fp8_scaled.safetensors\"\n"
            "text_encoder = \"%s/models/demo/text_encoder_fp8_scaled.safetensors\"\n"
            "vae = \"%s/models/demo/vae.safetensors\"\ntokenizer = \"%s/models/demo/tokenizer\"\n",
            KN_SOURCE, KN_SOURCE, KN_SOURCE, KN_SOURCE);
    return fclose(f);
}

static int remove_config(void **state) {
    (void)state;
    return unlink(config) || rmdir(folder);
}

static void hear_progress(void *ctx, kn_frame_phase phase, uint32_t step, uint32_t steps) {
    struct bench *b = ctx;
    b->progress++;
    assert_true(step <= steps);
    if (b->cancel_after && phase == KN_PHASE_STEP && step == b->cancel_after)
        kn_image_process_cancel(b->process);
}

static void hear_preview(void *ctx, const kn_frame_preview *preview) {
    struct bench *b = ctx;
    b->previews++;
    assert_memory_equal(preview->png, "\x89PNG", 4);
}

static void hear_done(void *ctx, const kn_image_result *result);

static void draw_previews(struct bench *b, const char *recipe, bool previews) {
    const kn_image_listener listener = { hear_progress, hear_preview, hear_done, b };
    kn_error err = { 0 };
    b->done = b->progress = b->previews = 0;
    assert_true(kn_image_process_draw(b->process, recipe, strlen(recipe), previews, &listener, &err));
    assert_int_equal(b->done, 0); /* never from within */
}

static void draw(struct bench *b, const char *recipe) {
    draw_previews(b, recipe, false);
}

static void hear_done(void *ctx, const kn_image_result *result) {
    struct bench *b = ctx;
    b->done++;
    b->result = *result;
    b->was_warm = kn_image_process_is_warm(b->process);
    snprintf(b->sentence, sizeof b->sentence, "%s", result->sentence);
    snprintf(b->report, sizeof b->report, "%s", result->report);
    assert_int_equal(result->file != NULL, result->code == KN_JOB_DONE);
    if (result->file)
        assert_memory_equal(result->file, "\x89PNG", 4);
    if (b->next) {
        const char *next = b->next;
        b->next = NULL;
        b->drawn_next++;
        draw(b, next);
    }
}

static struct bench set_up(kn_image_process_options options) {
    struct bench b = { .done = 0 };
    kn_error err = { 0 };
    if (!options.program)
        options.program = getenv("KUNO_PROBED");
    options.config = config;
    options.isolation = KN_ISOLATION_BEST_EFFORT;
    options.log = log_line;
    logged[0] = 0;
    assert_non_null(options.program);
    assert_true(kn_loop_new(NULL, NULL, &b.loop, &err));
    assert_true(kn_image_process_new(b.loop, &options, &b.process, &err));
    return b;
}

/* The number of the only one; 0: there is none. */
static int child(void) {
    char text[200] = "";
    FILE *f = fopen("/proc/thread-self/children", "re");
    assert_non_null(f);
    if (!fgets(text, sizeof text, f))
        text[0] = 0;
    fclose(f);
    return (int)strtol(text, NULL, 10);
}

static void tear_down(struct bench *b) {
    kn_image_process_free(b->process);
    kn_loop_free(b->loop);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
    assert_int_equal(errno, ECHILD);
}

/* Until one of the two is not 0. */
static void turn_until(struct bench *b, const unsigned *one, const unsigned *other) {
    uint64_t end = kn_loop_now_ms(b->loop) + PATIENCE_MS;
    while (!*one && !*other) {
        assert_true(kn_loop_turn(b->loop, 1000, NULL));
        assert_true(kn_loop_now_ms(b->loop) < end);
    }
}

static void turn_until_done(struct bench *b) {
    turn_until(b, &b->done, &b->done);
    assert_int_equal(b->done, 1);
    assert_false(kn_image_process_is_busy(b->process));
}

static void turn_until_cold(struct bench *b) {
    uint64_t end = kn_loop_now_ms(b->loop) + PATIENCE_MS;
    while (child()) {
        assert_true(kn_loop_turn(b->loop, 10, NULL));
        assert_true(kn_loop_now_ms(b->loop) < end);
    }
}

static void expect(struct bench *b, const char *recipe, kn_job_code code) {
    draw(b, recipe);
    turn_until_done(b);
    if (b->result.code != code)
        print_message("%s: %s\n", kn_job_codes[b->result.code].word, b->sentence);
    assert_int_equal(b->result.code, code);
}

static double loading(const struct bench *b) {
    json_t *report = json_loads(b->report, 0, NULL);
    double seconds = json_number_value(json_object_get(report, "load_seconds"));
    json_decref(report);
    return seconds;
}

static void a_warm_worker_draws_the_second_picture_without_loading(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    draw_previews(&b, quick, true);
    turn_until_done(&b);
    assert_int_equal(b.result.code, KN_JOB_DONE);
    assert_int_equal(b.previews, 8);
    assert_true(b.progress > 8 && b.was_warm && !b.result.forced);
    int worker = child();
    double first = loading(&b);
    expect(&b, quick, KN_JOB_DONE);
    assert_int_equal(b.previews, 0);
    assert_int_equal(child(), worker);
    assert_true(first > 0 && loading(&b) < first / 10);
    tear_down(&b);
}

static void without_warmth_the_worker_is_gone_when_its_job_is_done(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = 0 });
    for (int i = 0; i < 2; i++) {
        expect(&b, quick, KN_JOB_DONE);
        assert_false(b.was_warm);
        assert_int_equal(child(), 0);
    }
    tear_down(&b);
}

static void warmth_ends_with_its_time_and_when_asked_to(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = SOON_MS });
    expect(&b, quick, KN_JOB_DONE);
    assert_true(kn_image_process_is_warm(b.process));
    turn_until_cold(&b);
    assert_false(kn_image_process_is_warm(b.process));
    tear_down(&b);

    b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    expect(&b, quick, KN_JOB_DONE);
    kn_image_process_cool(b.process);
    turn_until_cold(&b);
    tear_down(&b);
}

static void a_job_that_comes_while_a_worker_leaves_gets_the_next_one(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    expect(&b, quick, KN_JOB_DONE);
    int first = child();
    kn_image_process_cool(b.process);
    expect(&b, quick, KN_JOB_DONE);
    assert_int_not_equal(child(), first);

    kn_image_process_cool(b.process);
    draw(&b, quick);
    kn_image_process_cancel(b.process); /* before there is anybody to tell */
    turn_until_done(&b);
    assert_int_equal(b.result.code, KN_JOB_CANCELLED);
    tear_down(&b);
}

static void the_next_job_may_be_given_when_one_is_done(void **state) {
    (void)state;
    for (uint64_t warm = 0; warm <= PATIENCE_MS; warm += PATIENCE_MS) {
        struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = warm });
        b.next = quick;
        draw(&b, crashing);
        turn_until(&b, &b.drawn_next, &b.drawn_next);
        assert_int_equal(b.result.code, KN_JOB_FAILED);
        turn_until_done(&b);
        assert_int_equal(b.result.code, KN_JOB_DONE);
        tear_down(&b);
    }
}

static void a_model_file_that_crashes_its_parser_costs_one_job(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    expect(&b, quick, KN_JOB_DONE);
    expect(&b, crashing, KN_JOB_FAILED);
    assert_string_equal(b.sentence, "the image worker was ended by signal 11");
    assert_false(b.result.forced);
    expect(&b, quick, KN_JOB_DONE);
    tear_down(&b);
}

static void what_ended_one_job_is_not_taken_for_the_end_of_the_next(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    b.cancel_after = 2;
    expect(&b, endless, KN_JOB_CANCELLED);
    b.cancel_after = 0;
    expect(&b, crashing, KN_JOB_FAILED);
    assert_true(b.result.lost);
    tear_down(&b);
}

static void read_picture(struct bench *b, const void *bytes, size_t len, uint32_t largest) {
    const kn_image_listener listener = { NULL, NULL, hear_done, b };
    kn_error err = { 0 };
    b->done = 0;
    assert_true(kn_image_process_read(b->process, bytes, len, largest, &listener, &err));
    turn_until_done(b);
}

static void a_picture_that_crashes_its_decoder_costs_one_job(void **state) {
    (void)state;
    static const char bad[] = "probe crash now";
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    read_picture(&b, bad, sizeof bad - 1, 0);
    assert_int_equal(b.result.code, KN_JOB_FAILED);
    expect(&b, quick, KN_JOB_DONE);
    tear_down(&b);
}

static size_t load(const char *path, char *bytes, size_t room) {
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    size_t len = fread(bytes, 1, room, f);
    fclose(f);
    return len;
}

static void reads_pictures_and_passes_on_what_is_known_of_them(void **state) {
    (void)state;
    char bytes[2000];
    size_t len = load(KN_SOURCE "/tests/golden/image/alpha-hidden.png", bytes, sizeof bytes);
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    read_picture(&b, bytes, len, 8);
    assert_int_equal(b.result.code, KN_JOB_DONE);
    assert_int_equal(b.result.width, 16);
    assert_int_equal(b.result.height, 16);
    assert_true(b.result.is_transparent);
    assert_string_equal(b.result.icc_profile.text, "");
    assert_string_equal(b.report, "");
    len = load(KN_SOURCE "/tests/golden/image/icc/p3.png", bytes, sizeof bytes);
    read_picture(&b, bytes, len, 0);
    assert_int_equal(b.result.code, KN_JOB_DONE);
    assert_false(b.result.is_transparent);
    assert_string_equal(b.result.icc_profile.text, "Display P3");
    tear_down(&b);
}

static void sends_what_no_pipe_holds(void **state) {
    (void)state;
    enum { BYTES = 20 << 20 };
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    char *bytes = calloc(1, BYTES);
    assert_non_null(bytes);
    read_picture(&b, bytes, BYTES, 0);
    assert_int_equal(b.result.code, KN_JOB_REFERENCE_INVALID);
    assert_string_equal(b.sentence, "is not a picture of a known format");
    free(bytes);
    tear_down(&b);
}

static void stops_a_job_and_keeps_the_worker(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    b.cancel_after = 2;
    expect(&b, endless, KN_JOB_CANCELLED);
    assert_true(b.was_warm && !b.result.forced);
    int worker = child();
    b.cancel_after = 0;
    expect(&b, quick, KN_JOB_DONE);
    assert_int_equal(child(), worker);
    kn_image_process_cancel(b.process); /* there is nothing to stop */
    expect(&b, quick, KN_JOB_DONE);
    tear_down(&b);
}

static void kills_what_does_not_stop_in_time_and_says_so(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS, .grace_ms = SOON_MS });
    draw(&b, hanging);
    kn_image_process_cancel(b.process);
    kn_image_process_cancel(b.process);
    turn_until_done(&b);
    assert_int_equal(b.result.code, KN_JOB_CANCELLED);
    assert_true(b.result.forced);
    assert_string_equal(b.sentence, "the image worker did not stop in time and was ended");
    expect(&b, quick, KN_JOB_DONE);
    assert_false(b.result.forced);
    tear_down(&b);
}

static void ends_a_job_whose_time_is_over(void **state) {
    (void)state;
    struct bench b =
        set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS, .grace_ms = SOON_MS, .deadline_ms = SOON_MS });
    expect(&b, hanging, KN_JOB_DEADLINE);
    assert_true(b.result.forced);
    tear_down(&b);
    b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS, .deadline_ms = SOON_MS });
    expect(&b, endless, KN_JOB_DEADLINE);
    assert_false(b.result.forced);
    tear_down(&b);
}

static void a_worker_that_is_killed_costs_its_job_or_nothing_and_is_told_of(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    draw(&b, endless);
    turn_until(&b, &b.progress, &b.done);
    assert_int_equal(kill(child(), SIGKILL), 0);
    turn_until_done(&b);
    assert_int_equal(b.result.code, KN_JOB_FAILED);
    assert_string_equal(b.sentence, "the image worker was ended by signal 9");
    assert_false(b.result.forced);
    assert_string_equal(logged, b.sentence);
    expect(&b, quick, KN_JOB_DONE);
    logged[0] = 0;
    assert_int_equal(kill(child(), SIGKILL), 0); /* while it is idle */
    turn_until_cold(&b);
    assert_string_equal(logged, "the image worker was ended by signal 9");
    logged[0] = 0;
    expect(&b, quick, KN_JOB_DONE);
    kn_image_process_cool(b.process);
    turn_until_cold(&b);
    assert_string_equal(logged, ""); /* as it should */
    tear_down(&b);
}

static void another_kind_of_worker_begins_when_the_last_one_has_gone(void **state) {
    (void)state;
    kn_image_process_options other = { .program = "/bin/true", .keep_warm_ms = PATIENCE_MS };
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    expect(&b, quick, KN_JOB_DONE);
    int first = child();
    kn_image_process_change(b.process, &other);
    assert_int_equal(child(), first); /* it has been told to go */
    expect(&b, quick, KN_JOB_FAILED);
    assert_string_equal(b.sentence, "the image worker ended by itself with status 0");
    other.program = getenv("KUNO_PROBED");
    other.config = config;
    other.isolation = KN_ISOLATION_BEST_EFFORT;
    kn_image_process_change(b.process, &other);
    kn_image_process_limit(b.process, SOON_MS);
    expect(&b, endless, KN_JOB_DEADLINE);
    kn_image_process_limit(b.process, 0);
    expect(&b, quick, KN_JOB_DONE);
    tear_down(&b);
}

static void an_abandoned_job_is_told_of_no_more(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    draw(&b, endless);
    turn_until(&b, &b.progress, &b.done);
    kn_image_process_abandon(b.process);
    assert_int_equal(child(), 0);
    for (int i = 0; i < 10; i++)
        assert_true(kn_loop_turn(b.loop, 1, NULL));
    assert_int_equal(b.done, 0);
    expect(&b, quick, KN_JOB_DONE);
    kn_image_process_change(b.process, &(kn_image_process_options){ .program = "/nowhere/kuno" });
    turn_until_cold(&b);
    draw(&b, quick); /* it has failed, and would be told in the next turn */
    tear_down(&b);
    assert_int_equal(b.done, 0);
}

static void other_programs_cost_a_job_each(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "/bin/echo", "the image worker did not keep to the protocol and was ended" },
        { "/bin/true", "the image worker ended by itself with status 0" },
        { "/nowhere/kuno", "cannot start a process: No such file or directory" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        struct bench b = set_up((kn_image_process_options){ .program = rows[i][0], .keep_warm_ms = PATIENCE_MS });
        for (int k = 0; k < 2; k++) {
            expect(&b, quick, KN_JOB_FAILED);
            assert_string_equal(b.sentence, rows[i][1]);
        }
        tear_down(&b);
    }
}

static void takes_one_job_at_a_time_and_none_too_large(void **state) {
    (void)state;
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = PATIENCE_MS });
    const kn_image_listener listener = { NULL, NULL, hear_done, &b };
    kn_error err = { 0 };
    assert_false(kn_image_process_draw(b.process, quick, KN_RECIPE_BYTES + 1, false, &listener, &err));
    assert_string_equal(err.text, "67108865 bytes are too many for a job, 67108864 are possible");
    draw(&b, quick);
    err = (kn_error){ 0 };
    assert_true(kn_image_process_is_busy(b.process));
    assert_false(kn_image_process_draw(b.process, quick, sizeof quick - 1, false, &listener, &err));
    assert_string_equal(err.text, "the image worker has a job already");
    turn_until_done(&b);
    assert_int_equal(b.result.code, KN_JOB_DONE);
    tear_down(&b);
}

static int count_descriptors(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void leaves_no_descriptor_open(void **state) {
    (void)state;
    int before = count_descriptors();
    struct bench b = set_up((kn_image_process_options){ .keep_warm_ms = 0 });
    expect(&b, quick, KN_JOB_DONE);
    expect(&b, crashing, KN_JOB_FAILED);
    draw(&b, quick); /* and one that is given up in the middle */
    tear_down(&b);
    assert_int_equal(count_descriptors(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_warm_worker_draws_the_second_picture_without_loading),
        cmocka_unit_test(without_warmth_the_worker_is_gone_when_its_job_is_done),
        cmocka_unit_test(warmth_ends_with_its_time_and_when_asked_to),
        cmocka_unit_test(a_job_that_comes_while_a_worker_leaves_gets_the_next_one),
        cmocka_unit_test(the_next_job_may_be_given_when_one_is_done),
        cmocka_unit_test(a_model_file_that_crashes_its_parser_costs_one_job),
        cmocka_unit_test(another_kind_of_worker_begins_when_the_last_one_has_gone),
        cmocka_unit_test(an_abandoned_job_is_told_of_no_more),
        cmocka_unit_test(what_ended_one_job_is_not_taken_for_the_end_of_the_next),
        cmocka_unit_test(a_picture_that_crashes_its_decoder_costs_one_job),
        cmocka_unit_test(reads_pictures_and_passes_on_what_is_known_of_them),
        cmocka_unit_test(sends_what_no_pipe_holds),
        cmocka_unit_test(stops_a_job_and_keeps_the_worker),
        cmocka_unit_test(kills_what_does_not_stop_in_time_and_says_so),
        cmocka_unit_test(ends_a_job_whose_time_is_over),
        cmocka_unit_test(a_worker_that_is_killed_costs_its_job_or_nothing_and_is_told_of),
        cmocka_unit_test(other_programs_cost_a_job_each),
        cmocka_unit_test(takes_one_job_at_a_time_and_none_too_large),
        cmocka_unit_test(leaves_no_descriptor_open),
    };
    return cmocka_run_group_tests(tests, make_config, remove_config);
}
