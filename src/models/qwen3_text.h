/* Qwen3 and Qwen3-VL text model: the decoder that turns a prompt into conditioning. Run once per prompt, without cache
 * and without a head (Qwen3 technical report, arXiv:2505.09388; Qwen3-VL, arXiv:2511.21631).
 *
 * Dimensions come from the tensors; only the RoPE base is a constant of the model, given by the architecture. */
#ifndef KN_MODELS_QWEN3_TEXT_H
#define KN_MODELS_QWEN3_TEXT_H

#include "compute/ops.h"
#include "models/qwen_vision.h"
#include "models/rope.h"
#include "weights/weights.h"

enum { KN_QWEN3_MAX_LAYERS = 128 };

typedef struct kn_qwen3_layer {
    kn_weight norm1, q, k, v, q_norm, k_norm, o, norm2, gate, up, down;
} kn_qwen3_layer;

typedef struct kn_qwen3_text {
    int layers, heads, kv_heads;
    int64_t width, head, vocabulary;
    kn_rope_axes axes; /* time, row, column */
    kn_weight embedding;
    kn_qwen3_layer layer[KN_QWEN3_MAX_LAYERS];
} kn_qwen3_text;

/* Takes the text part below the binder's prefix ("model.", "model.language_model.", …). The final norm and a head may
 * be in the file; they are not used. What is missing shows in kn_binder_finish. */
void kn_qwen3_text_load(kn_qwen3_text *m, kn_binder *b, double rope_base);

/* ids -> the residual stream after the first `layers` layers, without the final norm: [n, width]. Causal, positions
 * 0 … n - 1. ids must be below m->vocabulary. Watched as "hidden_states.K" (K layers done; 0 is the embedding). */
kn_tensor kn_qwen3_text_forward(kn_run *r, const kn_qwen3_text *m, const int32_t *ids, int64_t n, int layers);

/* The residual stream after each of so many layers, in rising order, a token's one after the other:
 * [n, count * width]. No layer behind the last of them is run. */
kn_tensor kn_qwen3_text_taps(kn_run *r, const kn_qwen3_text *m, const int32_t *ids, int64_t n, const int *after,
                             int count);

/* All layers, with pictures among the ids, in order: their tokens are replaced with what the vision encoder has seen,
 * and its deepstack is added to them after the first layers. "hidden_states.K" is shown before layer K's addition. */
kn_tensor kn_qwen3_text_forward_pictures(kn_run *r, const kn_qwen3_text *m, const int32_t *ids, int64_t n,
                                         const kn_rope_picture *places, const kn_vision_features *seen, int count);

#endif
