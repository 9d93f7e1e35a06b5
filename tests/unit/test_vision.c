/* Vision encoders, and text models with pictures among their tokens, against the recorded outputs of the reference
 * implementations, in exact precision. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "image/read.h"
#include "image/transform.h"
#include "models/qwen25_text.h"
#include "models/qwen25_vision.h"
#include "models/qwen3_text.h"
#include "models/qwen_vision.h"

enum { MAX_PICTURES = 4, NAMES = 24 };

static kn_device *device;

/* The reference ran all pictures as one sequence; ours come one after the other. What the first ones showed waits here
 * for the rest. */
struct collected {
    char name[64];
    float *at;
    size_t count;
    int parts;
};

struct watcher {
    const golden *want;
    int parts;
    bool other_patches; /* than recorded, in order or form; what becomes of them is the same */
    struct collected list[NAMES];
    int count, compared;
};

static void collect(void *ctx, kn_run *r, const char *name, kn_tensor t) {
    struct watcher *w = ctx;
    int layer = 0;
    char full[64];
    if (sscanf(name, "hidden_states.%d", &layer) == 1)
        snprintf(full, sizeof full, "layer%d", layer - 1);
    else
        snprintf(full, sizeof full, "%s%s", strcmp(name, "patches") == 0 ? "" : "vision.", name);
    bool patches = strcmp(name, "patches") == 0 || strcmp(name, "patch_embed") == 0;
    if (!golden_has(w->want, full) || (patches && w->other_patches))
        return;
    struct collected *c = w->list;
    while (c < w->list + w->count && strcmp(c->name, full) != 0)
        c++;
    assert_true(c < w->list + NAMES);
    if (c == w->list + w->count)
        snprintf(w->list[w->count++].name, sizeof c->name, "%s", full);
    size_t n = (size_t)kn_elements(t);
    c->at = realloc(c->at, (c->count + n) * sizeof *c->at);
    assert_non_null(c->at);
    kn_download(r, t, c->at + c->count);
    c->count += n;
    if (++c->parts < w->parts)
        return;
    golden_compare(w->want, full, c->at, c->count);
    w->compared++;
    free(c->at);
    c->at = NULL;
}

static void watch(kn_run *r, struct watcher *w, const golden *want, int parts) {
    *w = (struct watcher){ .want = want, .parts = parts };
    r->watch = collect;
    r->watch_ctx = w;
}

static kn_run open_run(void) {
    kn_run r;
    kn_error err = { 0 };
    assert_true(kn_run_open(device, KN_EXACT, NULL, 0, &r, &err));
    return r;
}

static void close_run(kn_run *r) {
    if (r->err.code != KN_OK)
        fail_msg("%s", r->err.text);
    kn_run_close(r);
}

static void compare_all(kn_run *r, const golden *g, const char *name, kn_tensor t) {
    float *values = malloc(sizeof *values * (size_t)kn_elements(t));
    kn_download(r, t, values);
    golden_compare(g, name, values, (size_t)kn_elements(t));
    free(values);
}

static kn_image read_rgb(const char *folder, int i) {
    char path[64];
    snprintf(path, sizeof path, "%s/images/image%d.png", folder, i);
    KN_AUTO_BUF file;
    golden_read(path, &file);
    kn_image image = { 0 }, rgb = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_read(file.data, file.len, &KN_IMAGE_LIMITS, &image, &err));
    assert_true(kn_image_over_white(&image, &rgb, &err));
    kn_image_free(&image);
    return rgb;
}

/* Where the pictures' tokens are: the runs of that id. */
static void find_runs(const int32_t *ids, size_t n, int32_t id, int64_t at[MAX_PICTURES], int pictures) {
    int found = 0;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] != id || (i > 0 && ids[i - 1] == id))
            continue;
        assert_true(found < pictures);
        at[found++] = (int64_t)i;
    }
    assert_int_equal(found, pictures);
}

static void expect_positions(const golden *g, const kn_rope_picture *places, int count, int64_t n) {
    const int32_t *want = golden_ints(g, "position_ids", NULL); /* [3, n] */
    float *got = malloc(sizeof *got * 3 * (size_t)n);
    kn_rope_count_positions(places, count, n, got);
    for (int64_t i = 0; i < 3 * n; i++)
        assert_int_equal((int32_t)got[i], want[i % 3 * n + i / 3]);
    free(got);
}

/* What case.json tells of a folder's model and pictures. */
struct tiny {
    int pictures;
    int32_t image_pad;
    kn_vision_layout vision;
    kn_vision25_layout vision25;
    kn_qwen25_layout text25;
};

static int item(const json_t *list, size_t i) {
    return (int)json_integer_value(json_array_get(list, i));
}

static struct tiny read_tiny(const char *folder) {
    char path[64];
    snprintf(path, sizeof path, "%s/images/case.json", folder);
    json_t *c = golden_json(path), *config = json_object_get(c, "config");
    json_t *text = json_object_get(config, "text"), *vision = json_object_get(config, "vision");
    json_t *deepstack = json_object_get(vision, "deepstack_visual_indexes");
    json_t *whole = json_object_get(vision, "fullatt_block_indexes");
    json_t *sections = json_object_get(json_object_get(text, "rope_parameters"), "mrope_section");
    int depth = (int)golden_size(vision, "depth"), heads = (int)golden_size(vision, "num_heads");
    int64_t width = (int64_t)golden_size(vision, "hidden_size");
    size_t cell = golden_size(vision, "patch_size") * golden_size(vision, "spatial_merge_size");
    struct tiny t = {
        .pictures = (int)golden_size(c, "images"),
        .image_pad = (int32_t)golden_size(text, "vocab_size") - 2, /* these vocabularies end with it and its video */
        .vision = { .depth = depth,
                    .width = width,
                    .heads = heads,
                    .deepstack_count = (int)json_array_size(deepstack) },
        .vision25 = { .depth = depth, .width = width, .heads = heads },
        .text25 = { .head = (int)(golden_size(text, "hidden_size") / golden_size(text, "num_attention_heads")) },
    };
    assert_in_range(t.pictures, 1, MAX_PICTURES);
    assert_in_range(t.vision.deepstack_count, 0, KN_VISION_MAX_DEEPSTACK);
    t.vision25.window = (int)(golden_size(vision, "window_size") / cell);
    for (size_t i = 0; i < json_array_size(deepstack); i++)
        t.vision.deepstack[i] = item(deepstack, i);
    for (size_t i = 0; i < json_array_size(whole); i++)
        t.vision25.whole |= (uint64_t)1 << item(whole, i);
    for (size_t i = 0; i < 3; i++)
        t.text25.sections[i] = item(sections, i);
    json_decref(c);
    return t;
}

struct qwen3 {
    kn_qwen3_text text;
    kn_qwen_vision vision;
};

static void take_qwen3_text(void *network, kn_binder *b) {
    kn_qwen3_text_load(network, b, 5e6);
    kn_ignore_outside(b, "visual.");
}

static void take_qwen3_vision(void *network, kn_binder *b) {
    kn_qwen_vision_load(network, b);
    kn_ignore_outside(b, "model.");
}

static void qwen3_reads_a_prompt_as_the_reference(void **state) {
    (void)state;
    static kn_qwen3_text m;
    bound b = bind_file("qwen3-vl/weights.safetensors", "model.", take_qwen3_text, &m);
    golden g = golden_open("qwen3-vl/text/expected.safetensors");
    size_t n = 0;
    const int32_t *ids = golden_ints(&g, "input_ids", &n);
    expect_positions(&g, NULL, 0, (int64_t)n);
    struct watcher w;
    kn_run r = open_run();
    watch(&r, &w, &g, 1);
    kn_qwen3_text_forward(&r, &m, ids, (int64_t)n, m.layers);
    close_run(&r);
    assert_int_equal(w.compared, m.layers);
    golden_close(&g);
    unbind(&b);
}

static void see_with(const char *vision_file) {
    static struct qwen3 m;
    const struct tiny tiny = read_tiny("qwen3-vl");
    m.vision.layout = tiny.vision;
    bound vision = bind_file(vision_file, "visual.", take_qwen3_vision, &m.vision);
    bound text = bind_file("qwen3-vl/weights.safetensors", "model.", take_qwen3_text, &m.text);
    golden g = golden_open("qwen3-vl/images/expected.safetensors");
    const int32_t *grids = golden_ints(&g, "grid_thw", NULL); /* [pictures, 3] */
    size_t n = 0;
    const int32_t *ids = golden_ints(&g, "input_ids", &n);
    int64_t at[MAX_PICTURES];
    find_runs(ids, n, tiny.image_pad, at, tiny.pictures);

    struct watcher w;
    kn_run r = open_run();
    watch(&r, &w, &g, tiny.pictures);
    w.other_patches = m.vision.patch_in.frames == 1;
    kn_vision_features seen[MAX_PICTURES];
    kn_rope_picture places[MAX_PICTURES];
    for (int i = 0; i < tiny.pictures; i++) {
        kn_image rgb = read_rgb("qwen3-vl", i);
        assert_int_equal(rgb.height / 16, grids[3 * i + 1]);
        assert_int_equal(rgb.width / 16, grids[3 * i + 2]);
        kn_qwen_vision_forward(&r, &m.vision, rgb.pixels, (int)rgb.height, (int)rgb.width, &seen[i]);
        places[i] = (kn_rope_picture){ .at = at[i], .rows = grids[3 * i + 1] / 2, .columns = grids[3 * i + 2] / 2 };
        kn_image_free(&rgb);
    }
    assert_int_equal(w.compared, (w.other_patches ? 0 : 2) + tiny.vision.depth + tiny.vision.deepstack_count + 1);

    expect_positions(&g, places, tiny.pictures, (int64_t)n);
    watch(&r, &w, &g, 1);
    kn_tensor x = kn_qwen3_text_forward_pictures(&r, &m.text, ids, (int64_t)n, places, seen, tiny.pictures);
    assert_int_equal(w.compared, m.text.layers);
    compare_all(&r, &g, "pre_norm", x);
    close_run(&r);
    golden_close(&g);
    unbind(&text);
    unbind(&vision);
}

static void qwen3_sees_pictures_as_the_reference(void **state) {
    (void)state;
    see_with("qwen3-vl/weights.safetensors");
}

static void qwen3_sees_the_same_with_a_gguf_file(void **state) {
    (void)state;
    see_with("qwen3-vl/mmproj.gguf");
}

static void take_qwen25_text(void *network, kn_binder *b) {
    kn_qwen25_text *m = network;
    m->layout = read_tiny("qwen25-vl").text25;
    kn_qwen25_text_load(m, b);
    kn_ignore_outside(b, "visual.");
}

static void take_qwen25_vision(void *network, kn_binder *b) {
    kn_qwen25_vision *m = network;
    m->layout = read_tiny("qwen25-vl").vision25;
    kn_qwen25_vision_load(m, b);
    kn_ignore_outside(b, "model.");
}

static void qwen25_reads_a_prompt_as_the_reference(void **state) {
    (void)state;
    static kn_qwen25_text m;
    bound b = bind_file("qwen25-vl/weights.safetensors", "model.", take_qwen25_text, &m);
    golden g = golden_open("qwen25-vl/text/expected.safetensors");
    size_t n = 0;
    const int32_t *ids = golden_ints(&g, "input_ids", &n);
    struct watcher w;
    kn_run r = open_run();
    watch(&r, &w, &g, 1);
    compare_all(&r, &g, "post_norm", kn_qwen25_text_forward(&r, &m, ids, (int64_t)n, NULL, NULL, 0));
    close_run(&r);
    assert_int_equal(w.compared, m.layers);
    golden_close(&g);
    unbind(&b);
}

static void qwen25_sees_with(const char *vision_file) {
    const struct tiny tiny = read_tiny("qwen25-vl");
    static kn_qwen25_text text;
    static kn_qwen25_vision vision;
    bound v = bind_file(vision_file, "visual.", take_qwen25_vision, &vision);
    bound t = bind_file("qwen25-vl/weights.safetensors", "model.", take_qwen25_text, &text);
    golden g = golden_open("qwen25-vl/images/expected.safetensors");
    const int32_t *grids = golden_ints(&g, "grid_thw", NULL); /* [pictures, 3] */
    size_t n = 0;
    const int32_t *ids = golden_ints(&g, "input_ids", &n);
    int64_t at[MAX_PICTURES];
    find_runs(ids, n, tiny.image_pad, at, tiny.pictures);

    struct watcher w;
    kn_run r = open_run();
    watch(&r, &w, &g, tiny.pictures);
    w.other_patches = true; /* ours come window by window, as all that follows */
    kn_tensor rows[MAX_PICTURES];
    kn_rope_picture places[MAX_PICTURES];
    for (int i = 0; i < tiny.pictures; i++) {
        kn_image rgb = read_rgb("qwen25-vl", i);
        assert_int_equal(rgb.height / 14, grids[3 * i + 1]);
        assert_int_equal(rgb.width / 14, grids[3 * i + 2]);
        rows[i] = kn_qwen25_vision_forward(&r, &vision, rgb.pixels, (int)rgb.height, (int)rgb.width);
        places[i] = (kn_rope_picture){ .at = at[i], .rows = grids[3 * i + 1] / 2, .columns = grids[3 * i + 2] / 2 };
        kn_image_free(&rgb);
    }
    assert_int_equal(w.compared, tiny.vision25.depth + 1);

    expect_positions(&g, places, tiny.pictures, (int64_t)n);
    watch(&r, &w, &g, 1);
    compare_all(&r, &g, "post_norm", kn_qwen25_text_forward(&r, &text, ids, (int64_t)n, places, rows, tiny.pictures));
    assert_int_equal(w.compared, text.layers);
    close_run(&r);
    golden_close(&g);
    unbind(&t);
    unbind(&v);
}

static void qwen25_sees_pictures_as_the_reference(void **state) {
    (void)state;
    qwen25_sees_with("qwen25-vl/weights.safetensors");
}

static void qwen25_sees_the_same_with_a_gguf_file(void **state) {
    (void)state;
    qwen25_sees_with("qwen25-vl/mmproj.gguf");
}

static void a_layout_that_does_not_fit_is_refused(void **state) {
    (void)state;
    static const struct {
        kn_vision_layout layout;
        const char *says;
    } rows[] = {
        { { 0 }, "5 blocks of width 32 are no published tower" },
        { { .depth = 6, .width = 32, .heads = 2, .deepstack_count = 3 }, "5 blocks of width 32 and 3 deepstack" },
        { { .depth = 5, .width = 64, .heads = 2, .deepstack_count = 3 }, "its configuration says 5, 64 and 3" },
        { { .depth = 5, .width = 32, .heads = 2, .deepstack_count = 2 }, "its configuration says 5, 32 and 2" },
        { { .depth = 5, .width = 32, .heads = 3, .deepstack_count = 3 }, "3 heads do not divide" },
    };
    golden g = golden_open(SHIPPED "/qwen3-vl/weights.safetensors");
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        static kn_qwen_vision m;
        m.layout = rows[i].layout;
        kn_binder *b = NULL;
        kn_error err = { 0 };
        assert_true(kn_binder_new(g.file, "visual.", true, &b, &err));
        take_qwen3_vision(&m, b);
        assert_false(kn_binder_finish(b, &err));
        if (!strstr(err.text, rows[i].says))
            fail_msg("says '%s', not '%s'", err.text, rows[i].says);
        kn_binder_free(b);
    }
    golden_close(&g);
}

static int open_device(void **state) {
    (void)state;
    kn_error err = { 0 };
    return kn_device_open_cpu(2, &device, &err) ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    kn_device_close(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_reads_a_prompt_as_the_reference),
        cmocka_unit_test(qwen3_sees_pictures_as_the_reference),
        cmocka_unit_test(qwen3_sees_the_same_with_a_gguf_file),
        cmocka_unit_test(qwen25_reads_a_prompt_as_the_reference),
        cmocka_unit_test(qwen25_sees_pictures_as_the_reference),
        cmocka_unit_test(qwen25_sees_the_same_with_a_gguf_file),
        cmocka_unit_test(a_layout_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
