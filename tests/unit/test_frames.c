/* KIP1: frames as bytes, and the other way round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workers/frames.h"

static void has_the_bytes_of_the_protocol(void **state) {
    (void)state;
    static const uint8_t want[] = { 'K', 'I', 'P', '1', 2, 0x01, 0x02, 0x03, 0x04 };
    uint8_t header[KN_FRAME_HEADER], number[4];
    kn_frame_header(KN_FRAME_FINAL, 0x01020304, header);
    assert_memory_equal(header, want, sizeof want);
    kn_frame_put(number, 0xFEDCBA98);
    assert_memory_equal(number, ((const uint8_t[]){ 0xFE, 0xDC, 0xBA, 0x98 }), 4);
    assert_int_equal(kn_frame_get(number), 0xFEDCBA98);
}

static void has_the_limits_of_the_protocol(void **state) {
    (void)state;
    assert_int_equal(kn_frame_limit(KN_FRAME_PREVIEW), 1 << 20);
    assert_int_equal(kn_frame_limit(KN_FRAME_FINAL), 20 << 20);
    assert_int_equal(kn_frame_limit(KN_FRAME_DRAW), 64 << 20);
    assert_int_equal(kn_frame_limit(KN_FRAME_CONVERT), 8 + (256 << 20));
    assert_int_equal(kn_frame_limit(KN_FRAME_FACTOR), 4);
    assert_int_equal(kn_frame_limit(KN_FRAME_FOUND), 4 << 20);
    assert_int_equal(kn_frame_limit(0), 0);
    assert_int_equal(kn_frame_limit(255), 0);
}

/* Two frames, cut into pieces of every size. */
static void puts_frames_together_however_they_are_cut(void **state) {
    (void)state;
    uint8_t bytes[2 * KN_FRAME_HEADER + 5];
    kn_frame_header(KN_FRAME_FINAL, 5, bytes);
    memcpy(bytes + KN_FRAME_HEADER, "hello", 5);
    kn_frame_header(KN_FRAME_READY, 0, bytes + KN_FRAME_HEADER + 5);
    for (size_t piece = 1; piece <= sizeof bytes; piece++) {
        kn_frame_reader r;
        kn_error err = { 0 };
        unsigned seen = 0;
        kn_frame_reader_init(&r, KN_FROM_WORKER);
        for (const uint8_t *at = bytes; at < bytes + sizeof bytes;) {
            const uint8_t *end = at + KN_MIN(piece, (size_t)(bytes + sizeof bytes - at));
            while (at < end) {
                bool complete = false;
                assert_true(kn_frame_reader_take(&r, &at, end, &complete, &err));
                if (complete && seen++ == 0) {
                    assert_int_equal(r.kind, KN_FRAME_FINAL);
                    assert_int_equal(r.payload.len, 5);
                    assert_string_equal(r.payload.data, "hello");
                } else if (complete) {
                    assert_int_equal(r.kind, KN_FRAME_READY);
                    assert_int_equal(r.payload.len, 0);
                }
            }
        }
        assert_int_equal(seen, 2);
        kn_frame_reader_free(&r);
    }
}

static void refuses_what_is_no_frame_of_that_side(void **state) {
    (void)state;
    static const struct {
        const char *header, *error;
        kn_frame_side side;
    } rows[] = {
        { "KIP2\2\0\0\0\1", "a frame does not begin with KIP1", KN_FROM_WORKER },
        { "KIP1\13\0\0\0\1", "a frame of kind 11, which does not belong here", KN_FROM_WORKER },
        { "KIP1\10\20\0\0\1", "a frame of kind 8 has 268435457 bytes, from 1 to 268435456 are possible",
          KN_FROM_WORKER },
        { "KIP1\20\0\0\0\1", "a frame of kind 16, which does not belong here", KN_FROM_WORKER },
        { "KIP1\2\0\0\0\1", "a frame of kind 2, which does not belong here", KN_FROM_SERVER },
        { "KIP1\2\1\100\0\1", "a frame of kind 2 has 20971521 bytes, from 1 to 20971520 are possible", KN_FROM_WORKER },
        { "KIP1\1\0\20\0\1", "a frame of kind 1 has 1048577 bytes, from 16 to 1048576 are possible", KN_FROM_WORKER },
        { "KIP1\4\0\0\0\13", "a frame of kind 4 has 11 bytes, from 12 to 12 are possible", KN_FROM_WORKER },
        { "KIP1\23\0\0\0\1", "a frame of kind 19 has 1 bytes, from 0 to 0 are possible", KN_FROM_SERVER },
        { "KIP1\20\377\377\377\377", "a frame of kind 16 has 4294967295 bytes, from 0 to 67108864 are possible",
          KN_FROM_SERVER },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_frame_reader r;
        kn_error err = { 0 };
        bool complete = true;
        const uint8_t *at = (const uint8_t *)rows[i].header;
        kn_frame_reader_init(&r, rows[i].side);
        assert_false(kn_frame_reader_take(&r, &at, at + KN_FRAME_HEADER, &complete, &err));
        assert_false(complete);
        assert_string_equal(err.text, rows[i].error);
        kn_frame_reader_free(&r);
    }
}

static void takes_no_memory_for_what_is_only_announced(void **state) {
    (void)state;
    kn_frame_reader r;
    kn_error err = { 0 };
    bool complete = true;
    uint8_t bytes[KN_FRAME_HEADER + 1] = { 0 };
    const uint8_t *at = bytes;
    kn_frame_header(KN_FRAME_DRAW, KN_RECIPE_BYTES, bytes);
    kn_frame_reader_init(&r, KN_FROM_SERVER);
    assert_true(kn_frame_reader_take(&r, &at, bytes + sizeof bytes, &complete, &err));
    assert_false(complete);
    assert_true(r.payload.room < 100);
    kn_frame_reader_free(&r);
}

static void checks_what_a_preview_says_of_itself(void **state) {
    (void)state;
    static const struct {
        uint32_t numbers[4];
        bool good;
    } rows[] = {
        { { 3, 8, 512, 1 }, true },  { { 8, 8, 8, 8 }, true },  { { 9, 8, 8, 8 }, false },
        { { 1, 8, 513, 8 }, false }, { { 1, 8, 8, 0 }, false }, { { 1, 8, 8, 0xFFFFFFFF }, false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        uint8_t payload[16 + 3];
        kn_frame_preview p;
        kn_error err = { 0 };
        memcpy(payload + 16, "PNG", 3);
        for (size_t k = 0; k < 4; k++)
            kn_frame_put(payload + 4 * k, rows[i].numbers[k]);
        assert_int_equal(kn_frame_preview_read(payload, sizeof payload, &p, &err), rows[i].good);
        if (rows[i].good) {
            assert_int_equal(p.step, rows[i].numbers[0]);
            assert_int_equal(p.height, rows[i].numbers[3]);
            assert_int_equal(p.png_len, 3);
            assert_memory_equal(p.png, "PNG", 3);
        }
        assert_false(kn_frame_preview_read(payload, 15, &p, NULL));
    }
}

static void checks_what_a_picture_says_of_its_colours(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t len; /* that is said */
        bool good;
    } rows[] = {
        { "", 0, true },         { "Display P3", 10, true }, { "caf\xC3\xA9", 5, true },
        { "caf\xC3", 4, false }, { "two\nlines", 9, false }, { "\x7F", 1, false },
        { "a\0b", 3, false },    { "a", 5, false },          { "a", 0xFFFFFFFF, false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        uint8_t payload[16 + 40];
        size_t len = KN_MIN((size_t)rows[i].len, strlen(rows[i].name) + 1), all = 16 + len + 3;
        kn_frame_picture p;
        kn_error err = { 0 };
        for (uint32_t k = 0; k < 3; k++)
            kn_frame_put(payload + 4 * (size_t)k, 70 + k);
        kn_frame_put(payload + 12, rows[i].len);
        memcpy(payload + 16, rows[i].name, len);
        memcpy(payload + 16 + len, "PNG", 3);
        if (kn_frame_picture_read(payload, all, &p, &err) != rows[i].good)
            fail_msg("row %zu: %s", i, err.text);
        if (rows[i].good) {
            assert_int_equal(p.width, 70);
            assert_int_equal(p.height, 71);
            assert_int_equal(p.traits, 72);
            assert_string_equal(p.profile.text, rows[i].name);
            assert_int_equal(p.png_len, 3);
            assert_memory_equal(p.png, "PNG", 3);
        }
        assert_false(kn_frame_picture_read(payload, 15, &p, NULL));
    }
    uint8_t payload[16 + KN_ICC_NAME_BYTES] = { 0 };
    kn_frame_picture p;
    memset(payload + 16, 'a', KN_ICC_NAME_BYTES);
    kn_frame_put(payload + 12, KN_ICC_NAME_BYTES - 1);
    assert_true(kn_frame_picture_read(payload, sizeof payload, &p, NULL));
    kn_frame_put(payload + 12, KN_ICC_NAME_BYTES); /* no room for its end */
    assert_false(kn_frame_picture_read(payload, sizeof payload, &p, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_bytes_of_the_protocol),
        cmocka_unit_test(has_the_limits_of_the_protocol),
        cmocka_unit_test(puts_frames_together_however_they_are_cut),
        cmocka_unit_test(refuses_what_is_no_frame_of_that_side),
        cmocka_unit_test(takes_no_memory_for_what_is_only_announced),
        cmocka_unit_test(checks_what_a_preview_says_of_itself),
        cmocka_unit_test(checks_what_a_picture_says_of_its_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
