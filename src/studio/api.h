/* /api/v1: the studio over HTTP, exactly as docs/studio.yaml describes it. Loopback only; every route but
 * health and session needs the token, or the cookie of a session that was begun with it.
 *
 * api_visit.h    one request on its way: read, done by the disk's thread, answered
 * api_*.c        the routes, by subject */
#ifndef KN_STUDIO_API_H
#define KN_STUDIO_API_H

#include "http/server.h"
#include "mcp/mcp.h"
#include "studio/studio.h"

typedef struct kn_api kn_api;

/* token: copied. port: of the listener, as clients have to name it. */
bool kn_api_new(kn_loop *loop, const char *token, uint16_t port, kn_api **ret, kn_error *err);

/* What the routes are about. Until there is one they answer 503 with what `away` means for storage: KN_E_FULL, or
 * KN_E_READONLY. */
void kn_api_set_studio(kn_api *a, kn_studio *s);
void kn_api_set_away(kn_api *a, kn_code away);
void kn_api_free(kn_api *a);                    /* after the server that has it as ctx, before the studio */
void kn_api_set_port(kn_api *a, uint16_t port); /* where the system chose it */

/* /mcp on the same listener. Whoever made it takes the token from here, frees it after the server, and before the
 * studio. */
void kn_api_set_mcp(kn_api *a, kn_mcp *mcp);
bool kn_api_give_token(void *api, char ret[KN_TOKEN_MAX + 1], kn_error *err);

/* Ends the streams of events, which would never end by themselves: before the server is drained. */
void kn_api_end_streams(kn_api *a);

/* The service of a listener whose ctx is a kn_api. */
extern const kn_service kn_api_service;

#endif
