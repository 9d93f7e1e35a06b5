/* The intrinsics of AMX tiles in plain C, as their definition reads, so that kernels written in them can be checked on
 * machines without them: include this after <immintrin.h> (if at all) and before the kernels. What such a processor
 * answers by an exception ends the program. */
#ifndef KN_TESTS_TILE_EMULATION_H
#define KN_TESTS_TILE_EMULATION_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "tensor/dtype.h"

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#define _tile_loadconfig emulated_loadconfig
#define _tile_release    emulated_release
#define _tile_loadd      emulated_loadd
#define _tile_stored     emulated_stored
#define _tile_zero       emulated_zero
#define _tile_dpbf16ps   emulated_dpbf16ps
#define _tile_dpbusd     emulated_dpbusd

enum { EMULATED_TILES = 8, EMULATED_ROWS = 16, EMULATED_BYTES = 64 };

static _Thread_local struct {
    uint8_t rows, bytes; /* 0: not configured */
    uint8_t data[EMULATED_ROWS][EMULATED_BYTES];
} emulated[EMULATED_TILES];

static void emulated_loadconfig(const void *config) {
    const uint8_t *c = config;
    assert((uintptr_t)config % 64 == 0 && c[0] == 1 && c[1] == 0);
    memset(emulated, 0, sizeof emulated);
    for (int t = 0; t < EMULATED_TILES; t++) {
        emulated[t].bytes = c[16 + 2 * t];
        emulated[t].rows = c[48 + t];
        assert(emulated[t].bytes <= EMULATED_BYTES && c[17 + 2 * t] == 0 && emulated[t].rows <= EMULATED_ROWS);
    }
}

static void emulated_release(void) {
    memset(emulated, 0, sizeof emulated);
}

static void emulated_zero(int tile) {
    assert(emulated[tile].rows);
    memset(emulated[tile].data, 0, sizeof emulated[tile].data);
}

static void emulated_loadd(int tile, const void *base, size_t stride) {
    assert(emulated[tile].rows);
    memset(emulated[tile].data, 0, sizeof emulated[tile].data);
    for (int i = 0; i < emulated[tile].rows; i++)
        memcpy(emulated[tile].data[i], (const char *)base + (size_t)i * stride, emulated[tile].bytes);
}

static void emulated_stored(int tile, void *base, size_t stride) {
    assert(emulated[tile].rows);
    for (int i = 0; i < emulated[tile].rows; i++)
        memcpy((char *)base + (size_t)i * stride, emulated[tile].data[i], emulated[tile].bytes);
}

static void emulated_shapes_fit(int sum, int a, int b) {
    assert(sum != a && sum != b && a != b && emulated[sum].rows == emulated[a].rows);
    assert(emulated[sum].bytes == emulated[b].bytes && emulated[a].bytes == 4 * emulated[b].rows);
}

static float emulated_bf16(const uint8_t *p) {
    uint16_t code;
    memcpy(&code, p, sizeof code);
    return code & 0x7F80 ? kn_float_from_bf16(code) : 0; /* subnormals are zero */
}

static void emulated_dpbf16ps(int sum, int a, int b) {
    emulated_shapes_fit(sum, a, b);
    for (size_t m = 0; m < emulated[sum].rows; m++)
        for (size_t n = 0; n < emulated[sum].bytes / sizeof(float); n++) {
            float s;
            memcpy(&s, emulated[sum].data[m] + n * sizeof s, sizeof s);
            for (size_t k = 0; k < emulated[b].rows; k++)
                for (size_t i = 0; i < 2; i++)
                    s += emulated_bf16(emulated[a].data[m] + 4 * k + 2 * i) *
                         emulated_bf16(emulated[b].data[k] + 4 * n + 2 * i);
            memcpy(emulated[sum].data[m] + n * sizeof s, &s, sizeof s);
        }
}

static void emulated_dpbusd(int sum, int a, int b) {
    emulated_shapes_fit(sum, a, b);
    for (size_t m = 0; m < emulated[sum].rows; m++)
        for (size_t n = 0; n < emulated[sum].bytes / sizeof(int32_t); n++) {
            int32_t s;
            memcpy(&s, emulated[sum].data[m] + n * sizeof s, sizeof s);
            for (size_t k = 0; k < emulated[b].rows; k++)
                for (size_t i = 0; i < 4; i++)
                    s += emulated[a].data[m][4 * k + i] * (int8_t)emulated[b].data[k][4 * n + i];
            memcpy(emulated[sum].data[m] + n * sizeof s, &s, sizeof s);
        }
}

#endif
