/* Kernels of convolution by tiles: how a picture, the weights and the result come into the form in which they are
 * multiplied, and back. Included after simd_rows.h and simd_transforms.h. */
#ifndef KN_COMPUTE_CPU_SIMD_TILES_H
#define KN_COMPUTE_CPU_SIMD_TILES_H

static void stage(const float *x, size_t stride, size_t pixels, size_t n, const float *by, const float *scale,
                  const float *shift, bool with_silu, float *out) {
    stage_pixels(v_silu, x, stride, pixels, n, by, scale, shift, with_silu, out);
}

static void unit_factors(const float *x, size_t pixels, size_t n, float *out) {
    for (size_t p = 0; p < pixels; p++)
        out[p] = sqrtf((float)n) / fmaxf(sqrtf(sum_of_squares(x + p * n, n, 0)), 1e-12f);
}

static inline void put_floats(void *to, vec x) {
    v_store(to, x);
}

static void tile_input_plain(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(4, x, row, tiles, v, plane, sizeof(float), put_floats);
}

static void tile_input_doubled(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(3, x, row, tiles, v, plane, sizeof(float), put_floats);
}

static KN_ALWAYS_INLINE void tile_weight(size_t size, const float *w, size_t tap, size_t n, float *u, size_t plane) {
    for (size_t l = 0; l < n; l += LANES) {
        vec half[3][4]; /* [column][row] */
        for (size_t x = 0; x < 3; x++) {
            vec in[3];
            for (size_t y = 0; y < 3; y++)
                in[y] = v_take(w + (3 * y + x) * tap + l, n - l);
            transform_weight(size, in, half[x]);
        }
        for (size_t i = 0; i < size; i++) {
            vec in[3] = { half[0][i], half[1][i], half[2][i] }, out[4];
            transform_weight(size, in, out);
            for (size_t j = 0; j < size; j++)
                v_put(u + (size * i + j) * plane + l, out[j], n - l);
        }
    }
}

static void tile_weight_plain(const float *w, size_t tap, size_t n, float *u, size_t plane) {
    tile_weight(4, w, tap, n, u, plane);
}

static void tile_weight_doubled(const float *w, size_t tap, size_t n, float *u, size_t plane) {
    tile_weight(3, w, tap, n, u, plane);
}

static KN_ALWAYS_INLINE void put_pixel(vec y, bool add, float *to, size_t n) {
    v_put(to, add ? v_add(y, v_take(to, n)) : y, n);
}

static KN_ALWAYS_INLINE void tile_output(size_t size, const float *m, size_t plane, size_t n, const float *bias,
                                         bool add, float *y, size_t row, size_t pixel, size_t rows, size_t columns) {
    for (size_t l = 0; l < n; l += LANES) {
        vec plus = bias ? v_take(bias + l, n - l) : v_zero();
        for (size_t t = 0; 2 * t < columns; t++) {
            const float *from = m + t * KN_MAX_COLUMNS + l;
            vec half[4][2]; /* [column][row] */
            KN_UNROLL
            for (size_t j = 0; j < size; j++) {
                vec in[4];
                KN_UNROLL
                for (size_t i = 0; i < size; i++)
                    in[i] = v_load(from + (size * i + j) * plane);
                transform_output(size, in, half[j]);
            }
            KN_UNROLL
            for (size_t r = 0; r < 2; r++) {
                vec in[4], out[2];
                KN_UNROLL
                for (size_t j = 0; j < size; j++)
                    in[j] = half[j][r];
                transform_output(size, in, out);
                float *to = y + r * row + 2 * t * pixel + l;
                if (r < rows)
                    put_pixel(v_add(out[0], plus), add, to, n - l);
                if (r < rows && 2 * t + 1 < columns)
                    put_pixel(v_add(out[1], plus), add, to + pixel, n - l);
            }
        }
    }
}

static void tile_output_plain(const float *m, size_t plane, size_t n, const float *bias, bool add, float *y, size_t row,
                              size_t pixel, size_t rows, size_t columns) {
    tile_output(4, m, plane, n, bias, add, y, row, pixel, rows, columns);
}

static void tile_output_doubled(const float *m, size_t plane, size_t n, const float *bias, bool add, float *y,
                                size_t row, size_t pixel, size_t rows, size_t columns) {
    tile_output(3, m, plane, n, bias, add, y, row, pixel, rows, columns);
}

#endif
