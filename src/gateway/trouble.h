/* Trouble with a disk, for the log: told once when it begins and once when it is over, however often it is met between
 * the two. From any thread. */
#ifndef KN_GATEWAY_TROUBLE_H
#define KN_GATEWAY_TROUBLE_H

#include <stdatomic.h>

#include "base/error.h"

typedef struct kn_trouble {
    const char *what;                         /* cannot be written: a fixed word */
    void (*log)(void *ctx, const char *line); /* NULL: nobody wants to know; called by whoever meets it */
    void *ctx;
    atomic_bool lasts;
} kn_trouble;

/* A writing has gone well or not. why: without anything that people have written; NULL: not told. Returns ok. */
bool kn_trouble_note(kn_trouble *t, bool ok, const kn_error *why);

#endif
