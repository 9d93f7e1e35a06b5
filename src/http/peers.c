#include "http/peers.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void kn_peers_init(kn_peers *p) {
    memset(p, 0, sizeof *p);
    /* Without entropy yet, early at boot, the key stays 0: then buckets could only be longer than they need be. */
    if (getrandom(&p->key, sizeof p->key, GRND_NONBLOCK) != sizeof p->key)
        p->key = 0;
}

static kn_peer **bucket(kn_peers *p, const kn_address *a) {
    uint64_t host[2] = { 0, 0 };
    if (a->storage.ss_family == AF_INET)
        memcpy(host, &((const struct sockaddr_in *)(const void *)&a->storage)->sin_addr, 4);
    else if (a->storage.ss_family == AF_INET6)
        memcpy(host, &((const struct sockaddr_in6 *)(const void *)&a->storage)->sin6_addr, 16);
    uint64_t x = p->key;
    for (int i = 0; i < 2; i++) {
        x = (x ^ host[i]) * 0x9e3779b97f4a7c15; /* 2^64 / golden ratio: spreads every bit upwards */
        x ^= x >> 32;
    }
    return &p->buckets[x % KN_PEER_BUCKETS];
}

kn_peer *kn_peers_enter(kn_peers *p, const kn_address *a, unsigned most) {
    kn_peer **first = bucket(p, a), *peer = *first;
    while (peer && !kn_address_is_same_host(&peer->address, a))
        peer = peer->next;
    if (peer && peer->connections >= most)
        return NULL;
    if (!peer) {
        peer = calloc(1, sizeof *peer);
        if (!peer)
            return NULL;
        peer->address = *a;
        peer->next = *first;
        *first = peer;
    }
    peer->connections++;
    return peer;
}

void kn_peers_leave(kn_peers *p, kn_peer *peer) {
    if (!peer || --peer->connections)
        return;
    kn_peer **at = bucket(p, &peer->address);
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    free(peer);
}
