#include "studio/starts.h"

#include "studio/jobs.h"

static bool write_count(kn_errand *e, kn_store *store, kn_error *err) {
    const kn_starts *n = KN_HOLDER(e, kn_starts, errand);
    return kn_jobs_count_starts(store, n->now.job.text, n->now.starts, err);
}

static void send(kn_starts *n, kn_studio *s);

static void written(kn_errand *e) {
    kn_starts *n = KN_HOLDER(e, kn_starts, errand);
    n->sent = false;
    if (n->again)
        send(n, e->studio);
}

static void send(kn_starts *n, kn_studio *s) {
    n->sent = true;
    n->again = false;
    n->now = n->next;
    n->errand.work = write_count;
    n->errand.back = written;
    kn_errand_send(s, &n->errand);
}

void kn_starts_tell(kn_starts *n, kn_studio *s, const kn_id *job, unsigned starts) {
    n->next = (kn_start_count){ *job, starts };
    n->again = true;
    if (!n->sent)
        send(n, s);
}
