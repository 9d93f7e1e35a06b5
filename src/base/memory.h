/* How much memory this process can still have without swapping. */
#ifndef KN_BASE_MEMORY_H
#define KN_BASE_MEMORY_H

#include <stdint.h>

/* The smaller of what the kernel says is available and what is left of the cgroup's limit; UINT64_MAX when unknown. */
uint64_t kn_memory_available(void);

#endif
