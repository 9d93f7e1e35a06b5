/* The few fields of a config.json beside a model file. */
#include <string.h>

#include "golden.h"
#include "pipelines/config_json.h"

static bool read_text(const char *text, kn_vl_config *ret, kn_error *err) {
    return kn_vl_config_read(text, strlen(text), ret, err);
}

static void expect(const kn_vl_config *got, int depth, int64_t width, int heads, const int deepstack[3],
                   const int sections[3]) {
    assert_int_equal(got->vision.depth, depth);
    assert_int_equal(got->vision.width, width);
    assert_int_equal(got->vision.heads, heads);
    assert_int_equal(got->vision.deepstack_count, 3);
    assert_memory_equal(got->vision.deepstack, deepstack, 3 * sizeof(int));
    assert_memory_equal(got->sections, sections, 3 * sizeof(int));
}

static void both_forms_of_transformers_are_read(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"model_type\": \"qwen3_vl\", \"text_config\": {\"rope_parameters\": {\"rope_theta\": 5e6, "
        "\"mrope_section\": [24, 20, 20]}}, \"vision_config\": {\"depth\": 27, \"hidden_size\": 1152, \"num_heads\": "
        "16, \"deepstack_visual_indexes\": [8, 16, 24], \"patch_size\": 16}}",
        "{\"vision_config\": {\"num_heads\": 16, \"deepstack_visual_indexes\": [8, 16, 24], \"depth\": 27, "
        "\"hidden_size\": 1152}, \"text_config\": {\"rope_theta\": 5000000, \"rope_scaling\": {\"mrope_interleaved\": "
        "true, \"mrope_section\": [24, 20, 20], \"rope_type\": \"default\"}}}",
    };
    for (size_t i = 0; i < KN_COUNT(texts); i++) {
        kn_vl_config c;
        kn_error err = { 0 };
        if (!read_text(texts[i], &c, &err))
            fail_msg("%s", err.text);
        expect(&c, 27, 1152, 16, (int[]){ 8, 16, 24 }, (int[]){ 24, 20, 20 });
    }
}

static void windows_of_qwen25_are_read(void **state) {
    (void)state;
    kn_vl_config c;
    kn_error err = { 0 };
    assert_true(read_text("{\"vision_config\": {\"depth\": 32, \"fullatt_block_indexes\": [7, 15, 23, 31], "
                          "\"hidden_size\": 1280, \"num_heads\": 16, \"window_size\": 112}}",
                          &c, &err));
    assert_int_equal(c.vision.depth, 32);
    assert_int_equal(c.window_pixels, 112);
    assert_int_equal(c.whole_count, 4);
    assert_memory_equal(c.whole, ((int[]){ 7, 15, 23, 31 }), 4 * sizeof(int));
}

static void the_file_beside_a_model_is_found_and_none_is_fine(void **state) {
    (void)state;
    kn_vl_config c;
    kn_error err = { 0 };
    assert_true(kn_vl_config_read_beside(SHIPPED "/qwen21-e2e/text_encoder.safetensors", &c, &err));
    expect(&c, 5, 32, 2, (int[]){ 1, 2, 3 }, (int[]){ 4, 2, 2 });
    assert_true(kn_vl_config_read_beside(golden_path("qwen3-vl/weights.safetensors").path, &c, &err));
    assert_int_equal(c.vision.depth, 0);
    assert_true(kn_vl_config_read_beside("weights.safetensors", &c, &err));
    assert_int_equal(c.vision.depth, 0);
    assert_true(kn_vl_config_read_beside(SHIPPED "/qwen21-e2e", &c, &err)); /* a folder that is the model */
    assert_int_equal(c.vision.depth, 5);
}

static void configurations_of_other_things_tell_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{\"_class_name\": \"QwenImageTransformer2DModel\", \"num_layers\": 60, \"axes_dims_rope\": [16, 56, 56]}",
        "{\"vision_config\": null, \"text_config\": {\"rope_scaling\": null}}",
    };
    for (size_t i = 0; i < KN_COUNT(texts); i++) {
        kn_vl_config c;
        kn_error err = { 0 };
        assert_true(read_text(texts[i], &c, &err));
        assert_int_equal(c.vision.depth, 0);
        assert_int_equal(c.sections[0], 0);
    }
}

static void broken_ones_are_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "", "line 1, column 1" },
        { "{\"vision_config\": {\"depth\": -1}}", "line 1" },
        { "{\"vision_config\": {\"depth\": 99999999999}}", "99999999999 is too large" },
        { "{\"vision_config\": {\"deepstack_visual_indexes\": [1, 2, 3, 4, 5]}}", "a list of more than 4 numbers" },
        { "{\"text_config\": {\"rope_scaling\": {\"mrope_section\": \"x\"}}}", "an array is expected" },
        { "{\"vision_config\": {\"depth\": 5}", "ends" },
        { "{} x", "line 1, column 4" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_vl_config c;
        kn_error err = { 0 };
        assert_false(read_text(rows[i][0], &c, &err));
        if (!strstr(err.text, rows[i][1]))
            fail_msg("'%s': says '%s', not '%s'", rows[i][0], err.text, rows[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_of_transformers_are_read),
        cmocka_unit_test(windows_of_qwen25_are_read),
        cmocka_unit_test(the_file_beside_a_model_is_found_and_none_is_fine),
        cmocka_unit_test(configurations_of_other_things_tell_nothing),
        cmocka_unit_test(broken_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
