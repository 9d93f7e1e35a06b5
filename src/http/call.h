/* Requests of our own to an upstream: the catalogue, a health check, loading a model. The answer is collected up to a
 * limit and handed over as a whole. */
#ifndef KN_HTTP_CALL_H
#define KN_HTTP_CALL_H

#include "http/head.h"
#include "http/upstream.h"

typedef struct kn_call kn_call;

typedef enum kn_call_end {
    KN_CALL_ANSWERED,    /* status and body are complete */
    KN_CALL_UNREACHABLE, /* no byte of the request was sent */
    KN_CALL_BROKEN,      /* the answer was cut or no HTTP */
    KN_CALL_LATE,        /* the time was over; the upstream may still be working */
    KN_CALL_TOO_LARGE,   /* the body is larger than the limit */
    KN_CALL_NO_MEMORY,
} kn_call_end;

typedef struct kn_call_request {
    const char *method, *target;
    kn_span host;       /* data NULL: the upstream's own address */
    const char *accept; /* NULL: application/json */
    const char *fields; /* further lines, each with its CR LF; NULL: none */
    const char *json;   /* body; NULL: none … */
    const char *type;   /* … or, if there is a type, this one */
    kn_span body;
    size_t answer_limit; /* bytes of the answer's body */
    /* NULL: the answer is collected. Else that of 200 comes piece by piece as it is received, without a limit; the
     * workspace is in use meanwhile, so that nothing may be sent from within. */
    void (*data)(void *ctx, kn_span data);
    /* NULL: of no interest. Else it sees the head of the answer before anything else comes of it; as with `data`
     * nothing may be sent from within. */
    void (*head)(void *ctx, const kn_head *head);
    uint64_t within_ms; /* for everything */
} kn_call_request;

typedef struct kn_call_result {
    kn_call_end end;
    unsigned status; /* with KN_CALL_ANSWERED */
    kn_span body;    /* what was collected of it */
} kn_call_result;

typedef void kn_call_done(void *ctx, const kn_call_result *r);

/* Everything is copied. `done` comes exactly once, never before this returns, unless the call is cancelled; the call is
 * gone when it has returned. */
bool kn_call_start(kn_upstream *u, const kn_call_request *r, kn_call_done *done, void *ctx, kn_call **ret,
                   kn_error *err);

/* Closes its connection; `done` does not come. */
void kn_call_cancel(kn_call *c);

#endif
