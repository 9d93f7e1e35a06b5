/* What is told of the gateway, as JSON documents of the control API. Internal to the room. */
#ifndef KN_GATEWAY_STATUS_H
#define KN_GATEWAY_STATUS_H

#include <jansson.h>

#include "gateway/internal.h"

/* NULL: memory is out. */
json_t *kn_status_json(kn_gateway *g);
json_t *kn_admission_json(kn_gateway *g);

/* The first `limit` uses of turns below `before`. */
json_t *kn_usage_json(const kn_meter *m, uint64_t limit, uint64_t before);

#endif
