/* One request on its way: what a route needs of it is read at once, the disk's thread does the work, and then it is
 * answered, if the client is still there. Internal to the room. */
#ifndef KN_STUDIO_API_VISIT_H
#define KN_STUDIO_API_VISIT_H

#include "http/guard.h"
#include "http/reply.h"
#include "http/router.h"
#include "studio/api.h"
#include "studio/internal.h"
#include "studio/page.h"

enum {
    KN_API_STREAMS = 64,
    KN_API_LINKS = 8,
    KN_API_KEY_MAX = 255,
    KN_API_PARTS = 3,
    KN_API_PART_BYTES = 128,
    KN_API_LARGE_BODIES = 2
};

/* The code of a link that begins a session, once. */
typedef struct kn_session_link {
    char code[65]; /* empty: none */
    uint64_t ends_ms;
} kn_session_link;

struct kn_api {
    kn_studio *studio; /* NULL: its storage cannot be written, as `away` says */
    kn_code away;
    kn_guard guard;
    kn_mcp *mcp; /* NULL: there is none */
    kn_page page;
    kn_session_link links[KN_API_LINKS];
    struct kn_visit *streams; /* of events */
    unsigned stream_count;
    struct kn_compat_call *compat_calls; /* clients of other APIs that wait for pictures */
    unsigned compat_count;
    kn_exchange *large[KN_API_LARGE_BODIES]; /* those of them that send a large body */
};

typedef struct kn_copy kn_copy;           /* api_export.c */
typedef struct kn_measuring kn_measuring; /* api_measure.c */

typedef struct kn_visit kn_visit;
struct kn_visit {
    kn_errand errand;
    kn_exchange *x; /* NULL: the client is gone */
    kn_api *api;
    kn_studio *studio;
    bool in_flight; /* an errand, or a question to the runner, will come back */

    /* The request. */
    kn_parameter_list query;
    char part[KN_API_PARTS][KN_API_PART_BYTES]; /* of the path, behind /api/v1/ */
    kn_buf body;

    bool (*work)(kn_visit *v, kn_store *s, kn_error *err);
    void (*after)(kn_visit *v);   /* in the loop, when the work is done well; else it is answered with the error */
    void (*go_on)(kn_visit *v);   /* kn_visit_prove */
    void (*give_up)(kn_visit *v); /* the client is gone */

    /* The answer. */
    unsigned status;
    json_t *json;
    char fields[500];   /* further lines */
    kn_problem problem; /* status 0: as the error's code says */
    kn_buf pointer;

    /* What some routes need. */
    char key[KN_API_KEY_MAX + 1];
    char route[KN_API_PART_BYTES + 16];
    kn_watch_events watch;
    kn_timer timer;
    uint64_t number; /* wait_ms, seq, … */
    unsigned topics;
    char id[KN_SHA256_TEXT];
    kn_visit *next_stream, **at_stream;
    struct kn_compat_call *compat; /* compat/compat.h */
    kn_session session;
    kn_copy *copy;
    kn_measuring *measuring;
    int fd;
    uint64_t at, end;
    kn_picture_format format;
    bool flag;
};

/* Begins with a request; parameters: the names that it may have, with spaces between, NULL: any. NULL: it has been
 * answered. */
kn_visit *kn_visit_begin(kn_exchange *x, kn_span body, const char *parameters);

/* Lets the disk's thread do it, and then `after` or, if that is NULL, kn_visit_answer. */
void kn_visit_send(kn_visit *v, bool (*work)(kn_visit *, kn_store *, kn_error *), void (*after)(kn_visit *));

/* Something else than an errand has come back: false if nobody waits for it any more; then the visit is gone. */
bool kn_visit_is_back(kn_visit *v);

void kn_visit_end(kn_visit *v); /* the exchange is over */

/* Answers with v->json and v->status (200 if there is none), or nothing but the status if it is 204. */
void kn_visit_answer(kn_visit *v);
void kn_visit_refuse(kn_visit *v, unsigned status, const char *code, const char *title, const char *detail,
                     const char *pointer);

/* Nothing has become of a picture. Whether that is for want of a cage, in which the image worker is required to be; the
 * second one then answers so, the third one (false) likewise in the disk's thread, with the error for its reason. */
bool kn_visit_is_unlocked(const kn_visit *v);
bool kn_visit_refuse_unlocked(kn_visit *v);
bool kn_visit_deny_unlocked(kn_visit *v);

/* In the loop: goes on as soon as kn_visit_is_unlocked can say whether a picture could be made now. */
void kn_visit_prove(kn_visit *v, void (*go_on)(kn_visit *v));

/* In the disk's thread: what to answer instead of what the error's code says; false. */
#define kn_visit_deny(...) kn_failed(kn_visit_set_problem(__VA_ARGS__))
int kn_visit_set_problem(kn_visit *v, unsigned status, const char *code, const char *title, const char *detail);

/* A parameter's value; NULL: it was not given. */
const char *kn_visit_parameter(const kn_visit *v, const char *name);

/* A number from min to max, `usual` if there is none. False: it is answered. */
bool kn_visit_number(kn_visit *v, const char *name, uint64_t min, uint64_t max, uint64_t usual, uint64_t *ret);
bool kn_visit_flag(kn_visit *v, const char *name, bool usual, bool *ret);

/* limit and cursor of a list, into `end` and `number`, and the list as an answer. */
bool kn_visit_page(kn_visit *v);
bool kn_visit_list(kn_visit *v, json_t *items, int64_t next, kn_error *err);

/* The answer is one that is waited for, or never ends: it ends when its client closes its sending side. */
void kn_visit_waits(kn_visit *v);

/* Whether the body is JSON; else it is answered. The second one is for the disk's thread, where large ones belong. */
bool kn_visit_has_json(kn_visit *v);
bool kn_visit_check_json(kn_visit *v);

/* Whether there is such a field, with a value that can be used or not. Where that matters, ask this first. */
bool kn_visit_has_field(kn_visit *v, const char *name);
/* A field's value as text; false: there is none, or it has no room, or more than one. */
bool kn_visit_field(kn_visit *v, const char *name, char *ret, size_t room);

/* The Idempotency-Key of a request to the route, if there is one; false: it is answered. */
bool kn_visit_read_key(kn_visit *v, const char *route);

/* ---- jobs: api_jobs.c ---- */

/* In the disk's thread: makes a job of a request and puts it into v->json. wish: NULL: none. */
bool kn_visit_create_job(kn_visit *v, kn_store *s, const char *request, size_t len, bool upscale,
                         const kn_plan_wish *wish, kn_error *err);
void kn_visit_tell_job(kn_visit *v); /* afterwards, if it is new */

/* In the disk's thread: the job v->part[1] is not to go on; it is in v->json as it is then, and v->status is 202 while
 * it runs still. */
bool kn_visit_cancel_job(kn_visit *v, kn_store *s, kn_error *err);
void kn_visit_tell_cancelled(kn_visit *v); /* afterwards */

bool kn_visit_show_job(kn_visit *v, kn_store *s, const char *id, kn_error *err); /* into v->json */

/* What tells two requests apart that came with one key: the same members with the same values are the same. */
bool kn_visit_hash(const kn_visit *v, const char *json, size_t len, kn_sha256 *ret, kn_error *err);

/* A key that was used before: *ret is what it made, below /api/v1/`where`, which is to be answered again, and `flag` is
 * set; else *ret is empty. Answers itself where the body is another one. */
bool kn_visit_find_replayed(kn_visit *v, kn_store *s, const kn_sha256 *body, const char *where, kn_id *ret,
                            kn_error *err);
bool kn_visit_is_too_late(kn_visit *v); /* the service ends: it is answered with … */
extern const kn_problem kn_stopping;

/* ---- how pictures were made: api_inspect.c ---- */

/* In the loop: asks the image worker about the file v->body, and goes on with `work` in the disk's thread, where
 * v->body is what workers/inspect_job.h tells; of a file that is no picture the client hears. */
void kn_visit_inspect(kn_visit *v, bool (*work)(kn_visit *, kn_store *, kn_error *));

/* ---- sending files: api_files.c ---- */

/* In the disk's thread: opens it. */
bool kn_visit_open_file(kn_visit *v, kn_store *s, const char *room, const char *name, kn_error *err);

/* The same for a picture of which it is known how many bytes were saved: another number is answered as damage. */
bool kn_visit_open_picture(kn_visit *v, kn_store *s, const char *room, const char *name, uint64_t bytes, kn_error *err);
/* Reads one of the gallery's; one that is not what was saved is answered as damage. */
bool kn_visit_read_picture(kn_visit *v, kn_store *s, const kn_record *r, size_t limit, kn_buf *into, kn_error *err);

/* Afterwards: sends it, or the part of it that was asked for. etag: without quotes. */
void kn_visit_send_file(kn_visit *v, const char *type, const char *etag);
void kn_visit_send_bytes(kn_visit *v, const char *type, const void *data, size_t len); /* and the lines in fields */
void kn_api_writable(kn_exchange *x);

/* ---- upscalers: api_measure.c ---- */

/* kn_visit_send for routes that tell of upscalers: those that are new are measured before. */
void kn_visit_send_measured(kn_visit *v, bool (*work)(kn_visit *, kn_store *, kn_error *), void (*after)(kn_visit *));
void kn_measuring_forget(kn_visit *v); /* with its visit; without it: nothing */

/* ---- copies: api_export.c ---- */

void kn_copy_forget(kn_visit *v); /* with its visit; without one: nothing */

/* ---- sessions: api_session.c ---- */

/* Whether the request has a credential; else it is answered. */
bool kn_api_admits(kn_api *a, kn_exchange *x, const kn_head *head);

/* ---- events: api_events.c ---- */
void kn_events_pump(kn_visit *v);

/* ---- routes ---- */
typedef void kn_route_fn(kn_exchange *x, kn_span body);
kn_route_fn kn_api_create_session, kn_api_delete_session, kn_api_create_link;
kn_route_fn kn_api_plan, kn_api_create_job, kn_api_create_upscale, kn_api_list_jobs, kn_api_get_job, kn_api_delete_job,
    kn_api_cancel_job, kn_api_retry_job, kn_api_job_preview, kn_api_job_result;
kn_route_fn kn_api_events, kn_api_job_events;
kn_route_fn kn_api_create_input, kn_api_list_inputs, kn_api_get_input, kn_api_delete_input, kn_api_input_content;
kn_route_fn kn_api_list_gallery, kn_api_get_item, kn_api_change_item, kn_api_delete_item, kn_api_item_content,
    kn_api_item_thumbnail, kn_api_export_item, kn_api_inspect_recipe;
kn_route_fn kn_api_list_models, kn_api_get_model, kn_api_put_model, kn_api_delete_model, kn_api_activate_model,
    kn_api_scan_models;
kn_route_fn kn_api_get_settings, kn_api_change_settings;
kn_route_fn kn_api_status, kn_api_capabilities, kn_api_engine, kn_api_engine_start, kn_api_engine_restart,
    kn_api_engine_stop, kn_api_stop, kn_api_diagnostics, kn_api_report;
kn_route_fn kn_api_catalog, kn_api_create_download, kn_api_list_downloads, kn_api_get_download, kn_api_delete_download,
    kn_api_pause_download, kn_api_resume_download, kn_api_cancel_download;

json_t *kn_api_formats(const kn_studio *s); /* that pictures can be written in */

/* A path's part as an identifier; false: it is answered with 404. */
bool kn_visit_has_id(kn_visit *v, unsigned part, const char *prefix);

#endif
