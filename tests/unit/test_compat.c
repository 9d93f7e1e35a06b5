/* What clients of other APIs order, as requests of the studio. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/compat/compat.h"

#define FORM "multipart/form-data; boundary=b"

/* A visit as its readers see it. */
typedef struct reading {
    kn_visit visit;
    kn_compat_call call;
    kn_order order;
    kn_error err;
} reading;

static bool begin_as(reading *r, kn_compat_reader *read, const char *body, size_t len, bool needs_picture) {
    memset(r, 0, sizeof *r);
    kn_order_init(&r->order);
    kn_buf_init(&r->visit.body, 1 << 20);
    kn_buf_init(&r->visit.pointer, 200);
    assert_true(kn_buf_add(&r->visit.body, body, len));
    r->visit.compat = &r->call;
    r->visit.flag = needs_picture;
    snprintf(r->call.type, sizeof r->call.type, "%s", FORM);
    return read(&r->visit, &r->order, &r->err);
}

static bool begin(reading *r, kn_compat_reader *read, const char *body, size_t len) {
    return begin_as(r, read, body, len, false);
}

static void end(reading *r) {
    kn_order_free(&r->order);
    kn_buf_free(&r->visit.body);
    kn_buf_free(&r->visit.pointer);
}

static const char usual[] =
    "\"output\":{\"format\":\"png\",\"quality\":100,\"transparent\":false,\"embed_metadata\":true}";

/* wanted: the request without its last member, which is `usual`. */
static void becomes(kn_compat_reader *read, const char *body, const char *wanted) {
    reading r;
    if (!begin(&r, read, body, strlen(body)))
        fail_msg("%s: %s", body, r.err.text);
    char *text = kn_order_request(&r.order);
    kn_studio_request request;
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 200);
    assert_true(kn_request_read(text, strlen(text), false, &request, &pointer, NULL));
    kn_request_free(&request);
    json_t *got = json_loads(text, 0, NULL), *expected = json_loads(wanted, 0, NULL);
    assert_non_null(expected);
    if (!json_object_get(expected, "output")) {
        char whole[200];
        snprintf(whole, sizeof whole, "{%s}", usual);
        json_t *more = json_loads(whole, 0, NULL);
        json_object_update(expected, more);
        json_decref(more);
    }
    if (!json_equal(got, expected))
        fail_msg("%s became %s", body, text);
    json_decref(got);
    json_decref(expected);
    free(text);
    end(&r);
}

static void refuses(kn_compat_reader *read, const char *body, const char *pointer) {
    reading r;
    assert_false(begin(&r, read, body, strlen(body)));
    if (strcmp(r.visit.pointer.data, pointer) != 0)
        fail_msg("%s: %s at '%s'", body, r.err.text, r.visit.pointer.data);
    end(&r);
}

static void openai_orders_become_requests(void **state) {
    (void)state;
    becomes(kn_openai_read_json, "{\"prompt\":\"a\"}", "{\"prompt\":\"a\",\"batch\":1,\"inputs\":[]}");
    becomes(
        kn_openai_read_json,
        "{\"prompt\":\"a\",\"model\":\"dall-e-3\",\"n\":3,\"size\":\"64x48\",\"quality\":\"hd\",\"seed\":7,"
        "\"background\":\"transparent\",\"output_format\":\"webp\",\"output_compression\":0,\"style\":\"vivid\","
        "\"negative_prompt\":\"b\",\"user\":null}",
        "{\"prompt\":\"a\",\"batch\":3,\"inputs\":[],\"seed\":\"7\",\"preset\":\"quality\",\"negative_prompt\":\"b\","
        "\"size\":{\"mode\":\"custom\",\"width\":64,\"height\":48},"
        "\"output\":{\"format\":\"webp\",\"quality\":1,\"transparent\":true,\"embed_metadata\":true}}");
    becomes(kn_openai_read_json,
            "{\"prompt\":\"a\",\"model\":\"demo\",\"size\":\"auto\",\"quality\":\"auto\",\"seed\":-1}",
            "{\"prompt\":\"a\",\"batch\":1,\"inputs\":[],\"profile\":\"demo\"}");
}

static void forms_say_the_same(void **state) {
    (void)state;
    reading r;
    static const char body[] =
        "--b\r\nContent-Disposition: form-data; name=mask; filename=m\r\n\r\nM\r\n"
        "--b\r\nContent-Disposition: form-data; name=\"image[]\"; filename=a\r\n\r\nA\r\n"
        "--b\r\nContent-Disposition: form-data; name=prompt\r\n\r\n5\r\n"
        "--b\r\nContent-Disposition: form-data; name=n\r\n\r\n2\r\n"
        "--b\r\nContent-Disposition: form-data; name=stream\r\n\r\ntrue\r\n"
        "--b\r\nContent-Disposition: form-data; name=steps\r\n\r\n4\r\n"
        "--b\r\nContent-Disposition: form-data; name=\"image[]\"; filename=c\r\n\r\nCC\r\n--b--\r\n";
    assert_true(begin(&r, kn_openai_read_form, body, strlen(body)));
    assert_string_equal(r.order.prompt, "5");
    assert_int_equal(r.order.count, 2);
    assert_true(r.order.stream);
    assert_true(r.order.wish.steps.given && (int)r.order.wish.steps.value == 4);
    assert_int_equal(r.order.picture_count, 3);
    static const kn_input_role roles[] = { KN_INPUT_MASK, KN_INPUT_SOURCE, KN_INPUT_REFERENCE };
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(r.order.pictures[i].role, roles[i]);
    assert_int_equal(r.order.pictures[2].bytes.len, 2);
    end(&r);
}

static void a1111_orders_become_requests(void **state) {
    (void)state;
    becomes(
        kn_a1111_read,
        "{\"prompt\":\"a\",\"negative_prompt\":\"\",\"seed\":9223372036854775807,\"sampler_name\":\"Euler a\","
        "\"scheduler\":\"Karras\",\"override_settings\":{\"sd_model_checkpoint\":\"demo\",\"x\":[1]},\"enable_hr\":0}",
        "{\"prompt\":\"a\",\"negative_prompt\":\"\",\"seed\":\"9223372036854775807\",\"sampler\":\"euler_ancestral\","
        "\"profile\":\"demo\",\"batch\":1,\"inputs\":[],\"size\":{\"mode\":\"custom\",\"width\":512,\"height\":512}}");
    becomes(kn_a1111_read, "{\"prompt\":\"a\",\"width\":64,\"height\":96,\"batch_size\":2,\"n_iter\":3,\"seed\":\"\"}",
            "{\"prompt\":\"a\",\"batch\":6,\"inputs\":[],\"size\":{\"mode\":\"custom\",\"width\":64,\"height\":96}}");
}

/* A1111's kernel reaches so far from a mask's edge; beyond 102 it would reach further than ours does. */
static void a_blur_becomes_the_reach_of_its_kernel(void **state) {
    (void)state;
    static const struct {
        const char *members;
        int feather; /* negative: none */
    } rows[] = {
        { "\"x\":0", -1 },
        { "\"mask_blur\":null,\"mask_blur_x\":null", -1 },
        { "\"mask_blur\":0", 0 },
        { "\"mask_blur\":1", 3 },
        { "\"mask_blur\":4", 10 },
        { "\"mask_blur\":5", 13 },
        { "\"mask_blur\":1.5", 4 },
        { "\"mask_blur\":64", 160 },
        { "\"mask_blur\":102", 255 },
        { "\"mask_blur\":1000", 256 },
        { "\"mask_blur_x\":2,\"mask_blur_y\":8", 20 },
        { "\"mask_blur_y\":8,\"mask_blur_x\":2", 20 },
    };
    static const char pictures[] = "\"init_images\":[\"aGVsbG8=\"],\"mask\":\"aGVsbG8=\"";
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char body[200];
        reading r;
        snprintf(body, sizeof body, "{\"prompt\":\"a\",%s,%s}", rows[i].members, pictures);
        assert_true(begin(&r, kn_a1111_read, body, strlen(body)));
        char *text = kn_order_request(&r.order);
        json_t *got = json_loads(text, 0, NULL), *feather = json_object_get(got, "feather");
        assert_int_equal(feather ? json_integer_value(feather) : -1, rows[i].feather);
        json_decref(got);
        free(text);
        end(&r);
    }
    becomes(kn_a1111_read, "{\"prompt\":\"a\",\"mask_blur\":4}",
            "{\"prompt\":\"a\",\"batch\":1,\"inputs\":[],\"size\":{\"mode\":\"custom\",\"width\":512,\"height\":512}}");
    refuses(kn_a1111_read, "{\"prompt\":\"a\",\"mask_blur\":-1}", "/mask_blur");
    refuses(kn_a1111_read, "{\"prompt\":\"a\",\"mask_blur\":\"4\"}", "/mask_blur");
}

static void sdcpp_orders_become_requests(void **state) {
    (void)state;
    becomes(kn_sdcpp_read,
            "{\"prompt\":\"a\",\"width\":-1,\"height\":-1,\"batch_count\":99,\"seed\":-5,\"output_format\":\"JPEG\","
            "\"output_compression\":80,\"lora\":[],\"strength\":0.5,\"cache_mode\":\"disabled\","
            "\"sample_params\":{\"sample_method\":\"dpm++2m\",\"scheduler\":\"karras\",\"custom_sigmas\":[]}}",
            "{\"prompt\":\"a\",\"batch\":8,\"inputs\":[],\"sampler\":\"dpmpp_2m\","
            "\"output\":{\"format\":\"jpeg\",\"quality\":80,\"transparent\":false,\"embed_metadata\":true}}");
    becomes(kn_sdcpp_read, "{\"prompt\":\"a\",\"width\":64,\"batch_count\":-3}",
            "{\"prompt\":\"a\",\"batch\":1,\"inputs\":[],\"size\":{\"mode\":\"custom\",\"width\":64,\"height\":64}}");
}

static void pictures_come_in_base64_with_or_without_an_address(void **state) {
    (void)state;
    static const char *const bodies[] = { "{\"prompt\":\"a\",\"init_images\":[\"aGVsbG8=\"]}",
                                          "{\"prompt\":\"a\",\"init_images\":[\"data:image/png;base64,aGVsbG8=\"]}" };
    for (size_t i = 0; i < KN_COUNT(bodies); i++) {
        reading r;
        assert_true(begin(&r, kn_a1111_read, bodies[i], strlen(bodies[i])));
        assert_int_equal(r.order.picture_count, 1);
        assert_int_equal(r.order.pictures[0].role, KN_INPUT_SOURCE);
        assert_string_equal(r.order.pictures[0].bytes.data, "hello");
        end(&r);
    }
}

static void what_is_wrong_has_its_place(void **state) {
    (void)state;
    refuses(kn_openai_read_json, "{\"n\":1}", "");
    refuses(kn_openai_read_json, "{\"prompt\":\"a\",\"size\":\"100x100\"}", "/size");
    refuses(kn_openai_read_json, "{\"prompt\":\"a\",\"seed\":9223372036854775808}", "/seed");
    refuses(kn_openai_read_json, "{\"prompt\":\"a\",\"model\":\"../x\"}", "/model");
    refuses(kn_openai_read_form, "--b--\r\n", "");
    refuses(kn_a1111_read, "{\"prompt\":\"a\",\"seed\":-1.5}", "/seed");
    refuses(kn_a1111_read, "{\"prompt\":\"a\",\"init_images\":[\"aGVsbG8=\",\"http://x/y.png\"]}", "/init_images/1");
    refuses(kn_a1111_read, "{\"prompt\":\"a\",\"override_settings\":{\"sd_model_checkpoint\":\"No!\"}}",
            "/override_settings/sd_model_checkpoint");
    refuses(kn_sdcpp_read, "{\"prompt\":\"a\",\"sample_params\":{\"guidance\":{\"txt_cfg\":\"7\"}}}",
            "/sample_params/guidance/txt_cfg");
    refuses(kn_sdcpp_read, "{\"prompt\":\"a\",\"lora\":[{\"path\":\"../x\"}]}", "/lora");
}

static void null_is_as_good_as_nothing(void **state) {
    (void)state;
    refuses(kn_openai_read_json, "{\"prompt\":null}", "");
    refuses(kn_a1111_read, "{\"prompt\":null}", "");
    refuses(kn_sdcpp_read, "{\"prompt\":null}", "");
    refuses(kn_a1111_read_extra, "{\"image\":null}", "");
    refuses(kn_a1111_read_extra,
            "{\"image\":\"aGVsbG8=\",\"resize_mode\":1,\"upscaling_resize_w\":64,\"upscaling_resize_h\":null}", "");
    refuses(kn_sdcpp_read_upscale, "{\"image\":null}", "");
}

static void a_picture_is_changed_only_if_there_is_one(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"prompt\":\"a\"}",
        "{\"prompt\":\"a\",\"init_images\":null}",
        "{\"prompt\":\"a\",\"init_images\":[]}",
        "{\"prompt\":\"a\",\"extra_images\":[\"aGVsbG8=\"],\"mask\":\"aGVsbG8=\"}",
    };
    for (size_t i = 0; i < KN_COUNT(bodies); i++) {
        reading r;
        assert_false(begin_as(&r, kn_a1111_read, bodies[i], strlen(bodies[i]), true));
        assert_string_equal(r.err.text, "the key 'init_images' is missing");
        end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openai_orders_become_requests),
        cmocka_unit_test(forms_say_the_same),
        cmocka_unit_test(a1111_orders_become_requests),
        cmocka_unit_test(a_blur_becomes_the_reach_of_its_kernel),
        cmocka_unit_test(sdcpp_orders_become_requests),
        cmocka_unit_test(pictures_come_in_base64_with_or_without_an_address),
        cmocka_unit_test(what_is_wrong_has_its_place),
        cmocka_unit_test(null_is_as_good_as_nothing),
        cmocka_unit_test(a_picture_is_changed_only_if_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
