/* Routes of our own: a table of method, path and function. Unknown paths are answered by 404, other methods by 405 with
 * Allow (HEAD is allowed with GET, OPTIONS is not), bodies that are no JSON by 415, as problem documents.
 *
 * Paths are compared after one decoding; %00, %2F, "..", "//" and what is not UTF-8 are refused before, so that no path
 * can be written in two ways that are told apart anywhere. */
#ifndef KN_HTTP_ROUTER_H
#define KN_HTTP_ROUTER_H

#include "http/exchange.h"

enum { KN_ROUTE_BODY_MAX = 64 << 20 };

typedef struct kn_route {
    const char *method; /* GET, POST, … */
    const char *path;   /* exactly */
    /* A route with `json_body` is called when the body is there; data is NULL if the client sent neither a body nor a
     * Content-Type. One without refuses bodies by 413. */
    void (*handle)(kn_exchange *x, kn_span body);
    size_t json_body; /* bytes at most, 0: takes none */
} kn_route;

/* To be called in `request` and `collected` of a service. Between the two kn_exchange_user is the router's; when the
 * route is called it is NULL again. */
void kn_router_request(const kn_route *routes, size_t n, kn_exchange *x, const kn_head *head);
void kn_router_collected(kn_exchange *x, kn_span body, bool complete);

#endif
