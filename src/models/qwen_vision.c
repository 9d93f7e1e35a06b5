#include "models/qwen_vision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "models/feed_forward.h"
#include "models/vision_patches.h"

enum { MERGED = KN_VISION_MERGED };

static const float eps = 1e-6f;
static const float mean[KN_VISION_COLOURS] = { 0.5f, 0.5f, 0.5f }, deviation[KN_VISION_COLOURS] = { 0.5f, 0.5f, 0.5f };

static const kn_vision_layout published[] = {
    { .depth = 27, .width = 1152, .heads = 16, .deepstack_count = 3, .deepstack = { 8, 16, 24 } }, /* 8B */
    { .depth = 24, .width = 1024, .heads = 16, .deepstack_count = 3, .deepstack = { 5, 11, 17 } }, /* 4B */
};

static kn_vision_merger take_merger(kn_binder *b, int64_t norm, int64_t merged, int64_t out, const char *name) {
    return (kn_vision_merger){
        .norm = kn_take_vector(b, norm, -1, "%s.norm.weight", name),
        .norm_shift = kn_take_vector(b, norm, 0, "%s.norm.bias", name),
        .up = kn_take_matrix(b, merged, merged, "%s.linear_fc1", name),
        .down = kn_take_matrix(b, out, merged, "%s.linear_fc2", name),
    };
}

static kn_vision_block take_block(kn_binder *b, int64_t d, int64_t mlp, int i) {
    kn_weight qkv = kn_take_matrix(b, 3 * d, d, "blocks.%d.attn.qkv", i);
    return (kn_vision_block){
        .norm1 = kn_take_vector(b, d, -1, "blocks.%d.norm1.weight", i),
        .norm1_shift = kn_take_vector(b, d, 0, "blocks.%d.norm1.bias", i),
        .q = kn_weight_rows(&qkv, 0, d),
        .k = kn_weight_rows(&qkv, d, d),
        .v = kn_weight_rows(&qkv, 2 * d, d),
        .proj = kn_take_matrix(b, d, d, "blocks.%d.attn.proj", i),
        .norm2 = kn_take_vector(b, d, -1, "blocks.%d.norm2.weight", i),
        .norm2_shift = kn_take_vector(b, d, 0, "blocks.%d.norm2.bias", i),
        .up = kn_take_matrix(b, mlp, d, "blocks.%d.mlp.linear_fc1", i),
        .down = kn_take_matrix(b, d, mlp, "blocks.%d.mlp.linear_fc2", i),
    };
}

/* Completes the layout by the shapes, or says where they disagree. */
static void settle_layout(kn_qwen_vision *m, kn_binder *b, int depth, int deepstack_count) {
    kn_vision_layout *l = &m->layout;
    for (size_t i = 0; i < KN_COUNT(published) && l->depth == 0; i++)
        if (published[i].depth == depth && published[i].width == m->width)
            *l = published[i];
    if (l->depth == 0) {
        kn_binder_fail(b,
                       "%d blocks of width %lld are no published tower; a config.json beside the file must tell its "
                       "heads and deepstack layers",
                       depth, (long long)m->width);
        l->depth = depth;
        return;
    }
    if (l->depth != depth || l->width != m->width || l->deepstack_count != deepstack_count)
        kn_binder_fail(b,
                       "the vision tower has %d blocks of width %lld and %d deepstack mergers, its configuration says "
                       "%d, %lld and %d",
                       depth, (long long)m->width, deepstack_count, l->depth, (long long)l->width, l->deepstack_count);
    else if (l->heads <= 0 || m->width % ((int64_t)l->heads * 4) != 0)
        kn_binder_fail(b, "%d heads do not divide a vision tower of width %lld", l->heads, (long long)m->width);
    l->depth = depth;
}

void kn_qwen_vision_load(kn_qwen_vision *m, kn_binder *b) {
    *m = (kn_qwen_vision){ .layout = m->layout };
    kn_patch_layer_take(&m->patch_in, b);
    int64_t d = m->width = m->patch_in.first.dim[0];
    m->positions = kn_take_matrix(b, -1, d, "pos_embed");
    m->table_side = (int64_t)sqrt((double)m->positions.dim[0]);
    if (m->table_side * m->table_side != m->positions.dim[0])
        kn_binder_fail(b, "a table of %lld positions is not square", (long long)m->positions.dim[0]);
    int depth = 0, deepstack_count = 0;
    while (depth < KN_VISION_MAX_BLOCKS && kn_has(b, "blocks.%d.norm1.weight", depth))
        depth++;
    while (deepstack_count < KN_VISION_MAX_DEEPSTACK &&
           kn_has(b, "deepstack_merger_list.%d.norm.weight", deepstack_count))
        deepstack_count++;
    if (depth == 0) /* let the binder say what it misses */
        depth = 1;
    for (int i = 0; i < depth; i++)
        m->block[i] = take_block(b, d, i ? m->block[0].up.dim[0] : -1, i);
    m->merger = take_merger(b, d, MERGED * d, -1, "merger");
    m->out = m->merger.down.dim[0];
    for (int i = 0; i < deepstack_count; i++) {
        char name[40];
        snprintf(name, sizeof name, "deepstack_merger_list.%d", i);
        m->deepstack[i] = take_merger(b, MERGED * d, MERGED * d, m->out, name);
    }
    settle_layout(m, b, depth, deepstack_count);
}

/* Where `at` of `count` patches lies on an axis of the table, whose ends are the picture's: between an entry and the
 * next one, by `share`. */
struct between {
    int64_t entry, next;
    float share;
};

static struct between find_between(int at, int count, int64_t side) {
    float place = count > 1 ? (float)at * (float)(side - 1) / (float)(count - 1) : 0;
    int64_t entry = (int64_t)place;
    return (struct between){ entry, KN_MIN(entry + 1, side - 1), place - (float)entry };
}

/* The table of positions, learned for one size, bilinear for others -> [patches, width]. */
static kn_tensor embed_positions(kn_run *r, const kn_qwen_vision *m, const kn_patch_grid *g) {
    enum { TAPS = 4 };
    int32_t *ids = malloc(sizeof *ids * TAPS * (size_t)g->count);
    float *shares = malloc(sizeof *shares * TAPS * (size_t)g->count);
    kn_tensor t = KN_NONE;
    if (!ids || !shares)
        kn_run_fail(r, KN_E_NOMEM, "out of memory for the positions of %lld patches", (long long)g->count);
    for (int64_t i = 0; i < g->count && ids && shares; i++) {
        int row = 0, column = 0;
        kn_patch_place(g, i, &row, &column);
        struct between y = find_between(row, g->rows, m->table_side),
                       x = find_between(column, g->columns, m->table_side);
        for (int tap = 0; tap < TAPS; tap++) {
            bool below = tap / 2, right = tap % 2;
            ids[i * TAPS + tap] = (int32_t)((below ? y.next : y.entry) * m->table_side + (right ? x.next : x.entry));
            shares[i * TAPS + tap] = (below ? y.share : 1 - y.share) * (right ? x.share : 1 - x.share);
        }
    }
    if (ids && shares)
        t = kn_embedding_blend(r, &m->positions, ids, shares, g->count, TAPS);
    free(ids);
    free(shares);
    return t;
}

/* x: [patches, width], changed in place. Every patch sees the whole picture. */
static void block(kn_run *r, const kn_qwen_vision *m, const kn_vision_block *b, kn_tensor x, kn_rope rope) {
    int heads = m->layout.heads;
    kn_scope s = kn_scope_open(r);
    kn_tensor u = kn_layer_norm(r, x, &b->norm1, &b->norm1_shift, eps);
    kn_tensor q = kn_linear(r, u, &b->q), k = kn_linear(r, u, &b->k), v = kn_linear(r, u, &b->v); /* [patches, width] */
    kn_qk_norm_rope(r, q, NULL, 0, rope.cos, rope.sin, KN_ROPE_HALVES);
    kn_qk_norm_rope(r, k, NULL, 0, rope.cos, rope.sin, KN_ROPE_HALVES);
    kn_add(r, x, kn_linear(r, kn_attention(r, q, (kn_kv){ 0 }, (kn_kv){ k, v }, heads, heads, false), &b->proj));
    u = kn_layer_norm(r, x, &b->norm2, &b->norm2_shift, eps);
    kn_feed_forward(r, u, NULL, &b->up, &b->down);
    kn_add(r, x, u);
    kn_scope_close(r, s, KN_NONE);
}

/* x: [patches, width] -> to: [cells, out]. The merger's norm goes over a patch, that of deepstack over a whole cell. */
static void merge(kn_run *r, const kn_vision_merger *g, kn_tensor x, kn_tensor to) {
    kn_scope s = kn_scope_open(r);
    int64_t norm = g->norm.dim[0], merged = g->up.dim[1];
    kn_tensor u = kn_reshape(r, x, 2, (int64_t[]){ kn_elements(x) / norm, norm });
    u = kn_layer_norm(r, u, &g->norm, &g->norm_shift, eps);
    kn_tensor h = kn_linear(r, kn_reshape(r, u, 2, (int64_t[]){ kn_elements(u) / merged, merged }), &g->up);
    kn_gelu(r, h);
    kn_copy(r, to, kn_linear(r, h, &g->down));
    kn_scope_close(r, s, KN_NONE);
}

void kn_qwen_vision_forward(kn_run *r, const kn_qwen_vision *m, const uint8_t *rgb, int height, int width,
                            kn_vision_features *ret) {
    const kn_vision_layout *l = &m->layout;
    kn_patch_grid g = kn_patch_grid_of(m->patch_in.patch, height, width);
    const int64_t shape[2] = { g.count / MERGED, m->out };
    *ret = (kn_vision_features){ .rows = kn_new(r, 2, shape), .deepstack_count = l->deepstack_count };
    for (int i = 0; i < l->deepstack_count; i++)
        ret->deepstack[i] = kn_new(r, 2, shape);

    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_patch_layer_apply(r, &m->patch_in, &g, rgb, mean, deviation); /* [patches, width] */
    kn_add(r, x, embed_positions(r, m, &g));
    kn_rope rope = kn_patches_turn(r, &g, m->width / l->heads);
    for (int i = 0, taken = 0; i < l->depth; i++) {
        block(r, m, &m->block[i], x, rope);
        kn_watch(r, x, "block%d", i);
        if (taken < l->deepstack_count && l->deepstack[taken] == i) {
            merge(r, &m->deepstack[taken], x, ret->deepstack[taken]);
            kn_watch(r, ret->deepstack[taken], "deepstack%d", taken);
            taken++;
        }
    }
    merge(r, &m->merger, x, ret->rows);
    kn_watch(r, ret->rows, "merged");
    kn_scope_close(r, s, KN_NONE);
}
