/* The machine's own memory, and how much of it this process may have. */
#ifndef KN_GPU_HOST_H
#define KN_GPU_HOST_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kn_host_memory {
    uint64_t total, available; /* 0: the kernel does not tell */
    uint64_t limit;            /* of the process' control groups; UINT64_MAX: none */
    bool swap;                 /* some of what the process holds may be written to a swap device */
} kn_host_memory;

/* root: in front of /proc and /sys, for tests; else "". */
kn_host_memory kn_host_memory_read(const char *root);

#endif
