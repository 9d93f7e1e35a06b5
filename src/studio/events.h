/* What has happened, for those who watch: a bounded list of events with ids that only grow.
 *
 * An id is BOOT-SEQ: 8 hexadecimal digits that are new with every start of the service, and a number that counts up by
 * one. Whoever knows an id gets everything newer; if that is not here any more, it is told so. At least the last
 * KN_EVENTS_KEPT events and those of the last KN_EVENTS_KEPT_MS are kept, within KN_EVENTS_BYTES. Of a job's progress
 * and previews only the newest is kept each, in its place in time; those before it have been seen or are of no use.
 *
 * Their texts lie here and there among all else that comes and goes, and would keep a page of memory each; so in quiet
 * times they are moved together.
 *
 * Used by the loop's thread alone. */
#ifndef KN_STUDIO_EVENTS_H
#define KN_STUDIO_EVENTS_H

#include <stdint.h>

#include "base/buf.h"

enum {
    KN_EVENTS_KEPT = 4096,
    KN_EVENTS_KEPT_MS = 10 * 60 * 1000,
    KN_EVENTS_BYTES = 64 << 20,
    KN_EVENT_ID_BYTES = 32,
};

typedef enum kn_event_kind {
    KN_EVENT_JOB_QUEUED,
    KN_EVENT_JOB_STARTED,
    KN_EVENT_JOB_PROGRESS,
    KN_EVENT_JOB_PREVIEW,
    KN_EVENT_JOB_COMPLETED,
    KN_EVENT_JOB_FAILED,
    KN_EVENT_JOB_CANCELLED,
    KN_EVENT_JOB_DELETED,
    KN_EVENT_GALLERY_ADDED,
    KN_EVENT_GALLERY_UPDATED,
    KN_EVENT_GALLERY_DELETED,
    KN_EVENT_DOWNLOAD_UPDATED,
    KN_EVENT_ENGINE_UPDATED,
    KN_EVENT_SETTINGS_UPDATED,
    KN_EVENT_MODELS_UPDATED,
    KN_EVENT_KINDS,
} kn_event_kind;

/* Topics, as clients choose them: a bit each. */
enum {
    KN_TOPIC_JOBS = 1 << 0,
    KN_TOPIC_GALLERY = 1 << 1,
    KN_TOPIC_DOWNLOADS = 1 << 2,
    KN_TOPIC_ENGINE = 1 << 3,
    KN_TOPIC_SETTINGS = 1 << 4,
    KN_TOPIC_MODELS = 1 << 5,
    KN_TOPIC_ALL = (1 << 6) - 1,
};

typedef struct kn_event {
    uint64_t seq;
    uint64_t at_ms;
    kn_event_kind kind;
    char *subject; /* the id of the job, picture, … it is about; may be empty */
    char *data;    /* JSON */
    size_t bytes;
} kn_event;

typedef struct kn_events kn_events;

/* boot: of the ids. */
bool kn_events_new(uint32_t boot, kn_events **ret, kn_error *err);
void kn_events_free(kn_events *e); /* NULL is fine */

/* Both texts are copied. An event that finds no memory is lost, and so is everything before it: watchers are told to
 * read everything again. */
void kn_events_add(kn_events *e, uint64_t now_ms, kn_event_kind kind, const char *subject, const char *json);

uint64_t kn_events_last(const kn_events *e); /* 0: none yet */

/* Moves the texts of all events together; where there is no memory for it they stay. */
void kn_events_pack(kn_events *e);

/* The oldest event after `seq`; NULL: there is none. Valid until the next is added, or all are packed. */
const kn_event *kn_events_after(const kn_events *e, uint64_t seq);

/* Whether there were events after `seq` that are not here any more. */
bool kn_events_has_lost(const kn_events *e, uint64_t seq);

/* Where somebody goes on who has seen that id. */
typedef enum kn_resume { KN_RESUME_GOOD, KN_RESUME_TOO_OLD, KN_RESUME_RESTARTED, KN_RESUME_UNKNOWN } kn_resume;
kn_resume kn_events_resume(const kn_events *e, const char *id, size_t len, uint64_t *ret_seq);
bool kn_event_id_is_valid(const char *id, size_t len);

typedef struct kn_event_id {
    char text[KN_EVENT_ID_BYTES];
} kn_event_id;
kn_event_id kn_event_id_of(const kn_events *e, uint64_t seq);

const char *kn_event_name(kn_event_kind kind); /* "job.queued" */
unsigned kn_event_topic(kn_event_kind kind);
bool kn_event_is_last_of_job(kn_event_kind kind);

/* "jobs,gallery" as bits; false: one of them is unknown. */
bool kn_topics_parse(const char *text, size_t len, unsigned *ret);

/* Adds it as it goes over the wire: id, event, data. */
bool kn_event_write(const kn_events *e, const kn_event *event, kn_buf *into);

#endif
