#include "models/qwen25_text.h"

#include "models/feed_forward.h"

static const float eps = 1e-6f;
static const double rope_base = 1e6;
static const kn_qwen25_layout published = { .head = 128, .sections = { 16, 24, 24 } };

void kn_qwen25_text_load(kn_qwen25_text *m, kn_binder *b) {
    *m = (kn_qwen25_text){ .layout = m->layout.head ? m->layout : published };
    int64_t head = m->layout.head;
    m->embedding = kn_take_matrix(b, -1, -1, "embed_tokens");
    m->vocabulary = m->embedding.dim[0];
    m->width = m->embedding.dim[1];
    while (m->layers < KN_QWEN25_MAX_LAYERS && kn_has(b, "layers.%d.input_layernorm.weight", m->layers))
        m->layers++;
    if (m->layers == 0) /* let the binder say what it misses */
        m->layers = 1;
    for (int i = 0; i < m->layers; i++) {
        kn_qwen25_layer *l = &m->layer[i];
        l->norm1 = kn_take_vector(b, m->width, 0, "layers.%d.input_layernorm.weight", i);
        l->q = kn_take_matrix(b, i ? m->heads * head : -1, m->width, "layers.%d.self_attn.q_proj", i);
        l->k = kn_take_matrix(b, i ? m->kv_heads * head : -1, m->width, "layers.%d.self_attn.k_proj", i);
        if (i == 0) {
            m->heads = (int)(l->q.dim[0] / head);
            m->kv_heads = (int)(l->k.dim[0] / head);
        }
        l->v = kn_take_matrix(b, m->kv_heads * head, m->width, "layers.%d.self_attn.v_proj", i);
        l->o = kn_take_matrix(b, m->width, m->heads * head, "layers.%d.self_attn.o_proj", i);
        l->norm2 = kn_take_vector(b, m->width, 0, "layers.%d.post_attention_layernorm.weight", i);
        int64_t mlp = i ? m->layer[0].gate.dim[0] : -1;
        l->gate = kn_take_matrix(b, mlp, m->width, "layers.%d.mlp.gate_proj", i);
        l->up = kn_take_matrix(b, l->gate.dim[0], m->width, "layers.%d.mlp.up_proj", i);
        l->down = kn_take_matrix(b, m->width, l->gate.dim[0], "layers.%d.mlp.down_proj", i);
    }
    m->norm = kn_take_vector(b, m->width, 0, "norm.weight");
    int64_t q = m->layer[0].q.dim[0], k = m->layer[0].k.dim[0];
    if (m->heads * head != q || m->kv_heads * head != k || (m->kv_heads && m->heads % m->kv_heads))
        kn_binder_fail(b, "queries of %lld and keys of %lld are no whole heads of %lld", (long long)q, (long long)k,
                       (long long)head);
}

/* x: [n, width], changed in place. Grouped-query attention. */
static void layer(kn_run *r, const kn_qwen25_text *m, const kn_qwen25_layer *l, kn_tensor x, kn_rope rope) {
    kn_scope s = kn_scope_open(r);
    kn_tensor u = kn_rms_norm(r, x, &l->norm1, eps);
    kn_tensor q = kn_linear(r, u, &l->q); /* [n, heads * head] */
    kn_tensor k = kn_linear(r, u, &l->k); /* [n, kv_heads * head] */
    kn_tensor v = kn_linear(r, u, &l->v);
    kn_qk_norm_rope(r, q, NULL, 0, rope.cos, rope.sin, KN_ROPE_HALVES);
    kn_qk_norm_rope(r, k, NULL, 0, rope.cos, rope.sin, KN_ROPE_HALVES);
    kn_tensor a = kn_attention(r, q, (kn_kv){ 0 }, (kn_kv){ k, v }, m->heads, m->kv_heads, true);
    kn_add(r, x, kn_linear(r, a, &l->o));
    u = kn_rms_norm(r, x, &l->norm2, eps);
    kn_feed_forward(r, u, &l->gate, &l->up, &l->down);
    kn_add(r, x, u);
    kn_scope_close(r, s, KN_NONE);
}

kn_tensor kn_qwen25_text_forward(kn_run *r, const kn_qwen25_text *m, const int32_t *ids, int64_t n,
                                 const kn_rope_picture *pictures, const kn_tensor *rows, int count) {
    const int *sections = m->layout.sections;
    const kn_rope_axes axes = {
        .count = 3, .pairs = { sections[0], sections[1], sections[2] }, .base = rope_base, .deal = KN_ROPE_SECTIONS
    };
    kn_scope s = kn_scope_open(r);
    kn_rope rope = kn_rope_of_tokens(r, &axes, pictures, count, n);
    kn_tensor x = kn_embedding(r, &m->embedding, ids, n);
    for (int p = 0; p < count; p++)
        kn_copy(r, kn_rows(r, x, pictures[p].at, (int64_t)pictures[p].rows * pictures[p].columns), rows[p]);
    kn_watch(r, x, "hidden_states.0");
    for (int i = 0; i < m->layers; i++) {
        layer(r, m, &m->layer[i], x, rope);
        kn_watch(r, x, "hidden_states.%d", i + 1);
    }
    return kn_scope_close(r, s, kn_rms_norm(r, x, &m->norm, eps));
}
