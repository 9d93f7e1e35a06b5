#include "sampling/mt19937.h"

enum { WORDS = KN_MT19937_WORDS, FAR = 397 };

void kn_mt19937_seed(kn_mt19937 *g, uint32_t seed) {
    g->state[0] = seed;
    for (uint32_t j = 1; j < WORDS; j++) {
        uint32_t before = g->state[j - 1];
        g->state[j] = 1812433253u * (before ^ before >> 30) + j;
    }
    g->used = WORDS;
}

/* The next 624 words. In place: each word depends on itself, its neighbour and the one FAR ahead, cyclically. */
static void twist(kn_mt19937 *g) {
    for (unsigned i = 0; i < WORDS; i++) {
        uint32_t y = (g->state[i] & 0x80000000u) | (g->state[(i + 1) % WORDS] & 0x7fffffffu);
        g->state[i] = g->state[(i + FAR) % WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    g->used = 0;
}

uint32_t kn_mt19937_next(kn_mt19937 *g) {
    if (g->used == WORDS)
        twist(g);
    uint32_t y = g->state[g->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}
