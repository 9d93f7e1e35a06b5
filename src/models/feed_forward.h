/* The feed-forward half of a transformer's block, which all networks here have alike.
 *
 * Between its matrices a token is several times as wide as elsewhere, and would take most of a step's memory. Tokens do
 * not see each other there, so they go through some at a time; not a bit of the result depends on how many. */
#ifndef KN_MODELS_FEED_FORWARD_H
#define KN_MODELS_FEED_FORWARD_H

#include "compute/ops.h"

/* x = down(silu(gate(x)) * up(x)), or without a gate (NULL) x = down(gelu(up(x))), approximated by tanh.
 * x: [n, width], changed in place. */
void kn_feed_forward(kn_run *r, kn_tensor x, const kn_weight *gate, const kn_weight *up, const kn_weight *down);

#endif
