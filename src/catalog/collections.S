/* collections.json as it is, for collections.c. */
        .section .rodata
        .globl  kn_collections_text
        .hidden kn_collections_text
        .type   kn_collections_text, %object
kn_collections_text:
        .incbin "collections.json"
        .size   kn_collections_text, . - kn_collections_text
        .globl  kn_collections_text_end
        .hidden kn_collections_text_end
kn_collections_text_end:
        .byte   0

        .section .note.GNU-stack, "", %progbits
