/* How often a job has been begun, as it stands on the disk: after KN_JOBS_STARTS starts it is what brings the service
 * down. Being taken is a start, but one that only waits for its turn has done nothing that it could be blamed for.
 * Internal to the room. */
#ifndef KN_STUDIO_STARTS_H
#define KN_STUDIO_STARTS_H

#include "studio/errand.h"
#include "studio/files.h"

typedef struct kn_start_count {
    kn_id job;
    unsigned starts;
} kn_start_count;

/* Lives in whoever takes jobs; all 0 at first. */
typedef struct kn_starts {
    kn_errand errand;
    bool sent, again;
    kn_start_count now, next; /* on its way to the disk, and what goes after it */
} kn_starts;

/* If it cannot be written, a crash counts as it did before. */
void kn_starts_tell(kn_starts *n, kn_studio *s, const kn_id *job, unsigned starts);

#endif
