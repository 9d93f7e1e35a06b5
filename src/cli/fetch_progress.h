/* How a download goes, on standard error: one line that is redrawn on a terminal, a line now and then elsewhere. */
#ifndef KN_CLI_FETCH_PROGRESS_H
#define KN_CLI_FETCH_PROGRESS_H

#include "catalog/fetch.h"
#include "cli/progress.h"

typedef struct kn_fetch_show {
    FILE *out; /* NULL: quiet */
    bool terminal;
    const char *name;
    kn_fetch_state state; /* that was shown */
    uint64_t shown_bytes;
    double shown; /* when */
} kn_fetch_show;

void kn_fetch_show_begin(kn_fetch_show *s, const char *name, bool quiet);
void kn_fetch_show_progress(kn_fetch_show *s, const kn_fetch_progress *p);

/* Takes the line away, to make room for another. */
void kn_fetch_show_end(kn_fetch_show *s);

#endif
