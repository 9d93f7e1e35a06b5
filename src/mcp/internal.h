/* A request under way, and what the files of the room do with it. Internal to it. */
#ifndef KN_MCP_INTERNAL_H
#define KN_MCP_INTERNAL_H

#include "http/call.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"

typedef struct kn_mcp_visit kn_mcp_visit;

enum { KN_MCP_TARGET_BYTES = KN_MCP_PLACE_BYTES + 200, KN_MCP_KEY_BYTES = 33 };

struct kn_mcp {
    kn_mcp_setup setup;
    kn_acquaint_user acquaint;
    kn_loop *loop;
    kn_upstream *studio;
    kn_mcp_toolbox *toolbox;
    kn_mcp_call *calls;
    unsigned call_count;
    kn_mcp_visit *visits; /* over HTTP */
};

/* What the studio answered. */
typedef void kn_mcp_then(kn_mcp_call *c, unsigned status, kn_span body);

struct kn_mcp_call {
    kn_mcp *mcp;
    const kn_mcp_client *client; /* NULL: it has left */
    void *ctx;
    kn_mcp_call *next, **at;
    kn_task task; /* the next step or, if it has ended, its end */
    void (*step)(kn_mcp_call *c);

    /* What was asked for. */
    bool stateless, is_tool;
    kn_mcp_word id, progress_token;
    kn_mcp_order order;                                     /* of a tool */
    char uri[KN_MCP_NAME_BYTES], cursor[KN_MCP_NAME_BYTES]; /* of resources */

    /* The request to the studio that is under way, or waits until it is known whether that is the studio. */
    kn_call_request request;
    char target[KN_MCP_TARGET_BYTES];
    kn_call *asked;
    kn_mcp_then *then;
    char key[KN_MCP_KEY_BYTES]; /* of an order, so that it makes one job however often it is sent; else empty */
    bool uncertain;             /* it was sent, and nobody knows whether it was taken */
    kn_timer again;
    uint64_t lost_ms; /* since when nobody answers; 0: somebody does */

    /* The answer. */
    bool ended;
    int code;
    kn_buf answer;

    /* job.c: pictures that are sent, the job, its events, and what the answer will show. */
    size_t sending;
    kn_buf body; /* of a picture or a request */
    void (*sent)(kn_mcp_call *c);
    char job_id[KN_MCP_SUBJECT_BYTES];
    bool begun, watches; /* begun: by this call */
    kn_timer patience;
    kn_buf events;
    kn_task heard;
    double progress; /* the last one that was told */
    json_t *job, *content;
    size_t shown; /* results that a preview was asked for */
    uint64_t side;
};

/* ---- mcp.c: the end of a call. The call is gone afterwards. ---- */

/* The result of a method, taken over. NULL: memory is out. lasting: it is one that clients may keep. */
void kn_mcp_answer(kn_mcp_call *c, json_t *result, bool lasting);
void kn_mcp_answer_error(kn_mcp_call *c, int code, const char *message, json_t *data);
void kn_mcp_end(kn_mcp_call *c); /* without an answer */

json_t *kn_mcp_word_json(const kn_mcp_word *w);

/* ---- ask.c: requests to the studio ---- */

/* Asks, and calls `then` with any answer that came. If none came, the call is answered with an error: at once or, where
 * a job is watched or an order may have been taken, when the service has been away for longer than a restart takes. */
void kn_mcp_ask(kn_mcp_call *c, const char *method, const char *target, const char *json, kn_mcp_then *then);

/* The same in full; type, body, data and so on as in http/call.h. All but the target stays the caller's until `then`.
 */
void kn_mcp_ask_with(kn_mcp_call *c, const kn_call_request *request, kn_mcp_then *then);

/* The service is away: asks once more after a moment. False: not in this case, or no longer. */
bool kn_mcp_ask_again(kn_mcp_call *c);

/* The studio answered, but not as this program knows it. */
void kn_mcp_answer_strange(kn_mcp_call *c);

/* Lets go of what is being asked; `then` does not come. */
void kn_mcp_ask_no_more(kn_mcp_call *c);

/* An answer of the studio's as JSON. NULL: it was none, and the call has been answered. The caller owns it. */
json_t *kn_mcp_read(kn_mcp_call *c, unsigned status, kn_span body);

/* ---- endpoint.c ---- */

void kn_mcp_forget_visits(kn_mcp *m); /* their exchanges are over */

/* ---- work.c: tools and resources ---- */

void kn_mcp_work(kn_mcp_call *c);
void kn_mcp_list_resources(kn_mcp_call *c);
void kn_mcp_read_resource(kn_mcp_call *c);

/* The results of tools, which are taken over: as structured content, as a text for older clients, and further blocks.
 */
void kn_mcp_answer_tool(kn_mcp_call *c, json_t *structured, json_t *more);
void kn_mcp_answer_failure(kn_mcp_call *c, const char *code, const char *message);

/* A file as a block of content that shows it. */
json_t *kn_mcp_picture_block(kn_span file);
json_t *kn_mcp_link_block(const char *id, json_t *media_type, json_t *bytes);

/* ---- job.c ---- */

void kn_mcp_begin_job(kn_mcp_call *c); /* with pictures to be sent first */
void kn_mcp_send_pictures(kn_mcp_call *c, void (*then)(kn_mcp_call *c));
void kn_mcp_watch_job(kn_mcp_call *c);             /* c->job_id, as long as the order says */
void kn_mcp_show_job(kn_mcp_call *c, json_t *job); /* taken over; answers with it */

/* The client has left: whether the call may be gone at once. */
bool kn_mcp_leave_job(kn_mcp_call *c);
void kn_mcp_forget_job(kn_mcp_call *c);

#endif
