/* Files of the user that a client names by their paths: only below folders that were allowed, whatever links there are.
 *
 * Internal to the room. */
#ifndef KN_MCP_LOCAL_H
#define KN_MCP_LOCAL_H

#include "base/buf.h"

/* Adds the file to `into`. folders: absolute. */
bool kn_mcp_read_local(const char *const *folders, size_t count, const char *path, kn_buf *into, kn_error *err);

#endif
