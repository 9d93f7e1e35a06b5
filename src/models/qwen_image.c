#include "models/qwen_image.h"

#include <stdlib.h>

#include "models/feed_forward.h"
#include "models/timestep.h"

static const float eps = 1e-6f;

/* How the two streams' parts of a block are called. */
struct naming {
    const char *modulation, *q, *k, *v, *q_norm, *k_norm, *o, *mlp;
};

static const struct naming picture_names = {
    .modulation = "img_mod.1",
    .q = "attn.to_q",
    .k = "attn.to_k",
    .v = "attn.to_v",
    .q_norm = "attn.norm_q",
    .k_norm = "attn.norm_k",
    .o = "attn.to_out.0",
    .mlp = "img_mlp",
};

static const struct naming text_names = {
    .modulation = "txt_mod.1",
    .q = "attn.add_q_proj",
    .k = "attn.add_k_proj",
    .v = "attn.add_v_proj",
    .q_norm = "attn.norm_added_q",
    .k_norm = "attn.norm_added_k",
    .o = "attn.to_add_out",
    .mlp = "txt_mlp",
};

/* head: -1 takes what the file has. */
static kn_qwen_image_half take_half(kn_binder *b, const struct naming *names, int i, int64_t d, int64_t head) {
    kn_qwen_image_half x = {
        .modulation = kn_take_biased(b, 6 * d, d, "transformer_blocks.%d.%s", i, names->modulation),
        .q = kn_take_biased(b, d, d, "transformer_blocks.%d.%s", i, names->q),
        .k = kn_take_biased(b, d, d, "transformer_blocks.%d.%s", i, names->k),
        .v = kn_take_biased(b, d, d, "transformer_blocks.%d.%s", i, names->v),
        .q_norm = kn_take_vector(b, head, 0, "transformer_blocks.%d.%s.weight", i, names->q_norm),
        .o = kn_take_biased(b, d, d, "transformer_blocks.%d.%s", i, names->o),
        .up = kn_take_biased(b, -1, d, "transformer_blocks.%d.%s.net.0.proj", i, names->mlp),
    };
    x.k_norm = kn_take_vector(b, x.q_norm.dim[0], 0, "transformer_blocks.%d.%s.weight", i, names->k_norm);
    x.down = kn_take_biased(b, d, x.up.dim[0], "transformer_blocks.%d.%s.net.2", i, names->mlp);
    return x;
}

void kn_qwen_image_load(kn_qwen_image *m, kn_binder *b) {
    *m = (kn_qwen_image){ 0 };
    m->image_in = kn_take_biased(b, -1, -1, "img_in");
    int64_t d = m->width = m->image_in.dim[0];
    m->patch_width = m->image_in.dim[1];
    m->text_in = kn_take_biased(b, d, -1, "txt_in");
    m->text_width = m->text_in.dim[1];
    m->text_norm = kn_take_vector(b, m->text_width, 0, "txt_norm.weight");
    m->time_in = kn_take_biased(b, d, KN_TIMESTEP_WAVES, "time_text_embed.timestep_embedder.linear_1");
    m->time_out = kn_take_biased(b, d, d, "time_text_embed.timestep_embedder.linear_2");
    m->modulation = kn_take_biased(b, 2 * d, d, "norm_out.linear");
    m->out = kn_take_biased(b, m->patch_width, d, "proj_out");
    while (m->layers < KN_QWEN_IMAGE_MAX_LAYERS && kn_has(b, "transformer_blocks.%d.attn.to_q.weight", m->layers))
        m->layers++;
    if (m->layers == 0) /* let the binder say what it misses */
        m->layers = 1;
    for (int i = 0; i < m->layers; i++) {
        kn_qwen_image_layer *l = &m->layer[i];
        l->picture = take_half(b, &picture_names, i, d, i ? m->head : -1);
        if (i == 0)
            m->head = l->picture.q_norm.dim[0];
        l->text = take_half(b, &text_names, i, d, m->head);
    }
    if (kn_has(b, "__index_timestep_zero__")) {
        kn_ignore(b, "__index_timestep_zero__");
        kn_binder_fail(b, "'__index_timestep_zero__' marks Qwen-Image-Edit 2511, which is not supported");
    }
    if (m->head > 0) {
        if (d % m->head || m->head % 32)
            kn_binder_fail(b, "a width of %lld cannot be heads of %lld", (long long)d, (long long)m->head);
        m->heads = (int)(d / m->head);
    }
    /* Frame, row and column share a head as 1 : 3.5 : 3.5; the released model has 16 + 56 + 56 of 128. */
    int pairs = (int)(m->head / 2);
    m->axes = (kn_rope_axes){ .count = 3, .pairs = { pairs / 8, pairs * 7 / 16, pairs * 7 / 16 }, .base = 10000 };
}

/* text: [n, text_width] -> [n, width] */
kn_tensor kn_qwen_image_read_text(kn_run *r, const kn_qwen_image *m, kn_tensor text) {
    kn_scope s = kn_scope_open(r);
    kn_tensor c = kn_linear(r, kn_rms_norm(r, text, &m->text_norm, eps), &m->text_in);
    kn_watch(r, c, "txt_in");
    return kn_scope_close(r, s, c);
}

/* silu of the embedded noise level: [1, width], from which every modulation is computed. */
static kn_tensor embed_time(kn_run *r, const kn_qwen_image *m, float sigma) {
    kn_tensor t = kn_linear(r, kn_timestep_waves_scaled(r, sigma, 1000), &m->time_in);
    kn_silu(r, t);
    t = kn_linear(r, t, &m->time_out);
    kn_watch(r, t, "temb");
    kn_silu(r, t);
    return t;
}

/* Where the tokens of both streams stand. */
struct places {
    kn_rope picture, text;
};

/* Pictures are stacked as frames around a common centre; text goes on from the largest one's edge, along the diagonal
 * of all axes. */
static struct places place(kn_run *r, const kn_qwen_image *m, const kn_qwen_image_picture *pictures, int count,
                           int64_t words) {
    int64_t patches = 0;
    int edge = 0;
    for (int i = 0; i < count; i++) {
        patches += (int64_t)pictures[i].h * pictures[i].w;
        edge = KN_MAX(edge, KN_MAX(pictures[i].h / 2, pictures[i].w / 2));
    }
    float *positions = malloc(sizeof(float) * 3 * (size_t)(patches + words)), *p = positions;
    if (!positions) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld positions", (long long)(patches + words));
        return (struct places){ 0 };
    }
    for (int i = 0; i < count; i++) {
        int h = pictures[i].h, w = pictures[i].w;
        for (int y = 0; y < h; y++) {
            for (int x = 0; x < w; x++, p += 3) {
                p[0] = (float)i;
                p[1] = (float)(y - (h - h / 2));
                p[2] = (float)(x - (w - w / 2));
            }
        }
    }
    for (int64_t j = 0; j < words; j++, p += 3)
        p[0] = p[1] = p[2] = (float)(edge + j);
    struct places all = { .picture = kn_rope_new(r, &m->axes, positions, patches),
                          .text = kn_rope_new(r, &m->axes, positions + 3 * patches, words) };
    free(positions);
    kn_watch(r, all.picture.cos, "rope.image.cos");
    kn_watch(r, all.picture.sin, "rope.image.sin");
    kn_watch(r, all.text.cos, "rope.text.cos");
    kn_watch(r, all.text.sin, "rope.text.sin");
    return all;
}

/* What time does to one stream of a block, before and after attention and MLP: [width] each. */
struct modulation {
    kn_tensor shift1, scale1, gate1, shift2, scale2, gate2;
};

static struct modulation modulate(kn_run *r, const kn_weight *w, kn_tensor time) {
    kn_tensor all = kn_linear(r, time, w); /* [1, 6 * width] */
    all = kn_reshape(r, all, 2, (int64_t[]){ 6, kn_last_dim(time) });
    return (struct modulation){
        .shift1 = kn_rows(r, all, 0, 1),
        .scale1 = kn_rows(r, all, 1, 1),
        .gate1 = kn_rows(r, all, 2, 1),
        .shift2 = kn_rows(r, all, 3, 1),
        .scale2 = kn_rows(r, all, 4, 1),
        .gate2 = kn_rows(r, all, 5, 1),
    };
}

/* A stream's queries, keys and values: [n, heads * head] each. */
struct qkv {
    kn_tensor q;
    kn_kv kv;
};

static struct qkv project(kn_run *r, const kn_qwen_image_half *b, kn_tensor x, const struct modulation *mod,
                          kn_rope rope) {
    kn_tensor u = kn_norm_modulate(r, x, mod->scale1, mod->shift1, eps);
    struct qkv p = { .q = kn_linear(r, u, &b->q), .kv = { .k = kn_linear(r, u, &b->k), .v = kn_linear(r, u, &b->v) } };
    kn_drop(r, u);
    kn_qk_norm_rope(r, p.q, &b->q_norm, eps, rope.cos, rope.sin, KN_ROPE_INTERLEAVED);
    kn_qk_norm_rope(r, p.kv.k, &b->k_norm, eps, rope.cos, rope.sin, KN_ROPE_INTERLEAVED);
    return p;
}

static void drop(kn_run *r, const struct qkv *p) {
    kn_drop(r, p->q);
    kn_drop(r, p->kv.k);
    kn_drop(r, p->kv.v);
}

/* x: [n, width], changed in place by what it attended to, which is dropped, then by its MLP. */
static void update(kn_run *r, const kn_qwen_image_half *b, kn_tensor x, kn_tensor attended,
                   const struct modulation *mod) {
    kn_tensor h = kn_linear(r, attended, &b->o);
    kn_add_gated(r, x, mod->gate1, h);
    kn_drop(r, attended);
    kn_drop(r, h);
    h = kn_norm_modulate(r, x, mod->scale2, mod->shift2, eps);
    kn_feed_forward(r, h, NULL, &b->up, &b->down);
    kn_add_gated(r, x, mod->gate2, h);
    kn_drop(r, h);
}

/* x: [patches, width]; c: [words, width]; both changed in place. Every token sees all tokens of both streams. */
static void block(kn_run *r, const kn_qwen_image *m, const kn_qwen_image_layer *l, kn_tensor x, kn_tensor c,
                  kn_tensor time, const struct places *at) {
    kn_scope s = kn_scope_open(r);
    struct modulation picture = modulate(r, &l->picture.modulation, time),
                      text = modulate(r, &l->text.modulation, time);
    struct qkv p = project(r, &l->picture, x, &picture, at->picture), t = project(r, &l->text, c, &text, at->text);
    kn_tensor seen = kn_attention(r, p.q, t.kv, p.kv, m->heads, m->heads, false); /* [patches, width] */
    kn_tensor read = kn_attention(r, t.q, t.kv, p.kv, m->heads, m->heads, false); /* [words, width] */
    drop(r, &p);
    drop(r, &t);
    update(r, &l->picture, x, seen, &picture);
    update(r, &l->text, c, read, &text);
    kn_scope_close(r, s, KN_NONE);
}

/* All pictures' patches, one after the other: [patches, width]. */
static kn_tensor embed_pictures(kn_run *r, const kn_qwen_image *m, const kn_qwen_image_picture *pictures, int count) {
    int64_t patches = 0, from = 0;
    for (int i = 0; i < count; i++)
        patches += kn_row_count(pictures[i].patches);
    kn_tensor x = kn_new(r, 2, (int64_t[]){ patches, m->width });
    for (int i = 0; i < count; i++) {
        int64_t n = kn_row_count(pictures[i].patches);
        kn_tensor part = kn_linear(r, pictures[i].patches, &m->image_in);
        kn_copy(r, kn_rows(r, x, from, n), part);
        kn_drop(r, part);
        from += n;
    }
    kn_watch(r, x, "img_in");
    return x;
}

kn_tensor kn_qwen_image_velocity(kn_run *r, const kn_qwen_image *m, kn_tensor text,
                                 const kn_qwen_image_picture *pictures, int count, float sigma) {
    kn_scope s = kn_scope_open(r);
    kn_tensor time = embed_time(r, m, sigma);
    struct places at = place(r, m, pictures, count, kn_row_count(text));
    kn_tensor x = embed_pictures(r, m, pictures, count);
    kn_tensor c = kn_new(r, text.rank, text.dim);
    kn_copy(r, c, text);
    for (int i = 0; i < m->layers; i++) {
        block(r, m, &m->layer[i], x, c, time, &at);
        kn_watch(r, x, "block%d.image", i);
        kn_watch(r, c, "block%d.text", i);
    }
    kn_tensor all = kn_linear(r, time, &m->modulation); /* [1, 2 * width] */
    all = kn_reshape(r, all, 2, (int64_t[]){ 2, m->width });
    kn_tensor scale = kn_rows(r, all, 0, 1), shift = kn_rows(r, all, 1, 1);
    kn_tensor y = kn_norm_modulate(r, kn_rows(r, x, 0, kn_row_count(pictures[0].patches)), scale, shift, eps);
    kn_watch(r, y, "norm_out");
    y = kn_linear(r, y, &m->out); /* [h * w, patch_width] */
    kn_watch(r, y, "output");
    return kn_scope_close(r, s, y);
}
