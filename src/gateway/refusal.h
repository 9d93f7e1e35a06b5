/* Errors of our own to clients of the upstream: in the form that clients of that path understand, in fixed words that
 * hold nothing of a request or an upstream's answer. */
#ifndef KN_GATEWAY_REFUSAL_H
#define KN_GATEWAY_REFUSAL_H

#include "gateway/admission.h"
#include "gateway/crew.h"
#include "gateway/route.h"
#include "http/exchange.h"

/* queued: how many wait. */
void kn_refuse_work(kn_exchange *x, kn_dialect dialect, kn_refusal why, size_t queued);

/* The crew has no place for it. */
void kn_refuse_place(kn_exchange *x, kn_dialect dialect, kn_job_refusal why);

/* An option would load the model in a way of which nobody knows whether it fits. */
void kn_refuse_option(kn_exchange *x, kn_dialect dialect);

/* An error that the HTTP room has to report: 400, 408, 413, 502, 503, 504. */
void kn_refuse_status(kn_exchange *x, kn_dialect dialect, unsigned status);

#endif
