/* What servers say, which pieces of a file are there, and the journal of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "catalog/pieces.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static kn_pieces pieces_of(uint64_t bytes, uint64_t piece_bytes) {
    kn_pieces p;
    kn_error err = { 0 };
    assert_true(kn_pieces_new(bytes, piece_bytes, &p, &err));
    return p;
}

static void assert_stretch(kn_stretch s, uint64_t at, uint64_t end) {
    assert_int_equal(s.at, at);
    assert_int_equal(s.end, end);
}

static void pieces_are_handed_out_once_and_in_order(void **state) {
    (void)state;
    kn_pieces p = pieces_of(1001, 100);
    kn_stretch s;
    assert_int_equal(p.count, 11);
    assert_true(kn_pieces_take(&p, 3, &s));
    assert_stretch(s, 0, 300);
    assert_true(kn_pieces_take(&p, 100, &s));
    assert_stretch(s, 300, 1001);
    assert_false(kn_pieces_take(&p, 1, &s));
    kn_piece_finish(&p, 1);
    kn_pieces_return(&p, 50, 300); /* half of the first one came */
    assert_int_equal(p.free, 2);
    assert_int_equal(p.done, 1);
    assert_true(kn_pieces_take(&p, 5, &s));
    assert_stretch(s, 50, 100);
    assert_true(kn_pieces_take(&p, 5, &s));
    assert_stretch(s, 200, 300);
    kn_pieces_clear(&p);
    assert_true(kn_pieces_take(&p, 1, &s));
    assert_stretch(s, 0, 100);
    kn_pieces_free(&p);
}

static void a_file_of_one_byte_is_one_piece(void **state) {
    (void)state;
    kn_pieces p = pieces_of(1, KN_PIECE_BYTES);
    kn_stretch s;
    assert_true(kn_pieces_take(&p, 1, &s));
    assert_stretch(s, 0, 1);
    kn_piece_finish(&p, 0);
    kn_piece_finish(&p, 0);
    assert_int_equal(p.done, p.count);
    kn_pieces_free(&p);
}

static void a_journal_that_was_written_is_read_again(void **state) {
    (void)state;
    kn_pieces p = pieces_of(1001, 100), q = pieces_of(1001, 100);
    char etag[KN_ETAG_BYTES] = "";
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1000);
    kn_piece_finish(&p, 10);
    kn_piece_finish(&p, 3);
    p.part[4] = 17;
    assert_true(kn_journal_write_head(&p, HASH, "\"tag\"", &text) && kn_journal_write_piece(&p, 10, &text) &&
                kn_journal_write_piece(&p, 4, &text) && kn_journal_write_piece(&p, 3, &text));
    assert_true(kn_journal_read(text.data, text.len, HASH, &q, etag));
    assert_string_equal(etag, "\"tag\"");
    assert_int_equal(q.done, 2);
    assert_int_equal(q.part[4], 17);
    assert_memory_equal(p.state, q.state, p.count);
    kn_pieces_free(&p);
    kn_pieces_free(&q);
}

#define HEAD "kuno-download 1\nbytes 1001\nsha256 " HASH "\npiece 100\n"

static void a_journal_counts_as_far_as_it_is_understood(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
        size_t done;
    } cases[] = {
        { HEAD, true, 0 },
        { HEAD "done 0\ndone 5\n", true, 2 },
        { HEAD "done 0\ndone 1", true, 1 }, /* the power ended here */
        { HEAD "done 0\nxxxx\ndone 1\n", true, 1 },
        { HEAD "done 0\ndone 11\ndone 1\n", true, 1 },
        { HEAD "done -1\n", true, 0 },
        { HEAD "done 18446744073709551616\n", true, 0 },
        { HEAD "done 01\n", true, 1 },
        { HEAD "part 0 100\ndone 1\n", true, 0 },
        { HEAD "part 10 0\ndone 1\n", true, 1 },
        { HEAD "part 11 1\ndone 1\n", true, 0 },
        { HEAD "part 1\ndone 1\n", true, 0 },
        { HEAD "etag W/\"weak\"\ndone 1\n", true, 0 },
        { HEAD "done 1\netag \"late\"\ndone 2\n", true, 1 },
        { "kuno-download 1\nbytes 1002\nsha256 " HASH "\npiece 100\ndone 0\n", false, 0 },
        { "kuno-download 1\nbytes 1001\nsha256 " HASH "\npiece 101\ndone 0\n", false, 0 },
        { "kuno-download 2\nbytes 1001\nsha256 " HASH "\npiece 100\ndone 0\n", false, 0 },
        { "kuno-download 1\n", false, 0 },
        { "", false, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        kn_pieces p = pieces_of(1001, 100);
        char etag[KN_ETAG_BYTES];
        bool good = kn_journal_read(cases[i].text, strlen(cases[i].text), HASH, &p, etag);
        if (good != cases[i].good || p.done != cases[i].done)
            fail_msg("%zu: %d, %zu done", i, good, p.done);
        kn_pieces_free(&p);
    }
}

/* ---- answers ---- */

static kn_answer answer_of(const char *const *lines) {
    kn_answer a;
    kn_answer_begin(&a);
    for (; *lines; lines++)
        kn_answer_line(&a, *lines, strlen(*lines));
    return a;
}

static void reads_what_the_bytes_are(void **state) {
    (void)state;
    kn_answer a = answer_of((const char *const[]){ "HTTP/1.1 206 Partial Content\r\n",
                                                   "content-RANGE:  bytes 5-9/100 \r\n", "Content-Length: 5\r\n",
                                                   "ETag: \"x\"\r\n", "Content-Encoding: Identity\r\n", "\r\n", NULL });
    assert_true(a.has_range && !a.is_nonsense && !a.is_encoded);
    assert_int_equal(a.first, 5);
    assert_int_equal(a.last, 9);
    assert_int_equal(a.total, 100);
    assert_int_equal(a.length, 5);
    assert_string_equal(a.etag, "\"x\"");
}

static void a_later_answer_begins_anew(void **state) {
    (void)state;
    kn_answer a = answer_of((const char *const[]){ "HTTP/1.1 302 Found", "ETag: \"way\"", "Content-Length: 9",
                                                   "HTTP/1.1 200 OK", "ETag: W/\"weak\"", NULL });
    assert_string_equal(a.etag, "");
    assert_true(a.length == KN_SIZE_UNKNOWN && !a.has_range && !a.is_nonsense);
}

static void ranges_are_understood_or_nonsense(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool has_range, nonsense;
    } cases[] = {
        { "Content-Range: bytes 0-0/1", true, false },
        { "Content-Range: bytes 0-0/*", true, false },
        { "Content-Range: bytes */77", false, false },
        { "Content-Range: bytes */*", false, true },
        { "Content-Range: bytes 0-1/1", true, true },
        { "Content-Range: bytes 2-1/9", true, true },
        { "Content-Range: bytes -1/9", false, true },
        { "Content-Range: bytes 0-/9", false, true },
        { "Content-Range: bytes 0-1", false, true },
        { "Content-Range: bytes 0x0-1/9", false, true },
        { "Content-Range: bytes 0-18446744073709551616/9", false, true },
        { "Content-Range: bytes 0-18446744073709551615/*", false, true },
        { "Content-Range: lines 0-1/9", false, true },
        { "Content-Range: ", false, true },
        { "Content-Length: x", false, true },
        { "Content-Length: 5\0 6", false, false },
        { "no colon at all", false, false },
        { ":", false, false },
    };
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        kn_answer a = answer_of((const char *const[]){ cases[i].line, NULL });
        if (a.has_range != cases[i].has_range || a.is_nonsense != cases[i].nonsense)
            fail_msg("%s", cases[i].line);
    }
    assert_true(answer_of((const char *const[]){ "Content-Range: bytes 0-1/9", "Content-Range: bytes 0-1/9", NULL })
                    .is_nonsense);
    assert_true(answer_of((const char *const[]){ "Content-Length: 5", "Content-Length: 6", NULL }).is_nonsense);
    assert_true(answer_of((const char *const[]){ "ETag: \"a\"", "ETag: \"b\"", NULL }).is_nonsense);
    assert_true(answer_of((const char *const[]){ "Content-Encoding: gzip", NULL }).is_encoded);
}

static void only_strong_entity_tags_are_given_back(void **state) {
    (void)state;
    char endless[KN_ETAG_BYTES + 2];
    memset(endless, 'a', sizeof endless);
    endless[0] = endless[sizeof endless - 2] = '"';
    endless[sizeof endless - 1] = 0;
    static const char *const weak[] = { "W/\"a\"", "\"", "a", "", "\"a\"b\"", "\"a b\"", "\"a\r\nX: y\"", "\"a\"\n" };
    for (size_t i = 0; i < KN_COUNT(weak); i++)
        assert_false(kn_etag_is_strong(weak[i], strlen(weak[i])));
    assert_false(kn_etag_is_strong(endless, strlen(endless)));
    assert_true(kn_etag_is_strong("\"\"", 2));
    assert_true(kn_etag_is_strong("\"5f-2c\"", 7));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_handed_out_once_and_in_order),
        cmocka_unit_test(a_file_of_one_byte_is_one_piece),
        cmocka_unit_test(a_journal_that_was_written_is_read_again),
        cmocka_unit_test(a_journal_counts_as_far_as_it_is_understood),
        cmocka_unit_test(reads_what_the_bytes_are),
        cmocka_unit_test(a_later_answer_begins_anew),
        cmocka_unit_test(ranges_are_understood_or_nonsense),
        cmocka_unit_test(only_strong_entity_tags_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
