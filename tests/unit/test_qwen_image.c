/* Qwen-Image up to 2512 and its parts against the recorded outputs of the reference implementations, in exact
 * precision: the network by itself, then whole pictures; and which files it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_model.h"
#include "models/qwen_image.h"

/* Diffusion transformer. */

static void take_transformer(void *network, kn_binder *b) {
    kn_qwen_image_load(network, b);
}

static golden open_case_file(const char *folder, const char *file) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return golden_open(path);
}

static int grid(json_t *c, size_t picture, size_t axis) {
    return (int)json_integer_value(json_array_get(json_array_get(json_object_get(c, "grids"), picture), axis));
}

/* grids: the picture that is drawn, then what the prompt is about. */
static void run_dit_case(const char *folder, const kn_qwen_image *m) {
    static const char *const first_parts[] = { "norm_out", NULL }; /* only the drawn picture's rows are needed */
    char path[256];
    print_message("  %s\n", folder);
    snprintf(path, sizeof path, "%s/case.json", folder);
    json_t *c = golden_json(path);
    golden in = open_case_file(folder, "inputs.safetensors"), want = open_case_file(folder, "expected.safetensors");
    struct watcher watch = { .want = &want, .front = "", .first_parts = first_parts };
    kn_run r = open_run(&watch);

    kn_qwen_image_picture pictures[2] = { 0 };
    size_t count = json_array_size(json_object_get(c, "grids")), n = 0;
    assert_true(count <= KN_COUNT(pictures));
    for (size_t i = 0; i < count; i++) {
        char name[32];
        int h = grid(c, i, 0), w = grid(c, i, 1);
        snprintf(name, sizeof name, "tokens%zu", i);
        const float *patches = golden_floats(&in, name, &n);
        assert_int_equal(n, h * w * m->patch_width);
        pictures[i] =
            (kn_qwen_image_picture){ kn_upload(&r, 2, (int64_t[]){ h * w, m->patch_width }, patches), .h = h, .w = w };
    }
    const float *text = golden_floats(&in, "encoder_hidden_states", &n);
    kn_tensor words = kn_upload(&r, 2, (int64_t[]){ (int64_t)n / m->text_width, m->text_width }, text);
    words = kn_qwen_image_read_text(&r, m, words);
    kn_tensor v = kn_qwen_image_velocity(&r, m, words, pictures, (int)count, (float)golden_number(c, "timestep"));
    assert_int_equal(kn_elements(v), golden_entry(&want, "output")->elements);
    assert_int_equal(watch.compared, kn_weights_count(want.file)); /* every recorded tensor */
    close_run(&r);
    golden_close(&in);
    golden_close(&want);
    json_decref(c);
}

static void transformer_equals_the_reference(void **state) {
    (void)state;
    static const char *const cases[] = { "qwen2512/dit/t2i", "qwen2512/dit/t2i-odd", "qwen2512/dit/edit" };
    static kn_qwen_image m;
    bound b = bind_file("qwen2512/dit/weights.safetensors", "", take_transformer, &m);
    for (size_t i = 0; i < KN_COUNT(cases); i++)
        run_dit_case(cases[i], &m);
    unbind(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformer_equals_the_reference),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
