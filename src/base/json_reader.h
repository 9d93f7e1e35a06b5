/* JSON as a stream, for what model folders hold: files of a known form where a tree would cost many times the text, and
 * texts that must not be believed. (jansson's trees take twenty times the text, and its version 2.14 writes beyond its
 * buffer when memory runs out inside a string.) Small documents of our own are read with jansson.
 *
 *     kn_json_reader j;
 *     kn_json_begin(&j, file, file, err);
 *     kn_json_object(&j);
 *     while (kn_json_key(&j, &key))
 *         if (kn_json_is(key, "id"))
 *             kn_json_u64(&j, &id);
 *         else
 *             kn_json_skip(&j, NULL);
 *     bool good = kn_json_finish(&j);
 *     kn_json_close(&j);
 *
 * Strict (RFC 8259, valid UTF-8, at most KN_JSON_MAX_DEPTH levels), without recursion, and in memory only as large as
 * the longest string that has escapes. Strings hold no NUL, written "\u0000" in JSON: as C strings they would end there
 * without a word; nor lone surrogates. A loose reader takes both, and a million levels, as the grammar of RFC 8259
 * does: it tells what is no JSON from what is JSON that is not taken here. Whether a key may come twice is for the
 * caller to say. The first error is kept: whatever is called after it does nothing and returns false, so that one check
 * at the end (of `failed`, in the middle of a document) is enough. */
#ifndef KN_BASE_JSON_READER_H
#define KN_BASE_JSON_READER_H

#include <stdint.h>

#include "base/buf.h"

enum { KN_JSON_MAX_DEPTH = 64 };

/* Bytes that somebody else owns, not terminated. */
typedef struct kn_json_text {
    const char *data;
    size_t len;
} kn_json_text;

typedef struct kn_json_reader {
    const char *start, *at, *end;
    const char *what; /* NULL: a file */
    uint64_t objects; /* bit n: level n is an object, not an array */
    size_t depth;
    bool loose;    /* set it after the beginning */
    bool replaced; /* loose: U+FFFD stands in the last string for a NUL or a lone surrogate */
    kn_buf deeper; /* loose: the kinds of the levels for which `objects` has no bit */
    bool fresh;    /* nothing has been read yet in the innermost level */
    bool failed;
    bool placed; /* the error says which value it is about (json_form.h) */
    kn_buf decoded;
    kn_buf *pointer; /* NULL, or where forms (json_form.h) write the JSON Pointer of what they refuse */
    kn_error *err;
} kn_json_reader;

/* Reads `part`, which lies within `document`; errors give the place in the document. Both are the same for a whole
 * file. */
void kn_json_begin(kn_json_reader *j, kn_json_text document, kn_json_text part, kn_error *err);

/* Reads a text inside of something else, called `what` in errors: "its header is broken at byte 12: …". */
void kn_json_begin_inside(kn_json_reader *j, kn_json_text text, const char *what, kn_error *err);

void kn_json_close(kn_json_reader *j);

/* The first byte of the next value, which tells its kind: { [ " t f n - or a digit. 0 at the end. */
char kn_json_peek(kn_json_reader *j);

/* Enters an object; kn_json_key then gives one key after the other and false behind the last one. After each key its
 * value must be read or skipped. The key is valid until the next string is read. */
bool kn_json_object(kn_json_reader *j);
bool kn_json_key(kn_json_reader *j, kn_json_text *ret);

/* Enters an array; kn_json_item is true while there is another value, which must then be read or skipped. */
bool kn_json_array(kn_json_reader *j);
bool kn_json_item(kn_json_reader *j);

/* The string without its escapes: in the document where there are none, else in the reader until the next string. */
bool kn_json_string(kn_json_reader *j, kn_json_text *ret);
bool kn_json_u64(kn_json_reader *j, uint64_t *ret); /* exactly */
bool kn_json_bool(kn_json_reader *j, bool *ret);

/* Steps over any value after checking it. ret (may be NULL): where it stands in the document. */
bool kn_json_skip(kn_json_reader *j, kn_json_text *ret);

/* True when the value was read without error and only white space follows. */
bool kn_json_finish(kn_json_reader *j);

/* Whether the text is one JSON value and nothing else, by the grammar alone: the strict reader may still refuse it. */
bool kn_json_check(kn_json_text text, kn_error *err);

bool kn_json_is(kn_json_text text, const char *word);
bool kn_json_starts(kn_json_text text, const char *start);

#endif
