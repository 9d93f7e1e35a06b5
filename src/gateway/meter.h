/* The meter: counts real use (usage.h) as requests succeed, keeps the catalogue (catalog.h) that tells what was used,
 * and has the history written to disk.
 *
 * A name is looked up in a catalogue that is at most a minute old and not older than the last request that may have
 * changed it; if there is none, it is fetched first. Names wait for that in memory and are then forgotten. Where the
 * upstream does not answer, the catalogue that was known before stays what it is: old. */
#ifndef KN_GATEWAY_METER_H
#define KN_GATEWAY_METER_H

#include "gateway/disk.h"
#include "gateway/observer.h"
#include "gateway/usage.h"
#include "http/upstream.h"

typedef struct kn_meter kn_meter;

/* Reads the history; one that is damaged is an error. */
bool kn_meter_new(kn_loop *loop, kn_disk *disk, kn_upstream *upstream, const char *state_dir, kn_meter **ret,
                  kn_error *err);

/* What the log is told when the history cannot be written, and when it is again. */
void kn_meter_tell_trouble(kn_meter *m, void (*log)(void *ctx, const char *line), void *ctx);

/* After the disk's thread has ended. */
void kn_meter_free(kn_meter *m);

/* A request was accepted. name: with KN_OBSERVED_MODEL. */
void kn_meter_count(kn_meter *m, kn_observed what, const char *name);

/* The same where it is known which listed model served it. */
void kn_meter_count_digest(kn_meter *m, const kn_digest *digest);

/* Something that may change the catalogue begins or has ended. */
void kn_meter_catalog_changes(kn_meter *m);

/* Somebody who needs a catalogue that is fresh. */
typedef struct kn_catalog_wait kn_catalog_wait;
struct kn_catalog_wait {
    void (*ready)(kn_catalog_wait *w); /* the catalogue is fresh, or could not be had */
    kn_catalog_wait *next, *prev;
    bool waits;
};

/* ready comes maybe at once, never after kn_meter_forget. */
void kn_meter_refresh(kn_meter *m, kn_catalog_wait *w);

/* The same for somebody who does not find in it what may be new: no older than since_ms will do. */
void kn_meter_refresh_since(kn_meter *m, uint64_t since_ms, kn_catalog_wait *w);
void kn_meter_forget(kn_meter *m, kn_catalog_wait *w);

const kn_catalog *kn_meter_catalog(const kn_meter *m);      /* empty if there is none that is fresh */
const kn_catalog *kn_meter_last_catalog(const kn_meter *m); /* the last that was read, however old */
bool kn_meter_catalog_is_fresh(const kn_meter *m);
const kn_usage *kn_meter_usage(const kn_meter *m);

typedef struct kn_persistence {
    bool pending;           /* something is counted that the disk does not have yet */
    const char *last_error; /* a fixed word; NULL: the last writing went well, and the next one can */
    int64_t last_write_s;   /* 0: never since the start */
} kn_persistence;
kn_persistence kn_meter_persistence(const kn_meter *m);

/* Called once, when nothing is pending any more, maybe at once. */
void kn_meter_settle(kn_meter *m, void (*settled)(void *ctx), void *ctx);

#endif
