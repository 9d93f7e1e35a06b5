/* The one lease for everything that needs the machine: admission.h with a clock, a disk and a state directory.
 *
 * Whoever wants to work has an entry, asks with kn_lease_enter, and is told. What is granted must finish, and say
 * whether it is certain that nothing is left running. */
#ifndef KN_GATEWAY_LEASE_H
#define KN_GATEWAY_LEASE_H

#include "gateway/admission.h"
#include "gateway/disk.h"
#include "gateway/state.h"

typedef struct kn_lease kn_lease;

typedef struct kn_entry kn_entry;
struct kn_entry {
    kn_ticket ticket;
    void (*granted)(kn_entry *e);
    void (*refused)(kn_entry *e, kn_refusal why);
    void (*waits)(kn_entry *e, kn_wait what_for); /* of one whose ticket is patient */
};

/* changed: called when the lease has been given back or recovery became required; may be NULL. */
bool kn_lease_new(kn_loop *loop, kn_state *state, kn_disk *disk, size_t queue_limit, uint64_t queue_timeout_ms,
                  void (*changed)(void *ctx), void *ctx, kn_lease **ret, kn_error *err);

/* Nobody may be waiting or working, and the disk's thread has ended. */
void kn_lease_free(kn_lease *l);

void kn_lease_enter(kn_lease *l, kn_entry *e, kn_work work);
void kn_lease_leave(kn_lease *l, kn_entry *e);
void kn_lease_finish(kn_lease *l, kn_entry *e, bool certain);

/* Ends a pause; false while recovery is required. */
bool kn_lease_resume(kn_lease *l);

/* For looking, and for pause and stop. */
kn_admission *kn_lease_admission(kn_lease *l);

#endif
