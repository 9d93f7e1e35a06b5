#include "models/qwen25_vision.h"

#include <math.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "models/feed_forward.h"
#include "models/vision_patches.h"

enum { MERGED = KN_VISION_MERGED };

static const float eps = 1e-6f;
static const float mean[KN_VISION_COLOURS] = { 0.48145466f, 0.4578275f, 0.40821073f };
static const float deviation[KN_VISION_COLOURS] = { 0.26862954f, 0.26130258f, 0.27577711f };

/* Windows of 112 pixels are 4 cells of 28. */
static const kn_vision25_layout published = {
    .depth = 32, .heads = 16, .window = 4, .whole = 1ull << 7 | 1ull << 15 | 1ull << 23 | 1ull << 31, .width = 1280
};

static kn_vision25_block take_block(kn_binder *b, int64_t d, int64_t mlp, int i) {
    kn_vision25_block block = {
        .norm1 = kn_take_vector(b, d, 0, "blocks.%d.norm1.weight", i),
        .proj = kn_take_matrix(b, d, d, "blocks.%d.attn.proj", i),
        .norm2 = kn_take_vector(b, d, 0, "blocks.%d.norm2.weight", i),
        .gate = kn_take_matrix(b, mlp, d, "blocks.%d.mlp.gate_proj", i),
        .up = kn_take_matrix(b, mlp, d, "blocks.%d.mlp.up_proj", i),
        .down = kn_take_matrix(b, d, mlp, "blocks.%d.mlp.down_proj", i),
    };
    if (kn_has(b, "blocks.%d.attn.q.weight", i)) { /* of GGUF files: each by itself */
        block.q = kn_take_matrix(b, d, d, "blocks.%d.attn.q", i);
        block.k = kn_take_matrix(b, d, d, "blocks.%d.attn.k", i);
        block.v = kn_take_matrix(b, d, d, "blocks.%d.attn.v", i);
    } else {
        kn_weight qkv = kn_take_matrix(b, 3 * d, d, "blocks.%d.attn.qkv", i);
        block.q = kn_weight_rows(&qkv, 0, d);
        block.k = kn_weight_rows(&qkv, d, d);
        block.v = kn_weight_rows(&qkv, 2 * d, d);
    }
    return block;
}

void kn_qwen25_vision_load(kn_qwen25_vision *m, kn_binder *b) {
    *m = (kn_qwen25_vision){ .layout = m->layout.depth ? m->layout : published };
    const kn_vision25_layout *l = &m->layout;
    kn_patch_layer_take(&m->patch_in, b);
    int64_t d = m->width = m->patch_in.first.dim[0];
    int depth = 0;
    while (depth < KN_VISION25_MAX_BLOCKS && kn_has(b, "blocks.%d.norm1.weight", depth))
        depth++;
    for (int i = 0; i < KN_MAX(depth, 1); i++) /* one at least: let the binder say what it misses */
        m->block[i] = take_block(b, d, i ? m->block[0].up.dim[0] : -1, i);
    m->merge_norm = kn_take_vector(b, d, 0, "merger.ln_q.weight");
    m->merge_up = kn_take_matrix(b, MERGED * d, MERGED * d, "merger.mlp.0");
    m->merge_down = kn_take_matrix(b, -1, MERGED * d, "merger.mlp.2");
    m->out = m->merge_down.dim[0];
    if (l->depth != depth || l->width != d)
        kn_binder_fail(b, "a vision tower of %d blocks of width %lld, where %d of %lld are expected", depth,
                       (long long)d, l->depth, (long long)l->width);
    else if (l->heads <= 0 || l->window <= 0 || d % ((int64_t)l->heads * 4) != 0)
        kn_binder_fail(b, "%d heads and windows of %d do not fit a vision tower of width %lld", l->heads, l->window,
                       (long long)d);
}

/* Cells window by window, row by row in each; ends: how many cells there are up to the end of each window. */
struct windows {
    int32_t *cells, *ends;
    int count;
};

static bool order_windows(kn_run *r, const kn_patch_grid *g, int side, struct windows *ret) {
    int rows = g->rows / KN_VISION_MERGE, columns = g->columns / KN_VISION_MERGE;
    size_t cells = (size_t)rows * columns;
    *ret = (struct windows){ .cells = malloc(2 * cells * sizeof *ret->cells) };
    if (!ret->cells) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %zu tokens", cells);
        return false;
    }
    ret->ends = ret->cells + cells;
    int32_t n = 0;
    for (int top = 0; top < rows; top += side) {
        for (int left = 0; left < columns; left += side) {
            for (int y = top; y < KN_MIN(top + side, rows); y++)
                for (int x = left; x < KN_MIN(left + side, columns); x++)
                    ret->cells[n++] = y * columns + x;
            ret->ends[ret->count++] = n;
        }
    }
    return true;
}

/* q, k, v: [patches, width]; each window by itself. */
static kn_tensor attend_in_windows(kn_run *r, const struct windows *w, kn_tensor q, kn_kv kv, int heads) {
    kn_tensor a = kn_new(r, 2, q.dim);
    int64_t from = 0;
    for (int i = 0; i < w->count; i++) {
        int64_t rows = (int64_t)w->ends[i] * MERGED - from;
        kn_kv own = { kn_rows(r, kv.k, from, rows), kn_rows(r, kv.v, from, rows) };
        kn_tensor part = kn_attention(r, kn_rows(r, q, from, rows), (kn_kv){ 0 }, own, heads, heads, false);
        kn_copy(r, kn_rows(r, a, from, rows), part);
        kn_drop(r, part);
        from += rows;
    }
    return a;
}

/* x: [patches, width], changed in place. w: NULL where every patch sees the whole picture. */
static void block(kn_run *r, const kn_vision25_block *b, kn_tensor x, kn_rope rope, const struct windows *w,
                  int heads) {
    kn_scope s = kn_scope_open(r);
    kn_tensor u = kn_rms_norm(r, x, &b->norm1, eps);
    kn_tensor q = kn_linear(r, u, &b->q); /* [patches, width] */
    kn_kv kv = { kn_linear(r, u, &b->k), kn_linear(r, u, &b->v) };
    kn_qk_norm_rope(r, q, NULL, 0, rope.cos, rope.sin, KN_ROPE_HALVES);
    kn_qk_norm_rope(r, kv.k, NULL, 0, rope.cos, rope.sin, KN_ROPE_HALVES);
    kn_tensor a = w ? attend_in_windows(r, w, q, kv, heads) : kn_attention(r, q, (kn_kv){ 0 }, kv, heads, heads, false);
    kn_add(r, x, kn_linear(r, a, &b->proj));
    u = kn_rms_norm(r, x, &b->norm2, eps);
    kn_feed_forward(r, u, &b->gate, &b->up, &b->down);
    kn_add(r, x, u);
    kn_scope_close(r, s, KN_NONE);
}

/* x: [patches, width] -> to: [cells, out], row by row again. */
static void merge(kn_run *r, const kn_qwen25_vision *m, kn_tensor x, const struct windows *w, kn_tensor to) {
    int64_t cells = kn_row_count(x) / MERGED;
    kn_tensor u = kn_rms_norm(r, x, &m->merge_norm, eps);
    kn_tensor h = kn_linear(r, kn_reshape(r, u, 2, (int64_t[]){ cells, MERGED * m->width }), &m->merge_up);
    kn_gelu(r, h);
    h = kn_linear(r, h, &m->merge_down);
    for (int64_t i = 0; i < cells; i++)
        kn_copy(r, kn_rows(r, to, w->cells[i], 1), kn_rows(r, h, i, 1));
}

kn_tensor kn_qwen25_vision_forward(kn_run *r, const kn_qwen25_vision *m, const uint8_t *rgb, int height, int width) {
    const kn_vision25_layout *l = &m->layout;
    kn_patch_grid g = kn_patch_grid_of(m->patch_in.patch, height, width);
    struct windows w;
    if (!order_windows(r, &g, l->window, &w))
        return KN_NONE;
    g.cells = w.cells;
    kn_tensor merged = kn_new(r, 2, (int64_t[]){ g.count / MERGED, m->out });
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_patch_layer_apply(r, &m->patch_in, &g, rgb, mean, deviation); /* [patches, width] */
    kn_rope rope = kn_patches_turn(r, &g, m->width / l->heads);
    for (int i = 0; i < l->depth; i++) {
        block(r, &m->block[i], x, rope, l->whole >> i & 1 ? NULL : &w, l->heads);
        kn_watch(r, x, "block%d", i);
    }
    merge(r, m, x, &w, merged);
    kn_watch(r, merged, "merged");
    kn_scope_close(r, s, KN_NONE);
    free(w.cells);
    return merged;
}
