/* Requests where there are workers: which of them a request goes to, or that it goes to the upstream after all.
 *
 *     names a model of the catalogue ─► the crew finds it a worker
 *     names one that runs elsewhere  ─► the upstream, which sends it there
 *     names one that is not listed   ─► refused, and nothing else happens; if no model can be called so the upstream
 *                                       refuses it, which has other words for that on each route
 *     names nothing that can be one  ─► the upstream, which has its own words for what is wrong
 *     changes the catalogue          ─► the upstream, which owns it
 *     anything else                  ─► all workers are stopped, then the upstream: it may load what it likes
 *
 * A body that names a model is read into memory first; only then does the request wait for its turn, so that nobody's
 * turn is spent on waiting for a client. How much there is in memory together the server limits.
 *
 * A client that the upstream would not have is refused before anything is done for it (visitor.h); so the upstream must
 * be there for pages.
 *
 * Where the upstream does not answer, models that it was last known to have are served as long as workers have once
 * had them loaded as they should be. Nothing is unloaded for want of an upstream. Internal to the room. */
#ifndef KN_GATEWAY_MANAGED_H
#define KN_GATEWAY_MANAGED_H

#include "gateway/crew.h"
#include "gateway/proxy.h"

enum { KN_MANAGED_BODY_MAX = 64 << 20 };

bool kn_managed_new(kn_gateway *g, const kn_upstream_limits *limits, kn_managed **ret, kn_error *err);

/* First what runs, before the disk's thread ends; then the rest. */
void kn_managed_end(kn_managed *m);
void kn_managed_free(kn_managed *m);

kn_crew *kn_managed_crew(kn_managed *m);

/* False: its body is being collected; kn_managed_collected then tells whether it may wait for its turn, or has been
 * refused as too large. */
bool kn_managed_begin(kn_request *r);
bool kn_managed_collected(kn_request *r, kn_span body, bool complete);

/* The request holds the lease: serves it, sooner or later, by kn_request_forward, kn_request_finish or an answer. */
void kn_managed_serve(kn_request *r);

/* Its client has left before it was forwarded anywhere. */
void kn_managed_left(kn_request *r);

/* What it was forwarded to is through with it. */
void kn_managed_ended(kn_request *r, bool certain);

#endif
