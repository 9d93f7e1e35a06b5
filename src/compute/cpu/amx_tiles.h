/* Products by AMX tiles: sixteen rows of 64 bytes each, multiplied sixteen by sixteen. Included after the intrinsics of
 * tiles, which tests replace by plain C on machines without them.
 *
 * Rows and panels are those of the other tiers: a tile of a panel is sixteen columns of sixteen words along k. Of 32
 * rows by 32 columns the sums stay in tiles 0 to 3; 4 and 5 hold rows, 6 and 7 columns, so that each tile that is
 * loaded is multiplied twice. Sums begin with what they are added to. */
#ifndef KN_COMPUTE_CPU_AMX_TILES_H
#define KN_COMPUTE_CPU_AMX_TILES_H

#include <string.h>

#include "compute/cpu/kernels.h"

enum {
    TILE = 16, /* rows; words of a row */
    TILE_BYTES = 64,
    BLOCK = 2 * TILE, /* rows and columns at once */
    WORD = sizeof(float),
    ROW_BYTES = KN_STRIDE * WORD,
    PANEL_BYTES = KN_BF16_COLUMNS * WORD, /* from word to word along k */
};
_Static_assert((int)KN_BF16_COLUMNS == (int)KN_INT8_COLUMNS, "panels of both kinds have the same words");
_Static_assert(KN_BF16_ROWS % TILE == 0 && KN_TRANSPOSE_ROWS % TILE == 0, "whole tiles may be read");

/* Palette, then bytes per row at 16, rows at 48: eight whole tiles. A static object, since gcc 12 does not see that
 * more than its first bytes are read. */
static const KN_ALIGNED(64) uint8_t tile_config[64] = {
    [0] = 1,   [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64, [26] = 64, [28] = 64, [30] = 64,
    [48] = 16, [49] = 16, [50] = 16, [51] = 16, [52] = 16, [53] = 16, [54] = 16, [55] = 16,
};

static _Thread_local bool tiles_are_open;

static void open_tiles(void) {
    if (tiles_are_open)
        return;
    KN_USE_MEMORY(tile_config);
    _tile_loadconfig(tile_config);
    tiles_are_open = true;
}

/* A thread that is idle has no tiles, so that the system need not save them. */
static void close_tiles(void) {
    if (tiles_are_open)
        _tile_release();
    tiles_are_open = false;
}

/* Numbers of tiles are part of the instruction, so they are written out. */
#define MULTIPLY(sum, row, column)                                                                                     \
    do {                                                                                                               \
        if (int8)                                                                                                      \
            _tile_dpbusd(sum, row, column);                                                                            \
        else                                                                                                           \
            _tile_dpbf16ps(sum, row, column);                                                                          \
    } while (0)

/* All but the pointers, `words` and the strides are constants wherever this is used. start, of what the sums begin
 * with, may be NULL for zero; strides in floats. */
static KN_ALWAYS_INLINE void sum_block(bool int8, bool low, bool right, const uint8_t *a, size_t words,
                                       const uint8_t *panel, const float *start, size_t start_stride, float *c,
                                       size_t c_stride) {
    size_t from = start_stride * WORD, to = c_stride * WORD;
    if (start) {
        _tile_loadd(0, start, from);
        if (right)
            _tile_loadd(1, start + TILE, from);
        if (low)
            _tile_loadd(2, start + TILE * start_stride, from);
        if (low && right)
            _tile_loadd(3, start + TILE * start_stride + TILE, from);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t p = 0; p < words; p += TILE, a += TILE_BYTES, panel += TILE * PANEL_BYTES) {
        _tile_loadd(4, a, ROW_BYTES);
        _tile_loadd(6, panel, PANEL_BYTES);
        MULTIPLY(0, 4, 6);
        if (right) {
            _tile_loadd(7, panel + TILE * WORD, PANEL_BYTES);
            MULTIPLY(1, 4, 7);
        }
        if (low) {
            _tile_loadd(5, a + TILE * ROW_BYTES, ROW_BYTES);
            MULTIPLY(2, 5, 6);
        }
        if (low && right)
            MULTIPLY(3, 5, 7);
    }
    _tile_stored(0, c, to);
    if (right)
        _tile_stored(1, c + TILE, to);
    if (low)
        _tile_stored(2, c + TILE * c_stride, to);
    if (low && right)
        _tile_stored(3, c + TILE * c_stride + TILE, to);
}

static KN_ALWAYS_INLINE void sum_any(bool int8, bool low, bool right, const uint8_t *a, size_t words,
                                     const uint8_t *panel, const float *start, size_t start_stride, float *c,
                                     size_t c_stride) {
    if (low && right)
        sum_block(int8, true, true, a, words, panel, start, start_stride, c, c_stride);
    else if (low)
        sum_block(int8, true, false, a, words, panel, start, start_stride, c, c_stride);
    else if (right)
        sum_block(int8, false, true, a, words, panel, start, start_stride, c, c_stride);
    else
        sum_block(int8, false, false, a, words, panel, start, start_stride, c, c_stride);
}

/* Where rows or columns end within a tile, sums take the same way through memory of their own. */
static KN_ALWAYS_INLINE void sum_edge(bool int8, const uint8_t *a, size_t rows, size_t words, const uint8_t *panel,
                                      float *c, size_t c_stride, size_t n, const float *start, size_t start_stride) {
    KN_ALIGNED(64) float block[BLOCK * BLOCK] = { 0 };
    for (size_t i = 0; i < rows && start; i++)
        memcpy(block + i * BLOCK, start + i * start_stride, n * WORD);
    KN_USE_MEMORY(block);
    sum_any(int8, rows > TILE, n > TILE, a, words, panel, block, BLOCK, block, BLOCK);
    for (size_t i = 0; i < rows; i++)
        memcpy(c + i * c_stride, block + i * BLOCK, n * WORD);
}

static KN_ALWAYS_INLINE void multiply_by_tiles(bool int8, const uint8_t *a, size_t rows, size_t words,
                                               const uint8_t *panel, float *c, size_t c_stride, size_t n,
                                               const float *bias, bool add) {
    open_tiles();
    size_t start_stride = add ? c_stride : 0; /* the bias is every row's */
    for (size_t i = 0; i < rows; i += BLOCK)
        for (size_t j = 0; j < n; j += BLOCK) {
            size_t height = KN_MIN(rows - i, BLOCK), width = KN_MIN(n - j, BLOCK);
            const uint8_t *left = a + i * ROW_BYTES, *right = panel + j * WORD;
            float *to = c + i * c_stride + j;
            const float *start = add ? to : bias ? bias + j : NULL;
            if (height % TILE == 0 && width % TILE == 0)
                sum_any(int8, height > TILE, width > TILE, left, words, right, start, start_stride, to, c_stride);
            else
                sum_edge(int8, left, height, words, right, to, c_stride, width, start, start_stride);
        }
}

static void product_bf16_tiles(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride,
                               size_t n, const float *bias, bool add) {
    multiply_by_tiles(false, a, rows, k / 2, panel, c, c_stride, n, bias, add);
}

static void product_int8_tiles(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride,
                               size_t n, const float *bias, bool add) {
    multiply_by_tiles(true, a, rows, k / 4, panel, c, c_stride, n, bias, add);
}

static void fill_tile_products(kn_kernels *k) {
    k->product_bf16 = product_bf16_tiles;
    k->product_int8 = product_int8_tiles;
    k->leave = close_tiles;
}

#endif
