/* docs/studio.yaml as it is, for api.c. */
        .section .rodata
        .globl  kn_studio_openapi
        .hidden kn_studio_openapi
        .type   kn_studio_openapi, %object
kn_studio_openapi:
        .incbin "studio.yaml"
        .size   kn_studio_openapi, . - kn_studio_openapi
        .globl  kn_studio_openapi_end
        .hidden kn_studio_openapi_end
kn_studio_openapi_end:
        .byte   0

        .section .note.GNU-stack, "", %progbits
