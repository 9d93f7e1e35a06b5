#include "models/qwen3_text.h"

#include "models/feed_forward.h"

static const float eps = 1e-6f;

void kn_qwen3_text_load(kn_qwen3_text *m, kn_binder *b, double rope_base) {
    *m = (kn_qwen3_text){ 0 };
    m->embedding = kn_take_matrix(b, -1, -1, "embed_tokens");
    m->vocabulary = m->embedding.dim[0];
    m->width = m->embedding.dim[1];
    while (m->layers < KN_QWEN3_MAX_LAYERS && kn_has(b, "layers.%d.input_layernorm.weight", m->layers))
        m->layers++;
    if (m->layers == 0) /* let the binder say what it misses */
        m->layers = 1;
    for (int i = 0; i < m->layers; i++) {
        kn_qwen3_layer *l = &m->layer[i];
        l->norm1 = kn_take_vector(b, m->width, 0, "layers.%d.input_layernorm.weight", i);
        l->q_norm = kn_take_vector(b, i ? m->head : -1, 0, "layers.%d.self_attn.q_norm.weight", i);
        if (i == 0)
            m->head = l->q_norm.dim[0];
        l->k_norm = kn_take_vector(b, m->head, 0, "layers.%d.self_attn.k_norm.weight", i);
        l->q = kn_take_matrix(b, i ? m->heads * m->head : -1, m->width, "layers.%d.self_attn.q_proj", i);
        l->k = kn_take_matrix(b, i ? m->kv_heads * m->head : -1, m->width, "layers.%d.self_attn.k_proj", i);
        if (i == 0 && m->head > 0) {
            m->heads = (int)(l->q.dim[0] / m->head);
            m->kv_heads = (int)(l->k.dim[0] / m->head);
        }
        l->v = kn_take_matrix(b, m->kv_heads * m->head, m->width, "layers.%d.self_attn.v_proj", i);
        l->o = kn_take_matrix(b, m->width, m->heads * m->head, "layers.%d.self_attn.o_proj", i);
        l->norm2 = kn_take_vector(b, m->width, 0, "layers.%d.post_attention_layernorm.weight", i);
        int64_t mlp = i ? m->layer[0].gate.dim[0] : -1;
        l->gate = kn_take_matrix(b, mlp, m->width, "layers.%d.mlp.gate_proj", i);
        l->up = kn_take_matrix(b, l->gate.dim[0], m->width, "layers.%d.mlp.up_proj", i);
        l->down = kn_take_matrix(b, m->width, l->gate.dim[0], "layers.%d.mlp.down_proj", i);
        kn_ignore(b, "layers.%d.self_attn.rotary_emb.inv_freq", i); /* frequencies that follow from the base */
    }
    kn_ignore(b, "rotary_emb.inv_freq");
    kn_ignore(b, "norm.weight");
    /* Of 64 pairs, Qwen3-VL gives 20 to rows and 20 to columns. For words all axes say the same. */
    int pairs = (int)(m->head / 2), side = pairs * 5 / 16;
    m->axes = (kn_rope_axes){
        .count = 3, .pairs = { pairs - 2 * side, side, side }, .base = rope_base, .deal = KN_ROPE_IN_TURNS
    };
}

/* x: [n, width], changed in place. Grouped-query attention; q and k are normed per head before the rotation. */
static void layer(kn_run *r, const kn_qwen3_text *m, const kn_qwen3_layer *l, kn_tensor x, kn_rope rope) {
    kn_scope s = kn_scope_open(r);
    kn_tensor u = kn_rms_norm(r, x, &l->norm1, eps);
    kn_tensor q = kn_linear(r, u, &l->q); /* [n, heads * head] */
    kn_tensor k = kn_linear(r, u, &l->k); /* [n, kv_heads * head] */
    kn_tensor v = kn_linear(r, u, &l->v);
    kn_qk_norm_rope(r, q, &l->q_norm, eps, rope.cos, rope.sin, KN_ROPE_HALVES);
    kn_qk_norm_rope(r, k, &l->k_norm, eps, rope.cos, rope.sin, KN_ROPE_HALVES);
    kn_tensor a = kn_attention(r, q, (kn_kv){ 0 }, (kn_kv){ k, v }, m->heads, m->kv_heads, true);
    kn_add(r, x, kn_linear(r, a, &l->o));
    u = kn_rms_norm(r, x, &l->norm2, eps);
    kn_feed_forward(r, u, &l->gate, &l->up, &l->down);
    kn_add(r, x, u);
    kn_scope_close(r, s, KN_NONE);
}

/* Hidden states that are gathered on the way. */
struct taps {
    const int *after; /* so many layers */
    int count;
    kn_tensor into; /* [n, count * width] */
};

static void gather(kn_run *r, const kn_qwen3_text *m, const struct taps *t, int layers, kn_tensor x) {
    for (int i = 0; t && i < t->count; i++)
        if (t->after[i] == layers)
            kn_copy_columns(r, t->into, i * m->width, x);
}

/* The rows of x: [n, width] that stand for a picture. */
static kn_tensor picture_rows(kn_run *r, kn_tensor x, const kn_rope_picture *place) {
    return kn_rows(r, x, place->at, (int64_t)place->rows * place->columns);
}

static kn_tensor forward(kn_run *r, const kn_qwen3_text *m, const int32_t *ids, int64_t n, int layers,
                         const kn_rope_picture *places, const kn_vision_features *seen, int count,
                         const struct taps *taps) {
    kn_scope s = kn_scope_open(r);
    kn_rope rope = kn_rope_of_tokens(r, &m->axes, places, count, n);
    kn_tensor x = kn_embedding(r, &m->embedding, ids, n);
    for (int p = 0; p < count; p++)
        kn_copy(r, picture_rows(r, x, &places[p]), seen[p].rows);
    kn_watch(r, x, "hidden_states.0");
    for (int i = 0; i < layers; i++) {
        layer(r, m, &m->layer[i], x, rope);
        kn_watch(r, x, "hidden_states.%d", i + 1);
        gather(r, m, taps, i + 1, x);
        for (int p = 0; p < count; p++)
            if (i < seen[p].deepstack_count)
                kn_add(r, picture_rows(r, x, &places[p]), seen[p].deepstack[i]);
    }
    return kn_scope_close(r, s, x);
}

kn_tensor kn_qwen3_text_forward(kn_run *r, const kn_qwen3_text *m, const int32_t *ids, int64_t n, int layers) {
    return forward(r, m, ids, n, layers, NULL, NULL, 0, NULL);
}

kn_tensor kn_qwen3_text_taps(kn_run *r, const kn_qwen3_text *m, const int32_t *ids, int64_t n, const int *after,
                             int count) {
    const struct taps taps = { after, count, kn_new(r, 2, (int64_t[]){ n, count * m->width }) };
    kn_drop(r, forward(r, m, ids, n, after[count - 1], NULL, NULL, 0, &taps));
    return taps.into;
}

kn_tensor kn_qwen3_text_forward_pictures(kn_run *r, const kn_qwen3_text *m, const int32_t *ids, int64_t n,
                                         const kn_rope_picture *places, const kn_vision_features *seen, int count) {
    return forward(r, m, ids, n, m->layers, places, seen, count, NULL);
}
