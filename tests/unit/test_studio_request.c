/* Requests, paths, events: what comes from outside is understood exactly or refused with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/events.h"
#include "studio/paths.h"
#include "studio/record.h"
#include "studio/request.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void requests_are_understood_or_refused_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *body;
        bool upscale;
        const char *pointer; /* NULL: it is good */
    } rows[] = {
        { "{\"prompt\":\"a\"}", false, NULL },
        { "{\"prompt\":\"two\\nlines\\t\\u20ac\"}", false, NULL },
        { "{\"prompt\":\"\"}", false, "/prompt" },
        { "{}", false, "" },
        { "[]", false, "" },
        { "{\"prompt\":\"a\",\"prompt\":\"b\"}", false, "" },
        { "{\"prompt\":\"a\",\"stepps\":1}", false, "" },
        { "{\"prompt\":\"a\\u0000b\"}", false, "/prompt" },
        { "{\"prompt\":7}", false, "/prompt" },
        { "{\"prompt\":\"a\",\"kind\":\"edit\"}", false, NULL },
        { "{\"prompt\":\"a\",\"kind\":\"upscale\"}", false, "/kind" },
        { "{\"prompt\":\"a\",\"profile\":\"qwen-2.1_x\"}", false, NULL },
        { "{\"prompt\":\"a\",\"profile\":\"-x\"}", false, "/profile" },
        { "{\"prompt\":\"a\",\"profile\":\"../x\"}", false, "/profile" },
        { "{\"prompt\":\"a\",\"preset\":\"quality\"}", false, NULL },
        { "{\"prompt\":\"a\",\"preset\":\"turbo\"}", false, "/preset" },
        { "{\"prompt\":\"a\",\"seed\":\"0\"}", false, NULL },
        { "{\"prompt\":\"a\",\"seed\":\"9223372036854775807\"}", false, NULL },
        { "{\"prompt\":\"a\",\"seed\":\"9223372036854775808\"}", false, "/seed" },
        { "{\"prompt\":\"a\",\"seed\":\"9223372036854775807\",\"batch\":2}", false, "/seed" },
        { "{\"prompt\":\"a\",\"seed\":\"007\"}", false, "/seed" },
        { "{\"prompt\":\"a\",\"seed\":\"-1\"}", false, "/seed" },
        { "{\"prompt\":\"a\",\"seed\":\"\"}", false, "/seed" },
        { "{\"prompt\":\"a\",\"seed\":42}", false, "/seed" },
        { "{\"prompt\":\"a\",\"batch\":8}", false, NULL },
        { "{\"prompt\":\"a\",\"batch\":9}", false, "/batch" },
        { "{\"prompt\":\"a\",\"batch\":0}", false, "/batch" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"auto\",\"aspect_ratio\":\"3:2\"}}", false, NULL },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"auto\",\"aspect_ratio\":\"99:1\"}}", false, NULL },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"auto\",\"aspect_ratio\":\"100:1\"}}", false, "/size/aspect_ratio" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"auto\",\"aspect_ratio\":\"0:1\"}}", false, "/size/aspect_ratio" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"auto\",\"aspect_ratio\":\"3:\"}}", false, "/size/aspect_ratio" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"auto\",\"aspect_ratio\":\"3:2:1\"}}", false, "/size/aspect_ratio" },
        { "{\"prompt\":\"a\",\"size\":{}}", false, "/size" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"custom\",\"width\":640,\"height\":480}}", false, NULL },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"custom\",\"width\":640}}", false, "/size" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"custom\",\"width\":15,\"height\":480}}", false, "/size/width" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"custom\",\"width\":2147483647,\"height\":480}}", false,
          "/size/width" },
        { "{\"prompt\":\"a\",\"inputs\":[{\"input_id\":\"" ID "\",\"role\":\"source\"}]}", false, NULL },
        { "{\"prompt\":\"a\",\"inputs\":[{\"input_id\":\"" ID "\"}]}", false, "/inputs/0" },
        { "{\"prompt\":\"a\",\"inputs\":[{\"input_id\":\"xyz\",\"role\":\"source\"}]}", false, "/inputs/0/input_id" },
        { "{\"prompt\":\"a\",\"outpaint\":{\"left\":8192}}", false, NULL },
        { "{\"prompt\":\"a\",\"outpaint\":{\"left\":8193}}", false, "/outpaint/left" },
        { "{\"prompt\":\"a\",\"feather\":0}", false, NULL },
        { "{\"prompt\":\"a\",\"feather\":257}", false, "/feather" },
        { "{\"prompt\":\"a\",\"feather\":1.5}", false, "/feather" },
        { "{\"prompt\":\"a\",\"cache_threshold\":0.25}", false, NULL },
        { "{\"prompt\":\"a\",\"cache_threshold\":1e999}", false, "/cache_threshold" },
        { "{\"prompt\":\"a\",\"output\":{\"format\":\"webp\",\"quality\":80,\"transparent\":true}}", false, NULL },
        { "{\"prompt\":\"a\",\"output\":{\"quality\":0}}", false, "/output/quality" },
        { "{\"prompt\":\"a\",\"output\":{\"transparent\":1}}", false, "/output/transparent" },
        { "{\"prompt\":\"a\",\"tags\":[\"x\",\"y\"]}", false, NULL },
        { "{\"prompt\":\"a\",\"tags\":[\"x\",null]}", false, "/tags/1" },
        { "{\"prompt\":\"a\",\"upscale\":{\"factor\":2}}", false, NULL },
        { "{\"prompt\":\"a\",\"upscale\":{\"factor\":9}}", false, "/upscale/factor" },
        { "{\"upscale\":{\"factor\":2},\"input_id\":\"" ID "\"}", true, NULL },
        { "{\"upscale\":{\"width\":640,\"height\":640},\"gallery_item\":\"img_0123456789abcdefghjkmnpqrs\"}", true,
          NULL },
        { "{\"upscale\":{\"factor\":2,\"width\":640},\"input_id\":\"" ID "\"}", true, "/upscale" },
        { "{\"upscale\":{\"factor\":2}}", true, "" },
        { "{\"upscale\":{},\"input_id\":\"" ID "\",\"gallery_item\":\"img_0123456789abcdefghjkmnpqrs\"}", true, "" },
        { "{\"upscale\":{},\"gallery_item\":\"img_x\"}", true, "/gallery_item" },
        { "{\"prompt\":\"a\"} x", false, "" },
        { "", false, "" },
        { "{\"prompt\":\"\xff\"}", false, "/prompt" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_studio_request r;
        KN_AUTO_BUF pointer;
        kn_error err = { 0 };
        kn_buf_init(&pointer, 200);
        bool good = kn_request_read(rows[i].body, strlen(rows[i].body), rows[i].upscale, &r, &pointer, &err);
        if (good != !rows[i].pointer)
            fail_msg("%s is %s: %s", rows[i].body, good ? "taken" : "refused", err.text);
        if (good)
            kn_request_free(&r);
        else if (rows[i].pointer && strncmp(pointer.data, rows[i].pointer, strlen(rows[i].pointer)) != 0)
            fail_msg("%s is refused at '%s': %s", rows[i].body, pointer.data, err.text);
    }
}

static void a_prompt_is_counted_in_characters_and_kept_to_the_byte(void **state) {
    (void)state;
    KN_AUTO_BUF body, pointer;
    kn_studio_request r;
    kn_buf_init(&body, 1 << 20);
    kn_buf_init(&pointer, 200);
    for (size_t n = KN_REQUEST_PROMPT_MAX; n <= KN_REQUEST_PROMPT_MAX + 1; n++) {
        kn_buf_clear(&body);
        assert_true(kn_buf_add_text(&body, "{\"prompt\":\""));
        for (size_t i = 0; i < n; i++)
            assert_true(kn_buf_add_text(&body, "\xf0\x9f\x9a\xa4"));
        assert_true(kn_buf_add_text(&body, "\"}"));
        bool good = kn_request_read(body.data, body.len, false, &r, &pointer, NULL);
        assert_int_equal(good, n == KN_REQUEST_PROMPT_MAX);
        if (good) {
            assert_int_equal(strlen(r.prompt), 4 * n);
            kn_request_free(&r);
        }
    }
}

static void only_plain_absolute_paths_are_taken(void **state) {
    (void)state;
    static const struct {
        const char *path;
        bool good;
    } rows[] = {
        { "/tmp/a", true },        { "/tmp/a b (1)", true }, { "/tmp/caf\xc3\xa9", true },
        { "/tmp/..hidden", true }, { "tmp/a", false },       { "", false },
        { "/tmp/../etc", false },  { "/tmp/..", false },     { "/tmp//a", false },
        { "/tmp/./a", false },     { "/proc/self", false },  { "/sys", false },
        { "/device/a", true },     { "/dev/sda", false },    { "/tmp/a\nb", false },
        { "/tmp/\xff", false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (kn_path_check(rows[i].path, NULL) != rows[i].good)
            fail_msg("'%s'", rows[i].path);
}

static void file_names_hold_no_way_out(void **state) {
    (void)state;
    char longest[258];
    memset(longest, 'a', sizeof longest - 1);
    longest[256] = 0;
    static const struct {
        const char *name;
        bool good;
    } rows[] = {
        { "caf\xc3\xa9 \xe6\xb5\xb7.safetensors", true },
        { "space name (1).gguf", true },
        { "-rf.png", true },
        { "new\nline.png", false },
        { "emoji \xf0\x9f\x9a\x80.png", true },
        { "CON.png", true },
        { "../up.png", false },
        { "..%2fup.png", true },
        { ".hidden.gguf", true },
        { "dir/", false },
        { "..", false },
        { ".", false },
        { "a\\b", false },
        { "", false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (kn_path_check_name(rows[i].name, NULL) != rows[i].good)
            fail_msg("'%s'", rows[i].name);
    assert_false(kn_path_check_name(longest, NULL));
    longest[255] = 0;
    assert_true(kn_path_check_name(longest, NULL));
}

static void names_made_from_prompts_are_short_and_harmless(void **state) {
    (void)state;
    static const struct {
        const char *prompt, *slug;
    } rows[] = {
        { "A red boat, on a lake!", "a-red-boat-on-a-lake" },
        { "../../etc/passwd", "etc-passwd" },
        { "caf\xc3\xa9 \xe6\xb5\xb7", "caf\xc3\xa9-\xe6\xb5\xb7" },
        { "-rf", "rf" },
        { "\n\t", "" },
        { "", "" },
        { "\xe2\x80\x8b"
          "evil",
          "evil" },
        { "<b>\"x\"</b>", "b-x-b" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa9",
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        assert_string_equal(kn_slug_of(rows[i].prompt).text, rows[i].slug);
}

/* ---- events ---- */

static void add_events(kn_events *e, int n) {
    for (int i = 0; i < n; i++)
        kn_events_add(e, 0, KN_EVENT_JOB_QUEUED, "a", "{}");
}

static void watchers_go_on_where_they_were(void **state) {
    (void)state;
    kn_events *e;
    uint64_t seq;
    assert_true(kn_events_new(0xabc, &e, NULL));
    add_events(e, 10);
    assert_string_equal(kn_event_id_of(e, 7).text, "00000abc-7");
    static const struct {
        const char *id;
        kn_resume resume;
    } rows[] = {
        { "00000abc-7", KN_RESUME_GOOD },
        { "00000abc-0", KN_RESUME_GOOD },
        { "00000abc-10", KN_RESUME_GOOD },
        { "00000abc-11", KN_RESUME_UNKNOWN },
        { "00000abd-7", KN_RESUME_RESTARTED },
        { "abc-7", KN_RESUME_UNKNOWN },
        { "00000abc-", KN_RESUME_UNKNOWN },
        { "00000ABC-7", KN_RESUME_UNKNOWN },
        { "00000abc-7x", KN_RESUME_UNKNOWN },
        { "", KN_RESUME_UNKNOWN },
        { "00000abc-9999999999999999999", KN_RESUME_UNKNOWN },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (kn_events_resume(e, rows[i].id, strlen(rows[i].id), &seq) != rows[i].resume)
            fail_msg("'%s'", rows[i].id);
    assert_int_equal(kn_events_resume(e, "00000abc-7", 10, &seq), KN_RESUME_GOOD);
    for (uint64_t next = 8; next <= 10; next++) {
        const kn_event *event = kn_events_after(e, seq);
        assert_int_equal(event->seq, next);
        seq = event->seq;
    }
    assert_null(kn_events_after(e, seq));
    kn_events_free(e);
}

static void the_last_events_are_kept_and_those_of_the_last_minutes(void **state) {
    (void)state;
    kn_events *e;
    uint64_t seq;
    assert_true(kn_events_new(1, &e, NULL));
    add_events(e, KN_EVENTS_KEPT + 100); /* all of them now */
    assert_int_equal(kn_events_resume(e, "00000001-0", 10, &seq), KN_RESUME_GOOD);
    kn_events_add(e, KN_EVENTS_KEPT_MS + 1, KN_EVENT_JOB_QUEUED, "a", "{}"); /* later */
    assert_int_equal(kn_events_resume(e, "00000001-0", 10, &seq), KN_RESUME_TOO_OLD);
    assert_int_equal(kn_events_resume(e, "00000001-101", 12, &seq), KN_RESUME_GOOD);
    assert_int_equal(kn_events_resume(e, "00000001-100", 12, &seq), KN_RESUME_TOO_OLD);
    kn_events_free(e);
}

static void of_progress_only_the_newest_is_kept(void **state) {
    (void)state;
    kn_events *e;
    assert_true(kn_events_new(1, &e, NULL));
    kn_events_add(e, 0, KN_EVENT_JOB_STARTED, "a", "{}");
    for (int i = 0; i < 1000; i++) {
        kn_events_add(e, 0, KN_EVENT_JOB_PROGRESS, "a", "{}");
        kn_events_add(e, 0, KN_EVENT_JOB_PREVIEW, "a", "{}");
    }
    int n = 0;
    uint64_t seq = 0;
    for (const kn_event *event; (event = kn_events_after(e, seq)); n++)
        seq = event->seq;
    assert_int_equal(n, 3);
    assert_int_equal(seq, kn_events_last(e));
    kn_events_free(e);
}

static void events_stay_what_they_are_when_they_are_packed(void **state) {
    (void)state;
    kn_events *e;
    char data[40], subject[20];
    unsigned seen = 0;
    assert_true(kn_events_new(1, &e, NULL));
    kn_events_pack(e); /* there are none */
    for (unsigned i = 1; i <= KN_EVENTS_KEPT + 500; i++) {
        snprintf(subject, sizeof subject, "job %u", i);
        snprintf(data, sizeof data, "{\"number\":%u}", i);
        kn_event_kind kind = i % 100 == 50 ? KN_EVENT_JOB_PROGRESS : KN_EVENT_JOB_QUEUED;
        kn_events_add(e, i * (uint64_t)KN_EVENTS_KEPT_MS, kind, subject, data);
        if (kind == KN_EVENT_JOB_PROGRESS && i % 3 == 0)
            kn_events_add(e, i * (uint64_t)KN_EVENTS_KEPT_MS, kind, subject, data); /* in its place, packed or not */
        if (i % 700 == 0 || i % 100 == 50)
            kn_events_pack(e);
        if (i % 1400 == 0)
            kn_events_pack(e); /* nothing is new */
    }
    uint64_t seq = kn_events_last(e) - KN_EVENTS_KEPT;
    for (const kn_event *event; (event = kn_events_after(e, seq)); seen++) {
        unsigned number = 0;
        assert_int_equal(sscanf(event->subject, "job %u", &number), 1);
        snprintf(data, sizeof data, "{\"number\":%u}", number);
        assert_string_equal(event->data, data);
        seq = event->seq;
    }
    assert_in_range(seen, KN_EVENTS_KEPT - 50, KN_EVENTS_KEPT);
    kn_events_free(e);
}

static void large_events_make_room_for_each_other(void **state) {
    (void)state;
    kn_events *e;
    uint64_t seq;
    char *large = calloc(1, (1 << 20) + 1);
    assert_non_null(large);
    memset(large, ' ', 1 << 20);
    assert_true(kn_events_new(1, &e, NULL));
    for (int i = 0; i < 70; i++)
        kn_events_add(e, 0, KN_EVENT_JOB_QUEUED, "a", large);
    assert_int_equal(kn_events_resume(e, "00000001-1", 10, &seq), KN_RESUME_TOO_OLD);
    assert_int_equal(kn_events_resume(e, "00000001-69", 11, &seq), KN_RESUME_GOOD);
    free(large);
    kn_events_free(e);
}

static void topics_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
        unsigned topics;
    } rows[] = {
        { "jobs", true, KN_TOPIC_JOBS },
        { "jobs,gallery", true, KN_TOPIC_JOBS | KN_TOPIC_GALLERY },
        { "models,settings,engine,downloads", true,
          KN_TOPIC_MODELS | KN_TOPIC_SETTINGS | KN_TOPIC_ENGINE | KN_TOPIC_DOWNLOADS },
        { "", false, 0 },
        { "jobs,", false, 0 },
        { "job", false, 0 },
        { "jobs,x", false, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        unsigned topics = 0;
        assert_int_equal(kn_topics_parse(rows[i].text, strlen(rows[i].text), &topics), rows[i].good);
        assert_int_equal(topics, rows[i].topics);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_understood_or_refused_with_their_place),
        cmocka_unit_test(a_prompt_is_counted_in_characters_and_kept_to_the_byte),
        cmocka_unit_test(only_plain_absolute_paths_are_taken),
        cmocka_unit_test(file_names_hold_no_way_out),
        cmocka_unit_test(names_made_from_prompts_are_short_and_harmless),
        cmocka_unit_test(watchers_go_on_where_they_were),
        cmocka_unit_test(the_last_events_are_kept_and_those_of_the_last_minutes),
        cmocka_unit_test(of_progress_only_the_newest_is_kept),
        cmocka_unit_test(events_stay_what_they_are_when_they_are_packed),
        cmocka_unit_test(large_events_make_room_for_each_other),
        cmocka_unit_test(topics_are_named),
    };
    return cmocka_run_group_tests_name("studio request", tests, NULL, NULL);
}
