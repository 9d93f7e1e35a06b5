#include "models/zimage.h"

#include <stdlib.h>

#include "models/feed_forward.h"
#include "models/timestep.h"

enum { PAD_TO = 32 }; /* image and text are each filled up to a multiple of so many rows */

static const float eps = 1e-5f, final_eps = 1e-6f;

/* The two spellings; the rest is called the same. */
struct naming {
    const char *image_in, *out, *final_scale, *attention_out, *q_norm, *k_norm;
};

static const struct naming single_file = {
    .image_in = "x_embedder",
    .out = "final_layer.linear",
    .final_scale = "final_layer.adaLN_modulation.1",
    .attention_out = "out",
    .q_norm = "q_norm",
    .k_norm = "k_norm",
};

static const struct naming diffusers = {
    .image_in = "all_x_embedder.2-1",
    .out = "all_final_layer.2-1.linear",
    .final_scale = "all_final_layer.2-1.adaLN_modulation.1",
    .attention_out = "to_out.0",
    .q_norm = "norm_q",
    .k_norm = "norm_k",
};

/* "layers.0" and the like; sees_time: the block is modulated by a vector of that many elements. */
static kn_zimage_block take_block(kn_zimage *m, kn_binder *b, const struct naming *names, const char *stack, int i,
                                  int64_t sees_time) {
    int64_t d = m->width;
    kn_zimage_block x = {
        .norm1 = kn_take_vector(b, d, 0, "%s.%d.attention_norm1.weight", stack, i),
        .q_norm = kn_take_vector(b, m->head, 0, "%s.%d.attention.%s.weight", stack, i, names->q_norm),
        .k_norm = kn_take_vector(b, m->head, 0, "%s.%d.attention.%s.weight", stack, i, names->k_norm),
        .o = kn_take_matrix(b, d, d, "%s.%d.attention.%s", stack, i, names->attention_out),
        .norm2 = kn_take_vector(b, d, 0, "%s.%d.attention_norm2.weight", stack, i),
        .ffn_norm1 = kn_take_vector(b, d, 0, "%s.%d.ffn_norm1.weight", stack, i),
        .gate = kn_take_matrix(b, -1, d, "%s.%d.feed_forward.w1", stack, i),
        .ffn_norm2 = kn_take_vector(b, d, 0, "%s.%d.ffn_norm2.weight", stack, i),
    };
    x.up = kn_take_matrix(b, x.gate.dim[0], d, "%s.%d.feed_forward.w3", stack, i);
    x.down = kn_take_matrix(b, d, x.gate.dim[0], "%s.%d.feed_forward.w2", stack, i);
    if (kn_has(b, "%s.%d.attention.to_q.weight", stack, i)) {
        x.q = kn_take_matrix(b, d, d, "%s.%d.attention.to_q", stack, i);
        x.k = kn_take_matrix(b, d, d, "%s.%d.attention.to_k", stack, i);
        x.v = kn_take_matrix(b, d, d, "%s.%d.attention.to_v", stack, i);
    } else {
        kn_weight qkv = kn_take_matrix(b, 3 * d, d, "%s.%d.attention.qkv", stack, i);
        x.q = kn_weight_rows(&qkv, 0, d);
        x.k = kn_weight_rows(&qkv, d, d);
        x.v = kn_weight_rows(&qkv, 2 * d, d);
    }
    if (sees_time)
        x.modulation = kn_take_matrix(b, 4 * d, sees_time, "%s.%d.adaLN_modulation.0", stack, i);
    return x;
}

/* How many blocks of a stack the file has; at least one, so that the binder says what it misses. */
static int count_blocks(const kn_binder *b, const char *stack, int most) {
    int n = 0;
    while (n < most && kn_has(b, "%s.%d.attention_norm1.weight", stack, n))
        n++;
    return n ? n : 1;
}

/* A vector as a table of one row, from which kn_embedding makes as many rows as are needed. */
static kn_weight take_pad(kn_binder *b, int64_t d, const char *name) {
    kn_weight w = kn_take_vector(b, d, 0, "%s", name);
    w.rank = 2;
    w.dim[0] = 1;
    w.dim[1] = d;
    return w;
}

void kn_zimage_load(kn_zimage *m, kn_binder *b) {
    const struct naming *names = kn_has(b, "all_x_embedder.2-1.weight") ? &diffusers : &single_file;
    *m = (kn_zimage){ 0 };
    m->image_in = kn_take_matrix(b, -1, -1, "%s", names->image_in);
    int64_t d = m->width = m->image_in.dim[0];
    m->patch_width = m->image_in.dim[1];
    m->image_pad = take_pad(b, d, "x_pad_token");
    m->text_in = kn_take_matrix(b, d, -1, "cap_embedder.1");
    m->text_width = m->text_in.dim[1];
    m->text_norm = kn_take_vector(b, m->text_width, 0, "cap_embedder.0.weight");
    m->text_pad = take_pad(b, d, "cap_pad_token");
    m->time_in = kn_take_matrix(b, -1, KN_TIMESTEP_WAVES, "t_embedder.mlp.0");
    m->time_out = kn_take_matrix(b, -1, m->time_in.dim[0], "t_embedder.mlp.2");
    int64_t time = m->time_out.dim[0];
    m->final_scale = kn_take_matrix(b, d, time, "%s", names->final_scale);
    m->out = kn_take_matrix(b, m->patch_width, d, "%s", names->out);

    m->layers = count_blocks(b, "layers", KN_ZIMAGE_MAX_LAYERS);
    m->noise_refiners = count_blocks(b, "noise_refiner", KN_ZIMAGE_MAX_REFINERS);
    m->context_refiners = count_blocks(b, "context_refiner", KN_ZIMAGE_MAX_REFINERS);
    m->head = -1;
    m->layer[0] = take_block(m, b, names, "layers", 0, time);
    m->head = m->layer[0].q_norm.dim[0];
    for (int i = 1; i < m->layers; i++)
        m->layer[i] = take_block(m, b, names, "layers", i, time);
    for (int i = 0; i < m->noise_refiners; i++)
        m->noise_refiner[i] = take_block(m, b, names, "noise_refiner", i, time);
    for (int i = 0; i < m->context_refiners; i++)
        m->context_refiner[i] = take_block(m, b, names, "context_refiner", i, 0);
    kn_ignore(b, "norm_final.weight"); /* of the architecture that this one comes from */

    if (m->head > 0) {
        if (d % m->head || m->head % 16)
            kn_binder_fail(b, "heads of %lld do not divide a width of %lld", (long long)m->head, (long long)d);
        m->heads = (int)(d / m->head);
    }
    /* Sequence, row and column share a head as 2 : 3 : 3; the released model has 32 + 48 + 48 of 128. */
    int pairs = (int)(m->head / 2);
    m->axes = (kn_rope_axes){
        .count = 3, .pairs = { pairs / 4, pairs * 3 / 8, pairs * 3 / 8 }, .base = 256, .rounded = KN_ROPE_ANGLES
    };
}

/* x: [n, width] -> what attention adds to it, with all rows seeing each other. */
static kn_tensor attention(kn_run *r, const kn_zimage *m, const kn_zimage_block *b, kn_tensor x, kn_rope rope) {
    kn_scope s = kn_scope_open(r), within = kn_scope_open(r);
    kn_tensor q = kn_linear(r, x, &b->q); /* [n, heads * head] */
    kn_tensor k = kn_linear(r, x, &b->k);
    kn_tensor v = kn_linear(r, x, &b->v);
    kn_qk_norm_rope(r, q, &b->q_norm, eps, rope.cos, rope.sin, KN_ROPE_INTERLEAVED);
    kn_qk_norm_rope(r, k, &b->k_norm, eps, rope.cos, rope.sin, KN_ROPE_INTERLEAVED);
    kn_tensor a = kn_attention(r, q, (kn_kv){ 0 }, (kn_kv){ k, v }, m->heads, m->heads, false);
    return kn_scope_close(r, s, kn_linear(r, kn_scope_close(r, within, a), &b->o));
}

/* What time does to a block: scale and gate of attention and of the MLP, [width] each. None where it does nothing. */
struct modulation {
    kn_tensor scale1, gate1, scale2, gate2;
};

static struct modulation modulate(kn_run *r, const kn_zimage *m, const kn_zimage_block *b, kn_tensor time) {
    if (!b->modulation.data)
        return (struct modulation){ 0 };
    kn_tensor all = kn_linear(r, time, &b->modulation); /* [1, 4 * width] */
    all = kn_reshape(r, all, 2, (int64_t[]){ 4, m->width });
    struct modulation s = {
        .scale1 = kn_rows(r, all, 0, 1),
        .gate1 = kn_rows(r, all, 1, 1),
        .scale2 = kn_rows(r, all, 2, 1),
        .gate2 = kn_rows(r, all, 3, 1),
    };
    kn_tanh(r, s.gate1);
    kn_tanh(r, s.gate2);
    return s;
}

/* x += gate * y */
static void add(kn_run *r, kn_tensor x, kn_tensor gate, kn_tensor y) {
    if (gate.rank)
        kn_add_gated(r, x, gate, y);
    else
        kn_add(r, x, y);
}

/* x: [n, width], changed in place. Norms stand on both sides of attention and MLP. stack and i are for who watches. */
static void block(kn_run *r, const kn_zimage *m, const kn_zimage_block *b, kn_tensor x, kn_tensor time, kn_rope rope,
                  const char *stack, int i) {
    kn_scope s = kn_scope_open(r);
    struct modulation mod = modulate(r, m, b, time);
    kn_scope half = kn_scope_open(r);
    kn_tensor a = attention(r, m, b, kn_rms_norm_modulate(r, x, &b->norm1, mod.scale1, eps), rope);
    kn_watch(r, a, "%s%d.attention", stack, i);
    add(r, x, mod.gate1, kn_rms_norm(r, a, &b->norm2, eps));
    kn_scope_close(r, half, KN_NONE);
    kn_tensor f = kn_rms_norm_modulate(r, x, &b->ffn_norm1, mod.scale2, eps);
    kn_feed_forward(r, f, &b->gate, &b->up, &b->down);
    kn_watch(r, f, "%s%d.feed_forward", stack, i);
    add(r, x, mod.gate2, kn_rms_norm(r, f, &b->ffn_norm2, eps));
    kn_scope_close(r, s, KN_NONE);
    kn_watch(r, x, "%s%d", stack, i);
}

static int64_t padded(int64_t n) {
    return (n + PAD_TO - 1) / PAD_TO * PAD_TO;
}

/* to: the given rows, then `pad` as often as there is room: an ordinary token that attends and is attended to. */
static void fill(kn_run *r, kn_tensor to, kn_tensor rows, const kn_weight *pad) {
    static const int32_t first[PAD_TO] = { 0 };
    int64_t n = kn_row_count(rows), missing = kn_row_count(to) - n;
    kn_copy(r, kn_rows(r, to, 0, n), rows);
    if (missing > 0)
        kn_copy(r, kn_rows(r, to, n, missing), kn_embedding(r, pad, first, missing));
}

/* Positions of `words` text rows, from 1 on the first axis: [words, 3]. */
static void text_positions(float *p, int64_t words) {
    for (int64_t i = 0; i < words; i++, p += 3)
        p[0] = (float)(1 + i);
}

/* Picture rows stand behind the text on the first axis, their padding at zero. */
static void picture_positions(float *p, int64_t words, int h, int w) {
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++, p += 3) {
            p[0] = (float)(words + 1);
            p[1] = (float)y;
            p[2] = (float)x;
        }
    }
}

/* The rotary table of `picture` rows for h x w patches (both may be 0), then of `words` rows of text. */
static kn_rope rope_of(kn_run *r, const kn_zimage *m, int64_t picture, int h, int w, int64_t words) {
    float *positions = calloc((size_t)(picture + words) * 3, sizeof *positions);
    if (!positions) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld positions", (long long)(picture + words));
        return (kn_rope){ 0 };
    }
    picture_positions(positions, words, h, w);
    text_positions(positions + picture * 3, words);
    kn_rope rope = kn_rope_new(r, &m->axes, positions, picture + words);
    free(positions);
    return rope;
}

kn_tensor kn_zimage_refine_text(kn_run *r, const kn_zimage *m, kn_tensor text) {
    int64_t words = padded(kn_row_count(text));
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_linear(r, kn_rms_norm(r, text, &m->text_norm, eps), &m->text_in); /* [n, width] */
    kn_watch(r, x, "cap_embedder");
    kn_tensor y = kn_new(r, 2, (int64_t[]){ words, m->width });
    fill(r, y, x, &m->text_pad);
    kn_rope rope = rope_of(r, m, 0, 0, 0, words);
    for (int i = 0; i < m->context_refiners; i++)
        block(r, m, &m->context_refiner[i], y, KN_NONE, rope, "context_refiner", i);
    return kn_scope_close(r, s, y);
}

/* Time runs from 0 (noise) to 1. -> [1, time width] */
static kn_tensor embed_time(kn_run *r, const kn_zimage *m, float sigma) {
    kn_tensor t = kn_linear(r, kn_timestep_waves(r, 1000.0f * (1 - sigma)), &m->time_in);
    kn_silu(r, t);
    t = kn_linear(r, t, &m->time_out);
    kn_watch(r, t, "t_embedder");
    return t;
}

kn_tensor kn_zimage_forward(kn_run *r, const kn_zimage *m, kn_tensor words, kn_tensor latent, int h, int w,
                            float sigma) {
    int64_t n = (int64_t)h * w, picture_rows = padded(n), text_rows = kn_row_count(words);
    kn_scope s = kn_scope_open(r);
    kn_rope rope = rope_of(r, m, picture_rows, h, w, text_rows);
    kn_tensor time = embed_time(r, m, sigma);

    kn_tensor x = kn_new(r, 2, (int64_t[]){ picture_rows + text_rows, m->width }); /* the picture, then the text */
    kn_tensor picture = kn_rows(r, x, 0, picture_rows);
    kn_tensor patches = kn_linear(r, latent, &m->image_in); /* [n, width] */
    kn_watch(r, patches, "x_embedder");
    fill(r, picture, patches, &m->image_pad);
    kn_drop(r, patches);
    for (int i = 0; i < m->noise_refiners; i++)
        block(r, m, &m->noise_refiner[i], picture, time, kn_rope_rows(r, rope, 0, picture_rows), "noise_refiner", i);
    kn_copy(r, kn_rows(r, x, picture_rows, text_rows), words);
    for (int i = 0; i < m->layers; i++)
        block(r, m, &m->layer[i], x, time, rope, "layer", i);

    kn_silu(r, time);
    kn_tensor scale = kn_linear(r, time, &m->final_scale);
    kn_tensor y = kn_norm_modulate(r, kn_rows(r, x, 0, n), scale, KN_NONE, final_eps);
    y = kn_linear(r, y, &m->out); /* [n, patch_width] */
    kn_watch(r, y, "final_layer");
    return kn_scope_close(r, s, y);
}
