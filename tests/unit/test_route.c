/* Which requests wait their turn: all but those that are known to be harmless, written exactly so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/route.h"

static kn_route_kind route_of(const char *method, const char *target) {
    return kn_route_of((kn_span){ method, strlen(method) }, (kn_span){ target, strlen(target) });
}

static void routes_are_known_by_method_and_path(void **state) {
    (void)state;
    static const struct {
        const char *method, *target;
        kn_route_class class;
    } rows[] = {
        { "GET", "/", KN_ROUTE_EXEMPT },
        { "HEAD", "/", KN_ROUTE_EXEMPT },
        { "GET", "/api/version", KN_ROUTE_EXEMPT },
        { "GET", "/api/tags?x=1", KN_ROUTE_EXEMPT },
        { "HEAD", "/api/tags", KN_ROUTE_EXEMPT },
        { "GET", "/api/ps", KN_ROUTE_EXEMPT },
        { "GET", "/api/status", KN_ROUTE_EXEMPT },
        { "POST", "/api/show", KN_ROUTE_EXEMPT },
        { "HEAD", "/api/blobs/sha256:0123", KN_ROUTE_EXEMPT },
        { "GET", "/v1/models", KN_ROUTE_EXEMPT },
        { "GET", "/v1/models/tiny:latest", KN_ROUTE_EXEMPT },
        { "OPTIONS", "/api/generate", KN_ROUTE_EXEMPT },
        { "OPTIONS", "*", KN_ROUTE_EXEMPT },
        { "POST", "/api/generate", KN_ROUTE_INFERENCE },
        { "POST", "/api/chat?debug", KN_ROUTE_INFERENCE },
        { "POST", "/api/embed", KN_ROUTE_INFERENCE },
        { "POST", "/api/embeddings", KN_ROUTE_INFERENCE },
        { "POST", "/v1/chat/completions", KN_ROUTE_INFERENCE },
        { "POST", "/v1/completions", KN_ROUTE_INFERENCE },
        { "POST", "/v1/embeddings", KN_ROUTE_INFERENCE },
        { "POST", "/v1/responses", KN_ROUTE_INFERENCE },
        { "POST", "/v1/messages", KN_ROUTE_INFERENCE },
        { "POST", "/v1/audio/transcriptions", KN_ROUTE_INFERENCE },
        { "POST", "/api/create", KN_ROUTE_CATALOG },
        { "POST", "/api/copy", KN_ROUTE_CATALOG },
        { "POST", "/api/pull", KN_ROUTE_CATALOG },
        { "POST", "/api/blobs/sha256:0123", KN_ROUTE_CATALOG },
        { "DELETE", "/api/delete", KN_ROUTE_CATALOG },
        { "POST", "/api/push", KN_ROUTE_OPAQUE },
        { "POST", "/api/me", KN_ROUTE_OPAQUE },
        { "POST", "/api/experimental/web_search", KN_ROUTE_OPAQUE },
        { "GET", "/api/experimental/model-recommendations", KN_ROUTE_OPAQUE },
        { "POST", "/v1/images/generations", KN_ROUTE_OPAQUE },
        /* what only looks like an exempt path */
        { "GET", "/api/generate", KN_ROUTE_OPAQUE },
        { "POST", "/api/tags", KN_ROUTE_OPAQUE },
        { "get", "/api/tags", KN_ROUTE_OPAQUE },
        { "GET", "/api/%74ags", KN_ROUTE_OPAQUE },
        { "POST", "/api/%67enerate", KN_ROUTE_OPAQUE },
        { "GET", "/api/tags/", KN_ROUTE_OPAQUE },
        { "GET", "//api/tags", KN_ROUTE_OPAQUE },
        { "GET", "/API/tags", KN_ROUTE_OPAQUE },
        { "GET", "/api/tags#x", KN_ROUTE_OPAQUE },
        { "GET", "/v1/models/", KN_ROUTE_OPAQUE },
        { "GET", "/v1/models/a/b", KN_ROUTE_OPAQUE },
        { "GET", "/v1/models/a%2Fb", KN_ROUTE_OPAQUE },
        { "GET", "/v1/models/..", KN_ROUTE_OPAQUE },
        { "GET", "/v1/models/.", KN_ROUTE_OPAQUE },
        { "HEAD", "/api/blobs/", KN_ROUTE_OPAQUE },
        { "GET", "/api/blobs/sha256:0123", KN_ROUTE_OPAQUE },
        { "HEAD", "/api/ps", KN_ROUTE_OPAQUE },
        { "HEAD", "/api/generate", KN_ROUTE_OPAQUE },
        { "PUT", "/api/show", KN_ROUTE_OPAQUE },
        { "GET", "", KN_ROUTE_OPAQUE },
        { "GET", "?", KN_ROUTE_OPAQUE },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_route_kind kind = route_of(rows[i].method, rows[i].target);
        if (kind.class != rows[i].class)
            fail_msg("%s %s is %d", rows[i].method, rows[i].target, kind.class);
    }
}

static void bodies_are_observed_where_they_name_a_model(void **state) {
    (void)state;
    assert_true(route_of("POST", "/api/chat").observed);
    assert_int_equal(route_of("POST", "/api/chat").input, KN_INPUT_MESSAGES);
    assert_int_equal(route_of("POST", "/api/generate").input, KN_INPUT_PROMPT);
    assert_int_equal(route_of("POST", "/v1/responses").input, KN_INPUT_INPUT);
    assert_false(route_of("POST", "/v1/audio/transcriptions").observed);
    assert_false(route_of("POST", "/api/show").observed);
    assert_false(route_of("POST", "/api/create").observed);
    assert_false(route_of("PUT", "/api/chat").observed);
}

static void errors_speak_the_language_of_the_path(void **state) {
    (void)state;
    assert_int_equal(route_of("POST", "/api/chat").dialect, KN_DIALECT_OLLAMA);
    assert_int_equal(route_of("GET", "/v1").dialect, KN_DIALECT_OLLAMA);
    assert_int_equal(route_of("POST", "/v1/chat/completions").dialect, KN_DIALECT_OPENAI);
    assert_int_equal(route_of("POST", "/v1/unknown?x").dialect, KN_DIALECT_OPENAI);
    assert_int_equal(route_of("POST", "/v1/messages").dialect, KN_DIALECT_ANTHROPIC);
    assert_int_equal(route_of("POST", "/v1/messages?beta=true").dialect, KN_DIALECT_ANTHROPIC);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_known_by_method_and_path),
        cmocka_unit_test(bodies_are_observed_where_they_name_a_model),
        cmocka_unit_test(errors_speak_the_language_of_the_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
