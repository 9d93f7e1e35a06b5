/* tools.json as it is, for tools.c. */
        .section .rodata
        .globl  kn_mcp_tools_json
        .hidden kn_mcp_tools_json
        .type   kn_mcp_tools_json, %object
kn_mcp_tools_json:
        .incbin "tools.json"
        .size   kn_mcp_tools_json, . - kn_mcp_tools_json
        .globl  kn_mcp_tools_json_end
        .hidden kn_mcp_tools_json_end
kn_mcp_tools_json_end:
        .byte   0

        .section .note.GNU-stack, "", %progbits
