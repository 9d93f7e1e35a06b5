#include "models/qwen_image21.h"

#include <stdlib.h>

#include "models/feed_forward.h"
#include "models/timestep.h"

static const float eps = 1e-6f;

void kn_qwen21_load(kn_qwen21 *m, kn_binder *b) {
    *m = (kn_qwen21){ 0 };
    m->image_in = kn_take_matrix(b, -1, -1, "img_in");
    int64_t d = m->width = m->image_in.dim[0];
    m->channels = m->image_in.dim[1];
    m->text_in = kn_take_matrix(b, d, -1, "txt_in.in_layer");
    m->text_width = m->text_in.dim[1];
    m->text_norm = kn_take_vector(b, m->text_width, 1, "txt_in.text_norm.weight"); /* stored zero-centred */
    m->text_out = kn_take_matrix(b, d, d, "txt_in.out_layer");
    m->time_in = kn_take_matrix(b, d, KN_TIMESTEP_WAVES, "time_text_embed.timestep_embedder.linear_1");
    m->time_out = kn_take_matrix(b, d, d, "time_text_embed.timestep_embedder.linear_2");
    m->modulation = kn_take_matrix(b, 4 * d, d, "modulation.1");
    m->final_scale = kn_take_matrix(b, d, d, "norm_out.linear");
    m->out = kn_take_matrix(b, m->channels, d, "proj_out");
    while (m->layers < KN_QWEN21_MAX_LAYERS && kn_has(b, "transformer_blocks.%d.attn.to_q.weight", m->layers))
        m->layers++;
    if (m->layers == 0) /* let the binder say what it misses */
        m->layers = 1;
    int64_t mlp = -1;
    for (int i = 0; i < m->layers; i++) {
        kn_qwen21_layer *l = &m->layer[i];
        l->q_norm = kn_take_vector(b, i ? m->head : -1, 0, "transformer_blocks.%d.attn.norm_q.weight", i);
        if (i == 0)
            m->head = l->q_norm.dim[0];
        l->k_norm = kn_take_vector(b, m->head, 0, "transformer_blocks.%d.attn.norm_k.weight", i);
        l->q = kn_take_matrix(b, d, d, "transformer_blocks.%d.attn.to_q", i);
        l->k = kn_take_matrix(b, d, d, "transformer_blocks.%d.attn.to_k", i);
        l->v = kn_take_matrix(b, d, d, "transformer_blocks.%d.attn.to_v", i);
        l->o = kn_take_matrix(b, d, d, "transformer_blocks.%d.attn.to_out.0", i);
        if (kn_has(b, "transformer_blocks.%d.img_mlp.gate_layer.weight", i)) {
            l->gate = kn_take_matrix(b, mlp, d, "transformer_blocks.%d.img_mlp.gate_layer", i);
            mlp = l->gate.dim[0];
            l->up = kn_take_matrix(b, mlp, d, "transformer_blocks.%d.img_mlp.proj", i);
        } else {
            kn_weight both = kn_take_matrix(b, mlp < 0 ? -1 : 2 * mlp, d, "transformer_blocks.%d.img_mlp.gate_up", i);
            mlp = both.dim[0] / 2;
            l->gate = kn_weight_rows(&both, 0, mlp);
            l->up = kn_weight_rows(&both, mlp, mlp);
        }
        l->down = kn_take_matrix(b, d, mlp, "transformer_blocks.%d.img_mlp.out", i);
    }
    if (m->head > 0) {
        if (d % m->head || m->head % 16)
            kn_binder_fail(b, "heads of %lld do not divide a width of %lld", (long long)m->head, (long long)d);
        m->heads = (int)(d / m->head);
    }
    /* Frame, row and column share a head as 1 : 3.5 : 3.5; the released model has 16 + 56 + 56 of 128. */
    int pairs = (int)(m->head / 2);
    m->axes = (kn_rope_axes){ .count = 3, .pairs = { pairs / 8, pairs * 7 / 16, pairs * 7 / 16 }, .base = 10000 };
}

/* What a time level does to every block: scale and gate before attention and before the MLP, and the last norm's scale.
 * Each is [width]. */
struct modulation {
    kn_tensor scale1, gate1, scale2, gate2, final_scale;
};

static struct modulation modulate(kn_run *r, const kn_qwen21 *m, float sigma) {
    kn_tensor t = kn_linear(r, kn_timestep_waves(r, 1000.0f * sigma), &m->time_in);
    kn_silu(r, t);
    t = kn_linear(r, t, &m->time_out); /* [1, width] */
    kn_watch(r, t, "temb");
    kn_silu(r, t);
    kn_tensor mod = kn_linear(r, t, &m->modulation); /* [1, 4 * width] */
    kn_watch(r, mod, "modulation");
    mod = kn_reshape(r, mod, 2, (int64_t[]){ 4, m->width });
    struct modulation s = {
        .scale1 = kn_rows(r, mod, 0, 1),
        .gate1 = kn_rows(r, mod, 1, 1),
        .scale2 = kn_rows(r, mod, 2, 1),
        .gate2 = kn_rows(r, mod, 3, 1),
        .final_scale = kn_linear(r, t, &m->final_scale),
    };
    kn_tanh(r, s.gate1);
    kn_tanh(r, s.gate2);
    return s;
}

/* A run of rows that attend alike: text rows see what is before and, causally, each other; a picture's rows see what is
 * before and all of the picture. */
struct segment {
    int64_t rows;
    bool causal;
};

/* x: [n, width], changed in place; before: keys and values of all earlier rows. The rows' own keys and values are
 * copied to keep, if there is one. */
static void block(kn_run *r, const kn_qwen21 *m, const kn_qwen21_layer *l, kn_tensor x, const struct modulation *mod,
                  kn_rope rope, kn_kv before, const struct segment *segments, int count, const kn_kv *keep) {
    int64_t n = kn_row_count(x);
    kn_scope s = kn_scope_open(r), half = kn_scope_open(r), within = kn_scope_open(r);

    kn_tensor u = kn_norm_modulate(r, x, mod->scale1, KN_NONE, eps);
    kn_tensor q = kn_linear(r, u, &l->q); /* [n, heads * head] */
    kn_tensor k = kn_linear(r, u, &l->k);
    kn_tensor v = kn_linear(r, u, &l->v);
    kn_drop(r, u);
    kn_qk_norm_rope(r, q, &l->q_norm, eps, rope.cos, rope.sin, KN_ROPE_INTERLEAVED);
    kn_qk_norm_rope(r, k, &l->k_norm, eps, rope.cos, rope.sin, KN_ROPE_INTERLEAVED);
    if (keep) {
        kn_copy(r, keep->k, k);
        kn_copy(r, keep->v, v);
    }

    kn_tensor a = KN_NONE;
    if (count == 1) {
        a = kn_attention(r, q, before, (kn_kv){ k, v }, m->heads, m->heads, segments[0].causal);
    } else {
        a = kn_new(r, 2, (int64_t[]){ n, m->width });
        int64_t from = 0;
        for (int i = 0; i < count; i++) {
            int64_t rows = segments[i].rows;
            kn_kv seen = { kn_rows(r, k, 0, from), kn_rows(r, v, 0, from) };
            kn_kv here = { kn_rows(r, k, from, rows), kn_rows(r, v, from, rows) };
            kn_tensor part =
                kn_attention(r, kn_rows(r, q, from, rows), seen, here, m->heads, m->heads, segments[i].causal);
            kn_copy(r, kn_rows(r, a, from, rows), part);
            kn_drop(r, part);
            from += rows;
        }
    }
    kn_add_gated(r, x, mod->gate1, kn_linear(r, kn_scope_close(r, within, a), &l->o));
    kn_scope_close(r, half, KN_NONE);

    u = kn_norm_modulate(r, x, mod->scale2, KN_NONE, eps);
    kn_feed_forward(r, u, &l->gate, &l->up, &l->down);
    kn_add_gated(r, x, mod->gate2, u);
    kn_scope_close(r, s, KN_NONE);
}

/* Positions of an h x w picture around its centre; half: shift by half a token where parities differ (see prefill). */
static void picture_positions(float *p, float frame, int h, int w, float half_row, float half_column) {
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++, p += 3) {
            p[0] = frame;
            p[1] = (float)(y - (h - h / 2)) + half_row;
            p[2] = (float)(x - (w - w / 2)) + half_column;
        }
    }
}

/* txt_in(e) = out(gelu(in(rms(e)))) over text rows [n, text_width] -> [n, width]. */
static kn_tensor embed_text(kn_run *r, const kn_qwen21 *m, kn_tensor text) {
    kn_tensor h = kn_linear(r, kn_rms_norm(r, text, &m->text_norm, eps), &m->text_in);
    kn_gelu_tanh(r, h);
    h = kn_linear(r, h, &m->text_out);
    kn_watch(r, h, "txt_in");
    return h;
}

void kn_qwen21_prefill(kn_run *r, const kn_qwen21 *m, kn_tensor text, const kn_qwen21_piece *pieces, int count,
                       int target_h, int target_w, kn_qwen21_prefix *ret) {
    *ret = (kn_qwen21_prefix){ 0 };
    struct segment segments[2 * KN_QWEN21_MAX_REFERENCES + 1];
    int64_t n = 0;
    for (int i = 0; i < count; i++) {
        int64_t rows = pieces[i].text_rows ? pieces[i].text_rows : (int64_t)pieces[i].h * pieces[i].w;
        segments[i] = (struct segment){ .rows = rows, .causal = pieces[i].text_rows > 0 };
        n += rows;
    }
    float *positions = malloc(sizeof(float) * 3 * (size_t)n);
    if (!positions) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld positions", (long long)n);
        return;
    }
    for (int l = 0; l < m->layers; l++) /* made first: they outlive the scope of the pass */
        ret->kv[l] = (kn_kv){ kn_new(r, 2, (int64_t[]){ n, m->width }), kn_new(r, 2, (int64_t[]){ n, m->width }) };
    kn_scope s = kn_scope_open(r);

    kn_tensor x = kn_new(r, 2, (int64_t[]){ n, m->width });
    kn_tensor words = embed_text(r, m, text);
    float at = 0;
    int64_t row = 0, word = 0;
    for (int i = 0; i < count; i++) {
        const kn_qwen21_piece *p = &pieces[i];
        int64_t rows = segments[i].rows;
        if (p->text_rows) {
            kn_copy(r, kn_rows(r, x, row, rows), kn_rows(r, words, word, rows));
            for (int64_t k = 0; k < rows; k++, at += 1)
                positions[3 * (row + k)] = positions[3 * (row + k) + 1] = positions[3 * (row + k) + 2] = at;
            word += rows;
        } else {
            kn_copy(r, kn_rows(r, x, row, rows), kn_linear(r, p->latent, &m->image_in));
            /* A reference whose grid has another parity than the target's is centred half a token away. */
            picture_positions(positions + 3 * row, at, p->h, p->w, 0.5f * (float)(p->h % 2 - target_h % 2),
                              0.5f * (float)(p->w % 2 - target_w % 2));
            at += (float)KN_MAX(p->h, p->w);
        }
        row += rows;
    }
    if (at > KN_QWEN21_MAX_POSITION)
        kn_run_fail(r, KN_E_RANGE, "prompt and references reach position %.0f, the model's limit is %d", (double)at,
                    KN_QWEN21_MAX_POSITION);
    ret->tokens = n;
    ret->position = at;

    kn_rope rope = kn_rope_new(r, &m->axes, positions, n);
    free(positions);
    kn_watch(r, rope.cos, "rope.cos");
    kn_watch(r, rope.sin, "rope.sin");
    struct modulation still = modulate(r, m, 0);
    for (int l = 0; l < m->layers; l++) {
        block(r, m, &m->layer[l], x, &still, rope, (kn_kv){ 0 }, segments, count, &ret->kv[l]);
        kn_watch(r, x, "block%d", l);
    }
    kn_scope_close(r, s, KN_NONE);
}

kn_tensor kn_qwen21_velocity(kn_run *r, const kn_qwen21 *m, const kn_qwen21_prefix *prefix, kn_tensor latent, int h,
                             int w, float sigma) {
    int64_t n = (int64_t)h * w;
    float *positions = malloc(sizeof(float) * 3 * (size_t)n);
    if (!positions) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld positions", (long long)n);
        return KN_NONE;
    }
    picture_positions(positions, prefix->position, h, w, 0, 0);
    kn_scope s = kn_scope_open(r);
    kn_rope rope = kn_rope_new(r, &m->axes, positions, n);
    free(positions);
    kn_watch(r, rope.cos, "rope.cos");
    kn_watch(r, rope.sin, "rope.sin");
    struct modulation mod = modulate(r, m, sigma);
    const struct segment picture = { .rows = n, .causal = false };
    kn_tensor x = kn_linear(r, latent, &m->image_in);
    for (int l = 0; l < m->layers; l++) {
        block(r, m, &m->layer[l], x, &mod, rope, prefix->kv[l], &picture, 1, NULL);
        kn_watch(r, x, "block%d", l);
    }
    kn_tensor v = kn_linear(r, kn_norm_modulate(r, x, mod.final_scale, KN_NONE, eps), &m->out); /* [n, channels] */
    return kn_scope_close(r, s, v);
}
