/* A socket with what it has not taken yet, and with what has been read and not been used. Both are the exception: bytes
 * go from one socket to the other through the workspace, and only what does not fit is copied and held.
 *
 * Internal to the room. */
#ifndef KN_HTTP_SOCKET_H
#define KN_HTTP_SOCKET_H

#include <sys/uio.h>

#include "http/address.h"
#include "http/head.h"
#include "http/http.h"

enum {
    KN_BATCH_PARTS = 64,
    KN_HTTP_READ_MIN = 16 << 10,                      /* how much is read from a peer of which nothing is known */
    KN_HTTP_WRITE_MAX = KN_HTTP_HEAD_MAX + (8 << 10), /* a head as it is passed on, with what we add */
};

/* Bytes to be sent in one go, still where they were read: `parts` point into the workspace or elsewhere and are used up
 * before anybody else may touch that. */
typedef struct kn_batch {
    struct iovec parts[KN_BATCH_PARTS];
    unsigned n;
    size_t len;
    unsigned chunk; /* the part that will be the size line of the open chunk; 0: none is open */
    size_t chunk_len;
    char size_line[20];
} kn_batch;

/* What everything on one loop shares: see http.h. Valid within one callback of the loop. */
struct kn_http {
    kn_loop *loop;
    kn_head head;   /* the message that is being read */
    kn_head again;  /* one that was kept and is looked at again */
    kn_batch batch; /* what is to be sent; empty between callbacks */
    char *read;     /* KN_HTTP_READ_MAX */
    char *write;    /* KN_HTTP_WRITE_MAX: heads in the batch */
    size_t written; /* bytes of them */
    uint64_t date_ms;
    char date[40];
};

void kn_batch_reset(kn_batch *b);
void kn_batch_add(kn_batch *b, const void *p, size_t n);

/* Adds data of a body, as a chunk or as it is. */
void kn_batch_add_data(kn_batch *b, const void *p, size_t n, bool chunked);

/* Before sending: ends the open chunk; `last`: the body ends here. */
void kn_batch_close(kn_batch *b, bool chunked, bool last);

/* Time to send what there is. */
bool kn_batch_is_full(const kn_batch *b);

typedef struct kn_socket {
    kn_watch watch;
    char *held; /* to be sent; NULL: nothing */
    size_t held_at, held_len;
} kn_socket;

/* Sends the batch, behind what is held, and holds what does not go. Nothing can be sent while `waits` (a connection
 * that is not established). *ret: whether any byte went. False: the peer takes nothing any more, or memory is out. */
bool kn_socket_send(kn_socket *s, kn_batch *b, bool waits, bool *ret);

/* The socket is writable: sends what is held. *ret: whether any byte went. */
bool kn_socket_flush(kn_socket *s, bool *ret);

void kn_socket_drop_held(kn_socket *s);

/* How many of the bytes that were sent the peer's side does not have yet. */
uint64_t kn_socket_untaken(const kn_socket *s);

/* For a TCP socket that listens or connects there: what may be tuned of it. */
void kn_socket_tune(int fd, const kn_address *a);

/* What was read and not used, for example the start of a head. */
typedef struct kn_input {
    char *data;
    size_t at, len, room;
} kn_input;

typedef struct kn_window {
    char *data;
    size_t len;
} kn_window;

typedef enum kn_read { KN_READ_DATA, KN_READ_NOTHING, KN_READ_END, KN_READ_BROKEN } kn_read;

/* Reads once, at most `most` bytes, behind what is there already; *ret is all of it. */
kn_read kn_input_read(kn_http *h, kn_input *in, int fd, size_t most, kn_window *ret);

/* What is there already. */
kn_window kn_input_window(const kn_input *in);

/* The first `used` bytes of the window are done; keeps the rest. False: memory is out. */
bool kn_input_keep(kn_input *in, kn_window w, size_t used);

void kn_input_drop(kn_input *in);

#endif
