/* Kernels of convolution by tiles: how a picture, the weights and the result come into the form in which they are
 * multiplied, and back. `size` is the side of a tile, 4 or 3, and a constant wherever it is used. Included after
 * simd_rows.h. */
#ifndef KN_COMPUTE_CPU_SIMD_TILES_H
#define KN_COMPUTE_CPU_SIMD_TILES_H

static void stage(const float *x, size_t stride, size_t pixels, size_t n, const float *by, const float *scale,
                  const float *shift, bool with_silu, float *out) {
    for (size_t p = 0; p < pixels; p++, x += stride, out += KN_TILE_CHANNELS)
        for (size_t i = 0; i < KN_TILE_CHANNELS; i += LANES) {
            vec v = v_zero();
            if (i < n) {
                v = v_take(x + i, n - i);
                if (scale)
                    v = v_mul(by ? v_mul(v, v_set(by[p])) : v, v_take(scale + i, n - i));
                if (shift)
                    v = v_add(v, v_take(shift + i, n - i));
                if (with_silu)
                    v = v_silu(v);
            }
            v_store(out + i, v);
        }
}

static void unit_factors(const float *x, size_t pixels, size_t n, float *out) {
    for (size_t p = 0; p < pixels; p++)
        out[p] = sqrtf((float)n) / fmaxf(sqrtf(sum_of_squares(x + p * n, n, 0)), 1e-12f);
}

/* The transforms of one direction. */
static KN_ALWAYS_INLINE void transform_input(size_t size, const vec x[4], vec v[4]) {
    v[0] = size == 4 ? v_sub(x[0], x[2]) : v_sub(x[0], x[1]);
    v[1] = size == 4 ? v_add(x[1], x[2]) : x[1];
    v[2] = size == 4 ? v_sub(x[2], x[1]) : v_sub(x[1], x[2]);
    if (size == 4)
        v[3] = v_sub(x[1], x[3]);
}

static KN_ALWAYS_INLINE void transform_weight(size_t size, const vec w[3], vec u[4]) {
    vec even = v_add(w[0], w[2]);
    u[0] = w[0];
    u[1] = size == 4 ? v_mul(v_add(even, w[1]), v_set(0.5f)) : v_add(even, w[1]);
    u[2] = size == 4 ? v_mul(v_sub(even, w[1]), v_set(0.5f)) : w[2];
    if (size == 4)
        u[3] = w[2];
}

static KN_ALWAYS_INLINE void transform_output(size_t size, const vec m[4], vec y[2]) {
    y[0] = size == 4 ? v_add(v_add(m[0], m[1]), m[2]) : v_add(m[0], m[1]);
    y[1] = size == 4 ? v_sub(v_sub(m[1], m[2]), m[3]) : v_sub(m[1], m[2]);
}

/* One column of a tile, transformed. */
static KN_ALWAYS_INLINE void take_column(size_t size, const float *x, size_t row, vec v[4]) {
    vec in[4];
    KN_UNROLL
    for (size_t i = 0; i < size; i++)
        in[i] = v_load(x + i * row);
    transform_input(size, in, v);
}

/* Neighbours share two columns, which are transformed once. */
static KN_ALWAYS_INLINE void tile_input(size_t size, const float *x, size_t row, size_t tiles, float *v, size_t plane) {
    for (size_t l = 0; l < KN_TILE_CHANNELS; l += LANES) {
        const float *from = x + l;
        vec column[4][4]; /* [column][row] */
        take_column(size, from, row, column[0]);
        take_column(size, from + KN_TILE_CHANNELS, row, column[1]);
        for (size_t t = 0; t < tiles; t++, from += (size - 2) * KN_TILE_CHANNELS) {
            KN_UNROLL
            for (size_t j = 2; j < size; j++)
                take_column(size, from + j * KN_TILE_CHANNELS, row, column[j]);
            KN_UNROLL
            for (size_t i = 0; i < size; i++) {
                vec in[4], out[4];
                for (size_t j = 0; j < size; j++)
                    in[j] = column[j][i];
                transform_input(size, in, out);
                KN_UNROLL
                for (size_t j = 0; j < size; j++)
                    v_store(v + (size * i + j) * plane + t * KN_STRIDE + l, out[j]);
                column[0][i] = column[size - 2][i];
                column[1][i] = column[size - 1][i];
            }
        }
    }
}

static void tile_input_plain(const float *x, size_t row, size_t tiles, float *v, size_t plane) {
    tile_input(4, x, row, tiles, v, plane);
}

static void tile_input_doubled(const float *x, size_t row, size_t tiles, float *v, size_t plane) {
    tile_input(3, x, row, tiles, v, plane);
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
