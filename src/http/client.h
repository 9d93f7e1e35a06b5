/* The connection of a client, which is at the same time its exchange: one after the other, never two at once.
 *
 * Two things go on in it that end separately: the client's part (reading its request, sending the answer) and the
 * upstream's part (`link`). The exchange is over when both are. A client may be gone long before its link is.
 *
 * Nothing here closes or frees a connection under the feet of who calls: what a callback finds out is noted, and done
 * in the connection's task, which runs in the same turn of the loop.
 *
 * Internal to the room: client.c has the client's part, relay.c the upstream's, exchange.c what services call. */
#ifndef KN_HTTP_CLIENT_H
#define KN_HTTP_CLIENT_H

#include "base/buf.h"
#include "http/body.h"
#include "http/link.h"
#include "http/patience.h"
#include "http/peers.h"
#include "http/server.h"
#include "http/socket.h"

typedef enum kn_phase {
    KN_READING_HEAD, /* also idle: nothing has come yet */
    KN_DECIDING,     /* the service has not said yet what is to be done */
    KN_COLLECTING,
    KN_FORWARDING,
    KN_REPLYING,
    KN_STREAMING, /* the service sends its answer bit by bit */
    KN_LINGERING, /* the last answer is out; the client may read it before the connection goes */
    KN_GONE,      /* the connection is closed */
} kn_phase;

typedef enum kn_decision { KN_UNDECIDED, KN_FORWARD, KN_REPLY, KN_STREAM, KN_COLLECT } kn_decision;

struct kn_exchange {
    kn_socket socket;
    kn_input in;
    kn_head_scan scan;
    kn_body body;
    kn_timer timer;
    kn_task task;
    kn_server *server;
    kn_http *http;
    const kn_service *service, *usual; /* who is told of this exchange, and of others */
    void *listener;
    kn_exchange *next, *prev; /* all of the server */
    kn_peer *peer;            /* NULL: of no interest */
    void *user;
    kn_problem_writer *dialect;
    uint64_t since_ms;      /* when the connection began to be idle or to linger */
    uint64_t head_since_ms; /* when the head, of which something is there, began to come */
    kn_waiting waiting;     /* for the client, in this exchange */

    char *head; /* a copy, while a decision is owed */
    size_t head_len;
    kn_buf collected;
    size_t collect_limit;
    size_t collected_at; /* so much of it has gone to the upstream */

    kn_upstream *upstream;
    kn_link *link;
    kn_forward how;

    char *reply; /* lines of its head, then its body */
    size_t reply_head_len, reply_len;
    kn_buf stream;     /* of a stream: what is to be sent next */
    char *more_fields; /* of any answer; NULL: none */

    kn_exchange_facts facts;
    uint32_t most; /* to be read at once */
    uint8_t phase, decision;
    uint8_t minor;         /* of the request's version */
    bool trusted;          /* its client has shown who it is, in this exchange or before */
    bool active;           /* between `request` and `end` */
    bool in_callback;      /* the service is being asked: its decision is looked at afterwards */
    bool head_is_live;     /* it is still where it was read */
    bool to_head;          /* a HEAD request */
    bool expects_continue; /* the client sends nothing of the body before it is told to */
    bool keep;             /* the connection goes on after this answer */
    bool has_collected;    /* the body, or its start, went through `collected` */
    bool head_waits;       /* the request's head is in the batch */
    bool request_chunked, answer_chunked, answer_until_close;
    bool stream_has_len;  /* of a stream: the client knows its length */
    bool stream_ended;    /* and nothing more will be sent */
    bool answer_begun;    /* its head went to the client */
    bool answer_complete; /* all of it was given to the socket */
    bool client_done;     /* the client's part is over */
    bool half_closed;     /* it will send nothing any more */
    bool brief;           /* its answer comes soon: a client that has closed its sending side waits for it */
    bool broken;          /* the socket takes nothing any more */
    bool cut;             /* to be closed in the middle of an answer */
};

/* A connection from now on. If it fails, the descriptor is still the caller's. */
bool kn_client_new(kn_server *s, int fd, kn_peer *peer, const kn_service *service, void *ctx, kn_error *err);

/* Understands input and does what was decided, as far as that goes. */
void kn_client_process(kn_exchange *x, kn_window w);

/* Does what was noted, soon. */
void kn_client_later(kn_exchange *x);

/* The client is gone, or is to be gone: its part ends. The upstream's is drained or ends, too. */
void kn_client_leave(kn_exchange *x);

/* An error of our own: an answer, if none was begun, else the connection is cut in the middle of it. */
void kn_client_fail(kn_exchange *x, unsigned status);

/* The answer was given to the socket as a whole. */
void kn_client_answer_is_complete(kn_exchange *x);

/* Whether both parts are over; then the exchange ends. */
void kn_client_check_end(kn_exchange *x);

/* What is wanted of the socket, and until when: the one place that decides it. */
void kn_client_arrange(kn_exchange *x);

/* Ends both parts now and closes the connection. */
void kn_client_abort(kn_exchange *x);

/* The connection is idle: no exchange, not a byte of the next. */
bool kn_client_is_idle(const kn_exchange *x);

/* relay.c: begins to forward, with the request's head. */
void kn_relay_begin(kn_exchange *x, const kn_head *h);

/* Sends what there is of the request; returns the bytes used of the window. */
size_t kn_relay_request(kn_exchange *x, kn_window w);

/* The client's part of the work is over: the upstream's is drained, or it ends, too. */
void kn_relay_give_up(kn_exchange *x);

void kn_relay_tell_end(kn_exchange *x, kn_upstream_end end);

/* server.c */
const kn_server_limits *kn_server_limits_of(const kn_server *s);
bool kn_server_is_draining(const kn_server *s);
bool kn_server_has_room_for(kn_server *s, size_t bytes);   /* of bodies that are collected; then they are counted … */
void kn_server_collected_less(kn_server *s, size_t bytes); /* … until they are gone */
void kn_server_add(kn_server *s, kn_exchange *x);
void kn_server_remove(kn_server *s, kn_exchange *x);
kn_http *kn_server_http(const kn_server *s);

#endif
