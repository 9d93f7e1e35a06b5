/* The tools: what clients are told of them, which is made from tools.json, and the arguments of a call as what they
 * mean to the studio. Values go to the studio as they came, which checks them; what is checked here is that each
 * argument is one of the tool's, and where a picture is to be taken from.
 *
 * Internal to the room. */
#ifndef KN_MCP_TOOLS_H
#define KN_MCP_TOOLS_H

#include <jansson.h>

#include "base/json_reader.h"

enum {
    KN_MCP_PICTURES = 13,            /* of one call: twelve and a mask */
    KN_MCP_PICTURE_BYTES = 64 << 20, /* of one that comes */
    KN_MCP_REQUEST_BYTES = 1 << 20,  /* of all values that the studio gets */
    KN_MCP_PLACE_BYTES = 4096,       /* of a URI or path */
    KN_MCP_SUBJECT_BYTES = 40,       /* of an id of the studio's */
    KN_MCP_INPUT_BYTES = 65,
    KN_MCP_SIDE_MAX = 512, /* of a preview */
};

typedef enum kn_mcp_tool {
    KN_MCP_GET_STATUS,
    KN_MCP_LIST_MODELS,
    KN_MCP_PLAN_IMAGE,
    KN_MCP_GENERATE_IMAGE,
    KN_MCP_EDIT_IMAGE,
    KN_MCP_UPSCALE_IMAGE,
    KN_MCP_GET_JOB,
    KN_MCP_WAIT_FOR_JOB,
    KN_MCP_CANCEL_JOB,
    KN_MCP_LIST_GALLERY,
    KN_MCP_GET_IMAGE,
    KN_MCP_TOOLS,
} kn_mcp_tool;

typedef struct kn_mcp_toolbox kn_mcp_toolbox;

bool kn_mcp_toolbox_new(kn_mcp_toolbox **ret, kn_error *err);
void kn_mcp_toolbox_free(kn_mcp_toolbox *b);
json_t *kn_mcp_toolbox_list(const kn_mcp_toolbox *b); /* as clients see it; the box stays the owner */

/* KN_MCP_TOOLS: there is none of that name. */
kn_mcp_tool kn_mcp_tool_find(const char *name);

/* A picture that is to become an input of the studio. */
typedef struct kn_mcp_picture {
    const char *role;                /* source, reference, mask */
    char item[KN_MCP_SUBJECT_BYTES]; /* of the gallery; empty: … */
    char *path;                      /* … a file, or if NULL: */
    kn_buf bytes;                    /* these */
    char input[KN_MCP_INPUT_BYTES];  /* what it has become */
} kn_mcp_picture;

/* A call as it is understood. */
typedef struct kn_mcp_order {
    kn_mcp_tool tool;
    kn_buf request, size, upscale, output; /* members of the studio's request, each with a comma behind it */
    kn_buf query;                          /* "q=a+boat&" */
    char subject[KN_MCP_SUBJECT_BYTES];    /* a job or picture */
    uint64_t wait_s, max_side;
    size_t picture_count;
    kn_mcp_picture pictures[KN_MCP_PICTURES];
} kn_mcp_order;

/* arguments: an object. The error is for the model that called. */
bool kn_mcp_order_read(const kn_mcp_toolbox *b, kn_mcp_tool tool, kn_json_text arguments, kn_mcp_order *ret,
                       kn_error *err);
void kn_mcp_order_free(kn_mcp_order *o);

/* The body that asks the studio for it, when all its pictures are inputs. */
bool kn_mcp_order_body(const kn_mcp_order *o, kn_buf *into) KN_MUST_USE;

/* Whether a text is an id of the studio's, as it may stand in a path: job_…, img_…. */
bool kn_mcp_is_id(const char *text, const char *prefix);

#endif
