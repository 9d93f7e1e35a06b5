#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "failing_alloc.h"
#include "pipelines/profile.h"

static const char *const raw_and_turbo[] = { "raw", "turbo", NULL }, *const turbo[] = { "turbo", NULL };
static const kn_profile_architecture architectures[] = {
    { "krea2", raw_and_turbo, false },
    { "z-image", turbo, true },
    { "qwen-image", NULL, true },
};
static char demo_name[] = "demo", demo_architecture[] = "qwen-image";
static const kn_profile demo = {
    .name = demo_name,
    .architecture = demo_architecture,
    .defaults.of[KN_SETTING_WIDTH] = { .given = true, .integer = 64 },
};
static const kn_profile_rules rules = { architectures, KN_COUNT(architectures), &demo };
static const kn_profile_rules bare_rules = { architectures, KN_COUNT(architectures), NULL };

static bool read_text(const char *text, kn_profiles *ret, kn_error *err) {
    return kn_profiles_read_text(text, strlen(text), "/etc/kuno", &rules, ret, err);
}

static kn_profiles read_well(const char *text) {
    kn_profiles p = { 0 };
    kn_error err = { 0 };
    if (!read_text(text, &p, &err))
        fail_msg("refused: %s", err.text);
    return p;
}

static const char *selected(const kn_profiles *p, const char *name) {
    const kn_profile *ret = NULL;
    kn_error err = { 0 };
    if (!kn_profiles_select(p, name, &ret, &err))
        fail_msg("refused: %s", err.text);
    return ret->name;
}

static void assert_not_selected(const kn_profiles *p, const char *name, const char *message) {
    const kn_profile *ret = NULL;
    kn_error err = { 0 };
    assert_false(kn_profiles_select(p, name, &ret, &err));
    assert_int_equal(err.code, KN_E_NOT_FOUND);
    assert_string_equal(err.text, message);
    assert_null(ret);
}

#define KREA   "[model_profiles.krea2-turbo]\narchitecture = \"krea2\"\nvariant = \"turbo\"\nvae = \"v\"\n"
#define ZIMAGE "[model_profiles.z]\narchitecture = \"z-image\"\ncheckpoint = \"z.safetensors\"\n"
#define LEGACY "[models]\ndiffusion_model = \"d\"\n"

static void the_recommended_file_is_read_whole(void **state) {
    (void)state;
    kn_profiles p = read_well("default_model = \"krea2-turbo\"\n"
                              "\n"
                              "[model_profiles.krea2-turbo]\n"
                              "architecture = \"krea2\"\n"
                              "variant = \"turbo\"\n"
                              "diffusion_model = \"/models/krea2_turbo_fp8_scaled.safetensors\"\n"
                              "text_encoder = \"/models/qwen3vl_4b_fp8_scaled.safetensors\"\n"
                              "vae = \"/models/qwen_image_vae.safetensors\"\n"
                              "tokenizer = \"/models/qwen25_tokenizer\"\n"
                              "\n"
                              "[model_profiles.z-image-turbo]\n"
                              "architecture = \"z-image\"\n"
                              "variant = \"turbo\"\n"
                              "diffusion_model = \"/models/z-image/diffusion.safetensors\"\n"
                              "text_encoder = \"/models/z-image/qwen_3_4b.safetensors\"\n"
                              "vae = \"/models/z-image/ae.safetensors\"\n"
                              "tokenizer = \"/models/qwen25_tokenizer\"\n"
                              "\n"
                              "[generation]\n"
                              "width = 1024\n"
                              "height = 768\n"
                              "output = \"output.png\"\n"
                              "device = \"cuda\"\n"
                              "dtype = \"auto\"\n");
    assert_int_equal(p.n, 2);
    assert_string_equal(p.default_model, "krea2-turbo");
    const kn_profile *krea = &p.profiles[0], *z = kn_profiles_find(&p, "z-image-turbo");
    assert_string_equal(krea->name, "krea2-turbo");
    assert_string_equal(krea->architecture, "krea2");
    assert_string_equal(krea->variant, "turbo");
    assert_string_equal(krea->diffusion_model, "/models/krea2_turbo_fp8_scaled.safetensors");
    assert_string_equal(krea->text_encoder, "/models/qwen3vl_4b_fp8_scaled.safetensors");
    assert_string_equal(krea->vae, "/models/qwen_image_vae.safetensors");
    assert_string_equal(krea->tokenizer, "/models/qwen25_tokenizer");
    assert_null(krea->vision);
    assert_null(krea->checkpoint);
    assert_int_equal(krea->line, 3);
    assert_ptr_equal(z, &p.profiles[1]);
    assert_string_equal(z->vae, "/models/z-image/ae.safetensors");
    assert_int_equal(p.generation.of[KN_SETTING_WIDTH].integer, 1024);
    assert_int_equal(p.generation.of[KN_SETTING_HEIGHT].integer, 768);
    assert_int_equal(p.generation.of[KN_SETTING_HEIGHT].line, 21);
    assert_string_equal(p.generation.of[KN_SETTING_OUTPUT].text, "output.png"); /* of the working folder */
    assert_string_equal(p.generation.of[KN_SETTING_DEVICE].text, "cuda");
    assert_false(p.generation.of[KN_SETTING_STEPS].given);
    assert_null(p.legacy);
    kn_profiles_free(&p);
    kn_profiles_free(&p); /* a freed one is an empty one */
}

static void the_manual_s_examples_are_read(void **state) {
    (void)state;
    KN_AUTO_BUF manual;
    kn_buf_init(&manual, 1 << 20);
    kn_error err = { 0 };
    assert_true(kn_file_read(KN_SOURCE "/docs/models-toml.md", 1 << 20, &manual, &err));
    assert_int_equal(setenv("HOME", "/srv/u", 1), 0);
    static const char *const chosen[] = { "krea2-turbo", "z-image", "legacy" };
    const char *at = manual.data;
    for (size_t i = 0; i < KN_COUNT(chosen); i++) {
        at = strstr(at, "```toml\n");
        assert_non_null(at);
        at += strlen("```toml\n");
        const char *end = strstr(at, "```");
        assert_non_null(end);
        kn_profiles p = { 0 };
        if (!kn_profiles_read_text(at, (size_t)(end - at), "/etc/kuno", &bare_rules, &p, &err))
            fail_msg("example %zu: %s", i + 1, err.text);
        assert_string_equal(selected(&p, NULL), chosen[i]);
        kn_profiles_free(&p);
    }
    assert_null(strstr(at, "```toml\n"));
}

static void paths_begin_at_the_file_or_at_home(void **state) {
    (void)state;
    assert_int_equal(setenv("HOME", "/srv/u", 1), 0);
    kn_profiles p = read_well("[model_profiles.z]\narchitecture = \"z-image\"\n"
                              "diffusion_model = \"sub/d.gguf\"\ntext_encoder = \"../t.gguf\"\nvae = \"~/v.gguf\"\n"
                              "vision = \"~other/m.gguf\"\ntokenizer = \"~\"\ncheckpoint = \"/abs/c\"\n"
                              "output = \"~/pictures/x.png\"\n");
    assert_string_equal(p.profiles[0].diffusion_model, "/etc/kuno/sub/d.gguf");
    assert_string_equal(p.profiles[0].text_encoder, "/etc/kuno/../t.gguf");
    assert_string_equal(p.profiles[0].vae, "/srv/u/v.gguf");
    assert_string_equal(p.profiles[0].vision, "/etc/kuno/~other/m.gguf");
    assert_string_equal(p.profiles[0].tokenizer, "/srv/u");
    assert_string_equal(p.profiles[0].checkpoint, "/abs/c");
    assert_string_equal(p.profiles[0].defaults.of[KN_SETTING_OUTPUT].text, "/srv/u/pictures/x.png");
    kn_profiles_free(&p);

    kn_error err = { 0 };
    assert_true(kn_profiles_read_text(ZIMAGE, strlen(ZIMAGE), "", &rules, &p, &err));
    assert_string_equal(p.profiles[0].checkpoint, "z.safetensors");
    kn_profiles_free(&p);
    assert_true(kn_profiles_read_text(ZIMAGE, strlen(ZIMAGE), "dir/", &rules, &p, &err));
    assert_string_equal(p.profiles[0].checkpoint, "dir/z.safetensors");
    kn_profiles_free(&p);

    assert_int_equal(unsetenv("HOME"), 0);
    assert_false(read_text("[models]\nvae = \"~/v\"\n", &p, &err));
    assert_string_equal(err.text, "line 2: vae begins with ~ and HOME is not set");
}

static void every_setting_is_read_from_generation_and_from_a_profile(void **state) {
    (void)state;
    static const char settings[] = "width = 16\nheight = 16384\nsteps = 1000\ncfg = 0\nseed = 9223372036854775807\n"
                                   "count = 4\nsampler = \"euler\"\nscheduler = \"discrete\"\nflow_shift = 3.5\n"
                                   "mu = 1.15\nshift_y1 = -0.5\nshift_y2 = 2\nrng = \"torch-cuda\"\n"
                                   "output = \"x.png\"\ndevice = \"vulkan:1\"\nthreads = 8\nprecision = \"exact\"\n"
                                   "residency = \"cached\"\ndtype = \"auto\"\n";
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1 << 16);
    assert_true(kn_buf_printf(&text, "[generation]\n%s%s%s", settings, ZIMAGE, settings));
    kn_profiles p = read_well(text.data);
    const kn_generation_defaults *places[] = { &p.generation, &p.profiles[0].defaults };
    for (size_t i = 0; i < KN_COUNT(places); i++) {
        const kn_default *of = places[i]->of;
        for (int k = 0; k < KN_SETTINGS; k++)
            assert_true(of[k].given);
        assert_int_equal(of[KN_SETTING_WIDTH].integer, 16);
        assert_int_equal(of[KN_SETTING_HEIGHT].integer, 16384);
        assert_int_equal(of[KN_SETTING_STEPS].integer, 1000);
        assert_true(of[KN_SETTING_CFG].real == 0);
        assert_true(of[KN_SETTING_SEED].integer == INT64_MAX);
        assert_int_equal(of[KN_SETTING_COUNT].integer, 4);
        assert_string_equal(of[KN_SETTING_SAMPLER].text, "euler");
        assert_string_equal(of[KN_SETTING_SCHEDULER].text, "discrete");
        assert_true(of[KN_SETTING_FLOW_SHIFT].real == 3.5);
        assert_true(of[KN_SETTING_MU].real == 1.15);
        assert_true(of[KN_SETTING_SHIFT_Y1].real == -0.5);
        assert_true(of[KN_SETTING_SHIFT_Y2].real == 2);
        assert_string_equal(of[KN_SETTING_RNG].text, "torch-cuda");
        assert_string_equal(of[KN_SETTING_OUTPUT].text, "x.png");
        assert_string_equal(of[KN_SETTING_DEVICE].text, "vulkan:1");
        assert_int_equal(of[KN_SETTING_THREADS].integer, 8);
        assert_string_equal(of[KN_SETTING_PRECISION].text, "exact");
        assert_string_equal(of[KN_SETTING_RESIDENCY].text, "cached");
    }
    kn_profiles_free(&p);
}

static void a_profile_s_own_settings_come_before_generation(void **state) {
    (void)state;
    kn_profiles p = read_well(ZIMAGE "steps = 9\ncfg = 1.5\n[generation]\nsteps = 20\nwidth = 512\n");
    kn_generation_defaults d = kn_profiles_defaults(&p, &p.profiles[0]);
    assert_int_equal(d.of[KN_SETTING_STEPS].integer, 9);
    assert_int_equal(d.of[KN_SETTING_WIDTH].integer, 512);
    assert_true(d.of[KN_SETTING_CFG].real == 1.5);
    assert_false(d.of[KN_SETTING_HEIGHT].given);
    d = kn_profiles_defaults(&p, &demo);
    assert_int_equal(d.of[KN_SETTING_WIDTH].integer, 64);
    assert_int_equal(d.of[KN_SETTING_STEPS].integer, 20);
    kn_profiles_free(&p);
}

static void a_variant_may_be_left_out_where_there_is_no_choice(void **state) {
    (void)state;
    kn_profiles p = read_well(ZIMAGE "[model_profiles.q]\narchitecture = \"qwen-image\"\nvae = \"v\"\n");
    assert_string_equal(p.profiles[0].variant, "turbo");
    assert_null(p.profiles[1].variant);
    kn_profiles_free(&p);
}

/* The choice */

static void the_command_comes_before_default_model_before_legacy_before_the_built_in(void **state) {
    (void)state;
    kn_profiles p = read_well("default_model = \"z\"\n" LEGACY KREA ZIMAGE);
    assert_string_equal(selected(&p, "krea2-turbo"), "krea2-turbo");
    assert_string_equal(selected(&p, NULL), "z");
    assert_string_equal(selected(&p, "legacy"), "legacy");
    assert_string_equal(selected(&p, "demo"), "demo");
    kn_profiles_free(&p);

    p = read_well(KREA LEGACY);
    assert_string_equal(selected(&p, NULL), "legacy");
    assert_string_equal(p.legacy->architecture, "z-image");
    assert_string_equal(p.legacy->variant, "turbo");
    assert_string_equal(p.legacy->diffusion_model, "/etc/kuno/d");
    kn_profiles_free(&p);

    p = read_well("[generation]\nsteps = 4\n");
    assert_string_equal(selected(&p, NULL), "demo");
    kn_profiles_free(&p);

    p = read_well("default_model = \"demo\"\n" KREA);
    assert_string_equal(selected(&p, NULL), "demo");
    kn_profiles_free(&p);

    /* A profile of the built-in's name takes its place. */
    p = read_well("[model_profiles.demo]\narchitecture = \"z-image\"\nvae = \"v\"\n");
    assert_ptr_equal(kn_profiles_find(&p, "demo"), &p.profiles[0]);
    assert_not_selected(&p, "none", "unknown model profile 'none'; known: demo");
    kn_profiles_free(&p);

    p = read_well("[models]\n");
    assert_null(p.legacy);
    assert_string_equal(selected(&p, NULL), "demo");
    kn_profiles_free(&p);
}

static void a_choice_that_cannot_be_made_lists_what_there_is(void **state) {
    (void)state;
    kn_profiles p = read_well(KREA ZIMAGE);
    assert_not_selected(&p, "krea-two", "unknown model profile 'krea-two'; known: krea2-turbo, z, demo");
    assert_not_selected(&p, "krea2-trubo",
                        "unknown model profile 'krea2-trubo'; known: krea2-turbo, z, demo "
                        "(did you mean 'krea2-turbo'?)");
    assert_not_selected(&p, "", "unknown model profile ''; known: krea2-turbo, z, demo");
    assert_not_selected(
        &p, NULL, "no model is chosen; give --model-profile NAME or set default_model; known: krea2-turbo, z, demo");
    kn_profiles_free(&p);

    kn_error err = { 0 };
    assert_true(kn_profiles_read_text("", 0, "", &bare_rules, &p, &err));
    assert_not_selected(&p, NULL, "no model is configured; write a [model_profiles.NAME] table into models.toml");
    assert_not_selected(&p, "x", "unknown model profile 'x'; none is configured");
    kn_profiles_free(&p);
}

/* Refusals */

static void every_mistake_is_named_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "a = [1\n", "line 2: ',' or ']' of an array expected, the document ends" },
        { "default_modle = \"z\"\n", "line 1: unknown key 'default_modle' in the file; did you mean 'default_model'?" },
        { ZIMAGE "vea = \"x\"\n", "line 4: unknown key 'vea' in [model_profiles.z]; did you mean 'vae'?" },
        { ZIMAGE "\"vae\\u0000\" = \"x\"\n",
          "line 4: unknown key 'vae\\x00' in [model_profiles.z]; did you mean 'vae'?" },
        { ZIMAGE "[model_profiles.z.generation]\n",
          "line 4: unknown key 'generation' in [model_profiles.z]; known: architecture, variant, checkpoint, "
          "diffusion_model, text_encoder, vision, vae, tokenizer, width, height, steps, cfg, seed, count, sampler, "
          "scheduler, "
          "flow_shift, mu, shift_y1, shift_y2, rng, output, device, threads, precision, residency, dtype" },
        { "[models]\nvision = \"x\"\n", "line 2: unknown key 'vision' in [models]; known: checkpoint, diffusion_model, "
                                        "text_encoder, vae, tokenizer" },
        { "[generation]\nstep = 4\n", "line 2: unknown key 'step' in [generation]; did you mean 'steps'?" },
        { "default_model = 1\n", "line 1: default_model must be a string, not an integer" },
        { "default_model = \"\"\n", "line 1: default_model is empty" },
        { "\n\ndefault_model = \"y\"\n" ZIMAGE, "line 3: default_model: unknown model profile 'y'; known: z, demo" },
        { "model_profiles = 1\n",
          "line 1: model_profiles must be a table of profiles, as in [model_profiles.NAME], not an integer" },
        { "[[model_profiles]]\n",
          "line 1: model_profiles must be a table of profiles, as in [model_profiles.NAME], not an array" },
        { "[model_profiles]\nx = \"y\"\n", "line 2: x must be a table, as in [model_profiles.NAME], not a string" },
        { "models = \"x\"\n", "line 1: models must be a table, not a string" },
        { "[[generation]]\n", "line 1: generation must be a table, not an array" },
        { "[model_profiles.\"\"]\n", "line 1: a profile needs a name, this one's is empty" },
        { "[model_profiles.\"a\\nb\"]\n", "line 1: the profile name 'a\\x0ab' holds a control character" },
        { "[model_profiles.x]\nvae = \"v\"\n",
          "line 1: the profile has no architecture; known: krea2, z-image, qwen-image" },
        { "[model_profiles.x]\narchitecture = \"krea\"\nvae = \"v\"\n",
          "line 2: unknown architecture 'krea'; known: krea2, z-image, qwen-image (did you mean 'krea2'?)" },
        { "[model_profiles.x]\narchitecture = true\n", "line 2: architecture must be a string, not a boolean" },
        { "[model_profiles.x]\narchitecture = \"krea2\"\nvae = \"v\"\n",
          "line 1: the profile has no variant; known: raw, turbo" },
        { "[model_profiles.x]\narchitecture = \"krea2\"\nvae = \"v\"\nvariant = \"distilled\"\n",
          "line 4: unsupported krea2 variant: distilled; known: raw, turbo" },
        { "[model_profiles.x]\narchitecture = \"qwen-image\"\nvae = \"v\"\nvariant = \"raw\"\n",
          "line 4: unsupported qwen-image variant: raw; qwen-image has no variants" },
        { "[model_profiles.x]\narchitecture = \"krea2\"\nvariant = \"raw\"\ncheckpoint = \"c\"\n",
          "line 4: krea2 needs separate files (diffusion_model, text_encoder, vae); a checkpoint that holds "
          "them all is not supported" },
        { "\n[model_profiles.x]\narchitecture = \"z-image\"\ntokenizer = \"t\"\n",
          "line 2: profile 'x' names no files; give diffusion_model, text_encoder and vae, or a checkpoint" },
        { "[models]\ntokenizer = \"t\"\n",
          "line 1: profile 'legacy' names no files; give diffusion_model, text_encoder and vae, or a checkpoint" },
        { LEGACY "[model_profiles.legacy]\narchitecture = \"z-image\"\nvae = \"v\"\n",
          "line 1: [models] makes a profile 'legacy', which line 3 makes already; rename that one" },
        { ZIMAGE "vae = \"\"\n", "line 4: vae is empty" },
        { ZIMAGE "vae = 7.5\n", "line 4: vae must be a string, not a float" },
        { ZIMAGE "vae = [\"a\"]\n", "line 4: vae must be a string, not an array" },
        { ZIMAGE "vae = 2024-01-01\n", "line 4: vae must be a string, not a date" },
        { ZIMAGE "vae = \"a\\u0000b\"\n", "line 4: vae holds a control character: 'a\\x00b'" },
        { ZIMAGE "vae = \"a\\u007f\"\n", "line 4: vae holds a control character: 'a\\x7f'" },
        { "[generation]\nwidth = 8\n", "line 2: width must lie between 16 and 16384, not 8" },
        { "[generation]\nwidth = 1024.0\n", "line 2: width must be an integer, not a float" },
        { "[generation]\nsteps = \"8\"\n", "line 2: steps must be an integer, not a string" },
        { "[generation]\nseed = -1\n", "line 2: seed must lie between 0 and 9223372036854775807, not -1" },
        { "[generation]\ncfg = nan\n", "line 2: cfg must lie between 0 and 100, not nan" },
        { "[generation]\ncfg = \"high\"\n", "line 2: cfg must be a number, not a string" },
        { "[generation]\nprecision = \"fats\"\n",
          "line 2: unknown precision 'fats'; known: fast, exact (did you mean 'fast'?)" },
        { "[generation]\nresidency = \"cpu\"\n", "line 2: unknown residency 'cpu'; known: staged, cached" },
        { "[generation]\nrng = \"\"\n", "line 2: rng is empty" },
        { "[generation]\noutput = \"a\\tb\"\n", "line 2: output holds a control character: 'a\\x09b'" },
        { "[generation]\ndtype = \"bfloat16\"\n", "line 2: dtype 'bfloat16' is not offered: weights keep their stored "
                                                  "type, and precision (fast, exact) chooses "
                                                  "the arithmetic; leave dtype out or use \"auto\"" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_profiles p = { 0 };
        kn_error err = { 0 };
        if (read_text(rows[i].text, &p, &err))
            fail_msg("accepted: %s", rows[i].text);
        assert_string_equal(err.text, rows[i].message);
        assert_null(p.profiles); /* nothing is written on failure */
    }
}

static void a_profile_name_has_a_longest_form(void **state) {
    (void)state;
    char text[400], name[KN_PROFILE_NAME_BYTES_MAX + 2] = "";
    memset(name, 'n', KN_PROFILE_NAME_BYTES_MAX);
    snprintf(text, sizeof text, "[model_profiles.%s]\narchitecture = \"z-image\"\nvae = \"v\"\n", name);
    kn_profiles p = read_well(text);
    assert_string_equal(selected(&p, name), name);
    kn_profiles_free(&p);
    name[KN_PROFILE_NAME_BYTES_MAX] = 'n';
    snprintf(text, sizeof text, "[model_profiles.%s]\narchitecture = \"z-image\"\nvae = \"v\"\n", name);
    kn_error err = { 0 };
    assert_false(read_text(text, &p, &err));
    assert_non_null(strstr(err.text, "has 129 bytes, at most 128 are allowed"));
}

static void legacy_is_refused_where_its_architecture_is_unknown(void **state) {
    (void)state;
    const kn_profile_rules krea_only = { architectures, 1, NULL };
    kn_profiles p = { 0 };
    kn_error err = { 0 };
    assert_false(kn_profiles_read_text(LEGACY, strlen(LEGACY), "", &krea_only, &p, &err));
    assert_string_equal(err.text, "line 1: [models] stands for a z-image model, which is not supported");
}

/* Files */

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void the_file_is_found_where_xdg_says(void **state) {
    (void)state;
    char dir[] = "/tmp/kuno-test-XXXXXX", path[128], made[4][128];
    assert_non_null(mkdtemp(dir));
    snprintf(made[0], sizeof made[0], "%s/.config", dir);
    snprintf(made[1], sizeof made[1], "%s/.config/kuno", dir);
    snprintf(made[2], sizeof made[2], "%s/kuno", dir);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mkdir(made[i], 0700), 0);
    kn_profiles p = { 0 };
    kn_error err = { 0 };

    /* No file: no profiles, and no error. */
    assert_int_equal(setenv("XDG_CONFIG_HOME", dir, 1), 0);
    assert_int_equal(setenv("HOME", dir, 1), 0);
    assert_true(kn_profiles_read(NULL, &rules, &p, &err));
    assert_int_equal(p.n, 0);
    assert_string_equal(selected(&p, NULL), "demo");
    kn_profiles_free(&p);

    snprintf(path, sizeof path, "%s/kuno/models.toml", dir);
    write_file(path, KREA);
    snprintf(made[3], sizeof made[3], "%s/.config/kuno/models.toml", dir);
    write_file(made[3], ZIMAGE);
    assert_true(kn_profiles_read(NULL, &rules, &p, &err));
    assert_string_equal(p.profiles[0].name, "krea2-turbo");
    char vae[160];
    snprintf(vae, sizeof vae, "%s/kuno/v", dir);
    assert_string_equal(p.profiles[0].vae, vae);
    kn_profiles_free(&p);

    /* Unset, empty and relative ones do not count. */
    static const char *const ignored[] = { NULL, "", "relative" };
    for (size_t i = 0; i < KN_COUNT(ignored); i++) {
        if (ignored[i])
            assert_int_equal(setenv("XDG_CONFIG_HOME", ignored[i], 1), 0);
        else
            assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0);
        assert_true(kn_profiles_read(NULL, &rules, &p, &err));
        assert_string_equal(p.profiles[0].name, "z");
        kn_profiles_free(&p);
    }
    assert_int_equal(unsetenv("HOME"), 0);
    assert_true(kn_profiles_read(NULL, &rules, &p, &err));
    assert_int_equal(p.n, 0);
    kn_profiles_free(&p);

    /* One that was asked for is read instead, and must be there. */
    assert_true(kn_profiles_read(path, &rules, &p, &err));
    assert_string_equal(p.profiles[0].name, "krea2-turbo");
    kn_profiles_free(&p);
    char expected[256];
    write_file(path, "\nstrange = 1\n");
    assert_false(kn_profiles_read(path, &rules, &p, &err));
    snprintf(expected, sizeof expected, "%s: line 2: unknown key 'strange' in the file", path);
    assert_memory_equal(err.text, expected, strlen(expected));
    err = (kn_error){ 0 };
    assert_int_equal(unlink(path), 0);
    assert_false(kn_profiles_read(path, &rules, &p, &err));
    assert_int_equal(err.code, KN_E_NOT_FOUND);
    snprintf(expected, sizeof expected, "%s: no such file", path);
    assert_string_equal(err.text, expected);

    /* A file that is there and cannot be read is an error also in its usual place. */
    err = (kn_error){ 0 };
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(setenv("XDG_CONFIG_HOME", dir, 1), 0);
    assert_false(kn_profiles_read(NULL, &rules, &p, &err));
    assert_int_equal(err.code, KN_E_FORMAT);
    assert_int_equal(rmdir(path), 0);

    assert_int_equal(unlink(made[3]), 0);
    assert_int_equal(rmdir(made[1]), 0);
    assert_int_equal(rmdir(made[0]), 0);
    assert_int_equal(rmdir(made[2]), 0);
    assert_int_equal(rmdir(dir), 0);
}

struct reading {
    const char *text;
    bool good;
};

static bool ends_as_it_should(void *ctx, kn_error *err) {
    const struct reading *r = ctx;
    kn_profiles p = { 0 };
    bool ok = read_text(r->text, &p, err);
    kn_profiles_free(&p);
    if (r->good || err->code == KN_E_NOMEM)
        return ok;
    *err = (kn_error){ 0 };
    return !ok;
}

static void every_failed_allocation_is_an_error_without_a_leak(void **state) {
    (void)state;
    struct reading good = { "default_model = \"z\"\n" LEGACY KREA ZIMAGE "sampler = \"euler\"\n[generation]\n"
                            "precision = \"exact\"\noutput = \"x\"\n",
                            true };
    struct reading wrong = { "default_model = \"y\"\n" LEGACY KREA ZIMAGE, false };
    alloc_fail_each(ends_as_it_should, &good, 20, 1000);
    alloc_fail_each(ends_as_it_should, &wrong, 20, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recommended_file_is_read_whole),
        cmocka_unit_test(the_manual_s_examples_are_read),
        cmocka_unit_test(paths_begin_at_the_file_or_at_home),
        cmocka_unit_test(every_setting_is_read_from_generation_and_from_a_profile),
        cmocka_unit_test(a_profile_s_own_settings_come_before_generation),
        cmocka_unit_test(a_variant_may_be_left_out_where_there_is_no_choice),
        cmocka_unit_test(the_command_comes_before_default_model_before_legacy_before_the_built_in),
        cmocka_unit_test(a_choice_that_cannot_be_made_lists_what_there_is),
        cmocka_unit_test(every_mistake_is_named_with_its_line),
        cmocka_unit_test(a_profile_name_has_a_longest_form),
        cmocka_unit_test(legacy_is_refused_where_its_architecture_is_unknown),
        cmocka_unit_test(the_file_is_found_where_xdg_says),
        cmocka_unit_test(every_failed_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
