#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/toml.h"
#include "failing_alloc.h"
#include "golden.h"

#define LIMIT (1 << 20)

static bool read_text(const char *text, kn_toml *ret, kn_error *err) {
    return kn_toml_read(text, strlen(text), LIMIT, ret, err);
}

static const kn_toml *get(const kn_toml *table, const char *key) {
    kn_toml_entry *e = kn_toml_find(table, key, strlen(key));
    assert_non_null(e);
    return &e->value;
}

static void assert_refused(const char *text, const char *message) {
    kn_toml doc = { 0 };
    kn_error err = { 0 };
    if (read_text(text, &doc, &err))
        fail_msg("accepted: %s", text);
    assert_string_equal(err.text, message);
    assert_int_equal(doc.kind, 0); /* nothing is written on failure */
    assert_null(doc.table.entries);
}

/* The public suite */

static void suite_file(const char *name, kn_buf *into) {
    char path[512];
    snprintf(path, sizeof path, "toml/%s", name);
    golden_read(path, into);
}

/* From a copy of exactly that length, so that a sanitizer sees any read beyond the end. */
static bool read_exactly(const char *text, size_t len, kn_toml *ret, kn_error *err) {
    char *copy = malloc(len + !len);
    assert_non_null(copy);
    memcpy(copy, text, len);
    bool ok = kn_toml_read(copy, len, LIMIT, ret, err);
    free(copy);
    return ok;
}

static kn_toml_time time_of(kn_toml_kind kind, const char *text) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
    kn_toml_time t = { 0 };
    if (kind != KN_TOML_LOCAL_TIME) {
        assert_int_equal(sscanf(text, "%d-%d-%d%n", &year, &month, &day, &used), 3);
        text += used + (text[used] == 'T');
    }
    if (kind != KN_TOML_LOCAL_DATE) {
        assert_int_equal(sscanf(text, "%d:%d:%d%n", &hour, &minute, &second, &used), 3);
        text += used;
        double fraction = 0;
        if (*text == '.') {
            assert_int_equal(sscanf(text, "%lf%n", &fraction, &used), 1);
            text += used;
        }
        t.nanosecond = (uint32_t)(fraction * 1e9 + 0.5);
    }
    if (kind == KN_TOML_OFFSET_DATE_TIME && *text != 'Z') {
        int hours = 0, minutes = 0;
        assert_int_equal(sscanf(text + 1, "%d:%d", &hours, &minutes), 2);
        t.offset_minutes = (int16_t)((*text == '-' ? -1 : 1) * (hours * 60 + minutes));
    }
    t.year = (uint16_t)year;
    t.month = (uint8_t)month;
    t.day = (uint8_t)day;
    t.hour = (uint8_t)hour;
    t.minute = (uint8_t)minute;
    t.second = (uint8_t)second;
    return t;
}

static bool same_time(kn_toml_time a, kn_toml_time b) {
    return a.year == b.year && a.month == b.month && a.day == b.day && a.hour == b.hour && a.minute == b.minute &&
           a.second == b.second && a.nanosecond == b.nanosecond && a.offset_minutes == b.offset_minutes;
}

static bool same_float(double have, const char *want) {
    double w = strtod(want, NULL);
    return isnan(w) ? isnan(have) : have == w;
}

static bool same_value(const json_t *want, const kn_toml *have) {
    static const char *const types[] = {
        [KN_TOML_BOOLEAN] = "bool",
        [KN_TOML_INTEGER] = "integer",
        [KN_TOML_FLOAT] = "float",
        [KN_TOML_STRING] = "string",
        [KN_TOML_OFFSET_DATE_TIME] = "datetime",
        [KN_TOML_LOCAL_DATE_TIME] = "datetime-local",
        [KN_TOML_LOCAL_DATE] = "date-local",
        [KN_TOML_LOCAL_TIME] = "time-local",
    };
    const char *type = json_string_value(json_object_get(want, "type"));
    const json_t *value = json_object_get(want, "value");
    const char *text = json_string_value(value);
    if (have->kind >= KN_COUNT(types) || strcmp(type, types[have->kind]))
        return false;
    switch (have->kind) {
    case KN_TOML_BOOLEAN: return !strcmp(text, have->boolean ? "true" : "false");
    case KN_TOML_INTEGER: return strtoll(text, NULL, 10) == have->integer;
    case KN_TOML_FLOAT: return same_float(have->real, text);
    case KN_TOML_STRING:
        return json_string_length(value) == have->string.len && !memcmp(text, have->string.data, have->string.len);
    default: return same_time(have->time, time_of(have->kind, text));
    }
}

/* A value is an object of a type and a value that are strings; a table may well have keys of these names. */
static bool is_tagged(const json_t *j) {
    return json_object_size(j) == 2 && json_is_string(json_object_get(j, "type")) &&
           json_is_string(json_object_get(j, "value"));
}

/* Jansson takes no NUL in a key; the one case that has it, a key of just that, is read with a stand-in. */
#define NUL_KEY "\xEF\xA3\xBF"

static void replace_nul_key(kn_buf *json) {
    char *key = strstr(json->data, "\"\\u0000\":");
    if (key)
        memcpy(key, "\"\\uf8ff\"", 8);
}

static bool same_meaning(const json_t *want, const kn_toml *have) {
    if (json_is_array(want)) {
        if (have->kind != KN_TOML_ARRAY || have->array.n != json_array_size(want))
            return false;
        for (size_t i = 0; i < have->array.n; i++) {
            if (!same_meaning(json_array_get(want, i), &have->array.items[i]))
                return false;
        }
        return true;
    }
    if (is_tagged(want))
        return same_value(want, have);
    if (have->kind != KN_TOML_TABLE || have->table.n != json_object_size(want))
        return false;
    for (size_t i = 0; i < have->table.n; i++) {
        const kn_toml_entry *e = &have->table.entries[i];
        bool is_nul = e->key_len == 1 && !e->key[0];
        const json_t *member = json_object_get(want, is_nul ? NUL_KEY : e->key);
        if (!member || !same_meaning(member, &e->value))
            return false;
    }
    return true;
}

static bool valid_case_passes(const char *name) {
    KN_AUTO_BUF text, meaning;
    suite_file(name, &text);
    char json_name[256];
    snprintf(json_name, sizeof json_name, "%.*sjson", (int)(strlen(name) - 4), name);
    suite_file(json_name, &meaning);
    replace_nul_key(&meaning);
    json_error_t why;
    json_t *want = json_loadb(meaning.data, meaning.len, JSON_ALLOW_NUL, &why);
    if (!want)
        fail_msg("%s: %s", json_name, why.text);
    kn_toml doc = { 0 };
    kn_error err = { 0 };
    bool ok = read_exactly(text.data, text.len, &doc, &err);
    if (!ok)
        print_error("%s: refused: %s\n", name, err.text);
    else if (!(ok = same_meaning(want, &doc)))
        print_error("%s: read, but with another meaning\n", name);
    kn_toml_free(&doc);
    json_decref(want);
    return ok;
}

static bool invalid_case_is_refused(const char *name) {
    KN_AUTO_BUF text;
    suite_file(name, &text);
    kn_toml doc = { 0 };
    kn_error err = { 0 };
    bool refused = !read_exactly(text.data, text.len, &doc, &err);
    if (!refused)
        print_error("%s: accepted\n", name);
    else if (strncmp(err.text, "line ", 5) || err.text[5] < '1' || err.text[5] > '9')
        print_error("%s: no line in: %s\n", name, err.text), refused = false;
    kn_toml_free(&doc);
    return refused;
}

static void suite_passes_case_by_case(void **state) {
    (void)state;
    KN_AUTO_BUF list;
    suite_file("files-toml-1.0.0", &list);
    int valid = 0, invalid = 0, bad = 0;
    char *rest = NULL;
    for (char *name = strtok_r(list.data, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        size_t n = strlen(name);
        if (n < 5 || strcmp(name + n - 5, ".toml"))
            continue;
        bool is_valid = !strncmp(name, "valid/", 6);
        bad += is_valid ? !valid_case_passes(name) : !invalid_case_is_refused(name);
        valid += is_valid;
        invalid += !is_valid;
    }
    assert_int_equal(bad, 0);
    assert_int_equal(valid, 185);
    assert_int_equal(invalid, 371);
}

static void survives_a_document_cut_anywhere(void **state) {
    (void)state;
    static const char *const names[] = { "valid/spec-example-1.toml",          "valid/example.toml",
                                         "valid/string/multiline-quotes.toml", "valid/datetime/timezone.toml",
                                         "valid/inline-table/nest.toml",       "valid/key/escapes.toml" };
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        KN_AUTO_BUF text;
        suite_file(names[i], &text);
        for (size_t len = 0; len <= text.len; len++) {
            kn_toml doc = { 0 };
            kn_error err = { 0 };
            bool ok = read_exactly(text.data, len, &doc, &err);
            assert_int_equal(ok, err.code == KN_OK);
            kn_toml_free(&doc);
        }
    }
}

/* Messages and lines */

static void errors_name_the_line_and_the_reason(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "a = 1\nb = hello\n", "line 2: 'hello' is no value; text must be in quotes" },
        { "a = \"x\ny\"", "line 1: a string is not closed" },
        { "a = 1\nb = '''\n\n\n", "line 2: a string is not closed" },
        { "a = 1\n\n[x]\na = 1\na = 2",
          "line 5: 'a' is an integer since line 4 and cannot be defined again or extended "
          "here" },
        { "[x]\n[x]", "line 2: 'x' is a table since line 1 and cannot be defined again or extended here" },
        { "x.y = 1\n[x]", "line 2: 'x' is a table since line 1 and cannot be defined again or extended here" },
        { "x = []\n[[x]]", "line 2: 'x' is an array since line 1 and cannot be defined again or extended here" },
        { "a = \"\\d\"", "line 1: unknown escape '\\d'; a plain backslash is written \\\\ or in '…'" },
        { "a = \"\\u12g4\"", "line 1: an escape of a character needs 4 hexadecimal digits" },
        { "a = \"\\ud800\"", "line 1: escape of U+D800, which is no character" },
        { "a = \"\\U00110000\"", "line 1: escape of U+110000, which is no character" },
        { "a = \"\x01\"", "line 1: control character 0x01 in a string" },
        { "# \x7f", "line 1: control character 0x7f in a comment" },
        { "a = 'ok'\nb = '\xff'", "line 2: byte 0xff is not UTF-8" },
        { "a = 9223372036854775808", "line 1: the integer '9223372036854775808' does not fit in 64 bits" },
        { "a = 1e999", "line 1: the number '1e999' is too large" },
        { "a = 2023-02-29", "line 1: '2023-02-29' is no valid date or time" },
        { "a = 1 b = 2", "line 1: the end of the line expected, not 'b'" },
        { "a\n= 1", "line 1: '=' after a key expected, the line ends" },
        { "a =\n", "line 1: a value expected, the line ends" },
        { "= 1", "line 1: a key expected, not '='" },
        { "a = [1,\n2", "line 2: ',' or ']' of an array expected, the document ends" },
        { "a = {b = 1,\nc = 2}", "line 1: a key expected, the line ends" },
        { "[a", "line 1: ']' of a header expected, the document ends" },
        { "[[a]\n", "line 1: ']]' of a header expected, not ']'" },
        { "é = 1", "line 1: a key expected, not 'é'" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        assert_refused(rows[i].text, rows[i].message);
}

static void every_key_and_value_knows_its_line(void **state) {
    (void)state;
    kn_toml doc = { 0 };
    kn_error err = { 0 };
    assert_true(
        read_text("\r\na = '''\nx\n'''\nb = [\n  1,\n\n  2]\n[p.q]\nc = \"\"\"\\\n\n  x\"\"\"\nd = {e = 1}\n[p]\n"
                  "[[t]]\n[[t]]\n",
                  &doc, &err));
    assert_int_equal(kn_toml_find(&doc, "a", 1)->line, 2);
    assert_int_equal(get(&doc, "b")->line, 5);
    assert_int_equal(get(&doc, "b")->array.items[0].line, 6);
    assert_int_equal(get(&doc, "b")->array.items[1].line, 8);
    const kn_toml *q = get(get(&doc, "p"), "q");
    assert_int_equal(q->line, 9);
    assert_int_equal(get(q, "c")->line, 10);
    assert_string_equal(get(q, "c")->string.data, "x");
    assert_int_equal(get(q, "d")->line, 13);
    assert_int_equal(get(&doc, "p")->line, 14); /* its own header, not the one that passed through */
    assert_int_equal(get(&doc, "t")->array.items[1].line, 16);
    kn_toml_free(&doc);
}

/* Values */

static void keys_keep_their_order_and_any_character(void **state) {
    (void)state;
    kn_toml doc = { 0 };
    kn_error err = { 0 };
    assert_true(read_text("\xEF\xBB\xBFz = 1\n\"\" = 2\n'a.b' = 3\n\"n\\u0000l\" = \"\\u0000\"\na = 5", &doc, &err));
    static const struct {
        const char *key;
        size_t len;
    } keys[] = { { "z", 1 }, { "", 0 }, { "a.b", 3 }, { "n\0l", 3 }, { "a", 1 } };
    assert_int_equal(doc.table.n, KN_COUNT(keys));
    for (size_t i = 0; i < KN_COUNT(keys); i++) {
        assert_int_equal(doc.table.entries[i].key_len, keys[i].len);
        assert_memory_equal(doc.table.entries[i].key, keys[i].key, keys[i].len + 1);
    }
    assert_int_equal(kn_toml_find(&doc, "n\0l", 3)->value.string.len, 1);
    assert_null(kn_toml_find(&doc, "n", 1));
    kn_toml_free(&doc);
}

static void numbers_and_times_are_exact(void **state) {
    (void)state;
    kn_toml doc = { 0 };
    kn_error err = { 0 };
    assert_true(read_text("least = -9223372036854775808\nmost = 0x7fff_ffff_ffff_ffff\noctal = 0o755\nbits = 0b101\n"
                          "real = -1_000.5e-3\nminus_zero = -0.0\ntiny = 1e-400\n"
                          "when = 2016-12-31 23:59:60.1234567899-01:30\nmorning = 07:32:00.5\n",
                          &doc, &err));
    assert_true(get(&doc, "least")->integer == INT64_MIN);
    assert_true(get(&doc, "most")->integer == INT64_MAX);
    assert_int_equal(get(&doc, "octal")->integer, 493);
    assert_int_equal(get(&doc, "bits")->integer, 5);
    assert_true(get(&doc, "real")->real == -1.0005);
    assert_true(get(&doc, "minus_zero")->real == 0 && signbit(get(&doc, "minus_zero")->real));
    assert_true(get(&doc, "tiny")->real == 0);
    const kn_toml *when = get(&doc, "when"), *morning = get(&doc, "morning");
    assert_int_equal(when->kind, KN_TOML_OFFSET_DATE_TIME);
    assert_true(same_time(when->time, (kn_toml_time){ 2016, 12, 31, 23, 59, 60, -90, 123456789 }));
    assert_int_equal(morning->kind, KN_TOML_LOCAL_TIME);
    assert_int_equal(morning->time.nanosecond, 500000000);
    kn_toml_free(&doc);
}

static void a_table_may_be_passed_through_before_it_is_defined(void **state) {
    (void)state;
    kn_toml doc = { 0 };
    kn_error err = { 0 };
    assert_true(read_text("[a.b.c]\nx = 1\n[a]\ny = 2\nd.e = 3\n[a.d.f]\nz = 4\n[a.b]\n", &doc, &err));
    const kn_toml *a = get(&doc, "a");
    assert_int_equal(get(get(get(a, "b"), "c"), "x")->integer, 1);
    assert_int_equal(get(a, "y")->integer, 2);
    assert_int_equal(get(get(get(a, "d"), "f"), "z")->integer, 4);
    kn_toml_free(&doc);
    assert_refused("[a]\nd.e = 3\n[a.d]\n",
                   "line 3: 'd' is a table since line 2 and cannot be defined again or extended "
                   "here");
    assert_refused("a = {b = 1}\n[a.c]\n",
                   "line 2: 'a' is a table since line 1 and cannot be defined again or extended "
                   "here");
}

/* Limits */

static void nesting(kn_buf *b, const char *front, const char *open, const char *middle, const char *close, int n) {
    kn_buf_clear(b);
    assert_true(kn_buf_add_text(b, front));
    for (int i = 0; i < n; i++)
        assert_true(kn_buf_add_text(b, open));
    assert_true(kn_buf_add_text(b, middle));
    for (int i = 0; i < n; i++)
        assert_true(kn_buf_add_text(b, close));
}

static void nesting_stops_at_its_limit_in_every_syntax(void **state) {
    (void)state;
    /* How often the piece may be repeated so that the innermost thing lies at depth KN_TOML_DEPTH_MAX. */
    static const struct {
        const char *front, *open, *middle, *close;
        int most;
    } rows[] = {
        { "a = ", "[", "1", "]", KN_TOML_DEPTH_MAX - 1 },      { "a = ", "{b = ", "1", "}", KN_TOML_DEPTH_MAX - 1 },
        { "", "a.", "b = 1", "", KN_TOML_DEPTH_MAX - 1 },      { "[", "a.", "b]", "", KN_TOML_DEPTH_MAX - 1 },
        { "[a]\nb = ", "[", "1", "]", KN_TOML_DEPTH_MAX - 2 }, { "[[a]]\nb = ", "[", "1", "]", KN_TOML_DEPTH_MAX - 3 },
    };
    KN_AUTO_BUF b;
    kn_buf_init(&b, LIMIT);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_toml doc = { 0 };
        kn_error err = { 0 };
        nesting(&b, rows[i].front, rows[i].open, rows[i].middle, rows[i].close, rows[i].most);
        assert_true(read_text(b.data, &doc, &err));
        kn_toml_free(&doc);
        nesting(&b, rows[i].front, rows[i].open, rows[i].middle, rows[i].close, rows[i].most + 1);
        assert_false(read_text(b.data, &doc, &err));
        assert_non_null(strstr(err.text, ": nested more than 64 levels deep"));
        nesting(&b, rows[i].front, rows[i].open, rows[i].middle, rows[i].close, 50000);
        assert_false(read_text(b.data, &doc, &err));
    }
}

static void size_and_keys_of_a_table_have_ceilings(void **state) {
    (void)state;
    kn_toml doc = { 0 };
    kn_error err = { 0 };
    assert_true(kn_toml_read("a = 1", 5, 5, &doc, &err));
    kn_toml_free(&doc);
    assert_false(kn_toml_read("a = 1", 5, 4, &doc, &err));
    assert_int_equal(err.code, KN_E_RANGE);
    assert_string_equal(err.text, "has 5 bytes, at most 4 are allowed");

    KN_AUTO_BUF b;
    kn_buf_init(&b, LIMIT);
    for (int i = 0; i < KN_TOML_KEYS_MAX; i++)
        assert_true(kn_buf_printf(&b, "k%d = %d\n", i, i));
    err = (kn_error){ 0 };
    assert_true(read_text(b.data, &doc, &err));
    assert_int_equal(get(&doc, "k1023")->integer, 1023);
    kn_toml_free(&doc);
    assert_true(kn_buf_add_text(&b, "one.more = 1"));
    assert_refused(b.data, "line 1025: more than 1024 keys in one table");
}

static bool read_and_free(void *text, kn_error *err) {
    kn_toml doc = { 0 };
    bool ok = read_text(text, &doc, err);
    if (ok)
        kn_toml_free(&doc);
    return ok;
}

static void every_failed_allocation_is_an_error_without_a_leak(void **state) {
    (void)state;
    static char text[] = "a = \"x\\ny\"\n'b c' = [1, [2.5, '''z'''], {d = 1, e.f = 07:00:00}]\n"
                         "[t.u]\nk = true\n[[v.w]]\nx = 1\n[[v.w]]\ny = \"\"\"\nlong \\\n text\"\"\"\n";
    alloc_fail_each(read_and_free, text, 20, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suite_passes_case_by_case),
        cmocka_unit_test(survives_a_document_cut_anywhere),
        cmocka_unit_test(errors_name_the_line_and_the_reason),
        cmocka_unit_test(every_key_and_value_knows_its_line),
        cmocka_unit_test(keys_keep_their_order_and_any_character),
        cmocka_unit_test(numbers_and_times_are_exact),
        cmocka_unit_test(a_table_may_be_passed_through_before_it_is_defined),
        cmocka_unit_test(nesting_stops_at_its_limit_in_every_syntax),
        cmocka_unit_test(size_and_keys_of_a_table_have_ceilings),
        cmocka_unit_test(every_failed_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
