/* The transforms of convolution by tiles, and what its kernels for narrower products share with the others. `size` is
 * the side of a tile, 4 or 3, and a constant wherever it is used. Included after simd_product.h. */
#ifndef KN_COMPUTE_CPU_SIMD_TRANSFORMS_H
#define KN_COMPUTE_CPU_SIMD_TRANSFORMS_H

typedef vec map_fn(vec x);

/* by, scale, shift and with_silu are known to be there or not wherever this is used. */
static KN_ALWAYS_INLINE void stage_as(map_fn *silu_of, const float *x, size_t stride, size_t pixels, size_t n,
                                      const float *by, const float *scale, const float *shift, bool with_silu,
                                      float *out) {
    for (size_t p = 0; p < pixels; p++, x += stride, out += KN_TILE_CHANNELS) {
        for (size_t i = KN_TILE_CHANNELS; i < 2 * KN_TILE_CHANNELS; i += 16)
            __builtin_prefetch(x + i, 0, 2); /* this pixel's next channels, when all pixels have had these */
        for (size_t i = 0; i < KN_TILE_CHANNELS; i += LANES) {
            vec v = v_zero();
            if (i < n) {
                v = v_take(x + i, n - i);
                if (by)
                    v = v_mul(v, v_set(by[p]));
                if (scale)
                    v = v_mul(v, v_take(scale + i, n - i));
                if (shift)
                    v = v_add(v, v_take(shift + i, n - i));
                if (with_silu)
                    v = silu_of(v);
            }
            v_store(out + i, v);
        }
    }
}

static KN_ALWAYS_INLINE void stage_pixels(map_fn *silu_of, const float *x, size_t stride, size_t pixels, size_t n,
                                          const float *by, const float *scale, const float *shift, bool with_silu,
                                          float *out) {
    if (n == KN_TILE_CHANNELS && !by && scale && shift && with_silu)
        stage_as(silu_of, x, stride, pixels, KN_TILE_CHANNELS, NULL, scale, shift, true, out);
    else if (n == KN_TILE_CHANNELS && by && scale && !shift && with_silu)
        stage_as(silu_of, x, stride, pixels, KN_TILE_CHANNELS, by, scale, NULL, true, out);
    else
        stage_as(silu_of, x, stride, pixels, n, by, scale, shift, with_silu, out);
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

typedef void put_fn(void *to, vec x);

/* Neighbours share two columns, which are transformed once. put stores a vector as elements of so many bytes. */
static KN_ALWAYS_INLINE void tile_input(size_t size, const float *x, size_t row, size_t tiles, void *v, size_t plane,
                                        size_t bytes, put_fn *put) {
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
                    put((uint8_t *)v + ((size * i + j) * plane + t * KN_STRIDE) * WORD + l * bytes, out[j]);
                column[0][i] = column[size - 2][i];
                column[1][i] = column[size - 1][i];
            }
        }
    }
}

#endif
