#include "studio/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/text.h"

static const struct {
    const char *name;
    unsigned topic;
    bool coalesced; /* only the newest of a subject is kept */
    bool last;      /* nothing follows of this job, but that it is deleted */
} kinds[KN_EVENT_KINDS] = {
    [KN_EVENT_JOB_QUEUED] = { "job.queued", KN_TOPIC_JOBS, false, false },
    [KN_EVENT_JOB_STARTED] = { "job.started", KN_TOPIC_JOBS, false, false },
    [KN_EVENT_JOB_PROGRESS] = { "job.progress", KN_TOPIC_JOBS, true, false },
    [KN_EVENT_JOB_PREVIEW] = { "job.preview", KN_TOPIC_JOBS, true, false },
    [KN_EVENT_JOB_COMPLETED] = { "job.completed", KN_TOPIC_JOBS, false, true },
    [KN_EVENT_JOB_FAILED] = { "job.failed", KN_TOPIC_JOBS, false, true },
    [KN_EVENT_JOB_CANCELLED] = { "job.cancelled", KN_TOPIC_JOBS, false, true },
    [KN_EVENT_JOB_DELETED] = { "job.deleted", KN_TOPIC_JOBS, false, true },
    [KN_EVENT_GALLERY_ADDED] = { "gallery.added", KN_TOPIC_GALLERY, false, false },
    [KN_EVENT_GALLERY_UPDATED] = { "gallery.updated", KN_TOPIC_GALLERY, false, false },
    [KN_EVENT_GALLERY_DELETED] = { "gallery.deleted", KN_TOPIC_GALLERY, false, false },
    [KN_EVENT_DOWNLOAD_UPDATED] = { "download.updated", KN_TOPIC_DOWNLOADS, false, false },
    [KN_EVENT_ENGINE_UPDATED] = { "engine.updated", KN_TOPIC_ENGINE, false, false },
    [KN_EVENT_SETTINGS_UPDATED] = { "settings.updated", KN_TOPIC_SETTINGS, false, false },
    [KN_EVENT_MODELS_UPDATED] = { "models.updated", KN_TOPIC_MODELS, false, false },
};

struct kn_events {
    uint32_t boot;
    uint64_t last;    /* seq of the newest */
    uint64_t dropped; /* seq of the newest that is not here any more, but for those that a newer one replaced */
    kn_event *items;  /* oldest first, from `first` on */
    size_t first, count, room, bytes;
    char *packed;        /* mapped: the texts of the oldest … */
    size_t packed_bytes; /* … as it was packed … */
    size_t packed_count; /* … so many events that are left of those */
};

bool kn_events_new(uint32_t boot, kn_events **ret, kn_error *err) {
    kn_events *e = calloc(1, sizeof *e);
    if (!e)
        return kn_fail_nomem(err, sizeof *e);
    e->boot = boot;
    *ret = e;
    return true;
}

static void unmap(kn_events *e) {
    if (e->packed)
        munmap(e->packed, e->packed_bytes);
    e->packed = NULL;
}

static void free_texts(kn_events *e, size_t i) {
    kn_event *event = &e->items[i];
    if (i - e->first < e->packed_count) {
        if (!--e->packed_count)
            unmap(e);
        return;
    }
    free(event->subject);
    free(event->data);
}

static char *copy_text(char **at, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = memcpy(*at, text, bytes);
    *at += bytes;
    return copy;
}

void kn_events_pack(kn_events *e) {
    size_t bytes = 0;
    for (size_t i = e->first; i < e->first + e->count; i++)
        bytes += strlen(e->items[i].subject) + strlen(e->items[i].data) + 2;
    if (!bytes || e->packed_count == e->count)
        return;
    char *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at = block;
    if (block == MAP_FAILED)
        return;
    for (size_t i = e->first; i < e->first + e->count; i++) {
        kn_event *event = &e->items[i], old = *event;
        event->subject = copy_text(&at, old.subject);
        event->data = copy_text(&at, old.data);
        if (i - e->first < e->packed_count)
            continue;
        free(old.subject);
        free(old.data);
    }
    unmap(e);
    e->packed = block;
    e->packed_bytes = bytes;
    e->packed_count = e->count;
}

static void drop_oldest(kn_events *e) {
    kn_event *oldest = &e->items[e->first];
    e->bytes -= oldest->bytes;
    e->dropped = oldest->seq;
    free_texts(e, e->first);
    e->first++;
    e->count--;
}

void kn_events_free(kn_events *e) {
    if (!e)
        return;
    while (e->count)
        drop_oldest(e);
    free(e->items);
    free(e);
}

/* The newest of its kind about the same subject goes. It is near the end: whatever lies between came since. */
static void drop_replaced(kn_events *e, kn_event_kind kind, const char *subject) {
    for (size_t i = e->first + e->count; i-- > e->first;) {
        kn_event *old = &e->items[i];
        if (old->kind == KN_EVENT_JOB_STARTED && !strcmp(old->subject, subject))
            return; /* none came since the job began */
        if (old->kind != kind || strcmp(old->subject, subject))
            continue;
        e->bytes -= old->bytes;
        free_texts(e, i);
        memmove(old, old + 1, (e->first + e->count - i - 1) * sizeof *old);
        e->count--;
        return;
    }
}

static bool is_kept(const kn_events *e, uint64_t now_ms) {
    const kn_event *oldest = &e->items[e->first];
    return e->bytes <= KN_EVENTS_BYTES && (e->count <= KN_EVENTS_KEPT || now_ms - oldest->at_ms < KN_EVENTS_KEPT_MS);
}

static bool has_room(kn_events *e) {
    if (e->first > e->room / 4 && e->first + e->count == e->room) {
        memmove(e->items, e->items + e->first, e->count * sizeof *e->items);
        e->first = 0;
    }
    kn_event *items = kn_array_grow(e->items, e->first + e->count, &e->room, sizeof *items, NULL);
    if (items)
        e->items = items;
    return items;
}

void kn_events_add(kn_events *e, uint64_t now_ms, kn_event_kind kind, const char *subject, const char *json) {
    if (kinds[kind].coalesced)
        drop_replaced(e, kind, subject);
    kn_event new = { .seq = ++e->last, .at_ms = now_ms, .kind = kind };
    new.subject = strdup(subject);
    new.data = strdup(json);
    if (!new.subject || !new.data || !has_room(e)) {
        free(new.subject);
        free(new.data);
        while (e->count)
            drop_oldest(e);
        e->dropped = e->last;
        return;
    }
    new.bytes = sizeof new + strlen(subject) + strlen(json);
    e->bytes += new.bytes;
    e->items[e->first + e->count++] = new;
    while (e->count > 1 && !is_kept(e, now_ms))
        drop_oldest(e);
}

uint64_t kn_events_last(const kn_events *e) {
    return e->last;
}

const kn_event *kn_events_after(const kn_events *e, uint64_t seq) {
    size_t low = e->first, high = e->first + e->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->items[middle].seq <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->first + e->count ? &e->items[low] : NULL;
}

bool kn_events_has_lost(const kn_events *e, uint64_t seq) {
    return seq < e->dropped;
}

/* ---- ids ---- */

enum { BOOT_DIGITS = 8, SEQ_DIGITS = 18 };

bool kn_event_id_is_valid(const char *id, size_t len) {
    if (len < BOOT_DIGITS + 2 || len > BOOT_DIGITS + 1 + SEQ_DIGITS || id[BOOT_DIGITS] != '-' ||
        !kn_text_is_hex(id, BOOT_DIGITS))
        return false;
    for (size_t i = BOOT_DIGITS + 1; i < len; i++)
        if (id[i] < '0' || id[i] > '9')
            return false;
    return true;
}

kn_resume kn_events_resume(const kn_events *e, const char *id, size_t len, uint64_t *ret_seq) {
    char digits[SEQ_DIGITS + 1] = "", boot[BOOT_DIGITS + 1];
    uint64_t seq;
    *ret_seq = e->last;
    if (!kn_event_id_is_valid(id, len))
        return KN_RESUME_UNKNOWN;
    snprintf(boot, sizeof boot, "%08" PRIx32, e->boot);
    if (memcmp(id, boot, BOOT_DIGITS) != 0)
        return KN_RESUME_RESTARTED;
    memcpy(digits, id + BOOT_DIGITS + 1, len - BOOT_DIGITS - 1);
    if (!kn_parse_u64(digits, &seq) || seq > e->last)
        return KN_RESUME_UNKNOWN;
    if (kn_events_has_lost(e, seq))
        return KN_RESUME_TOO_OLD;
    *ret_seq = seq;
    return KN_RESUME_GOOD;
}

kn_event_id kn_event_id_of(const kn_events *e, uint64_t seq) {
    kn_event_id id;
    snprintf(id.text, sizeof id.text, "%08" PRIx32 "-%" PRIu64, e->boot, seq);
    return id;
}

const char *kn_event_name(kn_event_kind kind) {
    return kinds[kind].name;
}

unsigned kn_event_topic(kn_event_kind kind) {
    return kinds[kind].topic;
}

bool kn_event_is_last_of_job(kn_event_kind kind) {
    return kinds[kind].last;
}

bool kn_topics_parse(const char *text, size_t len, unsigned *ret) {
    static const char *const names[] = { "jobs", "gallery", "downloads", "engine", "settings", "models" };
    unsigned topics = 0;
    for (const char *at = text, *end = text + len; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t n = (size_t)((comma ? comma : end) - at), i = 0;
        while (i < KN_COUNT(names) && (strlen(names[i]) != n || memcmp(names[i], at, n) != 0))
            i++;
        if (i == KN_COUNT(names))
            return false;
        topics |= 1u << i;
        at += n + 1;
    }
    *ret = topics;
    return true;
}

bool kn_event_write(const kn_events *e, const kn_event *event, kn_buf *into) {
    return kn_buf_printf(into, "id: %s\nevent: %s\ndata: ", kn_event_id_of(e, event->seq).text,
                         kinds[event->kind].name) &&
           kn_buf_add_text(into, event->data) && kn_buf_add_text(into, "\n\n");
}
