/* Time that only goes forward, in seconds. */
#ifndef KN_BASE_CLOCK_H
#define KN_BASE_CLOCK_H

#include <pthread.h>
#include <time.h>

double kn_now(void); /* since some moment in the past */

/* A condition that is waited for no longer than until a moment of that time, whatever becomes of the clock on the wall:
 * the moment is for pthread_cond_timedwait. */
void kn_condition_init(pthread_cond_t *ret);
struct timespec kn_moment_in_ms(unsigned ms);

/* Processor time that this process, with all its threads, or the calling thread alone has used. Others on the machine
 * hardly disturb it, so that it measures programs where clocks on the wall cannot. Of the process it takes some
 * microseconds to read, and has what running threads used until now. */
double kn_now_process(void);
double kn_now_thread(void);

#endif
