#include "models/feed_forward.h"

/* Large products take about as many rows at a time, so that weights are decoded no more often than without blocks. */
enum { MOST_ROWS = 1280 };

/* x: [n, width] -> [n, mlp] */
static kn_tensor widen(kn_run *r, kn_tensor x, const kn_weight *gate, const kn_weight *up) {
    if (gate)
        return kn_swiglu(r, kn_linear(r, x, gate), kn_linear(r, x, up));
    kn_tensor h = kn_linear(r, x, up);
    kn_gelu_tanh(r, h);
    return h;
}

void kn_feed_forward(kn_run *r, kn_tensor x, const kn_weight *gate, const kn_weight *up, const kn_weight *down) {
    int64_t n = kn_row_count(x), blocks = (n + MOST_ROWS - 1) / MOST_ROWS;
    for (int64_t i = 0; i < blocks; i++) { /* of the same size, as a few rows are multiplied in another way */
        int64_t from = n * i / blocks, to = n * (i + 1) / blocks;
        kn_scope s = kn_scope_open(r);
        kn_tensor rows = kn_rows(r, x, from, to - from);
        kn_copy(r, rows, kn_linear(r, widen(r, rows, gate, up), down));
        kn_scope_close(r, s, KN_NONE);
    }
}
