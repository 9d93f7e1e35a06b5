/* Qwen2.5-VL text model: the decoder that conditions Qwen-Image up to 2512. As qwen3_text.h, with biases on queries,
 * keys and values, without norms on them, and with the final norm (Qwen2.5-VL, arXiv:2502.13923).
 *
 * Dimensions come from the tensors; what they do not tell is a layout. */
#ifndef KN_MODELS_QWEN25_TEXT_H
#define KN_MODELS_QWEN25_TEXT_H

#include "compute/ops.h"
#include "models/rope.h"
#include "weights/weights.h"

enum { KN_QWEN25_MAX_LAYERS = 128 };

typedef struct kn_qwen25_layout {
    int head;        /* width of a head */
    int sections[3]; /* of rotary pairs to time, row and column */
} kn_qwen25_layout;

typedef struct kn_qwen25_layer {
    kn_weight norm1, q, k, v, o, norm2, gate, up, down;
} kn_qwen25_layer;

typedef struct kn_qwen25_text {
    kn_qwen25_layout layout; /* set before loading; head 0: that of the published models */
    int layers, heads, kv_heads;
    int64_t width, vocabulary;
    kn_weight embedding, norm;
    kn_qwen25_layer layer[KN_QWEN25_MAX_LAYERS];
} kn_qwen25_text;

/* Takes the text part below the binder's prefix ("model.", "model.language_model.", …). What is missing shows in
 * kn_binder_finish. */
void kn_qwen25_text_load(kn_qwen25_text *m, kn_binder *b);

/* ids -> the normed output: [n, width]. Causal. pictures: among the ids, in order, their tokens replaced with rows from
 * the vision encoder. ids must be below m->vocabulary. Watched as "hidden_states.K" (K layers done; 0 is the
 * embedding). */
kn_tensor kn_qwen25_text_forward(kn_run *r, const kn_qwen25_text *m, const int32_t *ids, int64_t n,
                                 const kn_rope_picture *pictures, const kn_tensor *rows, int count);

#endif
