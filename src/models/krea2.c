#include "models/krea2.h"

#include <stdlib.h>

#include "models/feed_forward.h"
#include "models/timestep.h"

static const float eps = 1e-5f;

/* The two spellings. */
struct naming {
    const char *image_in, *time_in, *time_out, *modulation, *projector, *text_norm, *text_in, *text_out;
    const char *tap_layers, *text_layers, *layers;
    const char *norm1, *norm2, *q, *k, *v, *gate, *o, *q_norm, *k_norm, *mlp_gate, *mlp_up, *mlp_down, *table;
    const char *final_table, *final_norm, *out;
};

static const struct naming published = {
    .image_in = "first",
    .time_in = "tmlp.0",
    .time_out = "tmlp.2",
    .modulation = "tproj.1",
    .projector = "txtfusion.projector.weight",
    .text_norm = "txtmlp.0.scale",
    .text_in = "txtmlp.1",
    .text_out = "txtmlp.3",
    .tap_layers = "txtfusion.layerwise_blocks",
    .text_layers = "txtfusion.refiner_blocks",
    .layers = "blocks",
    .norm1 = "prenorm.scale",
    .norm2 = "postnorm.scale",
    .q = "attn.wq",
    .k = "attn.wk",
    .v = "attn.wv",
    .gate = "attn.gate",
    .o = "attn.wo",
    .q_norm = "attn.qknorm.qnorm.scale",
    .k_norm = "attn.qknorm.knorm.scale",
    .mlp_gate = "mlp.gate",
    .mlp_up = "mlp.up",
    .mlp_down = "mlp.down",
    .table = "mod.lin",
    .final_table = "last.modulation.lin",
    .final_norm = "last.norm.scale",
    .out = "last.linear",
};

static const struct naming diffusers = {
    .image_in = "img_in",
    .time_in = "time_embed.linear_1",
    .time_out = "time_embed.linear_2",
    .modulation = "time_mod_proj",
    .projector = "text_fusion.projector.weight",
    .text_norm = "txt_in.norm.weight",
    .text_in = "txt_in.linear_1",
    .text_out = "txt_in.linear_2",
    .tap_layers = "text_fusion.layerwise_blocks",
    .text_layers = "text_fusion.refiner_blocks",
    .layers = "transformer_blocks",
    .norm1 = "norm1.weight",
    .norm2 = "norm2.weight",
    .q = "attn.to_q",
    .k = "attn.to_k",
    .v = "attn.to_v",
    .gate = "attn.to_gate",
    .o = "attn.to_out.0",
    .q_norm = "attn.norm_q.weight",
    .k_norm = "attn.norm_k.weight",
    .mlp_gate = "ff.gate",
    .mlp_up = "ff.up",
    .mlp_down = "ff.down",
    .table = "scale_shift_table",
    .final_table = "final_layer.scale_shift_table",
    .final_norm = "final_layer.norm.weight",
    .out = "final_layer.linear",
};

/* How many blocks of a row of blocks the file has; at least one, so that the binder says what it misses. */
static int count_blocks(const kn_binder *b, const struct naming *names, const char *stack, int most) {
    int n = 0;
    while (n < most && kn_has(b, "%s.%d.%s", stack, n, names->norm1))
        n++;
    return n ? n : 1;
}

/* The first block of a row tells the form of all. */
static void learn_form(kn_krea2_form *f, kn_binder *b, const kn_krea2_block *first, const char *stack) {
    int64_t head = first->q_norm.dim[0], q = first->q.dim[0], kv = first->k.dim[0];
    if (head < 1 || q < 1 || kv < 1)
        return; /* something is missing, which the binder reports */
    if (q % head || kv % head || q % kv || head % 2) {
        kn_binder_fail(b, "'%s': queries of %lld and keys of %lld cannot be heads of %lld", stack, (long long)q,
                       (long long)kv, (long long)head);
        return;
    }
    f->head = head;
    f->heads = (int)(q / head);
    f->kv_heads = (int)(kv / head);
}

/* Norms are stored zero-centred. */
static kn_krea2_block take_block(kn_krea2_form *f, kn_binder *b, const struct naming *names, const char *stack, int i,
                                 bool sees_time) {
    int64_t d = f->width;
    kn_krea2_block x = {
        .norm1 = kn_take_vector(b, d, 1, "%s.%d.%s", stack, i, names->norm1),
        .q = kn_take_matrix(b, f->heads * f->head, d, "%s.%d.%s", stack, i, names->q),
        .k = kn_take_matrix(b, f->kv_heads * f->head, d, "%s.%d.%s", stack, i, names->k),
        .q_norm = kn_take_vector(b, f->head, 1, "%s.%d.%s", stack, i, names->q_norm),
        .norm2 = kn_take_vector(b, d, 1, "%s.%d.%s", stack, i, names->norm2),
        .mlp_gate = kn_take_matrix(b, -1, d, "%s.%d.%s", stack, i, names->mlp_gate),
    };
    x.v = kn_take_matrix(b, x.k.dim[0], d, "%s.%d.%s", stack, i, names->v);
    x.gate = kn_take_matrix(b, x.q.dim[0], d, "%s.%d.%s", stack, i, names->gate);
    x.k_norm = kn_take_vector(b, x.q_norm.dim[0], 1, "%s.%d.%s", stack, i, names->k_norm);
    x.o = kn_take_matrix(b, d, x.q.dim[0], "%s.%d.%s", stack, i, names->o);
    x.mlp_up = kn_take_matrix(b, x.mlp_gate.dim[0], d, "%s.%d.%s", stack, i, names->mlp_up);
    x.mlp_down = kn_take_matrix(b, d, x.mlp_gate.dim[0], "%s.%d.%s", stack, i, names->mlp_down);
    if (sees_time)
        x.table = kn_take_table(b, 6, d, "%s.%d.%s", stack, i, names->table);
    if (i == 0)
        learn_form(f, b, &x, stack);
    return x;
}

/* Positions share a head of d as d - 12 q : 6 q : 6 q with q = d / 16; the released model has 32 + 48 + 48 of 128. */
static kn_rope_axes axes_of(int64_t head) {
    int pairs = (int)(head / 2), side = 3 * (int)(head / 16);
    return (kn_rope_axes){
        .count = 3, .pairs = { pairs - 2 * side, side, side }, .base = 1000, .rounded = KN_ROPE_NEITHER
    };
}

void kn_krea2_load(kn_krea2 *m, kn_binder *b) {
    const struct naming *names = kn_has(b, "%s", diffusers.projector) ? &diffusers : &published;
    *m = (kn_krea2){ 0 };
    m->image_in = kn_take_biased(b, -1, -1, "%s", names->image_in);
    int64_t d = m->image_in.dim[0];
    m->patch_width = m->image_in.dim[1];
    m->time_in = kn_take_biased(b, d, KN_TIMESTEP_WAVES, "%s", names->time_in);
    m->time_out = kn_take_biased(b, d, d, "%s", names->time_out);
    m->modulation = kn_take_biased(b, 6 * d, d, "%s", names->modulation);
    m->projector = kn_take_vector(b, -1, 0, "%s", names->projector);
    m->taps = m->projector.dim[0];
    m->text_norm = kn_take_vector(b, -1, 1, "%s", names->text_norm);
    m->text_in = kn_take_biased(b, d, m->text_norm.dim[0], "%s", names->text_in);
    m->text_out = kn_take_biased(b, d, d, "%s", names->text_out);
    m->final_table = kn_take_table(b, 2, d, "%s", names->final_table);
    m->final_norm = kn_take_vector(b, d, 1, "%s", names->final_norm);
    m->out = kn_take_biased(b, m->patch_width, d, "%s", names->out);

    m->tap_layers = count_blocks(b, names, names->tap_layers, KN_KREA2_MAX_TEXT_LAYERS);
    m->text_layers = count_blocks(b, names, names->text_layers, KN_KREA2_MAX_TEXT_LAYERS);
    m->layers = count_blocks(b, names, names->layers, KN_KREA2_MAX_LAYERS);
    m->text_form.width = m->text_norm.dim[0];
    m->form.width = d;
    for (int i = 0; i < m->tap_layers; i++)
        m->tap_layer[i] = take_block(&m->text_form, b, names, names->tap_layers, i, false);
    for (int i = 0; i < m->text_layers; i++)
        m->text_layer[i] = take_block(&m->text_form, b, names, names->text_layers, i, false);
    for (int i = 0; i < m->layers; i++)
        m->layer[i] = take_block(&m->form, b, names, names->layers, i, true);
    m->axes = axes_of(m->form.head);
}

/* What was attended to passes a gate that was computed from the same input x: [n, width] -> same. */
static kn_tensor gate_and_project(kn_run *r, const kn_krea2_block *b, kn_tensor attended, kn_tensor x) {
    kn_sigmoid_gate(r, attended, kn_linear(r, x, &b->gate));
    return kn_linear(r, attended, &b->o);
}

/* x: [n, heads * head], each head normed by itself, without rotation -> same. Takes the place of x. */
static kn_tensor norm_heads(kn_run *r, kn_tensor x, const kn_weight *w, int64_t head) {
    int64_t rows = kn_row_count(x), width = kn_last_dim(x);
    kn_tensor heads = kn_reshape(r, x, 2, (int64_t[]){ rows * width / head, head });
    kn_tensor y = kn_reshape(r, kn_rms_norm(r, heads, w, eps), 2, (int64_t[]){ rows, width });
    kn_drop(r, x);
    return y;
}

/* x: [n, width] -> same; every `group` rows see each other, and no one else. */
static kn_tensor text_attention(kn_run *r, const kn_krea2_form *f, const kn_krea2_block *b, kn_tensor x,
                                int64_t group) {
    kn_scope s = kn_scope_open(r), within = kn_scope_open(r);
    kn_tensor q = norm_heads(r, kn_linear(r, x, &b->q), &b->q_norm, f->head); /* [n, heads * head] */
    kn_tensor k = norm_heads(r, kn_linear(r, x, &b->k), &b->k_norm, f->head); /* [n, kv_heads * head] */
    kn_tensor v = kn_linear(r, x, &b->v);
    kn_tensor a = kn_new(r, q.rank, q.dim);
    for (int64_t from = 0; from < kn_row_count(x); from += group) {
        kn_kv own = { kn_rows(r, k, from, group), kn_rows(r, v, from, group) };
        kn_tensor part = kn_attention(r, kn_rows(r, q, from, group), (kn_kv){ 0 }, own, f->heads, f->kv_heads, false);
        kn_copy(r, kn_rows(r, a, from, group), part);
        kn_drop(r, part);
    }
    return kn_scope_close(r, s, gate_and_project(r, b, kn_scope_close(r, within, a), x));
}

/* x: [n, width], changed in place. */
static void text_block(kn_run *r, const kn_krea2_form *f, const kn_krea2_block *b, kn_tensor x, int64_t group) {
    kn_scope s = kn_scope_open(r);
    kn_add(r, x, text_attention(r, f, b, kn_rms_norm(r, x, &b->norm1, eps), group));
    kn_tensor h = kn_rms_norm(r, x, &b->norm2, eps);
    kn_feed_forward(r, h, &b->mlp_gate, &b->mlp_up, &b->mlp_down);
    kn_add(r, x, h);
    kn_scope_close(r, s, KN_NONE);
}

kn_tensor kn_krea2_fuse_text(kn_run *r, const kn_krea2 *m, kn_tensor states) {
    kn_scope s = kn_scope_open(r);
    int64_t n = kn_row_count(states);
    kn_tensor x = kn_new(r, 2, (int64_t[]){ n * m->taps, m->text_form.width });
    kn_copy(r, x, states);
    for (int i = 0; i < m->tap_layers; i++) {
        text_block(r, &m->text_form, &m->tap_layer[i], x, m->taps);
        kn_watch(r, x, "txtfusion.layerwise%d", i);
    }
    x = kn_sum_rows(r, x, &m->projector); /* [n, text width] */
    kn_watch(r, x, "txtfusion.projector");
    for (int i = 0; i < m->text_layers; i++) {
        text_block(r, &m->text_form, &m->text_layer[i], x, n);
        kn_watch(r, x, "txtfusion.refiner%d", i);
    }
    x = kn_linear(r, kn_rms_norm(r, x, &m->text_norm, eps), &m->text_in);
    kn_gelu_tanh(r, x);
    x = kn_linear(r, x, &m->text_out);
    kn_watch(r, x, "txtmlp");
    return kn_scope_close(r, s, x); /* [n, width] */
}

/* A block's or the last layer's table, offset by what time says: [rows, width]. */
static kn_tensor offset_table(kn_run *r, const kn_weight *table, kn_tensor by) {
    static const int32_t all[6] = { 0, 1, 2, 3, 4, 5 };
    kn_tensor t = kn_embedding(r, table, all, table->dim[0]);
    int64_t rows = KN_MAX(kn_row_count(by), 1); /* there are none when something has failed */
    for (int64_t i = 0; i < table->dim[0]; i += rows)
        kn_add(r, kn_rows(r, t, i, rows), by);
    return t;
}

/* rms(x, w) * (1 + scale) + shift, by two rows of a table from `row` on. */
static kn_tensor modulated_norm(kn_run *r, kn_tensor x, const kn_weight *w, kn_tensor table, int64_t row) {
    kn_tensor u = kn_rms_norm(r, x, w, eps);
    kn_modulate(r, u, kn_rows(r, table, row, 1), kn_rows(r, table, row + 1, 1));
    return u;
}

/* x: [n, width] -> same; all rows see each other. 48 query heads share 12 of keys and values in the released model. */
static kn_tensor attention(kn_run *r, const kn_krea2_form *f, const kn_krea2_block *b, int index, kn_tensor x,
                           kn_rope rope) {
    kn_scope s = kn_scope_open(r), within = kn_scope_open(r);
    kn_tensor q = kn_linear(r, x, &b->q); /* [n, heads * head] */
    kn_tensor k = kn_linear(r, x, &b->k); /* [n, kv_heads * head] */
    kn_tensor v = kn_linear(r, x, &b->v);
    kn_qk_norm_rope(r, q, &b->q_norm, eps, rope.cos, rope.sin, KN_ROPE_INTERLEAVED);
    kn_qk_norm_rope(r, k, &b->k_norm, eps, rope.cos, rope.sin, KN_ROPE_INTERLEAVED);
    kn_watch(r, q, "block%d.q", index);
    kn_watch(r, k, "block%d.k", index);
    kn_tensor a = kn_attention(r, q, (kn_kv){ 0 }, (kn_kv){ k, v }, f->heads, f->kv_heads, false);
    return kn_scope_close(r, s, gate_and_project(r, b, kn_scope_close(r, within, a), x));
}

/* x: [n, width], changed in place. Rows of the table: scale, shift and gate of attention, then of the MLP. */
static void block(kn_run *r, const kn_krea2 *m, int index, kn_tensor x, kn_tensor modulation, kn_rope rope) {
    const kn_krea2_block *b = &m->layer[index];
    kn_scope s = kn_scope_open(r);
    kn_tensor table = offset_table(r, &b->table, modulation);
    kn_scope half = kn_scope_open(r);
    kn_tensor a = attention(r, &m->form, b, index, modulated_norm(r, x, &b->norm1, table, 0), rope);
    kn_watch(r, a, "block%d.attn", index);
    kn_add_gated(r, x, kn_rows(r, table, 2, 1), a);
    kn_scope_close(r, half, KN_NONE);
    kn_tensor h = modulated_norm(r, x, &b->norm2, table, 3);
    kn_feed_forward(r, h, &b->mlp_gate, &b->mlp_up, &b->mlp_down);
    kn_watch(r, h, "block%d.mlp", index);
    kn_add_gated(r, x, kn_rows(r, table, 5, 1), h);
    kn_scope_close(r, s, KN_NONE);
    kn_watch(r, x, "block%d", index);
}

/* Text stands at the origin, a patch at its row and column. */
static kn_rope turn_tokens(kn_run *r, const kn_krea2 *m, int64_t text, int h, int w) {
    int64_t n = text + (int64_t)h * w;
    float *positions = calloc((size_t)n * 3, sizeof *positions);
    if (!positions) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld positions", (long long)n);
        return (kn_rope){ 0 };
    }
    float *p = positions + 3 * text;
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++, p += 3) {
            p[1] = (float)y;
            p[2] = (float)x;
        }
    }
    kn_rope rope = kn_rope_new(r, &m->axes, positions, n);
    free(positions);
    kn_watch(r, rope.cos, "rope_cos");
    kn_watch(r, rope.sin, "rope_sin");
    return rope;
}

kn_tensor kn_krea2_velocity(kn_run *r, const kn_krea2 *m, kn_tensor text, kn_tensor latent, int h, int w, float sigma) {
    kn_scope s = kn_scope_open(r);
    int64_t words = kn_row_count(text), patches = (int64_t)h * w, d = m->form.width;

    kn_tensor t = kn_linear(r, kn_timestep_waves(r, 1000.0f * sigma), &m->time_in);
    kn_gelu_tanh(r, t);
    t = kn_linear(r, t, &m->time_out); /* [1, width] */
    kn_watch(r, t, "time_embed");
    kn_tensor modulation = kn_new(r, 2, (int64_t[]){ 1, d });
    kn_copy(r, modulation, t);
    kn_gelu_tanh(r, modulation);
    modulation = kn_linear(r, modulation, &m->modulation); /* [1, 6 * width] */
    kn_watch(r, modulation, "time_mod");
    modulation = kn_reshape(r, modulation, 2, (int64_t[]){ 6, d });

    kn_tensor x = kn_new(r, 2, (int64_t[]){ words + patches, d });
    kn_tensor picture = kn_linear(r, latent, &m->image_in); /* [h * w, width] */
    kn_watch(r, picture, "first");
    kn_copy(r, kn_rows(r, x, 0, words), text);
    kn_copy(r, kn_rows(r, x, words, patches), picture);
    kn_drop(r, picture);
    kn_rope rope = turn_tokens(r, m, words, h, w);
    for (int i = 0; i < m->layers; i++)
        block(r, m, i, x, modulation, rope);

    kn_tensor table = offset_table(r, &m->final_table, t); /* scale, shift */
    picture = modulated_norm(r, kn_rows(r, x, words, patches), &m->final_norm, table, 0);
    kn_tensor v = kn_linear(r, picture, &m->out); /* [h * w, patch width] */
    kn_watch(r, v, "last");
    return kn_scope_close(r, s, v);
}
