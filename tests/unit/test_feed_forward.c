/* The feed-forward layers that all transformers share: in blocks of rows, what they are as a whole. */
#include "models/feed_forward.h"

#include "ops_test.h"

enum { WIDTH = 12, MLP = 40 };

/* All of one network's layer. */
struct layer {
    float *values;
    kn_weight gate, up, down;
};

static struct layer make_layer(void) {
    struct layer l = { .values = random_values(3 * MLP * WIDTH) };
    l.gate =
        (kn_weight){ .data = l.values, .dtype = KN_F32, .rank = 2, .dim = { MLP, WIDTH }, .scale = 1, .name = "gate" };
    l.up = l.gate;
    l.up.data = l.values + MLP * WIDTH;
    l.down = l.gate;
    l.down.data = l.values + 2 * MLP * WIDTH;
    l.down.dim[0] = WIDTH;
    l.down.dim[1] = MLP;
    return l;
}

/* As papers write it, all rows at once. */
static kn_tensor whole(kn_run *r, const struct layer *l, bool gated, kn_tensor x) {
    kn_tensor h = kn_linear(r, x, &l->up);
    if (gated)
        h = kn_swiglu(r, kn_linear(r, x, &l->gate), h);
    else
        kn_gelu_tanh(r, h);
    return kn_linear(r, h, &l->down);
}

static void blocks_of_rows_change_no_bit(void **state) {
    (void)state;
    static const int64_t rows[] = { 0, 1, 1281, 2561 };
    static const kn_precision precisions[] = { KN_EXACT, KN_FAST };
    struct layer l = make_layer();
    for (size_t i = 0; i < KN_COUNT(rows) * KN_COUNT(precisions) * 2; i++) {
        int64_t n = rows[i % KN_COUNT(rows)];
        bool gated = i / KN_COUNT(rows) % 2;
        float *values = random_values(n * WIDTH);
        kn_run r = begin(2);
        r.precision = precisions[i / KN_COUNT(rows) / 2];
        kn_tensor x = kn_upload(&r, DIMS(n, WIDTH), values);
        float *want = values_of(&r, whole(&r, &l, gated, x));
        kn_feed_forward(&r, x, gated ? &l.gate : NULL, &l.up, &l.down);
        float *got = values_of(&r, x);
        assert_memory_equal(got, want, (size_t)(n * WIDTH) * sizeof *got);
        free(got);
        free(want);
        free(values);
        end(&r);
    }
    free(l.values);
}

/* Scratch memory that n rows take. */
static uint64_t memory_of(const struct layer *l, int64_t n) {
    kn_run r = { 0 };
    kn_error err = { 0 };
    kn_device *d = NULL;
    if (!kn_device_open_cpu(1, &d, &err) || !kn_run_open_shapes(d, KN_EXACT, NULL, &r, &err))
        fail_msg("%s", err.text);
    kn_tensor x = kn_new(&r, DIMS(n, WIDTH));
    kn_feed_forward(&r, x, &l->gate, &l->up, &l->down);
    assert_int_equal(r.err.code, KN_OK);
    uint64_t bytes = kn_run_peak_bytes(&r) - (uint64_t)(n * WIDTH) * sizeof(float);
    end(&r);
    return bytes;
}

static void more_rows_take_no_more_memory_than_a_block(void **state) {
    (void)state;
    struct layer l = make_layer();
    uint64_t block = memory_of(&l, 1280);
    assert_true(block > 1280 * (2 * MLP) * sizeof(float));
    assert_true(memory_of(&l, 100 * 1280) <= block);
    free(l.values);
}

static void a_layer_that_does_not_fit_is_refused(void **state) {
    (void)state;
    struct layer l = make_layer();
    kn_run r = begin(1);
    kn_feed_forward(&r, kn_new(&r, DIMS(3, WIDTH + 1)), &l.gate, &l.up, &l.down);
    assert_failed(&r, KN_E_FORMAT, "'gate': [40, 12] does not fit an input of [3, 13]");
    end(&r);
    free(l.values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_rows_change_no_bit),
        cmocka_unit_test(more_rows_take_no_more_memory_than_a_block),
        cmocka_unit_test(a_layer_that_does_not_fit_is_refused),
    };
    return run_on_every_tier(tests, KN_COUNT(tests));
}
