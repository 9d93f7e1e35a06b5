/* JSON objects of a known form, for what people write for us and programs send to us: each key may come once, a key
 * that nobody knows is refused with the one that was probably meant, and every error begins with its place.
 *
 *     enum { PORT, NAMES };
 *     static const char *const keys[] = { [PORT] = "port", [NAMES] = "names" };
 *     kn_form f;
 *     kn_form_open(&f, &j, outer, keys, KN_COUNT(keys));
 *     for (int key; kn_form_next(&f, &key);)
 *         switch (key) {
 *         case PORT: kn_form_u64(&f, 1, 65535, &port); break;
 *         case NAMES:
 *             for (bool in = kn_form_items(&f); in && kn_form_item(&f);)
 *                 kn_form_text(&f, 1, 100, &name);
 *         }
 *     kn_form_need(&f, PORT);
 *
 * Errors: "workers[1].device.port: 70000 is outside 1 to 65535"; those of the reader, too, once kn_form_next is asked
 * for another key. Names of keys are repeated in them, values only where a person wrote them into a file: what a client
 * has sent ("inside of something else") may be anything. As with the reader below it, after the first error nothing
 * more is read, so that the reader's `failed` is the one thing to look at. */
#ifndef KN_BASE_JSON_FORM_H
#define KN_BASE_JSON_FORM_H

#include <stddef.h>

#include "base/json_reader.h"

enum { KN_FORM_KEYS_MAX = 64, KN_FORM_STRANGER_BYTES = 64 };

typedef struct kn_form {
    kn_json_reader *j;
    const struct kn_form *outer; /* NULL: the whole document */
    const char *const *keys;
    size_t count;
    uint64_t seen;  /* bit n: keys[n] came */
    bool tolerant;  /* set it after opening: keys that nobody knows are stepped over */
    int key;        /* whose value is being read; -1: none */
    ptrdiff_t item; /* of an array that is being read there; -1: none */
    /* The key that has no place here; empty: none, or one too long to be named. */
    char stranger[KN_FORM_STRANGER_BYTES];
} kn_form;

/* Enters an object; false if there is none. At most KN_FORM_KEYS_MAX keys. */
bool kn_form_open(kn_form *f, kn_json_reader *j, const kn_form *outer, const char *const *keys, size_t count);

/* The number of the next key; false behind the last one and after an error. Its value must then be read. */
bool kn_form_next(kn_form *f, int *ret);

/* After the last key: an error if this one was missing. */
bool kn_form_need(kn_form *f, int key);
bool kn_form_has(const kn_form *f, int key);

/* Enters an array and steps through it. */
bool kn_form_items(kn_form *f);
bool kn_form_item(kn_form *f);

bool kn_form_u64(kn_form *f, uint64_t min, uint64_t max, uint64_t *ret);
bool kn_form_real(kn_form *f, double min, double max, double *ret);
bool kn_form_bool(kn_form *f, bool *ret);
bool kn_form_null(kn_form *f); /* reads it if it is null; false, and nothing is read, if it is anything else */

/* A text of min to max bytes without control characters, valid until the next one is read. */
bool kn_form_text(kn_form *f, size_t min, size_t max, kn_json_text *ret);

/* What people write: min to max characters, line ends and all; valid until the next text is read. */
bool kn_form_prose(kn_form *f, size_t min, size_t max, kn_json_text *ret);

/* The number of the word among those known. */
bool kn_form_word(kn_form *f, const char *const *words, size_t count, size_t *ret);

/* kn_form_fail(f, code, format, …): what is wrong with the value just read; always false. */
#define kn_form_fail(...) kn_failed(kn_form_set_error(__VA_ARGS__))
int kn_form_set_error(kn_form *f, kn_code code, const char *fmt, ...) KN_PRINTF(3, 4);

/* The whole document was a form and nothing is behind it. Closes the reader; if it has a buffer for that, the place of
 * an error is in there, that of a form inside of this one, too. */
bool kn_form_finish(kn_form *f);

/* Where the form stands, as a JSON Pointer (RFC 6901): "/workers/1/device". */
bool kn_form_pointer(const kn_form *f, kn_buf *into) KN_MUST_USE;

#endif
