/* The products of the AMX tier, from its own source, with the tiles in plain C: for machines that have none. */
#ifndef KN_TESTS_AMX_EMULATED_H
#define KN_TESTS_AMX_EMULATED_H

#include "compute/cpu/kernels.h"

void emulate_amx(kn_kernels *k);

#endif
