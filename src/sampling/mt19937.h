/* The Mersenne Twister MT19937: 32-bit words with a period of 2^19937 - 1. Needs no memory beyond its state. */
#ifndef KN_SAMPLING_MT19937_H
#define KN_SAMPLING_MT19937_H

#include <stdint.h>

enum { KN_MT19937_WORDS = 624 };

typedef struct kn_mt19937 {
    uint32_t state[KN_MT19937_WORDS];
    unsigned used; /* words of the state that were given out */
} kn_mt19937;

void kn_mt19937_seed(kn_mt19937 *g, uint32_t seed);
uint32_t kn_mt19937_next(kn_mt19937 *g);

#endif
