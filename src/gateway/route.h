/* What a request to the upstream is, from its method and path alone.
 *
 * Only requests that are known to touch neither a model nor the catalogue are exempt from admission, and only if they
 * are written exactly so, byte for byte: the upstream decodes a path before it looks at it, so "/api/%67enerate"
 * generates. Everything that is not known waits its turn. */
#ifndef KN_GATEWAY_ROUTE_H
#define KN_GATEWAY_ROUTE_H

#include "gateway/observer.h"
#include "http/head.h"

typedef enum kn_route_class {
    KN_ROUTE_EXEMPT,    /* metadata */
    KN_ROUTE_INFERENCE, /* uses a model; its body tells which */
    KN_ROUTE_CATALOG,   /* changes which models there are */
    KN_ROUTE_OPAQUE,    /* anything else; may do what the two above do */
} kn_route_class;

/* How errors of our own are written, so that clients of the path understand them. */
typedef enum kn_dialect { KN_DIALECT_OLLAMA, KN_DIALECT_OPENAI, KN_DIALECT_ANTHROPIC } kn_dialect;

typedef struct kn_route_kind {
    kn_route_class class;
    kn_dialect dialect;
    bool file;     /* its body is a file of a model, of any size */
    bool observed; /* its body is JSON that names a model and has its input under … */
    kn_input input;
    bool native;      /* … and has options */
    const char *load; /* the route by which workers load its model; NULL: only the upstream serves it */
} kn_route_kind;

/* target: with its query, if any. */
kn_route_kind kn_route_of(kn_span method, kn_span target);

#endif
