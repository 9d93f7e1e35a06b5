/* Looks at a JSON request as it passes, and tells which model it names and whether it brings any input.
 *
 * It sees the bytes in pieces, cut anywhere, keeps no more than one short name, and never copies what people write:
 * of everything but the keys of the outermost object and the value of "model" it only looks where it ends. It changes
 * nothing, and a request that it does not understand is still a request.
 *
 * It reads as the upstream does: keys without regard to case, of values of the same key the last one that is not null,
 * and nothing behind the object. A body that has not ended, or that is no object, is unclear; so is a use of a model
 * that is named twice, whatever the upstream makes of it. */
#ifndef KN_GATEWAY_OBSERVER_H
#define KN_GATEWAY_OBSERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { KN_MODEL_NAME_MAX = 255, KN_OBSERVED_KEY_MAX = 8 };

/* Under which key the input stands. */
typedef enum kn_input { KN_INPUT_PROMPT, KN_INPUT_MESSAGES, KN_INPUT_INPUT } kn_input;

typedef enum kn_observed {
    KN_OBSERVED_NOTHING, /* no input: the model is loaded or unloaded, not used */
    KN_OBSERVED_UNCLEAR, /* it may be a use, of we do not know what */
    KN_OBSERVED_MODEL,   /* a use of the model that is named */
} kn_observed;

/* What a whole body names, even if it brings no input. */
typedef enum kn_naming {
    KN_NAMING_UNKNOWN, /* the upstream may find a model behind it */
    KN_NAMING_MODEL,   /* what may be one, by the name that it has */
    KN_NAMING_NOTHING, /* nothing that could be one, in the upstream's eyes, too: it refuses it */
} kn_naming;

typedef struct kn_observer {
    const char *input_key;
    uint64_t depth; /* of what is being stepped over */
    uint32_t escape;
    uint16_t name_len;
    uint8_t state, after, key_len, hex_left;
    bool in_string, escaped, has_input, named, named_twice, too_long, broken;
    char key[KN_OBSERVED_KEY_MAX];
    char name[KN_MODEL_NAME_MAX + 1];
} kn_observer;

void kn_observer_begin(kn_observer *o, kn_input input);
void kn_observer_feed(kn_observer *o, const char *data, size_t len);

/* At any time; the name is o->name with KN_OBSERVED_MODEL. */
kn_observed kn_observer_result(const kn_observer *o);

/* When all of the body has been seen; the name is o->name with KN_NAMING_MODEL. */
kn_naming kn_observer_naming(const kn_observer *o);

/* Whether some model could be called so, letter by letter. */
bool kn_name_is_possible(const char *name);

#endif
