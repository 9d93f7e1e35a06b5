/* The packed merges of the published tokenizer, for published.c. */
        .section .rodata
        .globl  kn_published_merges
        .hidden kn_published_merges
        .type   kn_published_merges, %object
kn_published_merges:
        .incbin "published_merges"
        .size   kn_published_merges, . - kn_published_merges

        .section .note.GNU-stack, "", %progbits
