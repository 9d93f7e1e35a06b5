/* Time that only goes forward, in seconds. */
#ifndef KN_BASE_CLOCK_H
#define KN_BASE_CLOCK_H

double kn_now(void); /* since some moment in the past */

/* Processor time that this process, with all its threads, or the calling thread alone has used. Others on the machine
 * hardly disturb it, so that it measures programs where clocks on the wall cannot. */
double kn_now_process(void);
double kn_now_thread(void);

#endif
