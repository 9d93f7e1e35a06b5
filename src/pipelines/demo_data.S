/* The files of models/demo as they are, for demo.c. */
        .section .rodata
        .macro  part name, file
        .balign 64
        .globl  \name
        .hidden \name
        .type   \name, %object
\name:  .incbin "\file"
        .size   \name, . - \name
        .globl  \name\()_end
        .hidden \name\()_end
\name\()_end:
        .byte   0
        .endm

        part    kn_demo_diffusion_model, diffusion_model_fp8_scaled.safetensors
        part    kn_demo_text_encoder, text_encoder_fp8_scaled.safetensors
        part    kn_demo_vae, vae.safetensors
        part    kn_demo_tokenizer, tokenizer/tokenizer.json

        .section .note.GNU-stack, "", %progbits
