/* How bursts of instructions are made, for the limits of the processor. */
#ifndef KN_COMPUTE_CPU_ROOFLINE_BURST_H
#define KN_COMPUTE_CPU_ROOFLINE_BURST_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum {
    TURNS = 20000, /* of the loops below, some hundred microseconds */
#if defined(__aarch64__)
    CHAINS = 16, /* four units, four cycles each */
#else
    CHAINS = 12, /* two units, six cycles each; of 16 registers */
#endif
};

/* Makes the operations of one burst and returns how many they were. slice: this thread's part of the memory. */
typedef double kn_burst_fn(uint64_t *slice, size_t n);

/* What a burst did, and what it took by the clock and of the thread's processor time. */
typedef struct kn_burst {
    double done, seconds, cpu_seconds;
} kn_burst;

/* The best rate by processor time, of those that had the processor all the time if there are any; 0 if nothing was
 * done. */
double kn_burst_best(const kn_burst *bursts, size_t count);

/* A burst of instructions whose results wait for nothing but themselves, CHAINS of them at once. x: such a result, of
 * which `next` makes the one after it. */
#define CHAINS_OF(name, linkage, type, first, operations, next)                                                        \
    linkage double name(uint64_t *slice, size_t n) {                                                                   \
        (void)slice, (void)n;                                                                                          \
        type sum[CHAINS];                                                                                              \
        KN_UNROLL                                                                                                      \
        for (int i = 0; i < CHAINS; i++)                                                                               \
            sum[i] = (first);                                                                                          \
        for (int turn = 0; turn < TURNS; turn++) {                                                                     \
            KN_UNROLL                                                                                                  \
            for (int i = 0; i < CHAINS; i++) {                                                                         \
                type x = sum[i];                                                                                       \
                sum[i] = (next);                                                                                       \
                KN_USE_VECTOR(sum[i]);                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        return (double)(operations)*CHAINS * TURNS;                                                                    \
    }

/* Of instructions that not every compiler lets a single function use: roofline_neon.c has flags of its own. */
kn_burst_fn kn_burst_sdot, kn_burst_bfmmla, kn_burst_smmla;

#endif
