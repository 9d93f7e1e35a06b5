/* RRDBNet: ESRGAN, Real-ESRGAN, BSRGAN, and hundreds of models that people trained for a purpose. Dense blocks in
 * residual blocks at the size of the picture, then doublings.
 *
 * Models that double less than twice may see a picture as a smaller one of more channels, and so enlarge by 1 or 2 with
 * the same network. Widths and the numbers of blocks and doublings follow from the tensors. */
#ifndef KN_MODELS_RRDB_H
#define KN_MODELS_RRDB_H

#include "models/enlarge.h"
#include "weights/weights.h"

enum { KN_RRDB_MAX_BLOCKS = 64, KN_RRDB_MAX_DOUBLINGS = 3, KN_RRDB_CONVS = 5 };

typedef struct kn_rrdb_dense {
    kn_weight conv[KN_RRDB_CONVS]; /* each sees what the ones before have made */
} kn_rrdb_dense;

typedef struct kn_rrdb {
    int blocks, doublings;
    int unshuffle; /* by which the picture is made smaller first; its sides must be multiples of it */
    int scale;
    int64_t width, grown; /* channels in general, and of a dense block in its end */
    kn_weight first, trunk, up[KN_RRDB_MAX_DOUBLINGS], hr, last;
    kn_rrdb_dense block[KN_RRDB_MAX_BLOCKS][3];
} kn_rrdb;

/* Takes the whole network in the naming of ESRGAN ("model.1.sub.0"), Real-ESRGAN ("body.0") or BSRGAN ("RRDB_trunk.0").
 */
void kn_rrdb_load(kn_rrdb *m, kn_binder *b);
kn_tensor kn_rrdb_run(kn_run *r, const kn_rrdb *m, kn_tensor picture);

#endif
