/* One message of JSON-RPC 2.0 as MCP has them: read strictly, in one pass, without a tree, and before anything is known
 * of what it asks for. Strictly: what is JSON (RFC 8259) is read as far as its id, so that whoever sent it gets the
 * refusal under that id. Batches and ids that are null are refused; members that nobody knows are stepped over. */
#ifndef KN_MCP_MESSAGE_H
#define KN_MCP_MESSAGE_H

#include "base/json_reader.h"

enum {
    KN_MCP_MESSAGE_MAX = 64 << 20, /* bytes; pictures come in base64 */
    KN_MCP_WORD_BYTES = 256,       /* of ids and tokens */
    KN_MCP_NAME_BYTES = 1024,      /* of methods, tools, URIs and cursors; what is longer is unknown */
    KN_MCP_VERSION_BYTES = 32,
};

/* Errors of JSON-RPC, and MCP's own. */
enum {
    KN_MCP_PARSE_ERROR = -32700,
    KN_MCP_INVALID_REQUEST = -32600,
    KN_MCP_UNKNOWN_METHOD = -32601,
    KN_MCP_INVALID_PARAMS = -32602,
    KN_MCP_INTERNAL = -32603,
    KN_MCP_NOT_FOUND = -32002, /* in the handshake era */
    KN_MCP_HEADER_MISMATCH = -32020,
    KN_MCP_UNSUPPORTED_VERSION = -32022,
};

/* An integer or a text, as ids and tokens are. */
typedef struct kn_mcp_word {
    bool given, is_text;
    char text[KN_MCP_WORD_BYTES];
} kn_mcp_word;

bool kn_mcp_word_is_same(const kn_mcp_word *a, const kn_mcp_word *b);

typedef enum kn_mcp_kind { KN_MCP_REQUEST, KN_MCP_NOTIFICATION, KN_MCP_RESPONSE } kn_mcp_kind;

typedef struct kn_mcp_message {
    kn_mcp_kind kind;
    kn_mcp_word id; /* of a message that is refused: if it was seen */
    char method[KN_MCP_NAME_BYTES];

    /* params. Spans are pieces of the message; their .data is NULL where nothing came. */
    bool params_are_wrong; /* no object, or a member of another type than it should be */
    bool has_name, has_uri, has_cursor;
    char name[KN_MCP_NAME_BYTES], uri[KN_MCP_NAME_BYTES], cursor[KN_MCP_NAME_BYTES];
    kn_json_text arguments;                /* an object */
    char initialize[KN_MCP_VERSION_BYTES]; /* protocolVersion */
    kn_mcp_word cancels;                   /* requestId */

    /* params._meta */
    bool has_version, version_is_text, has_capabilities;
    char version[KN_MCP_VERSION_BYTES];
    kn_mcp_word progress_token;
} kn_mcp_message;

/* 0, or the error's code; `err` then says what is wrong. */
int kn_mcp_message_read(const char *text, size_t len, kn_mcp_message *ret, kn_error *err);

#endif
