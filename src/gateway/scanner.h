/* Looks at the graphics cards for all who want to know, one look at a time (gpu/gpu.h): a driver may hang, and never
 * costs more than KN_GPU_DEADLINE_MS. */
#ifndef KN_GATEWAY_SCANNER_H
#define KN_GATEWAY_SCANNER_H

#include "gpu/gpu.h"
#include "http/loop.h"

typedef struct kn_scanner kn_scanner;

/* root: in front of /sys and /dev, for tests; else "". */
bool kn_scanner_new(kn_loop *loop, const char *root, kn_scanner **ret, kn_error *err);
void kn_scanner_free(kn_scanner *s); /* the loop must not turn any more */

typedef struct kn_scan kn_scan;
struct kn_scan {
    void (*seen)(kn_scan *s, const kn_gpu_report *report);
    kn_scan *next, *prev, **list; /* list: NULL: it waits for nothing */
};

/* A look that begins after this call, so that it shows what has been freed before. seen comes once, never before this
 * returns, unless the scan is forgotten. */
void kn_scanner_scan(kn_scanner *s, kn_scan *scan);
void kn_scanner_forget(kn_scan *scan);

/* What the present look, or the last one, has found by now. */
void kn_scanner_read(kn_scanner *s, kn_gpu_report *ret);

#endif
