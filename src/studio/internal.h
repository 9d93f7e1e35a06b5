/* What the files of the room share. Internal to it. */
#ifndef KN_STUDIO_INTERNAL_H
#define KN_STUDIO_INTERNAL_H

#include "studio/errand.h"
#include "studio/events.h"
#include "studio/gallery.h"
#include "studio/paths.h"
#include "studio/planner.h"
#include "studio/sessions.h"

/* Somebody who wants to know of events. Called for each, in no order; it may stop watching there and then. */
typedef struct kn_watch_events kn_watch_events;
struct kn_watch_events {
    void (*came)(kn_watch_events *w, const kn_event *event);
    kn_watch_events *next, *prev;
    bool watches;
};

typedef struct kn_queue kn_queue;
typedef struct kn_fetcher kn_fetcher; /* fetcher.h */

enum { KN_RECENT_ERRORS = 32 };
typedef struct kn_recent_error {
    int64_t at_s;
    char code[40];
    char instance[40];
} kn_recent_error;

struct kn_studio {
    kn_studio_setup setup;
    kn_studio_runner runner;
    kn_loop *loop;
    kn_disk *disk;
    kn_store *store; /* the disk's thread's, once it runs */
    kn_events *events;
    kn_watch_events *watchers;
    kn_queue *queue;
    kn_fetcher *fetcher;
    unsigned errands; /* that have not come back */
    kn_errand wiping;
    kn_timer wipe_soon;
    bool wipes; /* soon or now */
    kn_errand giving_back;
    kn_timer quiet;
    bool gives_back;
    kn_errand tidying;
    kn_timer tidy_soon;
    bool tidies, tidies_again;
    bool has_more; /* to tidy; set by the disk's thread */
    kn_session_list sessions;
    int64_t started_s;
    bool damaged; /* the database was begun anew */
    unsigned broken_records;
    size_t recent_count;
    kn_recent_error recent[KN_RECENT_ERRORS]; /* the newest first */
    kn_own_folders own;
};

void kn_studio_log(kn_studio *s, const char *fmt, ...) KN_PRINTF(2, 3);

/* Removes what has been kept for its time: now, and once an hour from then on. */
void kn_studio_tidy(kn_studio *s);

/* Tells watchers. `json` is taken over. */
void kn_studio_tell(kn_studio *s, kn_event_kind kind, const char *subject, json_t *json);
void kn_studio_watch(kn_studio *s, kn_watch_events *w);
void kn_studio_unwatch(kn_studio *s, kn_watch_events *w); /* again: nothing */

/* For diagnostics: a code and which occurrence, nothing of what was in it. */
void kn_studio_note_error(kn_studio *s, const char *code, const char *instance);

/* ---- queue.c ---- */

bool kn_queue_new(kn_studio *s, kn_queue **ret, kn_error *err);
void kn_queue_close(kn_queue *q); /* nothing is begun or told any more; before the disk's thread ends */
void kn_queue_free(kn_queue *q);

/* There may be a job to begin with. */
void kn_queue_look(kn_queue *q);

/* A job that runs has been marked as cancelled. */
void kn_queue_cancel(kn_queue *q, const char *job);

/* Puts the progress of the job that runs into what clients see of it. */
void kn_queue_show_progress(const kn_queue *q, json_t *job);
extern const kn_note kn_queue_waits[KN_WAITS]; /* why nothing is done, and what would help */

/* The id of the job that runs; NULL: none. */
const char *kn_queue_job(const kn_queue *q);

/* The newest preview of a job, NULL: there is none; and how many there were before it. */
const void *kn_queue_preview(const kn_queue *q, const char *job, size_t *ret_len);
unsigned kn_queue_preview_number(const kn_queue *q);

/* No job begins while it rests. */
void kn_queue_rest(kn_queue *q, bool rests);
bool kn_queue_rests(const kn_queue *q);
bool kn_queue_is_busy(const kn_queue *q); /* a job runs, or is about to */
bool kn_queue_is_stopping(const kn_queue *q);
void kn_queue_stop(kn_queue *q, bool cancel, void (*stopped)(void *ctx), void *ctx);
void kn_queue_cut(kn_queue *q); /* afterwards: the picture that is still being drawn is put off */

/* While the service stops: whether nothing is done of this job any more, since it is not the one that is still at work;
 * and whether nothing is at all. Told as KN_EVENT_ENGINE_UPDATED when it becomes so. */
bool kn_queue_leaves(const kn_queue *q, const char *job);
bool kn_queue_is_over(const kn_queue *q);

/* The engine as clients see it. */
json_t *kn_studio_engine_json(const kn_studio *s);

#endif
