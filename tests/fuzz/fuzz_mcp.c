/* Messages of MCP clients, and the arguments of a tool in them. What is understood becomes JSON for the studio. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "mcp/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_order(const kn_mcp_order *o) {
    KN_AUTO_BUF body;
    kn_buf_init(&body, 4 << 20);
    assert(o->picture_count <= KN_MCP_PICTURES && strlen(o->query.data) == o->query.len);
    assert(!o->subject[0] || kn_mcp_is_id(o->subject, "job_") || kn_mcp_is_id(o->subject, "img_"));
    if (kn_mcp_order_body(o, &body))
        assert(kn_json_check((kn_json_text){ body.data, body.len }, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kn_mcp_toolbox *toolbox;
    kn_mcp_message m;
    kn_mcp_order order;
    kn_error err = { 0 };
    if (!toolbox && !kn_mcp_toolbox_new(&toolbox, NULL))
        return 0;
    int code = kn_mcp_message_read((const char *)data, size, &m, &err);
    assert(!code == !err.code);
    if (code || !m.arguments.data)
        return 0;
    for (int tool = 0; tool < KN_MCP_TOOLS; tool++) {
        err = (kn_error){ 0 };
        if (kn_mcp_order_read(toolbox, (kn_mcp_tool)tool, m.arguments, &order, &err)) {
            check_order(&order);
            kn_mcp_order_free(&order);
        } else {
            assert(err.code);
        }
    }
    return 0;
}
