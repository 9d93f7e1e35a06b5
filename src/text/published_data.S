/* The packed merges of the published tokenizer, for published.c. */
        .section .rodata
        .globl  kn_published_merges
        .hidden kn_published_merges
        .type   kn_published_merges, %object
kn_published_merges:
        .incbin "published_merges"
        .size   kn_published_merges, . - kn_published_merges
        .globl  kn_published_merges_end
        .hidden kn_published_merges_end
kn_published_merges_end:
        .byte   0

        .section .note.GNU-stack, "", %progbits
