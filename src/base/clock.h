/* Time that only goes forward, in seconds since some moment in the past. */
#ifndef KN_BASE_CLOCK_H
#define KN_BASE_CLOCK_H

double kn_now(void);

#endif
