/* Pictures that clients give to work from, named by the SHA-256 of their bytes: the same one twice is one.
 *
 *     inputs/HASH         the bytes as they came
 *     inputs/HASH.json    what is known of them; there when the picture has been looked at and is good
 *
 * What a picture is comes from the image worker: nothing here decodes one. */
#ifndef KN_STUDIO_INPUTS_H
#define KN_STUDIO_INPUTS_H

#include <jansson.h>

#include "image/icc.h"
#include "studio/files.h"

enum { KN_INPUT_BYTES_MAX = 64 << 20 };

typedef struct kn_input_facts {
    kn_picture_format format;
    uint32_t width, height; /* upright */
    bool orientation_applied, has_alpha;
    bool has_gain_map, has_damaged_map; /* one that can be read, or one that cannot */
    kn_icc_name icc_profile;            /* empty: none */
    unsigned mask_lacks;                /* kn_mask_lacks; 0: nothing, or it came before that was looked at */
} kn_input_facts;

typedef struct kn_input {
    kn_sha256 id;
    uint64_t bytes;
    kn_input_facts facts;
    int64_t created_ms, last_used_ms;
} kn_input;

json_t *kn_input_json(const kn_input *input); /* NULL: out of memory */

/* Stores the bytes. *ret_known: they are there already, and *ret tells of them. If not, look at the picture and then
 * call kn_inputs_accept or kn_inputs_refuse with ret->id. */
bool kn_inputs_receive(kn_store *s, const void *data, size_t len, kn_input *ret, bool *ret_known, kn_error *err);
bool kn_inputs_accept(kn_store *s, const kn_sha256 *id, const kn_input_facts *facts, kn_input *ret, kn_error *err);
void kn_inputs_refuse(kn_store *s, const kn_sha256 *id);

bool kn_inputs_find(kn_store *s, const char *id, kn_input *ret, kn_error *err);
bool kn_inputs_touch(kn_store *s, const char *id, kn_error *err); /* it is used now */

/* Whether its file has the bytes that it is named by. KN_E_NOT_FOUND: there is none; KN_E_FORMAT: it has others. */
bool kn_inputs_check(const kn_store *s, const char *id, kn_error *err);

/* Newest first, at most `limit` of those before `before` (0: all). *ret_next: where the next page begins; 0: nowhere.
 */
bool kn_inputs_list(kn_store *s, unsigned limit, int64_t before, json_t *into, int64_t *ret_next, kn_error *err);

/* KN_E_USAGE: a job that is not finished needs it. */
bool kn_inputs_delete(kn_store *s, const char *id, kn_error *err);

/* Removes those that no unfinished job needs and nobody used for so many days, a hundred at once. *ret_more: there may
 * be others. */
bool kn_inputs_expire(kn_store *s, unsigned days, bool *ret_more, kn_error *err);

/* After a start: pictures that nobody finished looking at go, and known ones that the database lost come back. */
bool kn_inputs_reconcile(kn_store *s, kn_error *err);

#endif
