/* How much memory this process can still have without swapping, and what it has freed and still holds. */
#ifndef KN_BASE_MEMORY_H
#define KN_BASE_MEMORY_H

#include <stdint.h>

/* The smaller of what the kernel says is available and what is left of the cgroup's limit; UINT64_MAX when unknown. */
uint64_t kn_memory_available(void);

/* Once, before there are threads: memory of any size worth it goes back as soon as it is freed. By itself the allocator
 * learns from each large buffer to keep the next one. */
void kn_memory_keep_little(void);

/* Gives whole pages that were freed back to the system, from between those in use, too: the allocator itself only gives
 * back the end of its heaps. Takes some milliseconds, in which other threads may have to wait for memory. */
void kn_memory_give_back(void);

#endif
