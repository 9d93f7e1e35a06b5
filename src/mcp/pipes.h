/* A client at the other end of two pipes: a message is a line, in both directions, and nothing else is ever written.
 *
 * The first request decides for good which era the client is of. When the client closes its end, what is under way has
 * a moment to come to its end and is then cancelled. A client that does not read is not told of progress, and what it
 * is owed waits here; nothing more is read from it when that is too much. */
#ifndef KN_MCP_PIPES_H
#define KN_MCP_PIPES_H

#include "mcp/mcp.h"

typedef struct kn_mcp_pipes kn_mcp_pipes;

/* setup: as for kn_mcp_new, but for `idle`. The descriptors are taken over; they may block. `ended` comes when the
 * client has gone and everything is done. */
bool kn_mcp_pipes_new(const kn_mcp_setup *setup, int in, int out, void (*ended)(void *ctx), void *ctx,
                      kn_mcp_pipes **ret, kn_error *err);
void kn_mcp_pipes_free(kn_mcp_pipes *s); /* outside of the loop; NULL is fine */

/* As if the client had closed its end, without a moment. */
void kn_mcp_pipes_stop(kn_mcp_pipes *s);

#endif
