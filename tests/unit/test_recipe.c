/* Recipes of pictures as clients send them: what is taken, and what is refused with which code and at which place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "workers/recipe.h"

#define PROMPT "\"prompt\":\"a red boat\""
#define PIXEL  "iVBORw0KGgo="
#define RESULT                                                                                                         \
    "\"result\":{\"width\":70,\"height\":50,\"upscaler\":\"a.safetensors\",\"tile_size\":192,\"blend\":0.25,"          \
    "\"prescale\":true}"

static kn_job_code read_text(const char *text, kn_image_recipe *ret, kn_error *err) {
    *err = (kn_error){ 0 };
    *ret = (kn_image_recipe){ 0 };
    return kn_image_recipe_read(text, strlen(text), true, ret, NULL, err);
}

static void check_case(const json_t *row, const char *expect) {
    char path[512];
    const char *file = golden_text(row, "file");
    bool accept = strcmp(expect, "accept") == 0;
    kn_image_recipe r = { 0 };
    kn_error err = { 0 };
    kn_buf text, pointer;
    snprintf(path, sizeof path, SHIPPED "/requests/%s", file);
    golden_read(path, &text);
    kn_buf_init(&pointer, 100);
    kn_job_code code = kn_image_recipe_read(text.data, text.len, true, &r, &pointer, &err);
    print_message("  %s: %s %s\n", file, kn_job_codes[code].word, err.text);
    assert_int_equal(code == KN_JOB_DONE, accept);
    assert_int_equal(err.code == KN_OK, accept);
    if (!accept)
        assert_int_equal(kn_job_codes[code].exit_status, 2);
    const char *seed = golden_text(row, "seed");
    if (*seed)
        assert_true(r.seed_given && r.seed == strtoull(seed, NULL, 10));
    kn_image_recipe_free(&r);
    kn_buf_free(&pointer);
    kn_buf_free(&text);
}

static void gives_every_odd_request_its_stated_result(void **state) {
    (void)state;
    json_t *cases = golden_json(SHIPPED "/requests/cases.json"), *row = NULL;
    size_t i = 0;
    assert_int_equal(json_array_size(cases), 25);
    json_array_foreach(cases, i, row) {
        const char *file = golden_text(row, "file"), *expect = golden_text(row, "expect");
        if (strcmp(file, "seed-u64-max.json") == 0) /* where both are allowed: seeds are below 2^63 */
            expect = golden_text(row, "may");
        check_case(row, expect);
    }
    json_decref(cases);
}

static void names_the_place_and_the_limit(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
        kn_job_code code;
    } rows[] = {
        { "{" PROMPT ",\"width\":0}", "width: a whole number from 64 to 4096 is expected", KN_JOB_INVALID },
        { "{" PROMPT ",\"width\":100}", "width: 100 is not a multiple of 16", KN_JOB_INVALID },
        { "{" PROMPT ",\"steps\":101}", "steps: a whole number from 1 to 100 is expected", KN_JOB_INVALID },
        { "{" PROMPT ",\"steps\":\"8\"}", "steps: a number from 1 to 100 is expected", KN_JOB_INVALID },
        { "{" PROMPT ",\"cfg\":30.5}", "cfg: a number from 0 to 30 is expected", KN_JOB_INVALID },
        { "{" PROMPT ",\"stepps\":8}",
          ("unknown key 'stepps'; known: workflow, model, prompt, negative_prompt, seed, width, height, steps, cfg, "
           "flow_shift, sampler, scheduler, attention, reference_images, init_image, strength, metadata, opaque, "
           "mask_image, outpaint, feather, show_region, result, format, quality, keep_hdr (did you mean 'steps'?)"),
          KN_JOB_INVALID },
        { "{" PROMPT "," PROMPT "}", "the key 'prompt' comes twice", KN_JOB_INVALID },
        { "{\"prompt\":\"\"}", "prompt: a text of 1 to 32768 characters is expected, this one has 0", KN_JOB_INVALID },
        { "{}", "the key 'prompt' is missing", KN_JOB_INVALID },
        { "{" PROMPT ",\"seed\":9223372036854775808}",
          "seed: a whole number from 0 to 9223372036854775807 is expected, or -1 for any", KN_JOB_INVALID },
        { "{\"prompt\":\"a <lora:../x:1>\"}", "prompt: there is no LoRA '../x'; none can be used in prompts",
          KN_JOB_INVALID },
        { "{" PROMPT ",\"attention\":\"fast\"}", "attention: there is no fast attention on this device; leave it out",
          KN_JOB_ATTENTION_UNSUPPORTED },
        { "{" PROMPT ",\"reference_images\":[]}", "reference_images: the list is empty; leave it out", KN_JOB_INVALID },
        { "{" PROMPT ",\"reference_images\":[\"" PIXEL "\",\"\"]}", "reference_images[1]: the picture is empty",
          KN_JOB_REFERENCE_INVALID },
        { "{" PROMPT ",\"reference_images\":[\"/etc/passwd\"]}",
          "reference_images[0]: not base64: its length is 11, which is no multiple of 4", KN_JOB_REFERENCE_INVALID },
        { "{" PROMPT ",\"strength\":0.5}", "strength: it needs an init_image to start from", KN_JOB_INVALID },
        { "{" PROMPT ",\"mask_image\":\"" PIXEL "\"}", "mask_image: it needs an init_image that it is about",
          KN_JOB_INVALID },
        { "{" PROMPT ",\"outpaint\":{\"left\":8}}", "outpaint: it needs an init_image that it is about",
          KN_JOB_INVALID },
        { "{" PROMPT ",\"outpaint\":{\"left\":8193}}", "outpaint.left: a whole number from 0 to 8192 is expected",
          KN_JOB_INVALID },
        { "{" PROMPT ",\"init_image\":\"" PIXEL "\",\"feather\":8}",
          "feather: it needs a mask_image or outpaint whose edge it is", KN_JOB_INVALID },
        { "{" PROMPT ",\"feather\":257}", "feather: a whole number from 0 to 256 is expected", KN_JOB_INVALID },
        { "{" PROMPT ",\"result\":{\"width\":9}}", "result: the key 'height' is missing", KN_JOB_INVALID },
        { "{" RESULT "}", "the key 'prompt' is missing", KN_JOB_INVALID },
        { "{" PROMPT ",\"result\":{\"width\":9,\"height\":8193}}",
          "result.height: a whole number from 1 to 8192 is expected", KN_JOB_INVALID },
        { "{" PROMPT ",\"result\":{\"upscaler\":\"../a\"}}", "result.upscaler: the name of a file is expected",
          KN_JOB_INVALID },
        { "{" PROMPT ",\"result\":{\"upscaler\":\"a/b\"}}", "result.upscaler: the name of a file is expected",
          KN_JOB_INVALID },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_image_recipe r;
        kn_error err;
        assert_int_equal(read_text(rows[i].text, &r, &err), rows[i].code);
        assert_string_equal(err.text, rows[i].error);
    }
}

static void a_workflow_wants_all_of_its_settings_and_nothing_else(void **state) {
    (void)state;
#define ALL                PROMPT ",\"seed\":\"1\",\"width\":64,\"height\":64,\"steps\":4,\"cfg\":1"
#define WORKFLOW(id, more) "{\"workflow\":\"" id "\"," ALL more "}"
    static const struct {
        const char *text, *error;
        kn_job_code code;
    } rows[] = {
        { WORKFLOW("qwen-image-2.1-text-to-image/v1", ""), "", KN_JOB_DONE },
        { WORKFLOW("qwen-image-2512-text-to-image/v1", ",\"flow_shift\":3.1"), "", KN_JOB_DONE },
        { WORKFLOW("qwen-image-2.1-edit/v1", ",\"reference_images\":[\"" PIXEL "\"]"), "", KN_JOB_DONE },
        { "{\"workflow\":\"qwen-image-2.1-text-to-image/v1\"," PROMPT "}", "the key 'seed' is missing",
          KN_JOB_INVALID },
        { WORKFLOW("qwen-image-2512-text-to-image/v1", ""), "the key 'flow_shift' is missing", KN_JOB_INVALID },
        { WORKFLOW("qwen-image-2.1-text-to-image/v1", ",\"flow_shift\":3.1"),
          "flow_shift: this workflow chooses it by the size; leave it out", KN_JOB_INVALID },
        { WORKFLOW("qwen-image-2.1-text-to-image/v1", ",\"reference_images\":[\"" PIXEL "\"]"),
          "reference_images: this workflow draws from the prompt alone; leave them out", KN_JOB_INVALID },
        { WORKFLOW("qwen-image-2.1-edit/v1", ""), "reference_images: this workflow edits pictures; give at least one",
          KN_JOB_REFERENCE_REQUIRED },
        { WORKFLOW("qwen-image-3/v1", ""),
          ("workflow: the word is not known; known: qwen-image-2512-text-to-image/v1, "
           "qwen-image-2.1-text-to-image/v1, qwen-image-2.1-edit/v1"),
          KN_JOB_INVALID },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_image_recipe r;
        kn_error err;
        assert_int_equal(read_text(rows[i].text, &r, &err), rows[i].code);
        assert_string_equal(err.text, rows[i].error);
        kn_image_recipe_free(&r);
    }
}

static void leaves_out_what_was_left_out(void **state) {
    (void)state;
    kn_image_recipe r;
    kn_error err;
    assert_int_equal(read_text("{" PROMPT "}", &r, &err), KN_JOB_DONE);
    assert_string_equal(r.prompt, "a red boat");
    assert_true(!r.width.given && !r.steps.given && !r.cfg.given && !r.seed_given && !r.model && !r.sampler);
    assert_int_equal(r.reference_count, 0);
    kn_image_recipe_free(&r);
}

/* {"prompt":"…", "reference_images":[count times `characters` of base64]} */
static char *with_references(size_t count, size_t characters) {
    char *text = malloc(count * (characters + 3) + 100), *at = text;
    assert_non_null(text);
    at += snprintf(at, 100, "{" PROMPT ",\"reference_images\":[");
    for (size_t i = 0; i < count; i++) {
        *at++ = '"';
        memset(at, 'A', characters);
        at += characters;
        at += snprintf(at, 100, "\"%s", i + 1 < count ? "," : "");
    }
    snprintf(at, 100, "]}");
    return text;
}

static void bounds_pictures_one_by_one_and_together(void **state) {
    (void)state;
    static const size_t most = 22369624; /* 16 MiB in base64 */
    static const struct {
        size_t count, characters;
        const char *error;
    } rows[] = {
        { 1, most, "" },
        { 1, most + 4, "reference_images[0]: a picture may have 16 MiB at most" },
        { 3, 22020100, "reference_images[2]: all pictures together may have 63 MiB at most" },
        { 10, 4, "" },
        { 11, 4, "reference_images[10]: 10 pictures are possible at most" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char *text = with_references(rows[i].count, rows[i].characters);
        kn_image_recipe r;
        kn_error err = { 0 };
        kn_job_code code = kn_image_recipe_read(text, strlen(text), false, &r, NULL, &err);
        assert_string_equal(err.text, rows[i].error);
        assert_int_equal(code == KN_JOB_DONE, !*rows[i].error);
        if (code == KN_JOB_DONE) {
            assert_int_equal(r.references[0].len, 0); /* only checked */
            kn_image_recipe_free(&r);
        }
        free(text);
    }
}

static void takes_what_changes_a_part_or_the_size(void **state) {
    (void)state;
    kn_image_recipe r;
    kn_error err;
    assert_int_equal(
        read_text("{" PROMPT
                  ",\"init_image\":\"Zmlyc3Q=\",\"mask_image\":\"c2Vjb25k\",\"feather\":0,\"show_region\":true,"
                  "\"outpaint\":{\"left\":1,\"top\":2,\"right\":3,\"bottom\":4}}",
                  &r, &err),
        KN_JOB_DONE);
    assert_string_equal(r.mask.data, "second");
    assert_true(r.feather.given && r.feather.value == 0);
    assert_true(r.show_region && r.outpaint.left == 1 && r.outpaint.top == 2);
    assert_true(r.outpaint.right == 3 && r.outpaint.bottom == 4 && !r.size.width);
    kn_image_recipe_free(&r);
    assert_int_equal(read_text("{" RESULT ",\"init_image\":\"Zmlyc3Q=\"}", &r, &err), KN_JOB_DONE);
    assert_null(r.prompt);
    assert_string_equal(r.size.upscaler, "a.safetensors");
    assert_true(r.size.width == 70 && r.size.height == 50 && r.size.tile == 192);
    assert_true(r.size.blend == 0.25 && r.size.prescale);
    kn_image_recipe_free(&r);
}

static void keeps_the_order_of_pictures(void **state) {
    (void)state;
    kn_image_recipe r;
    kn_error err;
    assert_int_equal(read_text("{" PROMPT ",\"reference_images\":[\"Zmlyc3Q=\",\"data:image/png;base64,c2Vjb25k\"],"
                               "\"init_image\":\"dGhpcmQ=\",\"strength\":0.25}",
                               &r, &err),
                     KN_JOB_DONE);
    assert_int_equal(r.reference_count, 2);
    assert_string_equal(r.references[0].data, "first");
    assert_string_equal(r.references[1].data, "second");
    assert_string_equal(r.init_image.data, "third");
    assert_true(r.strength.given && r.strength.value == 0.25);
    kn_image_recipe_free(&r);
}

static void points_at_what_is_wrong(void **state) {
    (void)state;
    static const char text[] = "{" PROMPT ",\"reference_images\":[\"" PIXEL "\",7]}";
    kn_image_recipe r;
    kn_error err = { 0 };
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 100);
    assert_int_equal(kn_image_recipe_read(text, sizeof text - 1, true, &r, &pointer, &err), KN_JOB_INVALID);
    assert_string_equal(pointer.data, "/reference_images/1");
}

static void a_workflow_takes_nothing_but_its_own(void **state) {
    (void)state;
#define EDIT_RECIPE(seed, more)                                                                                        \
    "{" PROMPT ",\"workflow\":\"qwen-image-2.1-edit/v1\",\"seed\":" seed ",\"width\":64,\"height\":64,\"steps\":1,"    \
    "\"cfg\":1," more "}"
    static const struct {
        const char *text, *pointer;
    } rows[] = {
        { EDIT_RECIPE("\"42\"", "\"reference_images\":[\"" PIXEL "\"]"), NULL },
        { EDIT_RECIPE("\"42\"", "\"reference_images\":[\"data:image/png;base64," PIXEL "\"]"), "/reference_images/0" },
        { EDIT_RECIPE("\"42\"", "\"init_image\":\"" PIXEL "\""), "/init_image" },
        { EDIT_RECIPE("42", "\"reference_images\":[\"" PIXEL "\"]"), "/seed" },
        { EDIT_RECIPE("\"-1\"", "\"reference_images\":[\"" PIXEL "\"]"), "/seed" },
        { EDIT_RECIPE("\"42\"", "\"model\":\"demo\""), "/model" },
        { EDIT_RECIPE("\"42\"", "\"opaque\":true"), "/opaque" },
        { "{" PROMPT "}", "" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_image_recipe r = { 0 };
        kn_error err = { 0 };
        KN_AUTO_BUF pointer;
        kn_buf_init(&pointer, 100);
        kn_job_code code = kn_image_recipe_check(rows[i].text, strlen(rows[i].text), &r, &pointer, &err);
        print_message("  %s\n", err.text);
        assert_int_equal(code == KN_JOB_DONE, !rows[i].pointer);
        if (rows[i].pointer)
            assert_string_equal(pointer.len ? pointer.data : "", rows[i].pointer);
        else
            assert_int_equal(r.seed, 42);
        kn_image_recipe_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_every_odd_request_its_stated_result),
        cmocka_unit_test(names_the_place_and_the_limit),
        cmocka_unit_test(a_workflow_wants_all_of_its_settings_and_nothing_else),
        cmocka_unit_test(leaves_out_what_was_left_out),
        cmocka_unit_test(bounds_pictures_one_by_one_and_together),
        cmocka_unit_test(takes_what_changes_a_part_or_the_size),
        cmocka_unit_test(keeps_the_order_of_pictures),
        cmocka_unit_test(points_at_what_is_wrong),
        cmocka_unit_test(a_workflow_takes_nothing_but_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
