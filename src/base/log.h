/* Lines of a service for whoever keeps its log. Nobody who writes one waits: not for a pipe that is full, a terminal
 * that was stopped, or a disk. A thread of the log's own writes them, in order.
 *
 * What is not taken is kept in memory, up to KN_LOG_BYTES. Beyond that lines are dropped, and how many were is said in
 * their place. Any thread may write. */
#ifndef KN_BASE_LOG_H
#define KN_BASE_LOG_H

#include "base/error.h"

enum {
    KN_LOG_BYTES = 16 << 10,
    KN_LOG_LINE_BYTES = 1000, /* of one line; what is longer is cut */
    KN_LOG_END_MS = 1000,
};

typedef struct kn_log kn_log;

/* Every line begins with `front`. The descriptor stays the caller's. */
bool kn_log_new(int fd, const char *front, kn_log **ret, kn_error *err);

/* One line, without its end. */
void kn_log_say(kn_log *l, const char *fmt, ...) KN_PRINTF(2, 3);

/* Waits until everything is written, but at most KN_LOG_END_MS; what is left then is written whenever it can be, until
 * the process ends. NULL is fine. */
void kn_log_free(kn_log *l);

#endif
