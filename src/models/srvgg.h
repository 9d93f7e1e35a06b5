/* SRVGG, the compact network of Real-ESRGAN (realesr-general, realesr-animevideo): a row of convolutions with PReLU at
 * the size of the picture, whose last one holds what is to be added to the picture's pixels, many times each. */
#ifndef KN_MODELS_SRVGG_H
#define KN_MODELS_SRVGG_H

#include "models/enlarge.h"
#include "weights/weights.h"

enum { KN_SRVGG_MAX_CONVS = 128 };

typedef struct kn_srvgg {
    int convs, scale;
    kn_weight conv[KN_SRVGG_MAX_CONVS], slope[KN_SRVGG_MAX_CONVS]; /* the last one has no slopes */
} kn_srvgg;

void kn_srvgg_load(kn_srvgg *m, kn_binder *b);
kn_tensor kn_srvgg_run(kn_run *r, const kn_srvgg *m, kn_tensor picture);

#endif
