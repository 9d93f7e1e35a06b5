/* Forms with files: what is read, however it is cut, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "http/multipart.h"

#define TYPE      "multipart/form-data; boundary=b"
#define PART(...) "Content-Disposition: form-data; " __VA_ARGS__ "\r\n\r\n"

static bool begin(void *ctx, const char *name, bool is_file, kn_error *err) {
    if (!strcmp(name, "no"))
        return kn_fail(err, KN_E_USAGE, "not that");
    return kn_buf_printf(ctx, "[%s%s]", name, is_file ? "*" : "");
}

static bool content(void *ctx, kn_span data, kn_error *err) {
    (void)err;
    return kn_buf_add(ctx, data.data, data.len);
}

static bool end(void *ctx, kn_error *err) {
    (void)err;
    return kn_buf_add_text(ctx, ";");
}

static bool read_form(const char *type, const char *body, size_t piece, kn_buf *into, kn_error *err) {
    const kn_multipart_receiver to = { into, begin, content, end };
    kn_multipart m;
    size_t len = strlen(body);
    kn_buf_clear(into);
    bool ok = kn_multipart_begin(&m, kn_span_of(type), &to, err);
    for (size_t at = 0; ok && at < len; at += piece)
        ok = kn_multipart_feed(&m, (kn_span){ body + at, KN_MIN(piece, len - at) });
    return ok && kn_multipart_end(&m);
}

static void expect(const char *type, const char *body, const char *wanted) {
    KN_AUTO_BUF got;
    kn_buf_init(&got, 1 << 16);
    for (size_t piece = 1; piece <= strlen(body); piece++) {
        kn_error err = { 0 };
        if (!read_form(type, body, piece, &got, &err))
            fail_msg("%s", err.text);
        assert_string_equal(got.data, wanted);
    }
}

static void refuse(const char *type, const char *body, const char *why) {
    KN_AUTO_BUF got;
    kn_error err = { 0 };
    kn_buf_init(&got, 1 << 16);
    assert_false(read_form(type, body, 1, &got, &err));
    assert_non_null(strstr(err.text, why));
    assert_false(read_form(type, body, 1 << 16, &got, NULL));
}

static void reads_texts_and_files_however_they_are_cut(void **state) {
    (void)state;
    expect(TYPE,
           "--b\r\n" PART("name=\"prompt\"") "a boat\r\n--b\r\n" PART("name=image; filename=\"\"") "\r\n--b--\r\n",
           "[prompt]a boat;[image*];");
    expect(
        "Multipart/Form-Data; charset=utf-8; Boundary=\"a b'()+_,-./:=?c\"",
        "--a b'()+_,-./:=?c\r\ncontent-type: x/y\r\ncontent-disposition: Form-Data ;  name=\"a\\\"b\" ; filename*=u\r\n"
        "\r\nx\r\n--a b'()+_,-./:=?c--",
        "[a\"b*]x;");
}

static void takes_what_only_looks_like_a_boundary_as_content(void **state) {
    (void)state;
    expect(TYPE, "--b\r\n" PART("name=x") "\r\n--a\r\r\n\r\n-\r\n--b--", "[x]\r\n--a\r\r\n\r\n-;");
}

static void refuses_what_is_no_form(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        { "multipart/form-data", "--b--", "no boundary" },
        { "multipart/form-data; boundary=", "--b--", "no boundary" },
        { "multipart/form-data; boundary=a; boundary=b", "--b--", "no boundary" },
        { "multipart/form-data; boundary=\"b ", "--b--", "no boundary" },
        { "multipart/form-data; boundary=\"b \"", "--b --", "no boundary" },
        { "multipart/form-data; boundary=a\x01", "--a--", "no boundary" },
        { TYPE, "", "no parts" },
        { TYPE, "--b--\r\n", "no parts" },
        { TYPE, "hello\r\n--b\r\n", "does not begin" },
        { TYPE, "\r\n--b\r\n", "does not begin" },
        { TYPE, "--b\n", "followed by something else" },
        { TYPE, "--b \r\n", "followed by something else" },
        { TYPE, "--b\r\n\r\nx\r\n--b--", "no name" },
        { TYPE, "--b\r\n" PART("name=\"\"") "x\r\n--b--", "no name" },
        { TYPE, "--b\r\n" PART("filename=x") "x\r\n--b--", "no name" },
        { TYPE, "--b\r\n" PART("name=x; name=y") "x\r\n--b--", "no name" },
        { TYPE, "--b\r\nContent-Disposition: attachment; name=x\r\n\r\nx\r\n--b--", "no name" },
        { TYPE, "--b\r\nContent-Disposition: form-data; name=x\r\n" PART("name=y") "\r\n--b--", "two names" },
        { TYPE, "--b\r\nContent-Transfer-Encoding: base64\r\n" PART("name=x") "\r\n--b--", "encoded" },
        { TYPE, "--b\r\nX y: z\r\n" PART("name=x") "\r\n--b--", "no field" },
        { TYPE, "--b\r\n" PART("name=x") "x", "cut" },
        { TYPE, "--b\r\n" PART("name=x") "x\r\n--b", "cut" },
        { TYPE, "--b\r\n" PART("name=x") "x\r\n--b\r\n", "cut" },
        { TYPE, "--b\r\n" PART("name=x") "x\r\n--b--\r\nmore", "follows the last" },
        { TYPE, "--b\r\n" PART("name=no") "x\r\n--b--", "not that" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        refuse(rows[i][0], rows[i][1], rows[i][2]);
}

static void counts_parts_names_and_heads(void **state) {
    (void)state;
    KN_AUTO_BUF form;
    char name[KN_MULTIPART_NAME_MAX + 2];
    kn_buf_init(&form, 1 << 16);
    for (int i = 0; i <= KN_MULTIPART_PARTS_MAX; i++)
        assert_true(kn_buf_add_text(&form, i ? "\r\n--b\r\n" : "--b\r\n") && kn_buf_add_text(&form, PART("name=x")));
    assert_true(kn_buf_add_text(&form, "\r\n--b--"));
    refuse(TYPE, form.data, "more than 64 parts");

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    kn_buf_clear(&form);
    assert_true(kn_buf_printf(&form, "--b\r\n" PART("name=%s") "\r\n--b--", name));
    refuse(TYPE, form.data, "at most 100 bytes");

    kn_buf_clear(&form);
    assert_true(kn_buf_printf(&form, "--b\r\nX: %*s\r\n" PART("name=x") "\r\n--b--", KN_MULTIPART_HEAD_MAX, ""));
    refuse(TYPE, form.data, "longer than 4096");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_texts_and_files_however_they_are_cut),
        cmocka_unit_test(takes_what_only_looks_like_a_boundary_as_content),
        cmocka_unit_test(refuses_what_is_no_form),
        cmocka_unit_test(counts_parts_names_and_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
