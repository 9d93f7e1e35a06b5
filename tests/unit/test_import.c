#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "failing_alloc.h"
#include "golden.h"
#include "image/import.h"
#include "image/import_graph.h"
#include "image/png.h"
#include "workers/recipe.h"

static bool import_file(const char *path, kn_import *ret, kn_error *err) {
    kn_buf file;
    golden_read(path, &file);
    bool ok = kn_import_read(file.data, file.len, &KN_IMAGE_LIMITS, ret, err);
    kn_buf_free(&file);
    return ok;
}

/* ---- recorded cases ---- */

/* Where our own words for it are others. */
static const char *our_words(const char *refusal) {
    static const char *const words[][2] = {
        { "duplicate JSON key", "twice in one object" },
        { "metadata too large", "expands to more than 8388608 bytes" },
        { "invalid JSON", "is broken at" },
        { "no workflow metadata", "" },
        { "PNG checksum", "CRC error" },
    };
    for (size_t i = 0; i < KN_COUNT(words); i++)
        if (strcmp(refusal, words[i][0]) == 0)
            return words[i][1];
    return refusal;
}

static void compare(const char *file, const char *key, json_t *want, json_t *got) {
    bool same = json_is_number(want)
                    ? json_is_number(got) && fabs(json_number_value(want) - json_number_value(got)) < 1e-9
                    : json_equal(want, got);
    if (json_is_array(want) && json_is_number(json_array_get(want, 0))) {
        same = json_array_size(want) == json_array_size(got);
        for (size_t i = 0; same && i < json_array_size(want); i++)
            same = fabs(json_number_value(json_array_get(want, i)) - json_number_value(json_array_get(got, i))) < 1e-9;
    }
    if (same)
        return;
    char *a = json_dumps(want, JSON_ENCODE_ANY), *b = json_dumps(got, JSON_ENCODE_ANY);
    fail_msg("%s: %s is %s, not %s", file, key, b ? b : "missing", a);
}

static void reads_every_recorded_workflow(void **state) {
    (void)state;
    json_t *all = golden_json("workflow/case.json"), *one = NULL, *want = NULL;
    const char *key = NULL;
    size_t i = 0, imported = 0, refused = 0;
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        const char *file = golden_text(one, "file"), *refusal = golden_text(one, "refuse");
        char path[128];
        kn_import found;
        kn_error err = { 0 };
        snprintf(path, sizeof path, "workflow/%s", file);
        bool ok = import_file(path, &found, &err);
        if (*refusal) {
            if (ok ? found.source != KN_IMPORT_NONE : !strstr(err.text, our_words(refusal)))
                fail_msg("%s: '%s' in place of '%s'", file, err.text, refusal);
            refused++;
        } else if (!ok) {
            fail_msg("%s: %s", file, err.text);
        } else {
            json_t *got = kn_import_json(&found);
            assert_non_null(got);
            json_object_foreach(json_object_get(one, "expected"), key, want)
                compare(file, key, want, json_object_get(got, key));
            json_decref(got);
            imported++;
        }
        if (ok)
            kn_import_free(&found);
    }
    json_decref(all);
    assert_int_equal(imported, 10);
    assert_int_equal(refused, 16);
}

static void knows_every_odd_file(void **state) {
    (void)state;
    static const struct {
        const char *file, *seed, *error;
        unsigned warnings;
    } rows[] = {
        { "plain-ok.png", "684489560344628", NULL, 1u << KN_IMPORT_DEFAULT_SHIFT },
        { "ztxt-ok.png", "7", NULL, 1u << KN_IMPORT_DEFAULT_SHIFT },
        { "seed-u64.png", "18446744073709551615", NULL,
          1u << KN_IMPORT_DEFAULT_SHIFT | 1u << KN_IMPORT_SEED_TOO_LARGE },
        { "lora-active.png", NULL, "unsupported node LoraLoaderModelOnly (10)", 0 },
        { "cycle.png", NULL, "cycle in the workflow at KSampler (5)", 0 },
        { "dup-keys.png", NULL, "the workflow has the key 'seed' twice in one object", 0 },
        { "crc.png", NULL, "CRC error", 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char path[128];
        kn_import found;
        kn_error err = { 0 };
        snprintf(path, sizeof path, "workflow/cases/%s", rows[i].file);
        bool ok = import_file(path, &found, &err);
        if (rows[i].error ? ok || !strstr(err.text, rows[i].error) : !ok)
            fail_msg("%s: '%s'", rows[i].file, err.text);
        if (!ok)
            continue;
        assert_string_equal(found.seed, rows[i].seed);
        assert_int_equal(found.width, 832);
        assert_int_equal(found.height, 1248);
        assert_int_equal(found.steps, 20);
        assert_true(found.cfg == 5);
        assert_int_equal(found.warnings, rows[i].warnings);
        kn_import_free(&found);
    }
}

/* ---- graphs of our own ---- */

#define MODEL "\"1\":{\"class_type\":\"UNETLoader\",\"inputs\":{\"unet_name\":\"m.safetensors\"}},"
#define CLIP  "\"2\":{\"class_type\":\"CLIPLoader\",\"inputs\":{\"clip_name\":\"c\",\"type\":\"qwen_image\"}},"
#define VAE   "\"3\":{\"class_type\":\"VAELoader\",\"inputs\":{\"vae_name\":\"v\"}},"
#define ENDS                                                                                                           \
    "\"8\":{\"class_type\":\"VAEDecode\",\"inputs\":{\"samples\":[\"7\",0],\"vae\":[\"3\",0]}},"                       \
    "\"9\":{\"class_type\":\"SaveImage\",\"inputs\":{\"images\":[\"8\",0]}}}"
#define SAMPLER(model, cfg, positive, negative, latent)                                                                \
    "\"7\":{\"class_type\":\"KSampler\",\"inputs\":{\"model\":" model ",\"positive\":" positive                        \
    ",\"negative\":" negative ",\"latent_image\":" latent ",\"seed\":7,\"steps\":20.0,\"cfg\":" cfg                    \
    ",\"sampler_name\":\"euler\",\"scheduler\":\"simple\",\"denoise\":1.0}},"

/* Qwen-Image 2512 and 2.1, which edits; rows below change words in them. */
static const char graph_2512[] =
    "{" MODEL CLIP VAE "\"4\":{\"class_type\":\"ModelSamplingAuraFlow\",\"inputs\":{\"model\":[\"1\",0],\"shift\":3}},"
    "\"5\":{\"class_type\":\"CLIPTextEncode\",\"inputs\":{\"clip\":[\"2\",0],\"text\":\"a boat\"}},"
    "\"6\":{\"class_type\":\"CLIPTextEncode\",\"inputs\":{\"clip\":[\"2\",0],\"text\":\"fog\"}},"
    "\"10\":{\"class_type\":\"EmptyLatentImage\",\"inputs\":{\"width\":512,\"height\":768,\"batch_size\":1}}," SAMPLER(
        "[\"4\",0]", "5", "[\"5\",0]", "[\"6\",0]", "[\"10\",0]") ENDS;
static const char graph_21[] =
    "{" MODEL CLIP VAE "\"4\":{\"class_type\":\"QwenImage21Cache\",\"inputs\":{\"model\":[\"1\",0],\"device\":\"auto\","
    "\"dtype\":\"default\"}},"
    "\"5\":{\"class_type\":\"TextEncodeQwenImage21\",\"inputs\":{\"clip\":[\"2\",0],\"vae\":[\"3\",0],\"prompt\":"
    "\"a hat\",\"negative_prompt\":\"\",\"resolution\":1024,\"images.image_1\":[\"6\",0],\"images.image_2\":"
    "[\"6\",0]}},"
    "\"6\":{\"class_type\":\"LoadImage\",\"inputs\":{\"image\":\"/etc/passwd\"}},"
    "\"10\":{\"class_type\":\"ResolutionSelector\",\"inputs\":{\"aspect_ratio\":\"16:9 (Wide)\",\"megapixels\":1}},"
    "\"11\":{\"class_type\":\"EmptySD3LatentImage\",\"inputs\":{\"width\":[\"10\",0],\"height\":[\"10\",1],"
    "\"batch_size\":1}}," SAMPLER("[\"4\",0]", "4", "[\"5\",0]", "[\"5\",1]", "[\"5\",2]") ENDS;

/* A PNG file of one pixel with these texts. */
static void make_png(const kn_png_text *texts, size_t count, kn_buf *ret) {
    uint8_t pixel[3] = { 1, 2, 3 };
    const kn_image image = { .width = 1, .height = 1, .channels = 3, .pixels = pixel };
    kn_buf_init(ret, 64 << 20);
    assert_true(kn_png_write(&image, texts, count, ret, NULL));
}

static bool import_text(const char *key, const char *text, kn_import *ret, kn_error *err) {
    const kn_png_text entry = { key, text };
    kn_buf file;
    make_png(&entry, 1, &file);
    bool ok = kn_import_read(file.data, file.len, &KN_IMAGE_LIMITS, ret, err);
    kn_buf_free(&file);
    return ok;
}

/* Every occurrence; there must be one. */
static char *changed(const char *text, const char *from, const char *to) {
    kn_buf b;
    kn_buf_init(&b, 1 << 20);
    const char *at = strstr(text, from);
    assert_non_null(at);
    for (; at; at = strstr(text, from)) {
        assert_true(kn_buf_add(&b, text, (size_t)(at - text)) && kn_buf_add_text(&b, to));
        text = at + strlen(from);
    }
    assert_true(kn_buf_add_text(&b, text));
    return b.data;
}

static void follows_only_what_matters(void **state) {
    (void)state;
    kn_import f;
    kn_error err = { 0 };
    if (!import_text("prompt", graph_2512, &f, &err))
        fail_msg("%s", err.text);
    assert_string_equal(f.workflow, "qwen-image-2512-text-to-image/v1");
    assert_string_equal(f.prompt, "a boat");
    assert_string_equal(f.negative_prompt, "fog");
    assert_true(f.has_flow_shift && f.flow_shift == 3 && f.cfg == 5);
    assert_int_equal(f.steps, 20);
    assert_int_equal(f.warnings, 0);
    kn_import_free(&f);
    if (!import_text("prompt", graph_21, &f, &err))
        fail_msg("%s", err.text);
    assert_string_equal(f.workflow, "qwen-image-2.1-edit/v1");
    assert_int_equal(f.reference_count, 2);
    assert_int_equal(f.width, 0);
    assert_int_equal(f.warnings, 0);
    assert_false(f.has_flow_shift);
    kn_import_free(&f);
}

#define PRIMITIVE(type, value) "{\"class_type\":\"" type "\",\"inputs\":{\"value\":" value "}},"
#define SWITCH(on, no, yes)                                                                                            \
    "{\"class_type\":\"ComfySwitchNode\",\"inputs\":{\"switch\":" on ",\"on_false\":" no ",\"on_true\":" yes "}},"

#define PROMPT  "\"text\":\"a boat\""
#define FROM_20 "\"text\":[\"20\",0]}},\"20\":"
#define REST    "\"21\":{\"class_type\":\"Note\",\"inputs\":{\"a\":1"

static void changes_are_taken_over_or_told(void **state) {
    (void)state;
    enum { W2512, W21 };
    static const struct {
        int graph;
        const char *from, *to;
        const char *error;     /* NULL: it is taken over … */
        unsigned warnings;     /* … with these */
        const char *key, *now; /* and a member that is so */
    } rows[] = {
        /* values through other nodes */
        { W2512, PROMPT, FROM_20 PRIMITIVE("PrimitiveString", "\"b\"") REST, NULL, 0, "prompt", "\"b\"" },
        { W2512, PROMPT,
          FROM_20 PRIMITIVE("PrimitiveString", "[\"22\",0]") "\"22\":" PRIMITIVE("PrimitiveStringMultiline",
                                                                                 "\"a\\nb\"") REST,
          NULL, 0, "prompt", "\"a\\nb\"" },
        { W2512, PROMPT, FROM_20 SWITCH("false", "\"no\"", "[\"99\",0]") REST, NULL, 0, "prompt", "\"no\"" },
        { W2512, PROMPT,
          FROM_20 SWITCH("[\"22\",0]", "[\"99\",0]", "\"yes\"") "\"22\":" PRIMITIVE("PrimitiveBoolean", "true") REST,
          NULL, 0, "prompt", "\"yes\"" },
        { W2512, PROMPT, FROM_20 SWITCH("1", "\"no\"", "\"yes\"") REST,
          "wrong type: 'switch' of ComfySwitchNode (20) is neither true nor false", 0, NULL, NULL },
        { W2512, PROMPT, FROM_20 SWITCH("true", "\"no\"", "[\"20\",0]") REST, "cycle in the workflow", 0, NULL, NULL },
        { W2512, PROMPT, FROM_20 "{\"class_type\":\"StringConcatenate\"}," REST,
          "unsupported node StringConcatenate (20)", 0, NULL, NULL },
        { W2512, PROMPT, FROM_20 "{\"class_type\":\"TextGenerate\"}," REST,
          "prompt produced by another model: TextGenerate (20)", 0, NULL, NULL },
        { W2512, PROMPT, FROM_20 PRIMITIVE("PrimitiveInt", "5") REST, "wrong type: 'text' of CLIPTextEncode (5)", 0,
          NULL, NULL },
        { W2512, "\"steps\":20.0", "\"steps\":25.5", "wrong type: 'steps' of KSampler (7) is no whole number", 0, NULL,
          NULL },
        { W2512, "\"seed\":7", "\"seed\":-7", "wrong type: 'seed'", 0, NULL, NULL },
        { W2512, "\"seed\":7", "\"seed\":18446744073709551616", "wrong type: 'seed'", 0, NULL, NULL },
        { W2512, "\"seed\":7", "\"seed\":9223372036854775808", NULL, 1u << KN_IMPORT_SEED_TOO_LARGE, "seed",
          "\"9223372036854775808\"" },
        { W2512, "\"seed\":7", "\"seed\":9007199254740993", NULL, 0, "seed", "\"9007199254740993\"" },
        { W2512, "\"seed\":7", "\"seed\":[\"5\",0]", "unsupported node CLIPTextEncode (5)", 0, NULL, NULL },
        { W2512, "\"cfg\":5", "\"cfg\":1", NULL, 1u << KN_IMPORT_NEGATIVE_IGNORED, "cfg", "1.0" },
        { W2512, "\"cfg\":5", "\"cfg\":31", "'cfg' of KSampler (7) is 31; 0 to 30 can be taken over", 0, NULL, NULL },
        { W2512, "\"cfg\":5", "\"cfg\":\"5\"", "wrong type: 'cfg'", 0, NULL, NULL },
        { W2512, "\"cfg\":5", "\"cfg\":true", "wrong type: 'cfg'", 0, NULL, NULL },
        { W2512, "\"cfg\":5,", "", "missing input 'cfg' of KSampler (7)", 0, NULL, NULL },
        { W2512, "\"steps\":20.0", "\"steps\":201", "'steps' of KSampler (7) is 201", 0, NULL, NULL },
        { W2512, "\"denoise\":1.0", "\"denoise\":0.5", "partial denoise 0.5 of KSampler (7)", 0, NULL, NULL },
        { W2512, "\"width\":512", "\"width\":520", "the width 520 of EmptyLatentImage (10)", 0, NULL, NULL },
        { W2512, "\"width\":512", "\"width\":8192", "the width 8192", 0, NULL, NULL },
        { W2512, "\"width\":512", "\"width\":[\"99\",0]", "missing node", 0, NULL, NULL },
        { W2512, "\"batch_size\":1", "\"batch_size\":2", "batch size 2 of EmptyLatentImage (10)", 0, NULL, NULL },
        { W2512, "EmptyLatentImage", "EmptyQwenImageLayeredLatentImage",
          "unsupported node EmptyQwenImageLayeredLatentImage (10)", 0, NULL, NULL },
        { W2512, "\"model\":[\"4\",0]", "\"model\":\"m\"", "wrong type: 'model' of KSampler (7) is no link", 0, NULL,
          NULL },
        { W2512, "\"model\":[\"4\",0]", "\"model\":[\"1\",0]", NULL, 1u << KN_IMPORT_DEFAULT_SHIFT, "flow_shift",
          "null" },
        { W2512, "\"model\":[\"1\",0]", "\"model\":[\"4\",0]", "cycle in the workflow at ModelSamplingAuraFlow (4)", 0,
          NULL, NULL },
        { W2512, "ModelSamplingAuraFlow", "ModelSamplingFlux", "unsupported node ModelSamplingFlux (4)", 0, NULL,
          NULL },
        { W2512, "ModelSamplingAuraFlow", "QwenImage21Cache", "unsupported node QwenImage21Cache (4)", 0, NULL, NULL },
        { W2512, "\"type\":\"qwen_image\"", "\"type\":\"flux\"", "unsupported text encoder 'flux' of CLIPLoader (2)", 0,
          NULL, NULL },
        { W2512, "\"class_type\":\"SaveImage\"", "\"class_type\":\"PreviewImage\"", NULL, 0, "steps", "20" },
        { W2512, "\"class_type\":\"SaveImage\"", "\"class_type\":\"SaveAnimatedWEBP\"",
          "unsupported node SaveAnimatedWEBP (9)", 0, NULL, NULL },
        { W2512, "\"class_type\":\"VAEDecode\"", "\"class_type\":\"VAEDecodeTiled\"", NULL, 0, "steps", "20" },
        { W2512, "\"class_type\":\"KSampler\"", "\"class_type\":\"KSamplerAdvanced\"",
          "unsupported node KSamplerAdvanced (7)", 0, NULL, NULL },
        { W2512, "\"class_type\":\"CLIPTextEncode\"", "\"class_type\":\"CLIPTextEncodeFlux\"",
          "unsupported node CLIPTextEncodeFlux (5)", 0, NULL, NULL },
        { W2512, "\"clip_name\":\"c\",", "", "missing input 'clip_name' of CLIPLoader (2)", 0, NULL, NULL },
        { W2512, "\"class_type\":\"KSampler\"", "\"class_type\":7", "the workflow's node 7 has no class_type", 0, NULL,
          NULL },
        { W2512, "{\"unet_name\"", "{\"a\":NaN,\"unet_name\"", "the workflow is broken at byte", 0, NULL, NULL },
        { W2512, "{\"unet_name\"", "{\"unet_name\":1,\"unet\\u005fname\"", "has the key 'unet_name' twice", 0, NULL,
          NULL },
        /* of 2.1 */
        { W21, "\"auto\"", "\"gpu\"", NULL, 1u << KN_IMPORT_CACHE, "cache", "{\"device\": \"gpu\"}" },
        { W21, "QwenImage21Cache", "ModelSamplingAuraFlow",
          "fixed flow shift on Qwen-Image 2.1, which chooses it by the size: ModelSamplingAuraFlow (4)", 0, NULL,
          NULL },
        { W21, "\"resolution\":1024", "\"resolution\":768", NULL, 1u << KN_IMPORT_REFERENCE_RESOLUTION,
          "reference_count", "2" },
        { W21, "\"vae\":[\"3\",0],\"prompt\"", "\"prompt\"", "sees pictures without a VAE", 0, NULL, NULL },
        { W21, "LoadImage", "ImageScale", "unsupported node ImageScale (6)", 0, NULL, NULL },
        { W21, "images.image", "no.image", "the size is that of a picture which is not there", 0, NULL, NULL },
        { W21, "[\"5\",2]", "[\"11\",0]", "the width 1368 of EmptySD3LatentImage (11)", 0, NULL, NULL },
        { W21, "\"negative\":[\"5\",1]", "\"negative\":[\"5\",0]", "the negative prompt is not that of", 0, NULL,
          NULL },
        { W21, "\"positive\":[\"5\",0]", "\"positive\":[\"5\",1]", "wrong output 1 of TextEncodeQwenImage21 (5)", 0,
          NULL, NULL },
        { W21, "m.safetensors", "Turbo.gguf", "guidance 4 with Qwen-Image 2.1 Turbo", 0, NULL, NULL },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char *text = changed(rows[i].graph == W21 ? graph_21 : graph_2512, rows[i].from, rows[i].to);
        kn_import f;
        kn_error err = { 0 };
        bool ok = import_text("prompt", text, &f, &err);
        if (rows[i].error && (ok || !strstr(err.text, rows[i].error)))
            fail_msg("row %zu: '%s' in place of '%s'", i, ok ? "no error" : err.text, rows[i].error);
        if (!rows[i].error && !ok)
            fail_msg("row %zu: %s", i, err.text);
        free(text);
        if (!ok) {
            assert_int_equal(f.source, KN_IMPORT_COMFYUI);
            continue;
        }
        json_t *all = kn_import_json(&f), *now = json_loads(rows[i].now, JSON_DECODE_ANY, NULL);
        assert_int_equal(f.warnings, rows[i].warnings);
        compare(rows[i].to, rows[i].key, now, json_object_get(all, rows[i].key));
        json_decref(all);
        json_decref(now);
        kn_import_free(&f);
    }
}

#define TURBO_SIGMAS "\"1.0, 0.978453, 0.95418, 0.926626,0.89508,0.845148, 0.704534, 0.414568, 0\""
#define CUSTOM(sigmas)                                                                                                 \
    "\"7\":{\"class_type\":\"SamplerCustomAdvanced\",\"inputs\":{\"noise\":[\"12\",0],\"guider\":[\"13\",0],"          \
    "\"sampler\":[\"14\",0],\"sigmas\":[\"15\",0],\"latent_image\":[\"11\",0]}},"                                      \
    "\"12\":{\"class_type\":\"RandomNoise\",\"inputs\":{\"noise_seed\":3}},"                                           \
    "\"14\":{\"class_type\":\"KSamplerSelect\",\"inputs\":{\"sampler_name\":\"euler\"}},"                              \
    "\"15\":{\"class_type\":" sigmas "}},"
#define ENCODED                                                                                                        \
    "\"5\":{\"class_type\":\"TextEncodeQwenImage21\",\"inputs\":{\"clip\":[\"2\",0],\"prompt\":\"a hat\","             \
    "\"negative_prompt\":\"fog\"}},\"11\":{\"class_type\":\"EmptyLatentImage\",\"inputs\":{\"width\":512,"             \
    "\"height\":512,\"batch_size\":1}},"
#define GUIDER(type, inputs) "\"13\":{\"class_type\":\"" type "\",\"inputs\":{\"model\":[\"1\",0]," inputs "}},"
#define BASIC                GUIDER("BasicGuider", "\"conditioning\":[\"5\",0]")

#define GUIDED(cfg)    GUIDER("CFGGuider", "\"positive\":[\"5\",0],\"negative\":[\"16\",0],\"cfg\":" cfg)
#define ZEROED         "\"16\":{\"class_type\":\"ConditioningZeroOut\",\"inputs\":{\"conditioning\":[\"5\",0]}},"
#define MANUAL(sigmas) CUSTOM("\"ManualSigmas\",\"inputs\":{\"sigmas\":" sigmas)
#define LEVELS(model, name)                                                                                            \
    CUSTOM("\"BasicScheduler\",\"inputs\":{\"model\":[\"" model "\",0],\"scheduler\":\"" name                          \
           "\",\"steps\":25,\"denoise\":1")
#define OTHER_MODEL "\"17\":{\"class_type\":\"UNETLoader\",\"inputs\":{\"unet_name\":\"o\"}},"
#define TURBO_MODEL "\"1\":{\"class_type\":\"UnetLoaderGGUF\",\"inputs\":{\"unet_name\":\"qwen-TURBO.gguf\"}},"

static void custom_samplers_are_understood(void **state) {
    (void)state;
    static const char base[] = "qwen-image-2.1-text-to-image/v1", turbo[] = "qwen-image-2.1-turbo-text-to-image/v1";
    static const struct {
        const char *graph, *error, *workflow;
        unsigned steps, warnings;
    } rows[] = {
        { "{" MODEL CLIP VAE ENCODED MANUAL(TURBO_SIGMAS) BASIC ENDS, NULL, turbo, 8, 0 },
        { "{" MODEL CLIP VAE ENCODED MANUAL(TURBO_SIGMAS) GUIDED("1") ZEROED ENDS, NULL, turbo, 8, 0 },
        { "{" MODEL CLIP VAE ENCODED MANUAL(TURBO_SIGMAS) GUIDED("2") ZEROED ENDS,
          "unsupported node ConditioningZeroOut (16) with guidance", NULL, 0, 0 },
        { "{" MODEL CLIP VAE ENCODED MANUAL("\"1, 0.5, 0\"") BASIC ENDS, "unsupported sigmas of ManualSigmas (15)",
          NULL, 0, 0 },
        { "{" MODEL CLIP VAE ENCODED LEVELS("1", "simple") BASIC ENDS, NULL, base, 25, 0 },
        { "{" MODEL CLIP VAE ENCODED OTHER_MODEL LEVELS("17", "simple") BASIC ENDS,
          "makes noise levels for another model", NULL, 0, 0 },
        { "{" MODEL CLIP VAE ENCODED LEVELS("1", "karras") BASIC ENDS,
          "unsupported scheduler 'karras' of BasicScheduler (15)", NULL, 0, 0 },
        { "{" TURBO_MODEL CLIP VAE ENCODED LEVELS("1", "simple") BASIC ENDS, NULL, turbo, 8,
          1u << KN_IMPORT_TURBO_SCHEDULE },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_import f;
        kn_error err = { 0 };
        bool ok = import_text("prompt", rows[i].graph, &f, &err);
        if (rows[i].error ? ok || !strstr(err.text, rows[i].error) : !ok)
            fail_msg("row %zu: '%s' in place of '%s'", i, err.text, rows[i].error ? rows[i].error : "no error");
        if (!ok)
            continue;
        assert_string_equal(f.workflow, rows[i].workflow);
        assert_string_equal(f.seed, "3");
        assert_int_equal(f.steps, rows[i].steps);
        assert_int_equal(f.warnings, rows[i].warnings);
        kn_import_free(&f);
    }
}

/* ---- the editor's graph ---- */

/* Loaders, prompts and the sampler are in a subgraph within a subgraph; the seed comes from a PrimitiveNode outside,
 * the prompt is a widget of the outer subgraph, a LoRA is bypassed and a link goes through a Reroute. */
static kn_buf edited_graph(void) {
    kn_buf text;
    golden_read(SHIPPED "/workflow/subgraphs.json", &text);
    return text;
}

static void unfolds_subgraphs_of_the_editor(void **state) {
    (void)state;
    kn_import f;
    kn_error err = { 0 };
    kn_buf edited = edited_graph();
    if (!import_text("workflow", edited.data, &f, &err))
        fail_msg("%s", err.text);
    kn_buf_free(&edited);
    assert_string_equal(f.key, "workflow");
    assert_string_equal(f.workflow, "qwen-image-2512-text-to-image/v1");
    assert_string_equal(f.seed, "77");
    assert_string_equal(f.prompt, "a boat outside");
    assert_int_equal(f.width, 512);
    assert_int_equal(f.height, 768);
    assert_int_equal(f.warnings, 1u << KN_IMPORT_DEFAULT_SHIFT | 1u << KN_IMPORT_SEED_MAY_DIFFER);
    kn_import_free(&f);
}

static void changes_of_the_editor_are_understood(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *error, *prompt;
    } rows[] = {
        /* without a value of the subgraph, that of the node inside counts */
        { "\"a boat outside\"", "null", NULL, "inside" },
        { "\"a boat outside\"", "", NULL, "inside" },
        /* a muted node does not exist, a bypassed one passes on what is of the same type */
        { "\"type\":\"LoraLoader\",\"mode\":4", "\"type\":\"LoraLoader\",\"mode\":2",
          "missing input 'model' of KSampler (1:1:8)", NULL },
        { "\"type\":\"LoraLoader\",\"mode\":4", "\"type\":\"LoraLoader\",\"mode\":0",
          "unsupported node LoraLoader (1:1:2)", NULL },
        { "\"type\":\"LoraLoader\",\"mode\":4", "\"type\":\"LoraLoader\",\"mode\":3",
          "the mode of a node LoraLoader is not supported", NULL },
        { "\"mode\":4,\"inputs\":[{\"name\":\"clip\",\"type\":\"CLIP\"",
          "\"mode\":4,\"inputs\":[{\"name\":\"clip\",\"type\":\"MODEL\"", "missing input 'model' of KSampler (1:1:8)",
          NULL },
        { "\"type\":\"PrimitiveNode\",\"mode\":0", "\"type\":\"PrimitiveNode\",\"mode\":2",
          "missing input 'seed' of KSampler (1:1:8)", NULL },
        { "\"id\":4,\"type\":\"SaveImage\",\"mode\":0", "\"id\":4,\"type\":\"SaveImage\",\"mode\":2", "no output node",
          NULL },
        { "\"id\":1,\"type\":\"outer\",\"mode\":0", "\"id\":1,\"type\":\"outer\",\"mode\":2",
          "missing input 'images' of SaveImage (4)", NULL },
        /* links to nowhere and in circles */
        { "[2,1,0,3,0,\"IMAGE\"]", "[2,88,0,3,0,\"IMAGE\"]", "missing node", NULL },
        { "[2,1,0,3,0,\"IMAGE\"]", "[2,3,0,3,0,\"IMAGE\"]", "go in a cycle", NULL },
        { "[2,1,0,3,0,\"IMAGE\"]", "[2,1]", "a link that is none", NULL },
        { "\"id\":\"inner\"", "\"id\":\"x\"", "unsupported node inner (1:1)", NULL },
        { "\"type\":\"inner\"", "\"type\":\"outer\"", "nested more than 8 deep", NULL },
        { "{\"nodes\":[", "{\"knots\":[", "the workflow has no list of nodes", NULL },
    };
    kn_buf edited = edited_graph();
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char *text = changed(edited.data, rows[i].from, rows[i].to);
        kn_import f;
        kn_error err = { 0 };
        bool ok = import_text("workflow", text, &f, &err);
        if (rows[i].error ? ok || !strstr(err.text, rows[i].error) : !ok)
            fail_msg("row %zu: '%s' in place of '%s'", i, err.text, rows[i].error ? rows[i].error : "no error");
        free(text);
        if (!ok)
            continue;
        assert_string_equal(f.prompt, rows[i].prompt);
        kn_import_free(&f);
    }
    kn_buf_free(&edited);
}

/* ---- texts ---- */

static void texts_of_others_fill_a_form(void **state) {
    (void)state;
    const unsigned unusable =
        1u << KN_IMPORT_STEPS_UNUSABLE | 1u << KN_IMPORT_SEED_UNUSABLE | 1u << KN_IMPORT_SIZE_UNUSABLE;
    const struct {
        const char *text;
        unsigned warnings;
        const char *seed;
        uint32_t width;
        unsigned steps;
    } rows[] = {
        { "boat\nSteps: 20, Sampler: Euler, Schedule type: Simple, Seed: 5, Size: 512x768", 0, "5", 512, 20 },
        { "boat\nSteps: 20, Sampler: DPM++ 2M, Schedule type: Karras, Seed: 5, Size: 512x768",
          1u << KN_IMPORT_OTHER_SCHEDULER, "5", 512, 20 },
        { "boat\nSteps: 20, Sampler: DPM++ 2M Karras, Seed: 5, Size: 512x768", 1u << KN_IMPORT_OTHER_SCHEDULER, "5",
          512, 20 },
        { "boat\nSteps: 20, Sampler: Restart, Schedule type: SGM Uniform, Seed: 5, Size: 512x768",
          1u << KN_IMPORT_OTHER_SAMPLER, "5", 512, 20 },
        { "boat\nSteps: 20, Clip skip: 2, Model: x, Version: v1.10, Seed: 5, Size: 512x768", 1u << KN_IMPORT_LEFT_OUT,
          "5", 512, 20 },
        { "boat <lora:x:1>\nSteps: 20, Seed: 5, Size: 500x768", 1u << KN_IMPORT_LORA | 1u << KN_IMPORT_SIZE_ROUNDED,
          "5", 500, 20 },
        { "boat\nSteps: 0, Seed: -1, Size: x", unusable, NULL, 0, 0 },
        { "boat\nSteps: 999999999999999999999, Seed: 1e5, Size: 99999999x1", unusable, NULL, 0, 0 },
        { "boat\nSteps: 99999999999, CFG scale: 1e999, Seed: -1, Size: 0x0", unusable | 1u << KN_IMPORT_CFG_UNUSABLE,
          NULL, 0, 0 },
        { "boat", 0, NULL, 0, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_import f;
        kn_error err = { 0 };
        assert_true(import_text("parameters", rows[i].text, &f, &err));
        assert_int_equal(f.source, KN_IMPORT_A1111);
        assert_null(f.workflow);
        assert_int_equal(f.warnings, rows[i].warnings);
        assert_int_equal(f.width, rows[i].width);
        assert_int_equal(f.steps, rows[i].steps);
        assert_int_equal(f.seed == NULL, rows[i].seed == NULL);
        if (f.seed)
            assert_string_equal(f.seed, rows[i].seed);
        kn_import_free(&f);
    }
}

static void samplers_of_a1111_are_called_by_our_names(void **state) {
    (void)state;
    static const char *const rows[][4] = {
        { "Sampler: Euler a, Schedule type: Beta", "euler_ancestral", "beta" },
        { "Sampler: DPM++ 2M, Schedule type: SGM Uniform", "dpmpp_2m", "sgm_uniform" },
        { "Sampler: DPM++ 2M Karras", "dpmpp_2m", NULL },
        { "Sampler: DPM++ 2M SDE Exponential", NULL, NULL },
        { "Sampler: Euler, Schedule type: Normal", "euler", "normal" },
        { "Sampler: Euler, Schedule type: Discrete", "euler", NULL },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char text[200];
        kn_import f;
        kn_error err = { 0 };
        snprintf(text, sizeof text, "boat\nSteps: 20, Seed: 5, %s", rows[i][0]);
        assert_true(import_text("parameters", text, &f, &err));
        for (int k = 0; k < 2; k++) {
            const char *got = k ? kn_import_scheduler(&f) : kn_import_sampler(&f), *wanted = rows[i][1 + k];
            if (!got != !wanted || (got && strcmp(got, wanted) != 0))
                fail_msg("%s: %s", rows[i][0], got ? got : "none");
        }
        kn_import_free(&f);
    }
}

static void our_own_texts_come_back_whole(void **state) {
    (void)state;
    kn_import f;
    kn_error err = { 0 };
    assert_true(import_text("parameters",
                            "a boat\nNegative prompt: fog\nSteps: 12, Sampler: heun, Schedule type: beta, "
                            "CFG scale: 4.5, Added guidance: 3.5, Flow shift: 3, Seed: 9, Size: 512x512, "
                            "Denoising strength: 0.5, Mask: given, Model: krea2, References: 2, RNG: given, "
                            "Version: kuno 0.1.0",
                            &f, &err));
    assert_int_equal(f.source, KN_IMPORT_KUNO);
    assert_string_equal(f.model, "krea2");
    assert_string_equal(kn_import_sampler(&f), "heun");
    assert_string_equal(kn_import_scheduler(&f), "beta");
    assert_true(f.cfg == 3.5 && f.flow_shift == 3);
    assert_int_equal(f.reference_count, 2);
    assert_int_equal(f.warnings, 1u << KN_IMPORT_START_PICTURE | 1u << KN_IMPORT_MASK | 1u << KN_IMPORT_NOISE);
    json_t *all = kn_import_json(&f);
    json_t *fields = json_object_get(all, "fields");
    assert_int_equal(json_object_size(fields), 4); /* strength, mask, noise, version */
    assert_true(json_is_null(json_object_get(all, "recipe")));
    json_decref(all);
    kn_import_free(&f);
}

static void the_executed_graph_counts_before_other_texts(void **state) {
    (void)state;
    const kn_png_text texts[] = { { "parameters", "x\nSteps: 1, Seed: 1, Size: 1x1" },
                                  { "workflow", "{broken" },
                                  { "prompt", graph_2512 },
                                  { "prompt", graph_2512 },
                                  { "prompt", graph_21 } };
    for (size_t count = 3; count <= 5; count++) {
        kn_buf file;
        kn_import f;
        kn_error err = { 0 };
        make_png(texts, count, &file);
        bool ok = kn_import_read(file.data, file.len, &KN_IMAGE_LIMITS, &f, &err);
        kn_buf_free(&file);
        assert_int_equal(ok, count < 5);
        if (ok)
            assert_string_equal(f.key, "prompt");
        else
            assert_string_equal(err.text, "has two different texts 'prompt'");
        if (ok)
            kn_import_free(&f);
    }
}

/* Of the recorded workflows, with pictures where some are needed. */
static void recipes_are_what_the_worker_draws_from(void **state) {
    (void)state;
    static const char *const files[] = { "2512.png",     "21-t2i.png", "21-edit.png",        "21-edit-auto-size.png",
                                         "21-turbo.png", "a1111.png",  "cases/plain-ok.png", "big-seed.png" };
    for (size_t i = 0; i < KN_COUNT(files); i++) {
        char path[128];
        kn_import f;
        kn_error err = { 0 };
        snprintf(path, sizeof path, "workflow/%s", files[i]);
        assert_true(import_file(path, &f, &err));
        json_t *all = kn_import_json(&f), *recipe = json_object_get(all, "recipe");
        if (f.warnings >> KN_IMPORT_SEED_TOO_LARGE & 1) {
            assert_true(json_is_null(recipe));
        } else {
            kn_image_recipe read = { 0 };
            json_t *pictures = json_array();
            for (unsigned n = 0; n < f.reference_count; n++)
                json_array_append_new(pictures, json_string("AAAA"));
            if (f.reference_count)
                json_object_set(recipe, "reference_images", pictures);
            json_decref(pictures);
            char *text = json_dumps(recipe, JSON_COMPACT);
            kn_job_code code = json_object_get(recipe, "workflow")
                                   ? kn_image_recipe_check(text, strlen(text), &read, NULL, &err)
                                   : kn_image_recipe_read(text, strlen(text), false, &read, NULL, &err);
            if (code != KN_JOB_DONE)
                fail_msg("%s: %s: %s", files[i], text, err.text);
            assert_string_equal(read.prompt, f.prompt);
            assert_true(read.steps.given && (unsigned)read.steps.value == f.steps);
            kn_image_recipe_free(&read);
            free(text);
        }
        json_decref(all);
        kn_import_free(&f);
    }
}

/* ---- limits ---- */

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A text of about so many bytes from a start, a piece that is repeated with its number, and an end. */
static char *long_text(const char *start, const char *piece, const char *end, size_t bytes) {
    kn_buf b;
    kn_buf_init(&b, 32 << 20);
    assert_true(kn_buf_add_text(&b, start));
    char part[512];
    for (unsigned i = 0; b.len < bytes; i++) {
        size_t len = 0;
        for (const char *at = piece; *at; at++) {
            if (*at == '#' || *at == '^')
                len += (size_t)snprintf(part + len, sizeof part - len, "%u", i + (*at == '^'));
            else
                part[len++] = *at;
        }
        assert_true(kn_buf_add(&b, part, len));
    }
    assert_true(kn_buf_add_text(&b, end));
    return b.data;
}

static void graphs_of_any_size_end_soon(void **state) {
    (void)state;
    enum { MIB = 1 << 20 };
    static const char last[] = "\"x\":{\"class_type\":\"SaveImage\",\"inputs\":{\"images\":[\"0\",0]}}}";
    static const struct {
        const char *key, *start, *piece, *end;
        size_t bytes;
        const char *error;
    } rows[] = {
        { "prompt", "{", "\"#\":{\"class_type\":\"x\"},", last, 10 * MIB,
          "has more text than the allowed 8388608 bytes" },
        { "prompt", "{", "\"#\":{\"class_type\":\"x\"},", last, MIB, "more than 2000 nodes" },
        { "prompt", "{", "\"#\":[[[[[[[[[1]]]]]]]]],", last, 3 * MIB / 2, "too many values" },
        { "prompt", "{\"0\":{\"class_type\":\"x\",\"inputs\":{", "\"#\":1,", "\"y\":1}}}", 2 * MIB,
          "more than 100000 inputs" },
        { "prompt", "", "[", "", MIB, "less deeply nested" },
        { "prompt", "{",
          "\"#\":{\"class_type\":\"ComfySwitchNode\",\"inputs\":{\"switch\":[\"^\",0],\"on_true\":[\"^\",0]}},",
          "\"x\":{\"class_type\":\"SaveImage\",\"inputs\":{\"images\":[\"0\",0]}}}", 100000, "missing node" },
        { "prompt", "{", "\"#\":{\"class_type\":\"PreviewAny\",\"inputs\":{\"source\":[\"^\",0]}},", last, 100000,
          "missing node" },
        { "workflow", "{\"nodes\":[", "{\"id\":#,\"type\":\"Note\"},", "{\"id\":\"x\"}]}", MIB,
          "more than 2000 nodes" },
        { "workflow", "{\"nodes\":[{\"id\":0,\"type\":\"SaveImage\",\"inputs\":[{\"name\":\"images\",\"link\":0}]},",
          "{\"id\":^,\"type\":\"Reroute\",\"inputs\":[{\"link\":^}]},", "{\"id\":\"x\"}],\"links\":[]}", 50000,
          "missing node" },
        { "parameters", "a\n", "k#: v,", "", 2 * MIB, "at most" },
        { "parameters", "a\n", "k#: v,", "", 2000, "more than 64 settings" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char *text = long_text(rows[i].start, rows[i].piece, rows[i].end, rows[i].bytes);
        kn_import f;
        kn_error err = { 0 };
        double start = processor_seconds();
        bool ok = import_text(rows[i].key, text, &f, &err);
        double took = processor_seconds() - start;
        free(text);
        if (ok || !strstr(err.text, rows[i].error))
            fail_msg("row %zu: '%s' in place of '%s'", i, ok ? "no error" : err.text, rows[i].error);
        assert_true(took < 20); /* a fraction of a second, but not under valgrind */
    }
}

/* Each switch asks the one before it twice: 2^40 steps, if nobody counted. */
static void what_asks_twice_each_time_is_given_up(void **state) {
    (void)state;
    char *text = long_text("{",
                           "\"#\":{\"class_type\":\"ComfySwitchNode\",\"inputs\":{\"switch\":[\"^\",0],"
                           "\"on_true\":[\"^\",0]}},",
                           "\"y\":{}}", 3500);
    char *end = strstr(text, "\"y\":{}}"), *graph = NULL;
    unsigned last = 0;
    for (const char *at = text; (at = strstr(at, "\":{\"class_type\"")); at++)
        last++;
    *end = 0;
    assert_true(asprintf(&graph,
                         "%s\"%u\":{\"class_type\":\"PrimitiveBoolean\",\"inputs\":{\"value\":true}},"
                         "\"x\":{\"class_type\":\"SaveImage\",\"inputs\":{\"images\":[\"0\",0]}}}",
                         text, last) > 0);
    kn_import f;
    kn_error err = { 0 };
    assert_false(import_text("prompt", graph, &f, &err));
    assert_string_equal(err.text, "the workflow takes too many steps to follow");
    assert_true(last >= 30);
    free(graph);
    free(text);
}

/* As long as it may be, with its end, and as a circle: from so many reroutes to node 0. */
static void a_long_way_of_links_is_followed_and_a_circle_is_not(void **state) {
    (void)state;
    enum { REROUTES = 1998 };
    static const char *const starts[] = { "\"Foreign\"", "\"Reroute\",\"inputs\":[{\"link\":1998}]" };
    static const char *const errors[] = { "unsupported node Foreign (0)",
                                          "the workflow's links are too many, or go in a cycle" };
    for (size_t i = 0; i < KN_COUNT(starts); i++) {
        KN_AUTO_BUF text;
        kn_import f;
        kn_error err = { 0 };
        kn_buf_init(&text, 1 << 20);
        assert_true(kn_buf_printf(&text, "{\"nodes\":[{\"id\":0,\"type\":%s}", starts[i]));
        for (int n = 1; n <= REROUTES; n++)
            assert_true(kn_buf_printf(&text, ",{\"id\":%d,\"type\":\"Reroute\",\"inputs\":[{\"link\":%d}]}", n, n - 1));
        assert_true(kn_buf_printf(&text,
                                  ",{\"id\":%d,\"type\":\"SaveImage\",\"inputs\":[{\"name\":\"images\",\"link\":%d}]}],"
                                  "\"links\":[[%d,%d,0,1,0]",
                                  REROUTES + 1, REROUTES, REROUTES, REROUTES));
        for (int n = 0; n < REROUTES; n++)
            assert_true(kn_buf_printf(&text, ",[%d,%d,0,1,0]", n, n));
        assert_true(kn_buf_add_text(&text, "]}"));
        assert_false(import_text("workflow", text.data, &f, &err));
        assert_string_equal(err.text, errors[i]);
    }
}

static bool read_one(void *ctx, kn_error *err) {
    const kn_buf *file = ctx;
    kn_import f;
    if (!kn_import_read(file->data, file->len, &KN_IMAGE_LIMITS, &f, err))
        return false;
    kn_import_free(&f);
    return true;
}

static void survives_every_failing_allocation(void **state) {
    (void)state;
    kn_buf edited = edited_graph();
    const struct {
        const char *key, *text;
    } rows[] = { { "prompt", graph_21 },
                 { "workflow", edited.data },
                 { "parameters", "a\nNegative prompt: b\nSteps: 1, Seed: 1, Size: 64x64, Model: x, Version: kuno 1" } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const kn_png_text entry = { rows[i].key, rows[i].text };
        kn_buf file;
        make_png(&entry, 1, &file);
        alloc_fail_each(read_one, &file, 5, 300);
        kn_buf_free(&file);
    }
    kn_buf_free(&edited);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_recorded_workflow),
        cmocka_unit_test(knows_every_odd_file),
        cmocka_unit_test(follows_only_what_matters),
        cmocka_unit_test(changes_are_taken_over_or_told),
        cmocka_unit_test(custom_samplers_are_understood),
        cmocka_unit_test(unfolds_subgraphs_of_the_editor),
        cmocka_unit_test(changes_of_the_editor_are_understood),
        cmocka_unit_test(texts_of_others_fill_a_form),
        cmocka_unit_test(samplers_of_a1111_are_called_by_our_names),
        cmocka_unit_test(our_own_texts_come_back_whole),
        cmocka_unit_test(the_executed_graph_counts_before_other_texts),
        cmocka_unit_test(recipes_are_what_the_worker_draws_from),
        cmocka_unit_test(graphs_of_any_size_end_soon),
        cmocka_unit_test(what_asks_twice_each_time_is_given_up),
        cmocka_unit_test(a_long_way_of_links_is_followed_and_a_circle_is_not),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
