#include "models/vision_patches.h"

#include <math.h>
#include <stdlib.h>

static const double rope_base = 10000;

kn_patch_grid kn_patch_grid_of(int patch, int height, int width) {
    kn_patch_grid g = { .patch = patch, .rows = height / patch, .columns = width / patch };
    g.count = (int64_t)g.rows * g.columns;
    return g;
}

void kn_patch_place(const kn_patch_grid *g, int64_t i, int *row, int *column) {
    int across = g->columns / KN_VISION_MERGE, inside = (int)(i % KN_VISION_MERGED);
    int cell = g->cells ? g->cells[i / KN_VISION_MERGED] : (int)(i / KN_VISION_MERGED);
    *row = cell / across * KN_VISION_MERGE + inside / KN_VISION_MERGE;
    *column = cell % across * KN_VISION_MERGE + inside % KN_VISION_MERGE;
}

void kn_patch_layer_take(kn_patch_layer *l, kn_binder *b) {
    *l = (kn_patch_layer){ .first = kn_take_patch_matrix(b, -1, -1, "patch_embed.proj"), .frames = KN_VISION_FRAMES };
    int64_t size = l->first.dim[1];
    if (kn_has(b, "patch_embed.second_proj.weight")) {
        l->frames = 1;
        l->second = kn_take_patch_matrix(b, l->first.dim[0], size, "patch_embed.second_proj");
    }
    int planes = KN_VISION_COLOURS * l->frames;
    l->patch = (int)sqrt((double)size / planes);
    if ((int64_t)l->patch * l->patch * planes != size)
        kn_binder_fail(b, "patches of %lld numbers are not square", (long long)size);
}

/* -> [count, colour * frame * y * x]; all frames are the picture. */
static kn_tensor cut(kn_run *r, const kn_patch_grid *g, int frames, const uint8_t *rgb, const float *mean,
                     const float *deviation) {
    int64_t patch = g->patch, row_bytes = g->columns * patch * KN_VISION_COLOURS;
    int64_t size = KN_VISION_COLOURS * frames * patch * patch;
    float *values = malloc(sizeof(float) * (size_t)(g->count * size)), *to = values;
    if (!values) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld patches", (long long)g->count);
        return KN_NONE;
    }
    for (int64_t i = 0; i < g->count; i++) {
        int row = 0, column = 0;
        kn_patch_place(g, i, &row, &column);
        const uint8_t *corner = rgb + row * patch * row_bytes + column * patch * KN_VISION_COLOURS;
        for (int plane = 0; plane < KN_VISION_COLOURS * frames; plane++) {
            int c = plane / frames;
            for (int64_t y = 0; y < patch; y++)
                for (int64_t x = 0; x < patch; x++)
                    *to++ = ((float)corner[y * row_bytes + x * KN_VISION_COLOURS + c] / 255 - mean[c]) / deviation[c];
        }
    }
    kn_tensor t = kn_upload(r, 2, (int64_t[]){ g->count, size }, values);
    free(values);
    return t;
}

kn_tensor kn_patch_layer_apply(kn_run *r, const kn_patch_layer *l, const kn_patch_grid *g, const uint8_t *rgb,
                               const float *mean, const float *deviation) {
    kn_tensor patches = cut(r, g, l->frames, rgb, mean, deviation);
    kn_watch(r, patches, "patches");
    kn_tensor x = kn_linear(r, patches, &l->first); /* [count, width] */
    if (l->second.data)
        kn_add(r, x, kn_linear(r, patches, &l->second));
    kn_drop(r, patches);
    kn_watch(r, x, "patch_embed");
    return x;
}

kn_rope kn_patches_turn(kn_run *r, const kn_patch_grid *g, int64_t head) {
    float *positions = malloc(sizeof(float) * 2 * (size_t)g->count);
    if (!positions) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld positions", (long long)g->count);
        return (kn_rope){ 0 };
    }
    for (int64_t i = 0; i < g->count; i++) {
        int row = 0, column = 0;
        kn_patch_place(g, i, &row, &column);
        positions[2 * i] = (float)row;
        positions[2 * i + 1] = (float)column;
    }
    int pairs = (int)(head / 4);
    const kn_rope_axes axes = { .count = 2, .pairs = { pairs, pairs }, .base = rope_base };
    kn_rope rope = kn_rope_new(r, &axes, positions, g->count);
    free(positions);
    return rope;
}
