/* Convolutions of pictures, and what is done on their way in and out. Sizes are such that all ways of computing them
 * are taken; what is expected is summed in double. */
#include "ops_test.h"

/* A picture [h, w, c] and the filters [out, 3, 3, c] that it is convolved by. */
struct sizes {
    int64_t h, w, in, out;
};

static const struct sizes sizes[] = {
    { 12, 11, 16, 16 },                    /* as small as is convolved by tiles */
    { 11, 18, 40, 70 },                    /* a panel that is not full; odd rows */
    { 11, 12, 270, 17 },                   /* two passes over the channels */
    { 12, 11, 530, 16 },                   /* the same for bfloat16 */
    { 26, 33, 20, 24 },                    /* several blocks in both directions */
    { 9, 30, 21, 3 },                      /* few outputs */
    { 11, 9, 300, 4 },   { 4, 5, 24, 20 }, /* too small for tiles */
};

struct filters {
    kn_weight w;
    float *values, *bias;
};

static struct filters random_filters(const struct sizes *s) {
    struct filters f = { .values = random_values(s->out * 9 * s->in), .bias = random_values(s->out) };
    f.w = (kn_weight){ .data = f.values,
                       .dtype = KN_F32,
                       .rank = 4,
                       .dim = { s->out, 3, 3, s->in },
                       .scale = 0.7f,
                       .bias = f.bias,
                       .name = "filters" };
    return f;
}

static void free_filters(struct filters *f) {
    free(f->values);
    free(f->bias);
}

/* Padded by one; values [h, w, in] in double, to be freed. */
static double *convolve(const double *x, int64_t h, int64_t w, const struct filters *f) {
    int64_t out = f->w.dim[0], in = f->w.dim[3];
    double *y = calloc((size_t)(h * w * out), sizeof *y);
    assert_non_null(y);
    for (int64_t i = 0; i < h * w * out; i++) {
        int64_t o = i % out, px = i / out % w, py = i / out / w;
        y[i] = f->bias[o];
        for (int64_t t = 0; t < 9; t++) {
            int64_t qy = py + t / 3 - 1, qx = px + t % 3 - 1;
            for (int64_t c = 0; qy >= 0 && qy < h && qx >= 0 && qx < w && c < in; c++)
                y[i] += x[(qy * w + qx) * in + c] * (double)f->values[(o * 9 + t) * in + c] * (double)f->w.scale;
        }
    }
    return y;
}

/* What the two precisions may differ by from sums in double. */
static double allowed(const kn_run *r) {
    return r->precision == KN_EXACT ? 2e-6 : 1e-2;
}

static kn_run begin_as(kn_precision precision, unsigned threads) {
    kn_run r = begin(threads);
    r.precision = precision;
    return r;
}

static double *widen(const float *x, int64_t n) {
    double *y = malloc((size_t)n * sizeof *y);
    assert_non_null(y);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
    return y;
}

static double silu_of(double x) {
    return x / (1 + exp(-x));
}

typedef void check_fn(kn_run *r, const struct sizes *s, const float *x, struct filters *f);

static void check_all_sizes(check_fn *check) {
    for (int precision = KN_FAST; precision <= KN_EXACT; precision++)
        for (size_t i = 0; i < KN_COUNT(sizes); i++) {
            kn_run r = begin_as((kn_precision)precision, 2);
            const struct sizes *s = &sizes[i];
            float *x = random_values(s->h * s->w * s->in);
            struct filters f = random_filters(s);
            check(&r, s, x, &f);
            if (r.err.code)
                fail_msg("%s", r.err.text);
            free_filters(&f);
            free(x);
            end(&r);
        }
}

static void check_plain(kn_run *r, const struct sizes *s, const float *x, struct filters *f) {
    double *wide = widen(x, s->h * s->w * s->in), *want = convolve(wide, s->h, s->w, f);
    kn_tensor y = kn_conv2d(r, kn_upload(r, DIMS(s->h, s->w, s->in), x), &f->w, 1, (kn_pad){ 1, 1, 1, 1 });
    assert_true(relative_l2(r, y, want) < allowed(r));
    free(want);
    free(wide);
}

static void convolution_by_three_is_the_sum_over_its_window(void **state) {
    (void)state;
    check_all_sizes(check_plain);
}

static void check_doubled(kn_run *r, const struct sizes *s, const float *x, struct filters *f) {
    int64_t n = 4 * s->h * s->w * s->in;
    double *large = malloc((size_t)n * sizeof *large);
    assert_non_null(large);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % s->in, px = i / s->in % (2 * s->w), py = i / s->in / (2 * s->w);
        large[i] = x[(py / 2 * s->w + px / 2) * s->in + c];
    }
    double *want = convolve(large, 2 * s->h, 2 * s->w, f);
    kn_tensor t = kn_upload(r, DIMS(s->h, s->w, s->in), x), y = kn_upsample2x_conv(r, t, &f->w, KN_NONE);
    assert_int_equal(y.dim[0], 2 * s->h);
    assert_int_equal(y.dim[1], 2 * s->w);
    assert_true(relative_l2(r, y, want) < allowed(r));
    assert_int_equal(kn_upsample2x_conv(r, t, &f->w, y).at, y.at); /* once more on top */
    for (int64_t i = 0; i < kn_elements(y); i++)
        want[i] *= 2;
    assert_true(relative_l2(r, y, want) < allowed(r));
    free(want);
    free(large);
}

static void upsampled_pictures_are_convolved_as_if_they_were_there(void **state) {
    (void)state;
    check_all_sizes(check_doubled);
}

/* Adds the convolution of the prepared picture to a tensor, and to what is expected. */
static void check_onto(kn_run *r, const struct sizes *s, const double *prepared, struct filters *f,
                       kn_tensor (*op)(kn_run *r, const struct sizes *s, const struct filters *f, kn_tensor onto)) {
    double *want = convolve(prepared, s->h, s->w, f);
    assert_true(relative_l2(r, op(r, s, f, KN_NONE), want) < allowed(r));
    float *before = random_values(s->h * s->w * s->out);
    kn_tensor onto = kn_upload(r, DIMS(s->h, s->w, s->out), before);
    for (int64_t i = 0; i < kn_elements(onto); i++)
        want[i] += before[i];
    assert_int_equal(op(r, s, f, onto).at, onto.at);
    assert_true(relative_l2(r, onto, want) < allowed(r));
    free(before);
    free(want);
}

static const float *picture, *scale, *shift;

static kn_weight vector(const float *values, int64_t n) {
    return (kn_weight){ .data = values, .dtype = KN_F32, .rank = 1, .dim = { n }, .scale = 1, .name = "norm" };
}

/* One group, or as many as there are channels. */
static int groups;

static kn_tensor op_group_norm(kn_run *r, const struct sizes *s, const struct filters *f, kn_tensor onto) {
    kn_weight weight = vector(scale, s->in), bias = vector(shift, s->in);
    kn_tensor x = kn_upload(r, DIMS(s->h, s->w, s->in), picture);
    return kn_group_norm_conv(r, x, &weight, &bias, groups, 1e-3f, &f->w, onto);
}

static kn_tensor op_unit_norm(kn_run *r, const struct sizes *s, const struct filters *f, kn_tensor onto) {
    kn_weight weight = vector(scale, s->in);
    return kn_unit_norm_conv(r, kn_upload(r, DIMS(s->h, s->w, s->in), picture), &weight, &f->w, onto);
}

static void normalise_channels(const struct sizes *s, double *x, int64_t first, int64_t count) {
    double n = (double)(s->h * s->w * count), sum = 0, squares = 0;
    for (int64_t i = 0; i < s->h * s->w; i++)
        for (int64_t c = first; c < first + count; c++)
            sum += x[i * s->in + c];
    for (int64_t i = 0; i < s->h * s->w; i++)
        for (int64_t c = first; c < first + count; c++)
            squares += (x[i * s->in + c] - sum / n) * (x[i * s->in + c] - sum / n);
    for (int64_t i = 0; i < s->h * s->w; i++)
        for (int64_t c = first; c < first + count; c++) {
            double *at = &x[i * s->in + c];
            *at = silu_of((*at - sum / n) / sqrt(squares / n + (double)1e-3f) * scale[c] + shift[c]);
        }
}

static void check_group_norm(kn_run *r, const struct sizes *s, const float *x, struct filters *f) {
    float *vectors = random_values(2 * s->in);
    picture = x;
    scale = vectors;
    shift = vectors + s->in;
    for (groups = 1; groups <= (int)s->in; groups += (int)s->in - 1) {
        double *prepared = widen(x, s->h * s->w * s->in);
        int64_t count = s->in / groups;
        for (int64_t c = 0; c < s->in; c += count)
            normalise_channels(s, prepared, c, count);
        check_onto(r, s, prepared, f, op_group_norm);
        free(prepared);
    }
    free(vectors);
}

static void check_unit_norm(kn_run *r, const struct sizes *s, const float *x, struct filters *f) {
    float *vectors = random_values(s->in);
    picture = x;
    scale = vectors;
    double *prepared = widen(x, s->h * s->w * s->in);
    for (int64_t i = 0; i < s->h * s->w; i++) {
        double squares = 0, *at = prepared + i * s->in;
        for (int64_t c = 0; c < s->in; c++)
            squares += at[c] * at[c];
        for (int64_t c = 0; c < s->in; c++)
            at[c] = silu_of(at[c] * sqrt((double)s->in / squares) * scale[c]);
    }
    check_onto(r, s, prepared, f, op_unit_norm);
    free(prepared);
    free(vectors);
}

static void normalised_pictures_are_convolved_as_if_they_were_there(void **state) {
    (void)state;
    check_all_sizes(check_group_norm);
    check_all_sizes(check_unit_norm);
}

static void a_result_of_another_shape_is_refused(void **state) {
    (void)state;
    kn_run r = begin(1);
    struct filters f = random_filters(&sizes[0]);
    float *x = random_values(12 * 11 * 16);
    kn_weight weight = vector(x, 16);
    kn_tensor picture_there = kn_upload(&r, DIMS(12, 11, 16), x);
    kn_tensor other = kn_upload(&r, DIMS(11, 12, 8), x);
    assert_int_equal(kn_unit_norm_conv(&r, picture_there, &weight, &f.w, other).rank, 0);
    assert_failed(&r, KN_E_USAGE, "'filters'");
    free(x);
    free_filters(&f);
    end(&r);
}

/* Behind the channels that are seen lies room for those that come out, and three more that stay as they are. */
static void check_dense(kn_run *r, const struct sizes *s, const float *x, struct filters *f) {
    int64_t pixels = s->h * s->w, all = s->in + s->out + 3;
    float *before = random_values(pixels * all);
    for (int64_t p = 0; p < pixels; p++)
        memcpy(before + p * all, x + p * s->in, (size_t)s->in * sizeof *x);
    double *wide = widen(x, pixels * s->in), *made = convolve(wide, s->h, s->w, f), *want = widen(before, pixels * all);
    for (int64_t i = 0; i < pixels * s->out; i++)
        want[i / s->out * all + s->in + i % s->out] = made[i] < 0 ? made[i] * 0.2 : made[i];
    kn_tensor t = kn_upload(r, DIMS(s->h, s->w, all), before);
    kn_dense_conv(r, t, &f->w, 0.2f);
    assert_true(relative_l2(r, t, want) < allowed(r));
    float *got = values_of(r, t);
    for (int64_t i = 0; i < pixels * all; i++)
        if (i % all < s->in || i % all >= s->in + s->out)
            assert_true(got[i] == before[i]);
    free(got);
    free(want);
    free(made);
    free(wide);
    free(before);
}

static void dense_blocks_grow_by_what_is_made_of_their_first_channels(void **state) {
    (void)state;
    check_all_sizes(check_dense);
    kn_run r = begin(1);
    struct filters f = random_filters(&sizes[0]);
    float *x = random_values(12 * 11 * 31);
    kn_dense_conv(&r, kn_upload(&r, DIMS(12, 11, 31), x), &f.w, 0.2f); /* 16 to 16 need 32 */
    assert_failed(&r, KN_E_USAGE, "'filters': [12, 11, 31] has no room");
    free(x);
    free_filters(&f);
    end(&r);
}

static void check_depthwise(kn_run *r, int64_t h, int64_t w, int64_t c, int64_t side) {
    float *x = random_values(h * w * c), *filters = random_values(c * side * side), *bias = random_values(c);
    const kn_weight weight = { .data = filters,
                               .dtype = KN_F32,
                               .rank = 4,
                               .dim = { c, side, side, 1 },
                               .scale = 0.5f,
                               .bias = bias,
                               .name = "apart" };
    double *want = calloc((size_t)(h * w * c), sizeof *want);
    assert_non_null(want);
    for (int64_t i = 0; i < h * w * c; i++) {
        int64_t channel = i % c, px = i / c % w, py = i / c / w;
        want[i] = bias[channel];
        for (int64_t t = 0; t < side * side; t++) {
            int64_t qy = py + t / side - side / 2, qx = px + t % side - side / 2;
            if (qy >= 0 && qy < h && qx >= 0 && qx < w)
                want[i] += 0.5 * x[(qy * w + qx) * c + channel] * filters[channel * side * side + t];
        }
    }
    kn_scope s = kn_scope_open(r);
    kn_tensor y = kn_depthwise_conv2d(r, kn_upload(r, DIMS(h, w, c), x), &weight);
    assert_true(relative_l2(r, y, want) < 1e-6);
    kn_scope_close(r, s, (kn_tensor){ 0 });
    free(want);
    free(bias);
    free(filters);
    free(x);
}

static void channels_that_are_kept_apart_are_convolved_each_by_its_filter(void **state) {
    (void)state;
    kn_run r = begin(2);
    check_depthwise(&r, 9, 12, 70, 7);
    check_depthwise(&r, 3, 2, 5, 7); /* the window hangs over on all sides */
    check_depthwise(&r, 8, 5, 64, 3);
    check_depthwise(&r, 1, 1, 1, 1);
    check_depthwise(&r, 4, 4, 2, 17); /* more taps than are decoded at a time */
    float x[16] = { 0 };
    const kn_weight even = { .data = x, .dtype = KN_F32, .rank = 4, .dim = { 1, 2, 2, 1 }, .scale = 1, .name = "even" };
    assert_int_equal(kn_depthwise_conv2d(&r, kn_upload(&r, DIMS(4, 4, 1), x), &even).rank, 0);
    assert_failed(&r, KN_E_FORMAT, "'even': a convolution by [1, 2, 2, 1], channel by channel, does not fit [4, 4, 1]");
    end(&r);
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    (void)state;
    for (int precision = KN_FAST; precision <= KN_EXACT; precision++)
        for (size_t i = 0; i < KN_COUNT(sizes); i++) {
            const struct sizes *s = &sizes[i];
            struct filters f = random_filters(s);
            float *x = random_values(s->h * s->w * s->in), *one = NULL;
            picture = scale = x;
            for (unsigned threads = 1; threads <= 5; threads += 2) {
                kn_run r = begin_as((kn_precision)precision, threads);
                kn_tensor y = op_unit_norm(&r, s, &f, KN_NONE);
                float *many = values_of(&r, y);
                if (one)
                    assert_memory_equal(many, one, (size_t)kn_elements(y) * sizeof *one);
                free(one);
                one = many;
                end(&r);
            }
            free(one);
            free(x);
            free_filters(&f);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_by_three_is_the_sum_over_its_window),
        cmocka_unit_test(upsampled_pictures_are_convolved_as_if_they_were_there),
        cmocka_unit_test(normalised_pictures_are_convolved_as_if_they_were_there),
        cmocka_unit_test(a_result_of_another_shape_is_refused),
        cmocka_unit_test(dense_blocks_grow_by_what_is_made_of_their_first_channels),
        cmocka_unit_test(channels_that_are_kept_apart_are_convolved_each_by_its_filter),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
    };
    return run_on_every_tier(tests, KN_COUNT(tests));
}
