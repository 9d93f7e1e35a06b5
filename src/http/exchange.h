/* One request of a client and its answer, as a service (server.h) sees it.
 *
 * From `request` on the service owes a decision: forward, reply or collect. It may take it at once or at any later time
 * before `end`; meanwhile the exchange waits, nothing is read from the client, and if it leaves, `end` comes. Decisions
 * only note what is to be done, so they may be called in any callback, of any exchange; things happen, and further
 * callbacks come, when the caller has returned. */
#ifndef KN_HTTP_EXCHANGE_H
#define KN_HTTP_EXCHANGE_H

#include "base/buf.h"
#include "http/head.h"
#include "http/upstream.h"

typedef struct kn_exchange kn_exchange;
typedef struct kn_service kn_service;

/* What is known about the upstream's work when its part is over. */
typedef enum kn_upstream_end {
    KN_UPSTREAM_COMPLETE, /* its answer came to its end, whether or not the client took it */
    KN_UPSTREAM_UNSENT,   /* it never got a byte: nothing can be running there */
    KN_UPSTREAM_CUT,      /* its answer came to its end, but to a request that we had cut, for its client was gone: what
                             was accepted of that may have been broken off anywhere, and still go on */
    KN_UPSTREAM_BROKEN,   /* it cut or garbled its answer, or was silent for too long: it may still be working */
    KN_UPSTREAM_ABORTED,  /* we closed the connection: client gone, drain out of time, server stopped; it may still be
                             working */
} kn_upstream_end;

/* In one word, for a log. */
const char *kn_upstream_end_name(kn_upstream_end end);

typedef struct kn_forward {
    bool upstream_host;  /* send the upstream's own address as Host; else what the client sent */
    bool no_origin;      /* leave out what page it comes from: others have judged that */
    bool watch_request;  /* show the service the data of the request … */
    bool watch_response; /* … and of the answer */
    bool unhurried;      /* the client may be waited for however long, as long as it is fast enough (patience.h) */
    uint64_t drain_ms;   /* when the client leaves: go on reading the answer for at most so long; 0: close at once */
} kn_forward;

/* Sends the request to the upstream and its answer to the client, and whatever is known by the end to upstream_end. An
 * exchange is forwarded at most once. After kn_exchange_collect, what was collected goes first. */
void kn_exchange_forward(kn_exchange *x, kn_upstream *u, const kn_forward *how);

enum { KN_STREAM_MAX = 4 << 20 }; /* bytes of a stream that can wait to be sent */

/* A body that the service sends itself. */
typedef struct kn_reply {
    unsigned status;
    const char *type;   /* Content-Type; NULL: no body */
    const char *fields; /* further lines, each with its CR LF; may be NULL */
    const void *body;
    size_t len;
} kn_reply;

enum { KN_MORE_FIELDS_MAX = 4 << 10 };

/* Lines (each with its CR LF, together at most KN_MORE_FIELDS_MAX bytes) for the head of whatever answer comes, an
 * upstream's or one of ours; NULL: none after all. False: memory is out. */
bool kn_exchange_set_more_fields(kn_exchange *x, const char *fields);

/* Answers the request; everything is copied. The rest of its body is not read. In `failed` and `refused` this replaces
 * the server's own answer; the status should be the one that was told. */
void kn_exchange_reply(kn_exchange *x, const kn_reply *r);

/* An answer of the service's own whose body comes bit by bit, or never ends. `body` of the reply is not used, `len`
 * only with `has_len`; without it the end is told by the framing. `writable` (server.h) comes when the head is out, and
 * again whenever all that was sent has been taken; whoever sends more before that makes it be held. */
void kn_exchange_stream(kn_exchange *x, const kn_reply *r, bool has_len);
void kn_exchange_send(kn_exchange *x, const void *data, size_t len); /* copied; memory out: as kn_exchange_break */
void kn_exchange_send_end(kn_exchange *x);                           /* the body is complete */
void kn_exchange_break(kn_exchange *x); /* it cannot be completed: the client must not take it for complete */

/* Whether all that was sent has been taken. */
bool kn_exchange_is_drained(const kn_exchange *x);

/* Reads the body into memory, at most `limit` bytes of it; then `collected` comes with what there is, complete or up to
 * the limit, and a new decision is owed. Of a body whose head says that it is longer nothing is read, or asked for.
 * Asks a client for it that waits for 100 Continue. The bytes stay the exchange's, until its end. */
void kn_exchange_collect(kn_exchange *x, size_t limit);

/* What was collected becomes the caller's. It is not forwarded any more. */
kn_buf kn_exchange_take_collected(kn_exchange *x);

/* From now on another service is told of this exchange, up to its end. */
void kn_exchange_hand_over(kn_exchange *x, const kn_service *service);

/* The head again, while a decision is owed; valid until the caller returns to the loop. NULL later: the service keeps
 * what it needs of it. */
const kn_head *kn_exchange_head(kn_exchange *x);

/* Refusals of this exchange (reply.h) are written by this function, as another API words them. NULL: as problems. */
struct kn_problem;
typedef void kn_problem_writer(kn_exchange *x, const struct kn_problem *p);
void kn_exchange_set_dialect(kn_exchange *x, kn_problem_writer *dialect);
kn_problem_writer *kn_exchange_dialect(const kn_exchange *x);

/* The answer comes soon, and little is lost if nobody takes it: a client that closes its sending side behind its
 * request waits for it (server.h). Until the end of the exchange, or until it is taken back. */
void kn_exchange_set_brief(kn_exchange *x, bool brief);

/* The client has shown who it is: from now on its connection yields to no other one (server.h). */
void kn_exchange_trust(kn_exchange *x);

void *kn_exchange_listener(const kn_exchange *x); /* the ctx of its listener */
void **kn_exchange_user(kn_exchange *x);          /* the service's own, NULL at `request` */

/* Figures for logs and statuses, complete in `end`. */
typedef struct kn_exchange_facts {
    uint64_t started_ms;    /* when its head was complete */
    uint64_t request_bytes; /* of bodies, without framing */
    uint64_t response_bytes;
    unsigned status;       /* of the answer; 0: none was begun */
    bool request_complete; /* all of it was given to the upstream */
    bool client_left;
    bool answered; /* the client was sent all of an answer */
} kn_exchange_facts;
const kn_exchange_facts *kn_exchange_facts_of(const kn_exchange *x);

#endif
