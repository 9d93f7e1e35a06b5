/* Who may have work done upstream: one at a time, the others wait in line.
 *
 *     enter ──► waits ──► marker is written ──► granted … finish ──► marker is removed ──► the next one
 *                 │                                        │
 *                 └► refused: paused, line full or slow,   └► not certain: nobody any more, until a person has looked
 *                    stopping, recovery required
 *
 * While it is paused nobody new is let in, and nobody's turn comes; those in line keep their places, and their time
 * runs.
 *
 * A patient one is like that only in that it takes its turn: it has a place beside those of the line, which nothing but
 * the end of the service takes from it. It waits for as long as it takes, through a pause and while recovery is
 * required, and is told what for. Whoever lets somebody be patient sees to it that there are few of them.
 *
 * A machine of states without clock, disk or sockets: it is told the time with each call, asks for the marker to be
 * written and removed (state.h) and is told when that is done, and says who is granted or refused. Between `mark` and
 * kn_admission_marked, and between `clear` and kn_admission_cleared, nobody is granted anything. So what holds for it
 * can be tried out millions of times without a server.
 *
 * Tickets live in the objects that wait; the machine allocates nothing. All in one thread. */
#ifndef KN_GATEWAY_ADMISSION_H
#define KN_GATEWAY_ADMISSION_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum kn_work { KN_WORK_INFERENCE, KN_WORK_CATALOG, KN_WORK_OPAQUE, KN_WORK_IMAGE, KN_WORK_COUNT } kn_work;
extern const char *const kn_work_names[KN_WORK_COUNT];

typedef enum kn_refusal {
    KN_REFUSED_PAUSED,
    KN_REFUSED_STOPPING,
    KN_REFUSED_RECOVERY, /* earlier work may still be going on */
    KN_REFUSED_QUEUE_FULL,
    KN_REFUSED_QUEUE_TIMEOUT,
    KN_REFUSED_STATE, /* the marker cannot be written */
    KN_REFUSED_COUNT,
} kn_refusal;

/* What a patient one waits for. */
typedef enum kn_wait {
    KN_WAITS_FOR_TURN, /* others are at work, or came before */
    KN_WAITS_FOR_RESUME,
    KN_WAITS_FOR_RECOVERY,
    KN_WAITS,
} kn_wait;

typedef struct kn_ticket kn_ticket;
struct kn_ticket {
    kn_ticket *next, *prev; /* in line */
    uint64_t until_ms;      /* waits at most so long, unless it is … */
    bool patient;           /* said by whoever enters */
    kn_work work;
    enum { KN_TICKET_NONE, KN_TICKET_WAITS, KN_TICKET_NEXT, KN_TICKET_GRANTED } state;
};

typedef struct kn_admission_hooks {
    void (*granted)(void *ctx, kn_ticket *t);
    void (*refused)(void *ctx, kn_ticket *t, kn_refusal why);
    void (*waits)(void *ctx, kn_ticket *t, kn_wait what_for); /* patient: when it comes, and when that changes */
    void (*mark)(void *ctx);
    void (*clear)(void *ctx);
} kn_admission_hooks;

typedef struct kn_admission {
    const kn_admission_hooks *hooks;
    void *ctx;
    size_t queue_limit, queued; /* without those who are … */
    size_t patient;
    uint64_t queue_timeout_ms;
    bool paused, stopping, recovery_required;
    kn_wait waits_for;
    enum { KN_LEASE_FREE, KN_LEASE_MARKING, KN_LEASE_HELD, KN_LEASE_CLEARING } lease;
    kn_work work;      /* what the lease is for, unless it is free, … */
    uint64_t since_ms; /* … and since when */
    kn_ticket *holder; /* NULL also when the holder has left before it was granted anything */
    kn_ticket *first, *last;
} kn_admission;

void kn_admission_init(kn_admission *a, size_t queue_limit, uint64_t queue_timeout_ms, const kn_admission_hooks *hooks,
                       void *ctx);

/* Whether somebody who entered now, and is not patient, would be refused at once. */
bool kn_admission_refuses(const kn_admission *a, kn_refusal *why);

/* Exactly one of granted and refused follows, maybe at once, unless the ticket leaves before. `waits` calls nothing
 * here. */
void kn_admission_enter(kn_admission *a, kn_ticket *t, kn_work work, uint64_t now_ms);

/* Before it was granted anything: it waits no more. Else: nothing. */
void kn_admission_leave(kn_admission *a, kn_ticket *t);

/* The work that was granted is over; or nobody can be certain that it is. */
void kn_admission_finish(kn_admission *a, kn_ticket *t, bool certain, uint64_t now_ms);

/* The marker is on the disk, or is gone from it; or that has failed. */
void kn_admission_marked(kn_admission *a, bool done, uint64_t now_ms);
void kn_admission_cleared(kn_admission *a, bool done, uint64_t now_ms);

/* Refuses what comes, keeps what waits; what is granted goes on. */
void kn_admission_pause(kn_admission *a);

/* Those in line go on. False while recovery is required: that does not end by being asked to. */
bool kn_admission_resume(kn_admission *a, uint64_t now_ms);

/* Refuses what waits and what comes; what is granted goes on. While recovery is required, patient ones wait. */
void kn_admission_stop(kn_admission *a);
void kn_admission_require_recovery(kn_admission *a);

/* Whether somebody holds the lease, or its marker is still being removed. */
bool kn_admission_is_active(const kn_admission *a);

/* Refuses those that have waited too long. kn_admission_next_ms says when to look again; UINT64_MAX: nobody waits. */
void kn_admission_tick(kn_admission *a, uint64_t now_ms);
uint64_t kn_admission_next_ms(const kn_admission *a);

#endif
