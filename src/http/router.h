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
    /* Exactly; "*" between slashes, or behind the last one, stands for any one part, unless another route is exactly
     * that path. Behind a space: the types of the body, with spaces between, in place of application/json. */
    const char *path;
    /* A route with `json_body` is called when the body is there; data is NULL if the client sent neither a body nor a
     * Content-Type. One without refuses bodies by 400. */
    void (*handle)(kn_exchange *x, kn_span body);
    size_t json_body; /* bytes at most, 0: takes none */
} kn_route;

/* A part of the path, decoded: the first is number 0. False: there is none, or it has no room. */
bool kn_route_part(const kn_head *head, unsigned number, char *ret, size_t room);

/* The query, decoded: "limit=10&q=a+b". False: it is not well-formed, or has too many parameters, or too long ones. */
enum { KN_QUERY_MAX = 24, KN_QUERY_BYTES = 4096 };
typedef struct kn_parameter_list {
    size_t count;
    struct {
        const char *name, *value;
    } at[KN_QUERY_MAX];
    char text[KN_QUERY_BYTES];
} kn_parameter_list;
bool kn_route_query(const kn_head *head, kn_parameter_list *ret);

/* Whether the body is of one of these types (with spaces between), in UTF-8 if it says so, and not compressed. */
bool kn_route_has_type(const kn_head *head, const char *types);

/* For a route that has no parameters: answers a request with a query by 400 and returns false. While a decision is
 * owed. */
bool kn_route_is_bare(kn_exchange *x);

/* To be called in `request` and `collected` of a service. Between the two kn_exchange_user is the router's; when the
 * route is called it is NULL again. */
void kn_router_request(const kn_route *routes, size_t n, kn_exchange *x, const kn_head *head);
void kn_router_collected(kn_exchange *x, kn_span body, bool complete);

#endif
