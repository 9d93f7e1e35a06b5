/* What this processor can do at most, measured in bursts of about a millisecond: the limits by which kernels are
 * judged. A processor's speed changes from one second to the next (frequency, neighbours, virtual machines), so that
 * only what was measured in the same seconds may be compared. */
#ifndef KN_COMPUTE_CPU_ROOFLINE_H
#define KN_COMPUTE_CPU_ROOFLINE_H

#include "compute/ops.h"

typedef enum kn_unit {
    KN_UNIT_FMA,      /* float32, fused multiply-add */
    KN_UNIT_BF16,     /* products of pairs of bfloat16, summed in float32 */
    KN_UNIT_INT8,     /* products of four 8-bit integers, or of two as 16-bit ones, summed in 32 bits */
    KN_UNIT_AMX_BF16, /* the same on tiles, with operands that are there already */
    KN_UNIT_AMX_INT8,
    KN_UNIT_READ,   /* memory far beyond the caches, in order */
    KN_UNIT_UPDATE, /* the same, and written back */
    KN_UNIT_COUNT
} kn_unit;

const char *kn_unit_name(kn_unit u); /* "fma" */
bool kn_unit_is_memory(kn_unit u);

typedef struct kn_roofline kn_roofline;

/* Borrows the device, whose threads measure together and of whose tier only the units are. Takes 256 MiB. */
bool kn_roofline_open(kn_device *d, kn_roofline **ret, kn_error *err);
void kn_roofline_close(kn_roofline *l);

/* Operations (a multiply-add counts as two), or bytes, per second on all threads of the device, by the processor time
 * that they used; 0 for units that the tier does not use. Takes some tens of milliseconds. */
void kn_roofline_measure(kn_roofline *l, double per_second[KN_UNIT_COUNT]);

/* Once more, and keeps the more of both for each unit: others only ever slow a processor down. */
void kn_roofline_measure_again(kn_roofline *l, double per_second[KN_UNIT_COUNT]);

#endif
