/* What a group norm comes to, for ops that apply it while they read. */
#ifndef KN_COMPUTE_CPU_NORM_H
#define KN_COMPUTE_CPU_NORM_H

#include "compute/ops.h"

/* x normalised is x * scale + shift, by channel: two new tensors [c]. */
bool kn_group_scales(kn_run *r, kn_tensor x, const kn_weight *w, const kn_weight *bias, int groups, float eps,
                     kn_tensor *ret_scale, kn_tensor *ret_shift);

#endif
