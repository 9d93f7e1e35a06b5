/* Progress on standard error: one line that is redrawn on a terminal, plain lines elsewhere, nothing when asked for
 * quiet. It is drawn when something has been done and never in between, so that what stands still stands still. Called
 * from the thread that generates. */
#ifndef KN_CLI_PROGRESS_H
#define KN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { KN_PROGRESS_PHASES = 8 };

typedef struct kn_progress_phase {
    const char *name; /* not copied */
    unsigned steps;
    double seconds;
} kn_progress_phase;

typedef struct kn_progress {
    FILE *out; /* NULL: quiet */
    bool terminal;
    double (*now)(void);

    kn_progress_phase phases[KN_PROGRESS_PHASES]; /* in the order of their first start */
    size_t phase_count;
    kn_progress_phase *phase; /* that runs, or NULL */
    double began, drawn;      /* when the phase began, when something was last shown */
    unsigned steps, done, shown;
} kn_progress;

/* "1.2 s", "3 min 05 s", "2 h 07 min" */
typedef struct kn_duration {
    char text[32];
} kn_duration;
kn_duration kn_duration_of(double seconds);

void kn_progress_init(kn_progress *p, bool quiet);

/* Ends the phase before and begins another; steps is 0 where there is nothing to count. A phase that comes again, as
 * with several pictures, adds to its time. */
void kn_progress_begin(kn_progress *p, const char *phase, unsigned steps);
void kn_progress_step(kn_progress *p, unsigned done);

/* Ends the last phase; on a terminal the line becomes a summary. */
void kn_progress_end(kn_progress *p);

/* Takes the line away, to make room for a message. */
void kn_progress_clear(kn_progress *p);

#endif
