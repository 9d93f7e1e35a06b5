/* JSON objects of a known form: what is wrong, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_form.h"

enum { NAME, COUNT, BOXES };
static const char *const keys[] = { [NAME] = "name", [COUNT] = "count", [BOXES] = "boxes" };

typedef struct thing {
    char name[17];
    uint64_t count;
    size_t boxes;
} thing;

/* A thing may hold boxes, which are things. */
static void read_thing(kn_json_reader *j, const kn_form *outer, thing *t) {
    kn_form f;
    kn_json_text text;
    kn_form_open(&f, j, outer, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case NAME:
            if (kn_form_text(&f, 1, 16, &text))
                memcpy(t->name, text.data, text.len);
            break;
        case COUNT: kn_form_u64(&f, 1, 9, &t->count); break;
        case BOXES:
            for (bool in = kn_form_items(&f); in && kn_form_item(&f); t->boxes++)
                read_thing(j, &f, &(thing){ 0 });
            break;
        }
    }
    kn_form_need(&f, NAME);
}

static bool read_text(const char *json, thing *t, kn_buf *pointer, kn_error *err) {
    kn_json_text all = { json, strlen(json) };
    kn_json_reader j;
    *t = (thing){ 0 };
    *err = (kn_error){ 0 };
    kn_json_begin(&j, all, all, err);
    j.pointer = pointer;
    read_thing(&j, NULL, t);
    bool ok = kn_json_finish(&j);
    kn_json_close(&j);
    return ok;
}

static void reads_what_has_the_form(void **state) {
    (void)state;
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 100);
    thing t;
    kn_error err;
    if (!read_text("{\"count\": 9, \"name\": \"a \\u00e9\", \"boxes\": [{\"name\": \"b\", \"boxes\": []}, "
                   "{\"name\":\"c\"}]}",
                   &t, &pointer, &err))
        fail_msg("%s", err.text);
    assert_string_equal(t.name, "a \u00E9");
    assert_int_equal(t.count, 9);
    assert_int_equal(t.boxes, 2);
    assert_int_equal(pointer.len, 0);
}

/* What a client has sent may be anything, and errors go further than answers. */
static void what_was_sent_is_not_repeated(void **state) {
    (void)state;
    static const char *const words[] = { "fast", "slow" };
    static const struct {
        const char *json, *file, *sent;
    } rows[] = {
        { "{\"name\": \"my secret\"}", "name: 'my secret' is not known; known: fast, slow",
          "name: the word is not known; known: fast, slow" },
        { "{\"name\": \"fats\"}", "name: 'fats' is not known; known: fast, slow (did you mean 'fast'?)",
          "name: the word is not known; known: fast, slow (did you mean 'fast'?)" },
        { "{\"count\": 4711}", "count: 4711 is outside 1 to 9", "count: a whole number from 1 to 9 is expected" },
        { "{\"count\": -4711}", "count: a whole number from 1 to 9 is expected",
          "count: a whole number from 1 to 9 is expected" },
    };
    for (size_t i = 0; i < 2 * KN_COUNT(rows); i++) {
        kn_json_text text = { rows[i / 2].json, strlen(rows[i / 2].json) };
        kn_json_reader j;
        kn_form f;
        kn_error err = { 0 };
        uint64_t number;
        size_t word;
        if (i % 2)
            kn_json_begin_inside(&j, text, "the body", &err);
        else
            kn_json_begin(&j, text, text, &err);
        kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
        for (int key; kn_form_next(&f, &key);)
            if (key == NAME)
                kn_form_word(&f, words, KN_COUNT(words), &word);
            else
                kn_form_u64(&f, 1, 9, &number);
        assert_false(kn_form_finish(&f));
        assert_string_equal(err.text, i % 2 ? rows[i / 2].sent : rows[i / 2].file);
    }
}

static void errors_begin_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *json, *text, *pointer;
    } rows[] = {
        { "{}", "the key 'name' is missing", "" },
        { "[]", "an object is expected", "" },
        { "{\"name\": \"a\", \"size\": 1}", "unknown key 'size'; known: name, count, boxes", "/size" },
        { "{\"naem\": \"a\"}", "unknown key 'naem'; known: name, count, boxes (did you mean 'name'?)", "/naem" },
        { "{\"name\": \"a\", \"name\": \"b\"}", "the key 'name' comes twice", "/name" },
        { "{\"name\": \"a\", \"n\\u0061me\": \"b\"}", "the key 'name' comes twice", "/name" },
        { "{\"count\": 10}", "count: 10 is outside 1 to 9", "/count" },
        { "{\"count\": \"1\"}", "count: a number from 1 to 9 is expected", "/count" },
        { "{\"count\": -1}", "count: a whole number from 1 to 9 is expected", "/count" },
        { "{\"count\": 1.5}", "count: a whole number from 1 to 9 is expected", "/count" },
        { "{\"count\": 1e0}", "count: a whole number from 1 to 9 is expected", "/count" },
        { "{\"count\": 99999999999999999999999999}", "count: 99999999999999999999999999 is outside 1 to 9", "/count" },
        { "{\"count\": 01}", "count: line 1, column 13: a number without leading zeros is expected", "/count" },
        { "{\"name\": 1}", "name: a text in quotes is expected", "/name" },
        { "{\"name\": \"\"}", "name: a text of 1 to 16 bytes is expected, this one has 0", "/name" },
        { "{\"name\": \"12345678901234567\"}", "name: a text of 1 to 16 bytes is expected, this one has 17", "/name" },
        { "{\"name\": \"a\\nb\"}", "name: the text holds a control character", "/name" },
        { "{\"name\": \"a\", \"boxes\": {}}", "boxes: an array is expected", "/boxes" },
        { "{\"name\": \"a\", \"boxes\": [{\"name\": \"b\"}, 7]}", "boxes[1]: an object is expected", "/boxes/1" },
        { "{\"boxes\": [{\"name\": \"b\", \"boxes\": [{\"name\": \"c\", \"count\": 0}]}]}",
          "boxes[0].boxes[0].count: 0 is outside 1 to 9", "/boxes/0/boxes/0/count" },
        { "{\"boxes\": [{\"name\": \"b\"}, {\"x\": 1}]}", "boxes[1]: unknown key 'x'; known: name, count, boxes",
          "/boxes/1/x" },
        { "{\"a/b~c\": 1}", "unknown key 'a/b~c'; known: name, count, boxes", "/a~1b~0c" },
        { "{\"boxes\": [{\"1234567890123456789012345678901234567890123456789012345678901234\": 1}]}",
          "boxes[0]: unknown key '123456789012345678901234567890123456789012345678…'; known: name, count, boxes",
          "/boxes/0" },
        { "{\"name\": \"a\\u0000b\"}", "name: line 1, column 18: a text holds a NUL character", "/name" },
        { "{\"boxes\": [{\"name\": \"a\xFF\"}]}", "boxes[0].name: line 1, column 23: the bytes are not UTF-8",
          "/boxes/0/name" },
        { "{\"boxes\": [{\"name\": \"a\"}, {\"count\" 1}]}", "boxes[1]: line 1, column 36: a colon is expected",
          "/boxes/1" },
        { "{\"boxes\": [{\"name\": \"a\"} {}]}",
          "boxes: line 1, column 26: a comma or the end of the array or object is expected", "/boxes" },
        { "{\"boxes\": [{}]}", "boxes[0]: the key 'name' is missing", "/boxes/0" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF pointer;
        kn_buf_init(&pointer, 100);
        thing t;
        kn_error err;
        assert_false(read_text(rows[i].json, &t, &pointer, &err));
        if (strcmp(err.text, rows[i].text) != 0 || strcmp(pointer.data, rows[i].pointer) != 0)
            fail_msg("%s\n  says '%s' at '%s'", rows[i].json, err.text, pointer.data);
    }
}

static void what_is_not_json_is_said_by_line(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "", "an object is expected" },
        { "{\"name\": \"a\"\n \"count\": 1}", "line 2, column 2" },
        { "{\"name\": \"a\"} x", "line 1, column 15" },
        { "{\"name\": \"\xFF\"}", "line 1, column 11" },
        { "{\"name\": \"a", "line 1, column 12: the file ends" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF pointer;
        kn_buf_init(&pointer, 100);
        thing t;
        kn_error err;
        assert_false(read_text(rows[i][0], &t, &pointer, &err));
        if (!strstr(err.text, rows[i][1]))
            fail_msg("%s\n  says '%s'", rows[i][0], err.text);
    }
}

enum { SIZE, LOOKS, OPEN, NOTE, SHAPE, INSIDE };
static const char *const more_keys[] = {
    [SIZE] = "size", [LOOKS] = "nothing", [OPEN] = "open", [NOTE] = "note", [SHAPE] = "shape", [INSIDE] = "inside"
};

typedef struct more {
    double size;
    bool is_null, open;
    char note[64];
    size_t shape;
} more;

static void read_more(kn_json_reader *j, const kn_form *outer, kn_form *f, more *m) {
    static const char *const shapes[] = { "round", "square" };
    kn_json_text text;
    kn_form_open(f, j, outer, more_keys, KN_COUNT(more_keys));
    for (int key; kn_form_next(f, &key);) {
        switch (key) {
        case SIZE: kn_form_real(f, -1, 2.5, &m->size); break;
        case LOOKS:
            m->is_null = kn_form_null(f);
            if (!m->is_null)
                kn_form_bool(f, &m->open);
            break;
        case OPEN: kn_form_bool(f, &m->open); break;
        case NOTE:
            if (kn_form_prose(f, 1, 4, &text))
                memcpy(m->note, text.data, text.len);
            break;
        case SHAPE: kn_form_word(f, shapes, KN_COUNT(shapes), &m->shape); break;
        case INSIDE: {
            kn_form inside;
            read_more(j, f, &inside, m);
            break;
        }
        }
    }
}

static bool read_more_text(const char *json, more *m, kn_buf *pointer, kn_error *err) {
    const kn_json_text all = { json, strlen(json) };
    kn_json_reader j;
    kn_form f;
    *m = (more){ 0 };
    kn_json_begin(&j, all, all, err);
    j.pointer = pointer;
    read_more(&j, NULL, &f, m);
    return kn_form_finish(&f);
}

static void numbers_words_and_prose_are_read(void **state) {
    (void)state;
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 100);
    more m;
    kn_error err = { 0 };
    assert_true(read_more_text("{\"size\": -0.25e1, \"nothing\": null, \"open\": true}", &m, &pointer, &err) ==
                false); /* below -1 */
    kn_buf_clear(&pointer);
    err = (kn_error){ 0 };
    if (!read_more_text("{\"size\": 2.5, \"nothing\": null, \"open\": true, \"note\": \"a\\n\\u20ac\\t\", "
                        "\"shape\": \"square\"}",
                        &m, &pointer, &err))
        fail_msg("%s", err.text);
    assert_true(m.size > 2.49 && m.size < 2.51 && m.is_null && m.open);
    assert_string_equal(m.note, "a\n\u20ac\t");
    assert_int_equal(m.shape, 1);
}

/* The place is that of the innermost form, also when those outside of it have no more to say. */
static void an_error_inside_is_pointed_at(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "{\"size\": 1e999}", "/size" },
        { "{\"size\": \"1\"}", "/size" },
        { "{\"open\": 1}", "/open" },
        { "{\"nothing\": 0}", "/nothing" },
        { "{\"note\": \"\"}", "/note" },
        { "{\"note\": \"12345\"}", "/note" },
        { "{\"shape\": \"oval\"}", "/shape" },
        { "{\"inside\": {\"inside\": {\"shape\": 1}}}", "/inside/inside/shape" },
        { "{\"inside\": {\"unknown\": 1}}", "/inside/unknown" },
        { "{\"inside\": {\"note\": \"\\ud800\"}}", "/inside/note" },
        { "{} x", "" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF pointer;
        kn_buf_init(&pointer, 100);
        more m;
        kn_error err = { 0 };
        assert_false(read_more_text(rows[i][0], &m, &pointer, &err));
        if (strcmp(pointer.data, rows[i][1]) != 0)
            fail_msg("%s\n  is refused at '%s': %s", rows[i][0], pointer.data, err.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_has_the_form),          cmocka_unit_test(errors_begin_with_their_place),
        cmocka_unit_test(what_was_sent_is_not_repeated),    cmocka_unit_test(what_is_not_json_is_said_by_line),
        cmocka_unit_test(numbers_words_and_prose_are_read), cmocka_unit_test(an_error_inside_is_pointed_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
