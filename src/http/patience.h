/* How long one exchange may keep others waiting for its client: while more of the request is to come, or while the
 * client does not take what there is of its answer. Time in which nobody waits for the client costs it nothing, however
 * long an answer takes to be made.
 *
 *     debt: grows with the time waited, shrinks with the bytes that came or went, at `rate` a second
 *
 * A client that is faster than the rate never owes anything; one that is slower, silent or trickling is at its end when
 * it owes `grace_ms`. Speed is not saved up: bytes pay for what is owed, not for later. Whatever its speed, all of its
 * time together ends at `most_ms`. */
#ifndef KN_HTTP_PATIENCE_H
#define KN_HTTP_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kn_patience {
    uint64_t grace_ms; /* 0: nobody looks; at most KN_PATIENCE_MAX_MS, like most_ms */
    uint64_t rate;     /* bytes a second, at least 1 and at most KN_PATIENCE_MAX_RATE */
    uint64_t most_ms;  /* 0: no end to it as long as the client is fast enough */
} kn_patience;

#define KN_PATIENCE_MAX_MS   (UINT64_C(1) << 31)
#define KN_PATIENCE_MAX_RATE (UINT64_C(1) << 31)

/* Zeroed for a new exchange. */
typedef struct kn_waiting {
    uint64_t since_ms; /* while `on` */
    uint64_t owed;     /* milliseconds times rate */
    uint64_t waited_ms;
    uint64_t moved; /* bytes, as of the last look */
    bool on;
} kn_waiting;

/* From now on the client is waited for, or is not; `moved`: bytes of both bodies since the exchange began. While the
 * client is not waited for, this may be left out. */
void kn_waiting_note(kn_waiting *w, const kn_patience *p, uint64_t now_ms, bool on, uint64_t moved);

/* When patience is at its end, if no byte comes or goes until then; UINT64_MAX: never. */
uint64_t kn_waiting_due_ms(const kn_waiting *w, const kn_patience *p);

#endif
