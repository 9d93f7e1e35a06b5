/* JSON from model files, read in one pass: strict, without a tree and without an allocation, so that memory stays in
 * proportion to what is kept. (jansson builds trees of twenty times the text's size and, in version 2.14, writes beyond
 * its buffer when memory runs out inside a string.)
 *
 * Functions return false after the first thing that is not as it should be; the error says at which byte. */
#ifndef KN_WEIGHTS_JSON_H
#define KN_WEIGHTS_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct kn_scan {
    const char *start, *at, *end;
    char *text;       /* where the next decoded string goes: as much room as from at to end, and a byte, is there */
    const char *what; /* is read, for messages */
    kn_error *err;
} kn_scan;

/* Always returns false. */
bool kn_scan_broken(const kn_scan *j, const char *why);

/* Is c next? Then it is read. */
bool kn_scan_take(kn_scan *j, char c);

/* Inside an object or array of which `seen` items were read: does another come before `close`? */
bool kn_scan_another(kn_scan *j, size_t seen, char close, bool *ret);

/* A string, decoded to j->text and ended with NUL; it holds no NUL of its own. */
bool kn_scan_string(kn_scan *j, const char **ret, size_t *ret_len);

/* The key of an object's member and its colon. */
bool kn_scan_key(kn_scan *j, const char **ret, size_t *ret_len);

/* An unsigned integer, exactly. */
bool kn_scan_unsigned(kn_scan *j, uint64_t *ret);

/* A list of them. `name` is what there are too many of if there are more than max. */
bool kn_scan_unsigned_list(kn_scan *j, uint64_t *ret, size_t max, const char *name, size_t *ret_count);

bool kn_scan_boolean(kn_scan *j, bool *ret);

/* Any value, nested at most `depth` levels. */
bool kn_scan_skip(kn_scan *j, int depth);

/* Only space is left. */
bool kn_scan_end(kn_scan *j);

#endif
