/* Whether what this process has in memory may be written to a swap device. */
#ifndef KN_BASE_SWAP_H
#define KN_BASE_SWAP_H

#include "base/cgroup.h"

/* Unknown counts as on for whoever holds what must not be written: it is what cannot be read or understood. */
typedef enum kn_swap { KN_SWAP_OFF, KN_SWAP_ON, KN_SWAP_UNKNOWN } kn_swap;

/* Off on a machine without swap, and where a control group around this process forbids it. */
kn_swap kn_swap_state(void);

/* The parts of that: whether the text of /proc/swaps lists any device, and what one group says. *ret is left alone by a
 * group that says nothing. */
bool kn_swap_is_listed(const char *swaps);
void kn_swap_of_group(const kn_cgroup *g, kn_swap *ret);

#endif
