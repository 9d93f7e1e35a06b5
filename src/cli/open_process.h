/* Programs that `kuno open` starts: without a terminal, in a session of their own, so that they stay when it is over.
 */
#ifndef KN_CLI_OPEN_PROCESS_H
#define KN_CLI_OPEN_PROCESS_H

#include <sys/types.h>

#include "base/error.h"

typedef struct kn_started {
    pid_t pid;
    int pid_fd; /* -1: it has ended, and was waited for */
    int status; /* then: its exit status, or 128 and the signal */
} kn_started;

/* arguments: the program first, found in PATH. out: where it writes; -1: nowhere. */
bool kn_start(const char *const *arguments, int out, kn_started *ret, kn_error *err);

/* Whether it has ended, if need be after so long. */
bool kn_started_has_ended(kn_started *p, int within_ms);

/* It goes on, and nobody waits for it. */
void kn_started_leave(kn_started *p);

#endif
