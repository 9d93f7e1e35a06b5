/* The MCP server: programs that work for people (agents) draw, edit and look for pictures, by the Model Context
 * Protocol.
 *
 *     message.h            a message as it is read
 *     tools.h tools.json   the tools, and what the arguments of a call mean
 *     mcp.h                this: what becomes of a request, whichever way it came
 *     pipes.h              a client at the other end of two pipes: `kuno mcp`
 *     endpoint.h           clients over HTTP: /mcp on the studio's listener
 *
 *     client ──► pipes.c, endpoint.c ──► mcp.c ──► tools.c ──► work.c, job.c ──► /api/v1
 *            ◄── answers and progress ◄──────────── results ◄──────────────────
 *
 * Every tool is a request or a few to the studio's API, over HTTP, also within the process that has the studio: so
 * there is one way, and whatever the API refuses, the tools refuse. Nothing here computes, decodes a picture or keeps
 * anything but the requests that are under way.
 *
 * Both eras of the protocol are spoken. In the older one (2024-11-05 to 2025-11-25) a client begins with a handshake;
 * in the newer one (2026-07-28) each request says by itself what it needs (its envelope). Which one a request belongs
 * to is for whoever received it to say. */
#ifndef KN_MCP_MCP_H
#define KN_MCP_MCP_H

#include <jansson.h>

#include "http/acquaint.h"
#include "http/guard.h"
#include "http/http.h"
#include "mcp/message.h"

enum { KN_MCP_CALLS = 64 }; /* requests that are under way */

#define KN_MCP_STATELESS "2026-07-28"
#define KN_MCP_HANDSHAKE "2025-11-25" /* the newest of those */

typedef struct kn_mcp kn_mcp;
typedef struct kn_mcp_call kn_mcp_call;

typedef struct kn_mcp_setup {
    kn_http *http;
    const kn_address *studio; /* copied */
    /* The studio's token, asked for with each request to it, as it may be another one by then. */
    bool (*token)(void *ctx, char ret[KN_TOKEN_MAX + 1], kn_error *err);
    void *ctx;
    /* Who else's service it may be, if it is not this process that has the studio: each request asks who listens there
     * before it sends the token. NULL: it is this process. The user is copied. */
    const kn_acquaint_user *acquaint;
    void (*idle)(void *idle_ctx); /* the last request is over; NULL: nobody wants to know */
    void *idle_ctx;
    const char *const *folders; /* below which pictures may be named by path; they must stay */
    size_t folder_count;
} kn_mcp_setup;

bool kn_mcp_new(const kn_mcp_setup *setup, kn_mcp **ret, kn_error *err);
void kn_mcp_free(kn_mcp *m); /* cuts what is under way; nobody is told of anything any more */
bool kn_mcp_is_idle(const kn_mcp *m);

/* Whoever brought a request. All texts are whole messages without a line end, gone when the function returns. */
typedef struct kn_mcp_client {
    void (*notify)(void *ctx, const char *text, size_t len);
    /* Once, and the call is gone when it has returned. code: of the error in it, 0: none. */
    void (*answer)(void *ctx, const char *text, size_t len, int code);
} kn_mcp_client;

/* Begins with a request, which is not needed afterwards. Nothing is called from within. NULL: memory is out. */
kn_mcp_call *kn_mcp_begin(kn_mcp *m, const kn_mcp_message *request, bool stateless, const kn_mcp_client *client,
                          void *ctx);

/* The client wants no answer any more, and gets none. A job that this call has begun, and still waits for, is
 * cancelled. */
void kn_mcp_cancel(kn_mcp_call *c);

bool kn_mcp_is_handshake_version(const char *version);

/* Adds an error as an answer. data: taken over, may be NULL. */
bool kn_mcp_write_error(kn_buf *into, const kn_mcp_word *id, int code, const char *message, json_t *data) KN_MUST_USE;

/* {"supported": […], "requested": …}, as clients of another version are told. */
json_t *kn_mcp_versions(const char *requested);

#endif
