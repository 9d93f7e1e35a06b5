/* Who may ask a worker: whom the upstream would have. Its rules of Host and Origin (OLLAMA_HOST, OLLAMA_ORIGINS) are
 * its owner's, and the workers, which know nothing of them, are asked in our name. So the upstream is asked first, by
 * something that costs it nothing, with the client's own Host and Origin; what it says to pages (Access-Control-…,
 * Vary) goes into the answer.
 *
 * Who comes from no page, by a name that every Ollama takes for its own, needs no asking, nor the upstream to be there.
 * Nothing is remembered: an answer costs less than a millisecond, and is never out of date. Internal to the room. */
#ifndef KN_GATEWAY_VISITOR_H
#define KN_GATEWAY_VISITOR_H

#include "gateway/proxy.h"

/* Calls `admitted`, maybe at once; or answers the client as the upstream would, with the same status, or by 502 if that
 * is not there, and then calls `turned_away`. Until then the question is r->call. */
void kn_visitor_judge(kn_request *r, void (*admitted)(kn_request *r), void (*turned_away)(kn_request *r));

#endif
