/* How a running command is stopped: the first Ctrl-C (or SIGTERM, or a terminal that goes away) asks it to stop at the
 * next step, the second one ends the process at once. Nothing unfinished is left behind either way: results are named
 * only when they are complete, and the end waits for that moment (save.h). */
#ifndef KN_CLI_SIGNALS_H
#define KN_CLI_SIGNALS_H

#include <stdbool.h>

/* stop, which may be NULL, is called by the first signal and must be safe within a handler. Also has writing to a pipe
 * that nobody reads fail like any other write. */
void kn_signals_install(void (*stop)(void *context), void *context);

/* Whether somebody asked to stop. From any thread. */
bool kn_signals_stop(void);

/* Puts off the end at the second signal, for the length of an action that must not be cut in half. From any thread, and
 * from several at a time. */
void kn_signals_hold(void);
void kn_signals_release(void);

#endif
