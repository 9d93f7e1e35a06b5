/* How many connections each address has. Internal to the room. */
#ifndef KN_HTTP_PEERS_H
#define KN_HTTP_PEERS_H

#include "http/address.h"

enum { KN_PEER_BUCKETS = 256 };

typedef struct kn_peer kn_peer;
struct kn_peer {
    kn_address address;
    unsigned connections;
    kn_peer *next;
};

typedef struct kn_peers {
    kn_peer *buckets[KN_PEER_BUCKETS];
    uint64_t key; /* nobody outside can choose addresses that share a bucket */
} kn_peers;

void kn_peers_init(kn_peers *p);

/* Counts a connection from this address. NULL: it has as many as it may have, or memory is out. */
kn_peer *kn_peers_enter(kn_peers *p, const kn_address *a, unsigned most);
void kn_peers_leave(kn_peers *p, kn_peer *peer);

#endif
