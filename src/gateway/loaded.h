/* What is loaded anywhere: the lists (/api/ps) of all workers and of the upstream as one, in the form of one of them.
 * Internal to the room. */
#ifndef KN_GATEWAY_LOADED_H
#define KN_GATEWAY_LOADED_H

#include "gateway/proxy.h"

/* Whether a request asks for that. Who may ask is the upstream's to say (visitor.h). */
bool kn_loaded_is_asked(const kn_head *head);

/* Answers it, sooner or later. Whoever does not answer in time is left out; if nobody answers, that is an error. */
void kn_loaded_answer(kn_request *r);

/* The exchange is over: gives up what is under way, and the request's memory. */
void kn_loaded_give_up(kn_request *r);

/* The models of one list, as they stand there, are added behind those of another: "{…},{…}". */
bool kn_loaded_add(kn_buf *models, const char *json, size_t len);

#endif
