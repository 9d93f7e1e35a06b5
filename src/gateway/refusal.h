/* Errors of our own to clients of the upstream: in the form that clients of that path understand, in fixed words that
 * hold nothing of a request or an upstream's answer, but for the name of a model that there is not. */
#ifndef KN_GATEWAY_REFUSAL_H
#define KN_GATEWAY_REFUSAL_H

#include "gateway/admission.h"
#include "gateway/crew.h"
#include "gateway/route.h"
#include "http/exchange.h"

/* queued: how many wait; with KN_REFUSED_QUEUE_FULL 0 means that nobody may. */
void kn_refuse_work(kn_exchange *x, kn_dialect dialect, kn_refusal why, size_t queued);

/* The crew has no place for it. */
void kn_refuse_place(kn_exchange *x, kn_dialect dialect, kn_job_refusal why);

/* No catalogue has this model; in the upstream's own words, with the name that the client gave. embeds: it was to embed
 * something, of which the upstream speaks otherwise. */
void kn_refuse_model(kn_exchange *x, kn_dialect dialect, const char *name, bool embeds);

/* An option would load the model in a way of which nobody knows whether it fits. */
void kn_refuse_option(kn_exchange *x, kn_dialect dialect);

/* An error that the HTTP room has to report: 400, 408, 413, 414, 431, 501 to 505. */
void kn_refuse_status(kn_exchange *x, kn_dialect dialect, unsigned status);

#endif
