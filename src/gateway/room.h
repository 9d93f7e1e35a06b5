/* How many connections fit into the descriptors that this process may have. Clients of Ollama get what is left when the
 * owner's connections, the state directory, workers and the studio have theirs, so that a crowd at `listen` can lock
 * out neither the owner nor the marker without which nothing may be sent to an upstream. */
#ifndef KN_GATEWAY_ROOM_H
#define KN_GATEWAY_ROOM_H

#include "gateway/config.h"

typedef struct kn_room {
    uint64_t descriptors;             /* of this process, when it has raised its own limit */
    unsigned public, control, studio; /* connections at a time */
} kn_room;

kn_room kn_room_find(const kn_config *c);
kn_room kn_room_within(const kn_config *c, uint64_t descriptors);

/* Whether that is less than was configured. err: says so, in words for whoever set the limit. */
bool kn_room_is_short(const kn_config *c, const kn_room *r, kn_error *err);

#endif
