/* Clients over HTTP: one path, /mcp, on the studio's listener ("Streamable HTTP").
 *
 * A request is a POST and its answer one JSON document or, once there is progress to tell or nothing was to be told for
 * a while, a stream of events that ends with the answer. The header MCP-Protocol-Version says which era a request is
 * of. In the newer era a client that leaves cancels its request; in the older one it sends a notification, for which
 * its session is given a name at the handshake. Nothing is kept of a session but that name, so that none ends or is
 * lost. */
#ifndef KN_MCP_ENDPOINT_H
#define KN_MCP_ENDPOINT_H

#include "http/server.h"
#include "mcp/mcp.h"

bool kn_mcp_is_meant(const kn_head *head);

/* Takes over a request that has been let in: by its Host, its Origin and its token. */
void kn_mcp_serve(kn_mcp *m, kn_exchange *x, const kn_head *head);

#endif
