/* The tile of sums that stays in registers: the innermost loop of every matrix product. Included after simd_math.h.
 *
 * It sees words of 32 bits, in the rows and in the panel: one float32, or as many narrower elements as fill a word and
 * are multiplied and added up at once. */
#ifndef KN_COMPUTE_CPU_SIMD_PRODUCT_H
#define KN_COMPUTE_CPU_SIMD_PRODUCT_H

enum { COLUMNS = TILE_VECTORS * LANES, WORD = 4, ROW_BYTES = KN_STRIDE * WORD, LINE = 16 /* words */ };

typedef vec multiply_add_fn(vec a, vec b, vec sum);
typedef vec plus_fn(vec a, vec b);

/* Sums of the columns of c [n] from `at` on, with what they are added to. */
static KN_ALWAYS_INLINE void put_sums(plus_fn *plus, vec sum, float *c, size_t at, size_t n, const float *bias,
                                      bool add) {
    if (add)
        sum = plus(sum, v_take(c + at, n - at));
    else if (bias)
        sum = plus(sum, v_take(bias + at, n - at));
    v_put(c + at, sum, n - at);
}

/* One word further. Made in this order, nothing but the sums has to be kept for long. */
static KN_ALWAYS_INLINE void tile_step(size_t rows, size_t vectors, multiply_add_fn *multiply_add, const uint8_t *a,
                                       const uint8_t *panel, vec sum[TILE_ROWS][TILE_VECTORS]) {
    vec b[TILE_VECTORS];
    KN_UNROLL
    for (size_t v = 0; v < vectors; v++)
        b[v] = TILE_ORDERED(v_load(panel + v * LANES * WORD));
    KN_UNROLL
    for (size_t i = 0; i < rows; i++) {
        vec x = TILE_ORDERED(v_spread(a + i * ROW_BYTES));
        KN_UNROLL
        for (size_t v = 0; v < vectors; v++)
            sum[i][v] = TILE_ORDERED(multiply_add(x, b[v], sum[i][v]));
    }
}

/* `rows` and `vectors` are constants wherever this is used, so that the sums are registers. */
static KN_ALWAYS_INLINE void tile(size_t rows, size_t vectors, multiply_add_fn *multiply_add, plus_fn *plus,
                                  const uint8_t *a, size_t k, const uint8_t *panel, float *c, size_t c_stride, size_t n,
                                  const float *bias, bool add) {
    vec sum[TILE_ROWS][TILE_VECTORS];
    KN_UNROLL
    for (size_t i = 0; i < rows; i++) {
        KN_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            __builtin_prefetch(c + i * c_stride + v * LANES, 1); /* it is there when the sums are */
            sum[i][v] = v_zero();
        }
    }
    bool whole_lines = TILE_UNROLLED && rows == TILE_ROWS && vectors == TILE_VECTORS;
    for (const uint8_t *end = a + k * WORD; a < end;) {
        KN_UNROLL
        for (size_t i = 0; i < rows; i++)
            __builtin_prefetch(a + (TILE_ROWS + i) * ROW_BYTES); /* the next rows, which may be far away */
        size_t line = KN_MIN(LINE * WORD, (size_t)(end - a));
        if (whole_lines && line == LINE * WORD) { /* counting and jumping would take a tenth of the instructions */
            KN_UNROLL
            for (size_t p = 0; p < LINE * WORD; p += WORD)
                tile_step(rows, vectors, multiply_add, a + p, panel + p * COLUMNS, sum);
        } else {
            for (size_t p = 0; p < line; p += WORD)
                tile_step(rows, vectors, multiply_add, a + p, panel + p * COLUMNS, sum);
        }
        a += line;
        panel += line * COLUMNS;
    }
    KN_UNROLL
    for (size_t i = 0; i < rows; i++) {
        KN_UNROLL
        for (size_t v = 0; v < vectors; v++)
            put_sums(plus, sum[i][v], c + i * c_stride, v * LANES, n, bias, add);
    }
}

static KN_ALWAYS_INLINE void tile_of(size_t rows, multiply_add_fn *multiply_add, plus_fn *plus, const uint8_t *a,
                                     size_t k, const uint8_t *panel, float *c, size_t c_stride, size_t n,
                                     const float *bias, bool add) {
    switch ((n + LANES - 1) / LANES) {
#define WIDTH(count)                                                                                                   \
    case count:                                                                                                        \
        if (count <= TILE_VECTORS)                                                                                     \
            tile(rows, KN_MIN(count, TILE_VECTORS), multiply_add, plus, a, k, panel, c, c_stride, n, bias, add);       \
        break;
        WIDTH(1)
        WIDTH(2)
        WIDTH(3)
        WIDTH(4)
#undef WIDTH
    default: break;
    }
}

static KN_ALWAYS_INLINE void multiply_rows(multiply_add_fn *multiply_add, plus_fn *plus, const void *left, size_t rows,
                                           size_t k, const void *panel, float *c, size_t c_stride, size_t n,
                                           const float *bias, bool add) {
    const uint8_t *a = left;
    for (; rows >= TILE_ROWS; rows -= TILE_ROWS) {
        tile_of(TILE_ROWS, multiply_add, plus, a, k, panel, c, c_stride, n, bias, add);
        a += TILE_ROWS * ROW_BYTES;
        c += TILE_ROWS * c_stride;
    }
    switch (rows) {
#define REST(count)                                                                                                    \
    case count:                                                                                                        \
        if (count < TILE_ROWS)                                                                                         \
            tile_of(KN_MIN(count, TILE_ROWS), multiply_add, plus, a, k, panel, c, c_stride, n, bias, add);             \
        break;
        REST(1)
        REST(2)
        REST(3)
        REST(4)
        REST(5)
#undef REST
    default: break;
    }
}

#endif
