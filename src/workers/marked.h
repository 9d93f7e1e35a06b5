/* Processes that have a mark in their environment, wherever they have got to: what a server that was killed has left
 * behind. */
#ifndef KN_WORKERS_MARKED_H
#define KN_WORKERS_MARKED_H

#include <stdbool.h>
#include <stddef.h>

/* How many processes have `start`, or a variable that begins with it, in their environment, apart from this one.
 * signal 0: only counts. What belongs to other users is not seen. A program that is just being begun has no environment
 * for a moment, which is waited for; one that does not get beyond that counts, and gets no signal. */
size_t kn_marked_signal(const char *start, int signal);

/* Kills them all and waits until they are gone, at most so long. */
bool kn_marked_end(const char *start, unsigned ms);

#endif
