/* A request of a client of Ollama, from its head to its end. Internal to the room. */
#ifndef KN_GATEWAY_PROXY_H
#define KN_GATEWAY_PROXY_H

#include "gateway/crew.h"
#include "gateway/internal.h"
#include "gateway/route.h"
#include "http/call.h"

/* How far a request has got, where there are workers. */
typedef enum kn_stage {
    KN_STAGE_NONE,
    KN_STAGE_BODY,     /* its body is read, before it has the lease */
    KN_STAGE_CATALOG,  /* its model is looked up */
    KN_STAGE_ASKS,     /* the upstream is asked to describe it, or whether it is there at all */
    KN_STAGE_STOP,     /* workers are stopped for it */
    KN_STAGE_PLACE,    /* the crew looks for a worker */
    KN_STAGE_WORKER,   /* one of them has it */
    KN_STAGE_UPSTREAM, /* the upstream has it */
    KN_STAGE_OVER,     /* it is being made certain that nothing of it goes on */
} kn_stage;

typedef struct kn_loaded kn_loaded;

typedef struct kn_request {
    kn_entry entry;
    kn_exchange *x; /* NULL: it is over, though its work may not be */
    kn_gateway *g;
    kn_route_kind kind;
    bool compressed; /* nothing can be learnt of its body */
    bool held;       /* it has the lease */

    kn_stage stage;
    kn_wish wish; /* its model only, unless … */
    bool clear;   /* … it is clear */
    kn_naming naming;
    bool looked_again; /* in a list that is new */
    kn_catalog_wait catalog;
    kn_call *call;
    kn_crew_job job;
    kn_loaded *loaded;                                                            /* it asks what is loaded */
    void (*admitted)(struct kn_request *r), (*turned_away)(struct kn_request *r); /* visitor.h */
} kn_request;

/* To the upstream, or to a worker. */
void kn_request_forward(kn_request *r, kn_upstream *u);

/* Gives the lease back, and the request's memory if its exchange is over. */
void kn_request_finish(kn_request *r, bool certain);

#endif
