/* What the networks share that enlarge pictures. All take [h, w, 3] with values of 0 … 1 and give the same at `scale`
 * times the size, a little outside of that range as well. */
#ifndef KN_MODELS_ENLARGE_H
#define KN_MODELS_ENLARGE_H

#include "compute/ops.h"

enum { KN_ENLARGE_MAX = 8 };

/* How far so many channels enlarge when they become `planes` of more pixels; 0: they do not. */
static inline int kn_enlarge_side(int64_t channels, int64_t planes) {
    int side = 1;
    while (side < KN_ENLARGE_MAX && planes * side * side < channels)
        side++;
    return planes * side * side == channels ? side : 0;
}

static const kn_pad kn_enlarge_around = { 1, 1, 1, 1 }; /* 3x3, same size */

/* Takes the place of a tensor that is not needed any more. */
static inline kn_tensor kn_enlarge_next(kn_run *r, kn_tensor old, kn_tensor now) {
    kn_drop(r, old);
    return now;
}

#endif
