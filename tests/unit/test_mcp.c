/* Messages of MCP as they are read, and what the arguments of its tools become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/internal.h"
#include "studio/request.h"

static kn_mcp_message m;

static int read_text(const char *text) {
    return kn_mcp_message_read(text, strlen(text), &m, NULL);
}

/* ---- messages ---- */

static void tells_requests_notifications_and_responses_apart(void **state) {
    (void)state;
    assert_int_equal(read_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"), 0);
    assert_int_equal(m.kind, KN_MCP_REQUEST);
    assert_string_equal(m.method, "ping");
    assert_int_equal(read_text("{\"method\":\"ping\",\"jsonrpc\":\"2.0\"}"), 0);
    assert_int_equal(m.kind, KN_MCP_NOTIFICATION);
    assert_int_equal(read_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{}]}"), 0);
    assert_int_equal(m.kind, KN_MCP_RESPONSE);
}

static void keeps_integers_and_texts_as_ids_apart(void **state) {
    (void)state;
    kn_mcp_word number, text;
    assert_int_equal(read_text("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"), 0);
    number = m.id;
    assert_int_equal(read_text("{\"jsonrpc\":\"2.0\",\"id\":\"\\u0037\",\"method\":\"ping\"}"), 0);
    text = m.id;
    assert_string_equal(number.text, text.text);
    assert_false(kn_mcp_word_is_same(&number, &text));
    assert_true(kn_mcp_word_is_same(&text, &text));
    assert_false(kn_mcp_word_is_same(&(kn_mcp_word){ 0 }, &(kn_mcp_word){ 0 }));
}

static void reads_what_is_common_to_all_parameters(void **state) {
    (void)state;
    assert_int_equal(
        read_text("{\"params\":{\"name\":\"a\",\"uri\":\"b\",\"cursor\":\"c\",\"arguments\":{\"x\":[1]},\"other\":null,"
                  "\"protocolVersion\":\"d\",\"requestId\":\"e\",\"_meta\":{\"progressToken\":-3,\"x\":{},"
                  "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                  "\"io.modelcontextprotocol/clientCapabilities\":{}}},\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}"),
        0);
    assert_false(m.params_are_wrong);
    assert_string_equal(m.name, "a");
    assert_string_equal(m.uri, "b");
    assert_string_equal(m.cursor, "c");
    assert_string_equal(m.initialize, "d");
    assert_string_equal(m.cancels.text, "e");
    assert_string_equal(m.progress_token.text, "-3");
    assert_memory_equal(m.arguments.data, "{\"x\":[1]}", m.arguments.len);
    assert_true(m.has_version && m.version_is_text && m.has_capabilities);
    assert_string_equal(m.version, "2026-07-28");
}

static void says_which_parameters_are_wrong_without_losing_the_message(void **state) {
    (void)state;
    static const char *const rows[] = {
        "[]",
        "7",
        "{\"name\":1}",
        "{\"arguments\":[]}",
        "{\"_meta\":1}",
        "{\"_meta\":{\"progressToken\":null}}",
        "{\"uri\":{}}",
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"params\":%s,\"method\":\"m\"}", rows[i]);
        assert_int_equal(read_text(text), 0);
        assert_true(m.params_are_wrong);
        assert_string_equal(m.method, "m");
    }
}

static void refuses_what_is_no_message(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        { "", KN_MCP_PARSE_ERROR },
        { "{", KN_MCP_PARSE_ERROR },
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\u0000\"}", KN_MCP_INVALID_REQUEST },
        { "nul", KN_MCP_PARSE_ERROR },
        { "null", KN_MCP_INVALID_REQUEST },
        { "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}]", KN_MCP_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"m\"}", KN_MCP_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":1e3,\"method\":\"m\"}", KN_MCP_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"method\":\"m\"}", KN_MCP_INVALID_REQUEST },
        { "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", KN_MCP_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":null}", KN_MCP_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":1}", KN_MCP_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\",\"method\":\"m\"}", KN_MCP_INVALID_REQUEST },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_error err = { 0 };
        assert_int_equal(kn_mcp_message_read(rows[i].text, strlen(rows[i].text), &m, &err), rows[i].code);
        assert_true(err.text[0]);
    }
}

static void tells_the_id_of_a_request_that_is_refused(void **state) {
    (void)state;
    assert_int_equal(read_text("{\"method\":7,\"jsonrpc\":\"2.0\",\"id\":\"x\"}"), KN_MCP_INVALID_REQUEST);
    assert_true(m.id.given);
    assert_string_equal(m.id.text, "x");
    assert_int_equal(read_text("{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0000\",\"method\":\"m\"}"), KN_MCP_INVALID_REQUEST);
    assert_false(m.id.given); /* it could not be told as it was */
    assert_int_equal(read_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\""), KN_MCP_PARSE_ERROR);
    assert_false(m.id.given);
}

/* ---- tools ---- */

static kn_mcp_toolbox *toolbox;

static int make_toolbox(void **state) {
    (void)state;
    return kn_mcp_toolbox_new(&toolbox, NULL) ? 0 : -1;
}

static int free_toolbox(void **state) {
    (void)state;
    kn_mcp_toolbox_free(toolbox);
    return 0;
}

static bool order(const char *tool, const char *arguments, kn_mcp_order *ret, kn_error *err) {
    return kn_mcp_order_read(toolbox, kn_mcp_tool_find(tool), (kn_json_text){ arguments, strlen(arguments) }, ret, err);
}

static void becomes(const char *tool, const char *arguments, const char *wanted) {
    KN_AUTO_BUF body, pointer;
    kn_mcp_order o;
    kn_error err = { 0 };
    kn_studio_request r;
    kn_buf_init(&body, 1 << 20);
    kn_buf_init(&pointer, 500);
    if (!order(tool, arguments, &o, &err))
        fail_msg("%s: %s", arguments, err.text);
    for (size_t i = 0; i < o.picture_count; i++)
        memset(o.pictures[i].input, 'a' + (int)i, 64);
    assert_true(kn_mcp_order_body(&o, &body));
    assert_string_equal(body.data, wanted);
    if (!kn_request_read(body.data, body.len, o.tool == KN_MCP_UPSCALE_IMAGE, &r, &pointer, &err))
        fail_msg("%s: %s", body.data, err.text);
    kn_request_free(&r);
    kn_mcp_order_free(&o);
}

#define A64  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64  "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ITEM "img_00000000000000000000000000"

static void arguments_become_requests_that_the_studio_takes(void **state) {
    (void)state;
    becomes("generate_image", "{\"prompt\":\"a \\\"boat\\\"\"}", "{\"prompt\":\"a \\\"boat\\\"\",\"inputs\":[]}");
    becomes(
        "generate_image",
        "{\"prompt\":\"x\",\"model\":\"demo\",\"seed\":\"5\",\"count\":2,\"width\":64,\"height\":32,"
        "\"transparent\":true,\"tags\":[\"a\",\"b\"],\"wait_seconds\":0}",
        "{\"prompt\":\"x\",\"profile\":\"demo\",\"seed\":\"5\",\"batch\":2,\"tags\":[\"a\",\"b\"],"
        "\"size\":{\"width\":64,\"height\":32,\"mode\":\"custom\"},\"output\":{\"transparent\":true},\"inputs\":[]}");
    becomes("generate_image", "{\"prompt\":\"x\",\"size\":\"1k\",\"aspect_ratio\":\"3:2\"}",
            "{\"prompt\":\"x\",\"size\":{\"mode\":\"1k\",\"aspect_ratio\":\"3:2\"},\"inputs\":[]}");
    becomes("generate_image", "{\"prompt\":\"x\",\"aspect_ratio\":\"3:2\"}",
            "{\"prompt\":\"x\",\"size\":{\"aspect_ratio\":\"3:2\",\"mode\":\"auto\"},\"inputs\":[]}");
    becomes("edit_image",
            "{\"mask\":\"data:image/png;base64,Zm9v\",\"prompt\":\"x\",\"images\":[\"" ITEM "\"],"
            "\"outpaint\":{\"left\":3},\"feather\":12}",
            "{\"prompt\":\"x\",\"outpaint\":{\"left\":3},\"feather\":12,\"inputs\":[{\"input_id\":\"" A64
            "\",\"role\":\"mask\"},"
            "{\"input_id\":\"" B64 "\",\"role\":\"source\"}]}");
    becomes("upscale_image", "{\"image\":\"kuno://gallery/" ITEM "\",\"factor\":2,\"format\":\"webp\"}",
            "{\"upscale\":{\"factor\":2},\"output\":{\"format\":\"webp\"},\"gallery_item\":\"" ITEM "\"}");
    becomes("upscale_image", "{\"image\":\"/x.png\",\"width\":64,\"height\":64,\"blend\":0.5}",
            "{\"upscale\":{\"width\":64,\"height\":64,\"blend\":0.5},\"input_id\":\"" A64 "\"}");
}

static void a_search_becomes_a_query_in_plain_letters(void **state) {
    (void)state;
    kn_mcp_order o;
    assert_true(order("list_gallery", "{\"query\":\"a&b=\\u00e4\",\"limit\":5,\"favorites\":true}", &o, NULL));
    assert_string_equal(o.query.data, "q=a%26b%3D%C3%A4&limit=5&favorite=true&");
    kn_mcp_order_free(&o);
}

/* What is told of a tool is what it takes: each argument, with a value of the type that its schema says. */
static void every_argument_that_is_told_of_is_taken(void **state) {
    (void)state;
    json_t *list = kn_mcp_toolbox_list(toolbox), *tool, *schema;
    const char *name;
    size_t i, taken = 0;
    json_array_foreach(list, i, tool) {
        const char *which = json_string_value(json_object_get(tool, "name"));
        assert_int_equal(kn_mcp_tool_find(which), i);
        json_object_foreach(json_object_get(json_object_get(tool, "inputSchema"), "properties"), name, schema) {
            const char *type = json_string_value(json_object_get(schema, "type"));
            const char *value = !strcmp(name, "images")                           ? "[\"/x\"]"
                                : !strcmp(name, "mask") || !strcmp(name, "image") ? "\"/x\""
                                : !strcmp(name, "job_id")                         ? "\"job_0\""
                                : !strcmp(name, "image_id")                       ? "\"img_0\""
                                : !strcmp(type, "boolean")                        ? "true"
                                : !strcmp(type, "array")                          ? "[]"
                                : !strcmp(type, "object")                         ? "{}"
                                : !strcmp(type, "string")                         ? "\"x\""
                                                                                  : "64";
            const char *word = json_string_value(json_array_get(json_object_get(schema, "enum"), 0));
            const char *quote = word ? "\"" : "";
            char text[200];
            kn_mcp_order o;
            kn_error err = { 0 };
            snprintf(text, sizeof text, "{\"%s\":%s%s%s}", name, quote, word ? word : value, quote);
            if (order(which, text, &o, &err))
                kn_mcp_order_free(&o);
            else if (!strstr(err.text, "is missing"))
                fail_msg("%s: %s", text, err.text);
            taken++;
        }
    }
    assert_in_range(taken, 70, 110);
}

static void refuses_more_pictures_than_a_job_takes(void **state) {
    (void)state;
    KN_AUTO_BUF text;
    kn_mcp_order o;
    kn_error err = { 0 };
    kn_buf_init(&text, 1000);
    assert_true(kn_buf_add_text(&text, "{\"prompt\":\"x\",\"images\":[\"/x\""));
    for (int i = 1; i < 14; i++)
        assert_true(kn_buf_add_text(&text, ",\"/x\""));
    assert_true(kn_buf_add_text(&text, "]}"));
    assert_false(order("edit_image", text.data, &o, &err));
    assert_non_null(strstr(err.text, "more than 12 pictures"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_requests_notifications_and_responses_apart),
        cmocka_unit_test(keeps_integers_and_texts_as_ids_apart),
        cmocka_unit_test(reads_what_is_common_to_all_parameters),
        cmocka_unit_test(says_which_parameters_are_wrong_without_losing_the_message),
        cmocka_unit_test(refuses_what_is_no_message),
        cmocka_unit_test(tells_the_id_of_a_request_that_is_refused),
        cmocka_unit_test(arguments_become_requests_that_the_studio_takes),
        cmocka_unit_test(a_search_becomes_a_query_in_plain_letters),
        cmocka_unit_test(every_argument_that_is_told_of_is_taken),
        cmocka_unit_test(refuses_more_pictures_than_a_job_takes),
    };
    return cmocka_run_group_tests(tests, make_toolbox, free_toolbox);
}
