/* What a request means: way of working, sizes, steps, memory, time. */
#include "studio_test.h"

#include <math.h>

#include "image/mask.h"
#include "studio/planner.h"

#define ID_A   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B   "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SOURCE "\"inputs\":[{\"input_id\":\"" ID_A "\",\"role\":\"source\"}]"
#define MASKED                                                                                                         \
    "\"inputs\":[{\"input_id\":\"" ID_A "\",\"role\":\"source\"},"                                                     \
    "{\"input_id\":\"" ID_B "\",\"role\":\"mask\"}]"
#define SMALL "\"inputs\":[{\"input_id\":\"" ID_B "\",\"role\":\"source\"}]"
#define MASKED_SMALL                                                                                                   \
    "\"inputs\":[{\"input_id\":\"" ID_B "\",\"role\":\"source\"},"                                                     \
    "{\"input_id\":\"" ID_A "\",\"role\":\"mask\"}]"
#define MASK_ALONE "\"inputs\":[{\"input_id\":\"" ID_A "\",\"role\":\"mask\"}]"
#define REFERENCES                                                                                                     \
    "\"inputs\":[{\"input_id\":\"" ID_A "\",\"role\":\"reference\"},"                                                  \
    "{\"input_id\":\"" ID_B "\",\"role\":\"reference\"}]"

static kn_store *store;
static kn_model_list models;
static kn_studio_settings settings;
static kn_upscaler_list upscalers;
static char other_colours; /* the picture that has them, by the first letter of its id */
static kn_plan_wish wish;  /* of the next plan */

static int begin(void **state) {
    static const char profiles[] =
        "[model_profiles.turbo]\narchitecture = \"qwen-image-2.1\"\nvariant = \"turbo\"\n"
        "diffusion_model = \"d.safetensors\"\ntext_encoder = \"t.safetensors\"\nvae = \"v.safetensors\"\n"
        "[model_profiles.zimage]\narchitecture = \"z-image\"\nvariant = \"base\"\n"
        "diffusion_model = \"d.safetensors\"\ntext_encoder = \"t.safetensors\"\nvae = \"v.safetensors\"\n";
    char path[100];
    kn_error problem = { 0 };
    wish = (kn_plan_wish){ 0 };
    other_colours = 0;
    if (make_folder(state) != 0)
        return -1;
    store = open_store();
    GOOD(kn_store_write(store, ".", "models.toml", profiles, strlen(profiles), &err));
    static const char *const files[] = { "d.safetensors", "t.safetensors", "v.safetensors" };
    for (size_t i = 0; i < KN_COUNT(files); i++)
        GOOD(kn_store_write(store, ".", files[i], "x", 1, &err));
    snprintf(path, sizeof path, "%s/models.toml", folder);
    GOOD(kn_profiles_list(store, path, &models, &problem, &err));
    if (problem.code)
        fail_msg("%s", problem.text);
    const kn_own_folders own = { .models = folder };
    GOOD(kn_studio_settings_load(store, &own, &settings, &err));
    settings.own = NULL;
    kn_upscalers_find(folder, &upscalers);
    return 0;
}

static int done(void **state) {
    kn_upscalers_free(&upscalers);
    kn_studio_settings_free(&settings);
    kn_profiles_list_free(&models);
    kn_store_close(store);
    return remove_folder(state);
}

static kn_error refusal; /* of the last plan */

static bool other_mask;     /* a mask has its own size, not that of the source */
static unsigned mask_lacks; /* of all pictures */

/* With a source of 3000 x 2000 and a second picture of 640 x 480. */
static bool plan(const char *body, bool upscale, const char *profile, uint64_t memory, kn_studio_plan *ret,
                 char *pointer, size_t room) {
    static const struct { uint32_t width, height; } sizes[] = { { 3000, 2000 }, { 640, 480 } };
    KN_AUTO_BUF where;
    kn_studio_request r;
    kn_error err = { 0 };
    kn_buf_init(&where, 600);
    if (!kn_request_read(body, strlen(body), upscale, &r, &where, &err))
        fail_msg("%s: %s", body, err.text);
    kn_plan_setting with = { .profile = kn_profiles_named(&models, profile),
                             .settings = &settings,
                             .upscalers = &upscalers,
                             .memory_bytes = memory,
                             .kinds = ~0u,
                             .resizes = true,
                             .wish = wish,
                             .input_count = r.input_count };
    assert_non_null(with.profile);
    for (size_t i = 0; i < r.input_count; i++) {
        bool is_fitting_mask = r.inputs[i].role == KN_INPUT_MASK && !other_mask;
        char whose = r.inputs[is_fitting_mask ? 0 : i].id[0];
        memcpy(with.inputs[i].id, r.inputs[i].id, sizeof r.inputs[i].id);
        with.inputs[i].role = r.inputs[i].role;
        with.inputs[i].width = sizes[whose == 'b'].width;
        with.inputs[i].height = sizes[whose == 'b'].height;
        with.inputs[i].mask_lacks = mask_lacks;
        with.inputs[i].has_gain_map = with.inputs[i].has_other_colours = r.inputs[i].id[0] == other_colours;
    }
    bool good = kn_plan_request(&r, &with, ret, &where, &err);
    snprintf(pointer, room, "%s", good ? "" : where.data);
    refusal = err;
    kn_request_free(&r);
    return good;
}

static void a_mask_is_as_large_as_its_picture(void **state) {
    (void)state;
    kn_studio_plan p;
    char pointer[600];
    other_mask = true;
    assert_false(plan("{\"prompt\":\"a\"," MASKED "}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    other_mask = false;
    assert_string_equal(pointer, "/inputs/1/input_id");
    assert_string_equal(refusal.text,
                        "the mask is 640x480 pixels large and the picture 3000x2000; both need the same size");
    assert_true(plan("{\"prompt\":\"a\"," MASKED "}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_false(plan("{\"prompt\":\"a\",\"outpaint\":{\"left\":64}," MASKED "}", false, "turbo", UINT64_MAX, &p,
                      pointer, sizeof pointer));
    assert_string_equal(pointer, "/outpaint");
}

static void a_mask_shows_the_model_what_to_draw(void **state) {
    (void)state;
    static const struct {
        unsigned lacks;
        const char *profile, *why;
    } rows[] = {
        { KN_MASK_LACKS_WHITE | KN_MASK_MISSES_CELLS_8 | KN_MASK_MISSES_CELLS_16, "turbo",
          "the mask has no white in it, so that nothing would be drawn" },
        { KN_MASK_MISSES_CELLS_16, "turbo",
          "the mask's white falls between the model's cells of 16 pixels, so that nothing would be drawn; make it "
          "larger" },
        { KN_MASK_MISSES_CELLS_8, "turbo", NULL },
        { KN_MASK_MISSES_CELLS_16, "zimage", NULL },
        { KN_MASK_MISSES_CELLS_8, "zimage",
          "the mask's white falls between the model's cells of 8 pixels, so that nothing would be drawn; make it "
          "larger" },
    };
    kn_studio_plan p;
    char pointer[600];
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        mask_lacks = rows[i].lacks;
        bool good =
            plan("{\"prompt\":\"a\"," MASKED "}", false, rows[i].profile, UINT64_MAX, &p, pointer, sizeof pointer);
        assert_int_equal(good, !rows[i].why);
        if (!good) {
            assert_string_equal(pointer, "/inputs/1/input_id");
            assert_string_equal(refusal.text, rows[i].why);
        }
    }
    mask_lacks = 0;
}

static void a_request_says_how_it_is_worked_on(void **state) {
    (void)state;
    static const struct {
        const char *body, *profile;
        kn_studio_kind kind;
        const char *pointer; /* NULL: it can be meant so */
    } rows[] = {
        { "{\"prompt\":\"a\"}", "turbo", KN_KIND_TEXT_TO_IMAGE, NULL },
        { "{\"prompt\":\"a\"," SOURCE "}", "turbo", KN_KIND_EDIT, NULL },
        { "{\"prompt\":\"a\"," REFERENCES "}", "turbo", KN_KIND_EDIT, NULL },
        { "{\"prompt\":\"a\"," MASKED "}", "turbo", KN_KIND_INPAINT, NULL },
        { "{\"prompt\":\"a\"," SMALL ",\"outpaint\":{\"left\":100}}", "turbo", KN_KIND_OUTPAINT, NULL },
        { "{\"prompt\":\"a\"," SOURCE ",\"outpaint\":{\"left\":100}}", "turbo", KN_KIND_OUTPAINT, NULL },
        { "{\"prompt\":\"a\"," SOURCE ",\"outpaint\":{\"left\":5177}}", "turbo", KN_KIND_OUTPAINT, NULL },
        { "{\"prompt\":\"a\"," SOURCE ",\"outpaint\":{\"left\":5193}}", "turbo", 0, "/outpaint" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"custom\",\"width\":8208,\"height\":4096}}", "turbo", 0, "/size" },
        { "{\"prompt\":\"a\"," SOURCE ",\"outpaint\":{\"left\":0}}", "turbo", KN_KIND_EDIT, NULL },
        { "{\"prompt\":\"a\",\"kind\":\"edit\"}", "turbo", 0, "/kind" },
        { "{\"prompt\":\"a\",\"kind\":\"text_to_image\"," SOURCE "}", "turbo", 0, "/kind" },
        { "{\"prompt\":\"a\"," MASK_ALONE "}", "turbo", 0, "/inputs" },
        { "{\"prompt\":\"a\",\"outpaint\":{\"left\":100}}", "turbo", 0, "/inputs" },
        { "{\"prompt\":\"a\"," MASKED ",\"feather\":256}", "turbo", KN_KIND_INPAINT, NULL },
        { "{\"prompt\":\"a\"," SMALL ",\"outpaint\":{\"left\":100},\"feather\":0}", "turbo", KN_KIND_OUTPAINT, NULL },
        { "{\"prompt\":\"a\"," SOURCE ",\"feather\":8}", "turbo", 0, "/feather" },
        { "{\"prompt\":\"a\",\"feather\":8}", "turbo", 0, "/feather" },
        { "{\"prompt\":\"a\"," SOURCE "}", "zimage", 0, "/inputs" },
        { "{\"prompt\":\"a\"," MASKED "}", "zimage", KN_KIND_INPAINT, NULL },
        { "{\"prompt\":\"a\",\"sampler\":\"nonsense\"}", "turbo", 0, "/sampler" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"source\"}}", "turbo", 0, "/size/mode" },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"auto\",\"aspect_ratio\":\"99:1\"}}", "turbo", 0, "/size" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_studio_plan p;
        char pointer[600];
        bool good = plan(rows[i].body, false, rows[i].profile, UINT64_MAX, &p, pointer, sizeof pointer);
        if (good != !rows[i].pointer || (good && p.kind != rows[i].kind))
            fail_msg("%s is %s %s", rows[i].body, good ? kn_studio_kinds[p.kind] : "refused at", pointer);
        if (!good)
            assert_string_equal(pointer, rows[i].pointer);
    }
}

static void a_canvas_too_large_is_refused_in_figures(void **state) {
    (void)state;
    kn_studio_plan p;
    char pointer[600];
    assert_false(plan("{\"prompt\":\"a\"," SOURCE ",\"outpaint\":{\"left\":3000,\"right\":3000}}", false, "turbo",
                      UINT64_MAX, &p, pointer, sizeof pointer));
    assert_string_equal(refusal.text, "the result would have 9000 by 2000 pixels; at most 8192 are possible on a side");
}

static void a_canvas_larger_than_the_model_works_on_is_drawn_smaller(void **state) {
    (void)state;
    static const struct {
        const char *body;
        bool resized;
    } rows[] = {
        { "{\"prompt\":\"a\"," SMALL ",\"outpaint\":{\"left\":100}}", false },
        { "{\"prompt\":\"a\"," SMALL ",\"outpaint\":{\"left\":3456}}", false }, /* 4096 */
        { "{\"prompt\":\"a\"," SMALL ",\"outpaint\":{\"left\":3457}}", true },
        { "{\"prompt\":\"a\"," SOURCE ",\"outpaint\":{\"left\":100,\"top\":7}}", true }, /* too many in all */
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_studio_plan p;
        char pointer[600];
        assert_true(plan(rows[i].body, false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
        bool noted = p.note_count == 1 && strcmp(p.notes[0].code, "source_resized") == 0;
        if (noted != rows[i].resized || (p.working_width < p.result_width) != rows[i].resized)
            fail_msg("%s works at %u x %u for %u x %u, %zu notes", rows[i].body, p.working_width, p.working_height,
                     p.result_width, p.result_height, p.note_count);
        assert_int_equal(p.working_width % 16, 0);
        assert_int_equal(p.working_height % 16, 0);
        assert_int_equal(p.paste.x + p.paste.width, p.result_width); /* nothing but what was asked for */
        assert_int_equal(p.paste.y + p.paste.height, p.result_height);
        assert_true(p.upscaler[0] == 0 || rows[i].resized);
    }
}

static void sizes_follow_preset_shape_and_source(void **state) {
    (void)state;
    static const struct {
        const char *body, *profile;
        uint32_t work[2], result[2];
    } rows[] = {
        { "{\"prompt\":\"a\"}", "turbo", { 1024, 1024 }, { 1024, 1024 } },
        { "{\"prompt\":\"a\",\"preset\":\"balanced\"}", "turbo", { 1536, 1536 }, { 1536, 1536 } },
        { "{\"prompt\":\"a\",\"preset\":\"quality\"}", "turbo", { 2048, 2048 }, { 2048, 2048 } },
        { "{\"prompt\":\"a\"}", "demo", { 128, 128 }, { 128, 128 } },
        { "{\"prompt\":\"a\",\"preset\":\"quality\"}", "demo", { 256, 256 }, { 256, 256 } },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"auto\",\"aspect_ratio\":\"3:2\"}}",
          "turbo",
          { 1248, 832 },
          { 1248, 832 } },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"2k\",\"aspect_ratio\":\"16:9\"}}",
          "turbo",
          { 2736, 1536 },
          { 2736, 1536 } },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"custom\",\"width\":1000,\"height\":500}}",
          "turbo",
          { 1008, 512 },
          { 1000, 500 } },
        { "{\"prompt\":\"a\",\"size\":{\"mode\":\"custom\",\"width\":4000,\"height\":2000}}",
          "turbo",
          { 1456, 720 },
          { 4000, 2000 } },
        { "{\"prompt\":\"a\"," SOURCE "}", "turbo", { 1248, 832 }, { 1248, 832 } },
        { "{\"prompt\":\"a\"," SOURCE ",\"size\":{\"mode\":\"source\"}}", "turbo", { 1248, 832 }, { 3000, 2000 } },
        { "{\"prompt\":\"a\"," MASKED "}", "turbo", { 1248, 832 }, { 3000, 2000 } },
        { "{\"prompt\":\"a\"," MASKED_SMALL "}", "turbo", { 640, 480 }, { 640, 480 } },
        { "{\"prompt\":\"a\"," SMALL ",\"outpaint\":{\"left\":100,\"bottom\":8}}",
          "turbo",
          { 752, 496 },
          { 740, 488 } },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_studio_plan p;
        char pointer[600];
        assert_true(plan(rows[i].body, false, rows[i].profile, UINT64_MAX, &p, pointer, sizeof pointer));
        if (p.working_width != rows[i].work[0] || p.working_height != rows[i].work[1] ||
            p.result_width != rows[i].result[0] || p.result_height != rows[i].result[1])
            fail_msg("%s: works at %u x %u for %u x %u", rows[i].body, p.working_width, p.working_height,
                     p.result_width, p.result_height);
        assert_int_equal(p.working_width % 16, 0);
        assert_int_equal(p.blocking_count, 0);
    }
}

static void what_is_larger_than_drawn_is_enlarged(void **state) {
    (void)state;
    kn_studio_plan p;
    char pointer[600];
    assert_true(plan("{\"prompt\":\"a\"}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_string_equal(p.upscaler, "");
    assert_true(
        plan("{\"prompt\":\"a\",\"upscale\":{\"factor\":2}}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_int_equal(p.result_width, 2048);
    assert_string_equal(p.upscaler, "lanczos");
    assert_true(plan("{\"prompt\":\"a\",\"upscale\":{\"factor\":2,\"upscaler\":\"nonsense\"}}", false, "turbo",
                     UINT64_MAX, &p, pointer, sizeof pointer));
    assert_int_equal(p.blocking_count, 1);
    assert_string_equal(p.blocking[0].code, "missing_model");
    assert_true(plan("{\"upscale\":{\"factor\":2},\"input_id\":\"" ID_A "\"}", true, "turbo", UINT64_MAX, &p, pointer,
                     sizeof pointer));
    assert_int_equal(p.kind, KN_KIND_UPSCALE);
    assert_int_equal(p.result_width, 6000);
    assert_false(plan("{\"upscale\":{\"factor\":8},\"input_id\":\"" ID_A "\"}", true, "turbo", UINT64_MAX, &p, pointer,
                      sizeof pointer));
    assert_string_equal(pointer, "/upscale");
}

static void a_picture_shrinks_until_memory_does(void **state) {
    (void)state;
    kn_studio_plan p;
    char pointer[600];
    const char *body = "{\"prompt\":\"a\",\"preset\":\"quality\"}";
    assert_true(plan(body, false, "turbo", (uint64_t)2 << 30, &p, pointer, sizeof pointer));
    assert_int_equal(p.note_count, 1);
    assert_string_equal(p.notes[0].code, "size_reduced_for_memory");
    assert_true(p.working_width < 2048 && p.working_width > 256);
    assert_true(p.estimate_bytes <= p.budget_bytes);
    assert_true(plan(body, false, "turbo", (uint64_t)100 << 20, &p, pointer, sizeof pointer));
    assert_string_equal(p.blocking[0].code, "out_of_memory");
    settings.memory_override_mib = 32 << 10; /* wins over what was found */
    assert_true(plan(body, false, "turbo", (uint64_t)100 << 20, &p, pointer, sizeof pointer));
    assert_int_equal(p.blocking_count, 0);
    assert_int_equal(p.budget_bytes, (uint64_t)32 << 30);
}

static kn_studio_plan enlarging(const char *body, bool alone, uint64_t memory) {
    kn_studio_plan p;
    char pointer[600];
    assert_true(plan(body, alone, "turbo", memory, &p, pointer, sizeof pointer));
    return p;
}

/* A network that enlarges by 4, of 64 MiB. */
static void install_upscaler(void) {
    kn_upscale_choice *u = &upscalers.items[upscalers.count++];
    *u = (kn_upscale_choice){ .id = "network", .bytes = 64 << 20, .measured = true, .factor = 4 };
    u->file = strdup("network.safetensors");
}

static void enlarging_counts_as_memory_and_goes_in_tiles_that_fit(void **state) {
    (void)state;
    const uint64_t mib = 1 << 20;
    const char *alone = "{\"upscale\":{\"factor\":2,\"upscaler\":\"network\"},\"input_id\":\"" ID_A "\"}";
    const char *filter = "{\"upscale\":{\"factor\":2},\"input_id\":\"" ID_A "\"}";
    install_upscaler();

    kn_studio_plan p = enlarging(filter, true, UINT64_MAX); /* 3000 by 2000 to 6000 by 4000: 42 and 168 MB */
    assert_int_equal(p.estimate_bytes, 210000000);
    p = enlarging(filter, true, 100 * mib);
    assert_string_equal(p.blocking[0].code, "out_of_memory");

    /* The network makes 12000 by 8000 of it, and sees 832 by 832 pixels at a time. */
    const uint64_t pictures = 210000000 + 288000000, file = 64 * mib;
    p = enlarging(alone, true, UINT64_MAX);
    assert_int_equal(p.tile_size, 768);
    assert_int_equal(p.estimate_bytes, pictures + file + 832 * 832 * 1800 + 28 * mib);
    p = enlarging(alone, true, 14336 * mib);
    assert_int_equal(p.tile_size, 768);
    p = enlarging(alone, true, 1024 * mib);
    assert_int_equal(p.tile_size, 256);
    assert_int_equal(p.estimate_bytes, pictures + file + 320 * 320 * 1800 + 28 * mib);
    assert_int_equal(p.note_count + p.blocking_count, 0);
    p = enlarging(alone, true, 700 * mib);
    assert_int_equal(p.tile_size, 128);
    assert_int_equal(p.note_count + p.blocking_count, 0); /* nobody asked for others */
    p = enlarging(alone, true, 500 * mib);
    assert_int_equal(p.blocking_count, 1);
    assert_string_equal(p.blocking[0].code, "out_of_memory");

    alone = "{\"upscale\":{\"factor\":2,\"upscaler\":\"network\",\"tile_size\":768},\"input_id\":\"" ID_A "\"}";
    p = enlarging(alone, true, 1024 * mib);
    assert_int_equal(p.tile_size, 256);
    assert_int_equal(p.note_count, 1);
    assert_string_equal(p.notes[0].code, "tiles_reduced_for_memory");
    assert_int_equal(p.blocking_count, 0);
    settings.upscale_tile_size = 131; /* no upscaler takes that */
    p = enlarging("{\"upscale\":{\"factor\":2,\"upscaler\":\"network\"},\"input_id\":\"" ID_A "\"}", true, UINT64_MAX);
    assert_int_equal(p.tile_size, 128);
}

static void without_a_size_a_network_enlarges_as_it_is_made_to(void **state) {
    (void)state;
    const char *filter = "{\"upscale\":{},\"input_id\":\"" ID_B "\"}";
    const char *network = "{\"upscale\":{\"upscaler\":\"network\"},\"input_id\":\"" ID_B "\"}";
    install_upscaler();
    kn_studio_plan p = enlarging(filter, true, UINT64_MAX); /* 640 by 480 */
    assert_int_equal(p.result_width, 1280);
    assert_string_equal(p.upscaler, "lanczos");
    p = enlarging(network, true, UINT64_MAX);
    assert_int_equal(p.result_width, 2560);
    assert_int_equal(p.result_height, 1920);
    assert_string_equal(p.upscaler, "network");
    snprintf(settings.upscaler, sizeof settings.upscaler, "network");
    p = enlarging(filter, true, UINT64_MAX);
    assert_int_equal(p.result_width, 2560);
    upscalers.items[upscalers.count - 1].measured = false;
    upscalers.items[upscalers.count - 1].factor = 0;
    p = enlarging(network, true, UINT64_MAX); /* nobody had the time to measure it */
    assert_int_equal(p.result_width, 1280);
    assert_int_equal(p.blocking_count, 0);
    upscalers.items[upscalers.count - 1].measured = true;
    p = enlarging(network, true, UINT64_MAX); /* no file that can be used */
    assert_string_equal(p.blocking[0].code, "missing_model");
    p = enlarging(filter, true, UINT64_MAX);
    assert_string_equal(p.notes[0].code, "upscaler_missing");
    assert_string_equal(p.upscaler, "lanczos");
}

static void smaller_tiles_are_some_that_can_be_used(void **state) {
    (void)state;
    for (uint32_t tile = 132; tile <= 2048; tile += 4) {
        uint32_t smaller = kn_plan_smaller_tile(tile);
        assert_true(smaller >= 128 && smaller < tile && smaller % 4 == 0);
    }
    assert_int_equal(kn_plan_smaller_tile(768), 256);
    assert_int_equal(kn_plan_smaller_tile(0), 256);
    assert_int_equal(kn_plan_smaller_tile(128), 0);
    assert_int_equal(kn_plan_smaller_tile(64), 0);
}

static void what_is_drawn_and_enlarged_needs_the_more_of_both(void **state) {
    (void)state;
    const char *drawn = "{\"prompt\":\"a\"}", *enlarged = "{\"prompt\":\"a\",\"upscale\":{\"factor\":8,\"upscaler\":"
                                                          "\"network\"}}";
    install_upscaler();
    kn_studio_plan less = enlarging(drawn, false, UINT64_MAX), more = enlarging(enlarged, false, UINT64_MAX);
    assert_int_equal(more.result_width, 8192);
    assert_true(more.estimate_bytes > less.estimate_bytes);
    uint64_t between = (less.estimate_bytes + more.estimate_bytes) / 2;
    kn_studio_plan p = enlarging(enlarged, false, between);
    assert_int_equal(p.working_width, 1024); /* as large as if it were not enlarged */
    assert_int_equal(p.tile_size, 256);
    assert_in_range(p.estimate_bytes, less.estimate_bytes, between);
    assert_int_equal(p.blocking_count, 0);
    p = enlarging("{\"prompt\":\"a\",\"upscale\":{\"factor\":2}}", false,
                  UINT64_MAX); /* by the filter: next to nothing */
    assert_int_equal(p.estimate_bytes, less.estimate_bytes);
}

static void turbo_has_its_own_steps_and_no_negative_prompt(void **state) {
    (void)state;
    kn_studio_plan p;
    char pointer[600];
    assert_true(
        plan("{\"prompt\":\"a\",\"negative_prompt\":\"b\"}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    /* of the checkpoint's own description */
    static const double sigmas[] = { 1, .978453, .95418, .926626, .89508, .845148, .704534, .414568, 0 };
    assert_int_equal(p.steps, 8);
    for (size_t i = 0; i < KN_COUNT(sigmas); i++)
        assert_true(fabs((double)p.sigmas.at[i] - sigmas[i]) < 1e-6);
    assert_string_equal(p.sampler, "euler");
    assert_string_equal(p.notes[0].code, "negative_prompt_ignored");
    assert_true(
        plan("{\"prompt\":\"a\",\"negative_prompt\":\"b\"}", false, "zimage", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_int_equal(p.note_count, 0);
}

static void time_is_told_only_by_a_machine_that_was_measured(void **state) {
    (void)state;
    kn_studio_plan p, larger;
    char pointer[600];
    assert_true(plan("{\"prompt\":\"a\"}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_true(p.seconds < 0);
    assert_true(plan("{\"prompt\":\"a\",\"preset\":\"quality\"}", false, "turbo", UINT64_MAX, &larger, pointer,
                     sizeof pointer));
    assert_true(larger.units > 4 * p.units && larger.units < 16 * p.units);
}

static void references_are_seen_at_their_own_sizes(void **state) {
    (void)state;
    kn_studio_plan p;
    char pointer[600];
    assert_true(plan("{\"prompt\":\"a\"," REFERENCES "}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_int_equal(p.reference_count, 2);
    assert_int_equal(p.references[0].width, 1248);
    assert_int_equal(p.references[0].height, 832);
    assert_int_equal(p.references[1].width, 1184);
    assert_int_equal(p.references[1].height, 896);
}

static void a_plan_is_complete_as_clients_see_it(void **state) {
    (void)state;
    static const char *const members[] = {
        "kind",        "profile",   "working_width",   "working_height", "result_width",      "result_height",
        "source_crop", "paste",     "steps",           "guidance",       "sampler",           "sigmas",
        "upscaler",    "tile_size", "reference_sizes", "memory",         "estimated_seconds", "notes",
        "blocking",
    };
    kn_studio_plan p;
    char pointer[600];
    assert_true(plan("{\"prompt\":\"a\"," MASKED "}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    json_t *j = kn_studio_plan_json(&p);
    assert_non_null(j);
    for (size_t i = 0; i < KN_COUNT(members); i++)
        if (!json_object_get(j, members[i]))
            fail_msg("%s is missing", members[i]);
    json_decref(j);
}

static void a_model_that_sees_no_pictures_starts_from_one(void **state) {
    (void)state;
    kn_studio_plan p;
    char pointer[600];
    assert_false(plan("{\"prompt\":\"a\"," SOURCE "}", false, "zimage", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_string_equal(pointer, "/inputs");
    wish = (kn_plan_wish){ .strength = { true, 0 } };
    assert_true(plan("{\"prompt\":\"a\"," SOURCE "}", false, "zimage", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_int_equal(p.kind, KN_KIND_EDIT);
    assert_true(p.strength.given && p.strength.value > 0);
    assert_false(plan("{\"prompt\":\"a\"," REFERENCES "}", false, "zimage", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_true(plan("{\"prompt\":\"a\"," SOURCE "}", false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_false(p.strength.given); /* it sees the picture */
}

static bool is_adjusted(const kn_studio_plan *p) {
    return p->note_count == 1 && !strcmp(p->notes[0].code, "settings_adjusted");
}

static void wishes_count_as_far_as_the_model_can(void **state) {
    (void)state;
    kn_studio_plan p;
    char pointer[600];
    wish = (kn_plan_wish){ .steps = { true, 7 }, .cfg = { true, 2.5 } };
    assert_true(plan(REQUEST, false, "zimage", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_int_equal(p.steps, 7);
    assert_float_equal(p.guidance, 2.5, 0);
    assert_int_equal(p.note_count, 0);
    wish = (kn_plan_wish){ .steps = { true, 4000 }, .cfg = { true, -1 } };
    assert_true(plan(REQUEST, false, "zimage", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_int_equal(p.steps, 100); /* what the worker takes */
    assert_float_equal(p.guidance, 0, 0);
    assert_true(is_adjusted(&p));
    wish = (kn_plan_wish){ .cfg = { true, 7 } };
    assert_true(plan(REQUEST, false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
    assert_float_equal(p.guidance, 1, 0);
    assert_true(is_adjusted(&p));
}

static void colours_that_are_not_srgb_are_noted(void **state) {
    (void)state;
    static const struct {
        const char *body;
        char others;
        bool noted;
    } rows[] = {
        { "{\"prompt\":\"a\"," SOURCE "}", 0, false },
        { "{\"prompt\":\"a\"," SOURCE "}", 'a', true },
        { "{\"prompt\":\"a\"," REFERENCES "}", 'b', true },
        { "{\"prompt\":\"a\"," MASKED "}", 'a', true },
        { "{\"prompt\":\"a\"," MASKED "}", 'b', false },                                  /* a mask has none */
        { "{\"prompt\":\"a\",\"output\":{\"format\":\"jpeg\"}," SOURCE "}", 'a', false }, /* the profile goes along */
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_studio_plan p;
        char pointer[600];
        bool noted = false;
        other_colours = rows[i].others;
        assert_true(plan(rows[i].body, false, "turbo", UINT64_MAX, &p, pointer, sizeof pointer));
        for (size_t k = 0; k < p.note_count; k++)
            noted = noted || strcmp(p.notes[k].code, "colour_profile_ignored") == 0;
        if (noted != rows[i].noted)
            fail_msg("%s with %c: %s", rows[i].body, rows[i].others, noted ? "noted" : "not noted");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, done)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_mask_is_as_large_as_its_picture),
        TEST(a_mask_shows_the_model_what_to_draw),
        TEST(a_request_says_how_it_is_worked_on),
        TEST(a_canvas_too_large_is_refused_in_figures),
        TEST(a_canvas_larger_than_the_model_works_on_is_drawn_smaller),
        TEST(sizes_follow_preset_shape_and_source),
        TEST(what_is_larger_than_drawn_is_enlarged),
        TEST(a_picture_shrinks_until_memory_does),
        TEST(enlarging_counts_as_memory_and_goes_in_tiles_that_fit),
        TEST(without_a_size_a_network_enlarges_as_it_is_made_to),
        TEST(smaller_tiles_are_some_that_can_be_used),
        TEST(what_is_drawn_and_enlarged_needs_the_more_of_both),
        TEST(turbo_has_its_own_steps_and_no_negative_prompt),
        TEST(time_is_told_only_by_a_machine_that_was_measured),
        TEST(references_are_seen_at_their_own_sizes),
        TEST(a_model_that_sees_no_pictures_starts_from_one),
        TEST(colours_that_are_not_srgb_are_noted),
        TEST(wishes_count_as_far_as_the_model_can),
        TEST(a_plan_is_complete_as_clients_see_it),
    };
    return cmocka_run_group_tests_name("studio planner", tests, NULL, NULL);
}
