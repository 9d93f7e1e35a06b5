/* Convolution by tiles: staging, and the transforms of weights, input and output. */
#include <math.h>
#include <string.h>

#include "check.h"

enum { TILES = 5, ROOM = KN_MAX_PLANES * (TILES * KN_STRIDE + 16) };

/* What a kernel writes all over, twice. */
static struct { float want[ROOM], got[ROOM]; } room;
static float image[4 * (2 * TILES + 2) * KN_TILE_CHANNELS + 64], products[ROOM];

static void fill(float *x, size_t n, float size) {
    for (size_t i = 0; i < n; i++)
        x[i] = size * random_float();
}

static void fill_room(void) {
    fill(room.want, ROOM, 1);
    memcpy(room.got, room.want, sizeof room.got);
}

/* All of both: what a kernel must not touch has to be alike, too. */
static void compare_room(size_t n, double allowed) {
    for (size_t i = 0; i < ROOM; i++)
        compare(n, i, room.want[i], room.got[i], allowed);
}

void check_stage(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 3 * ROUNDS; round++) {
        size_t n = random_below(KN_TILE_CHANNELS + 1), stride = n + random_below(9), pixels = random_below(20);
        const float *x = random_input(input_a, 3), *by = round % 3 ? random_input(input_b, 2) : NULL;
        const float *scale = round % 5 ? random_input(input_c, 2) : NULL;
        const float *shift = round % 2 ? input_c + 40 + random_below(4) : NULL;
        fill_pair(&out, 1);
        ref->stage(x, stride, pixels, n, by, scale, shift, round % 4 == 0, want_of(&out));
        tier->stage(x, stride, pixels, n, by, scale, shift, round % 4 == 0, got_of(&out));
        compare_pair(&out, pixels * KN_TILE_CHANNELS, 1e-6, 2);
        fill_pair(&out, 1);
        ref->stage_bf16(x, stride, pixels, n, by, scale, shift, round % 4 == 0, want_of(&out));
        tier->stage_bf16(x, stride, pixels, n, by, scale, shift, round % 4 == 0, got_of(&out));
        compare_pair(&out, pixels * KN_TILE_CHANNELS, 0x1p-10, 1e-3);
    }
}

void check_unit_factors(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_below(150) + 1, pixels = random_below(MOST / n + 1);
        const float *x = random_input(input_a, round % 7 ? 3 : 0);
        fill_pair(&out, 1);
        ref->unit_factors(x, pixels, n, want_of(&out));
        tier->unit_factors(x, pixels, n, got_of(&out));
        compare_pair(&out, pixels, 1e-6, 0);
    }
}

void check_tile_weight(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        kn_tiling tiling = (kn_tiling)(round % KN_TILINGS);
        size_t n = random_size(150), tap = n + random_below(5), plane = n + random_below(5);
        const float *w = random_input(input_a, 1);
        fill_room();
        ref->tile_weight[tiling](w, tap, n, room.want, plane);
        tier->tile_weight[tiling](w, tap, n, room.got, plane);
        compare_room(n, 2e-6);
    }
}

void check_tile_input(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        kn_tiling tiling = (kn_tiling)(round % KN_TILINGS);
        size_t tiles = random_below(TILES + 1), plane = tiles * KN_STRIDE + random_below(16);
        size_t row = (2 * tiles + 2) * KN_TILE_CHANNELS + random_below(9);
        fill(image, KN_COUNT(image), 2);
        fill_room();
        ref->tile_input[tiling](image, row, tiles, room.want, plane);
        tier->tile_input[tiling](image, row, tiles, room.got, plane);
        compare_room(tiles, 2e-6);
    }
}

/* The sums differ in their last bits, so that the rounded ones may be neighbours. */
void check_tile_input_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        kn_tiling tiling = (kn_tiling)(round % KN_TILINGS);
        size_t tiles = random_below(TILES + 1), plane = tiles * KN_STRIDE + random_below(16);
        size_t row = (2 * tiles + 2) * KN_TILE_CHANNELS + random_below(9);
        fill(image, KN_COUNT(image), 2);
        fill_room();
        ref->tile_input_bf16[tiling](image, row, tiles, room.want, plane);
        tier->tile_input_bf16[tiling](image, row, tiles, room.got, plane);
        for (size_t i = 0; i < ROOM; i++)
            for (size_t half = 0; half < 2; half++) {
                uint16_t code[2];
                memcpy(&code[0], (const char *)(room.want + i) + 2 * half, sizeof code[0]);
                memcpy(&code[1], (const char *)(room.got + i) + 2 * half, sizeof code[1]);
                double want = kn_float_from_bf16(code[0]), got = kn_float_from_bf16(code[1]);
                compare(tiles, i, want, got, 0x1p-7 * fabs(want) + 2e-6);
            }
    }
}

void check_tile_output(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 3 * ROUNDS; round++) {
        kn_tiling tiling = (kn_tiling)(round % KN_TILINGS);
        size_t rows = random_below(2) + 1, columns = random_below(2 * TILES + 1);
        size_t n = random_below(KN_MAX_COLUMNS + 1), pixel = n + random_below(9);
        size_t row = columns * pixel + random_below(9), plane = TILES * KN_MAX_COLUMNS + random_below(16);
        const float *bias = round % 3 ? random_input(input_a, 1) : NULL;
        fill(products, ROOM, 1);
        fill_room();
        ref->tile_output[tiling](products, plane, n, bias, round % 4 == 0, room.want, row, pixel, rows, columns);
        tier->tile_output[tiling](products, plane, n, bias, round % 4 == 0, room.got, row, pixel, rows, columns);
        compare_room(n, 4e-6);
    }
}
