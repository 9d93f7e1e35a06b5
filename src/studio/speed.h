/* How long a picture takes on this machine: the planner predicts work in units of its own, and the ratio of seconds to
 * units is learned from every finished job, for each engine, device and way of using memory. A machine that has drawn
 * nothing yet has no ratio and is told none. */
#ifndef KN_STUDIO_SPEED_H
#define KN_STUDIO_SPEED_H

#include <jansson.h>

#include "studio/store.h"

typedef struct kn_speed_key {
    const char *engine, *device, *memory_mode;
} kn_speed_key;

typedef struct kn_speed {
    double ratio;    /* seconds per unit */
    int64_t samples; /* 0: nothing is known */
} kn_speed;

bool kn_speed_find(kn_store *s, const kn_speed_key *key, kn_speed *ret, kn_error *err);

/* A job of so many units took so long. What cannot be true is not learned from. */
bool kn_speed_learn(kn_store *s, const kn_speed_key *key, double units, double seconds, kn_error *err);

/* The ratio after one more sample: the mean of the first few, then what was lately counts more. */
kn_speed kn_speed_after(kn_speed before, double units, double seconds);

bool kn_speed_list(kn_store *s, json_t *into, kn_error *err);

#endif
