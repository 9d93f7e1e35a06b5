/* The portable tier: every kernel as its definition reads, summed in double. */
#include <math.h>
#include <string.h>

#include "compute/cpu/kernels.h"

enum { COLUMNS = 16 };

#define DECODER(type)                                                                                                  \
    static void decode_##type(const void *src, size_t n, float scale, float *dst) {                                    \
        kn_decode(type, src, n, dst);                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            dst[i] *= scale;                                                                                           \
    }
DECODER(KN_F32)
DECODER(KN_F16)
DECODER(KN_BF16)
DECODER(KN_F8_E4M3)
DECODER(KN_F8_E5M2)
DECODER(KN_I8)
DECODER(KN_Q4_0)
DECODER(KN_Q4_1)
DECODER(KN_Q5_0)
DECODER(KN_Q5_1)
DECODER(KN_Q8_0)
DECODER(KN_Q2_K)
DECODER(KN_Q3_K)
DECODER(KN_Q4_K)
DECODER(KN_Q5_K)
DECODER(KN_Q6_K)
DECODER(KN_IQ4_NL)
DECODER(KN_IQ4_XS)

static void transpose(const void *src, size_t stride, size_t rows, size_t k, float *panel) {
    for (size_t j = 0; j < KN_TRANSPOSE_ROWS; j++) {
        const char *row = (const char *)src + j * stride;
        for (size_t i = 0; i < k; i++) {
            float v = 0;
            if (j < rows)
                memcpy(&v, row + i * sizeof v, sizeof v);
            panel[i * COLUMNS + j] = v;
        }
    }
}

static void gather(const float *src, size_t stride, size_t n, size_t k, float *panel) {
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < COLUMNS; j++)
            panel[i * COLUMNS + j] = j < n ? src[i * stride + j] : 0;
}

static void product(const void *left, size_t rows, size_t k, const void *right, float *c, size_t c_stride, size_t n,
                    const float *bias, bool add) {
    const float *a = left, *panel = right;
    for (size_t i = 0; i < rows; i++, a += KN_STRIDE, c += c_stride) {
        double sum[COLUMNS] = { 0 };
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < COLUMNS; j++)
                sum[j] += (double)a[p] * panel[p * COLUMNS + j];
        for (size_t j = 0; j < n; j++)
            c[j] = (float)(sum[j] + (add ? c[j] : bias ? bias[j] : 0));
    }
}

static void to_bf16(const float *x, size_t n, void *dst) {
    uint16_t *to = dst;
    for (size_t i = 0; i < n; i++)
        to[i] = kn_bf16_from_float(x[i]);
}

static uint16_t *pair_at(uint16_t *panel, size_t i, size_t j) {
    return panel + (i / 2 * KN_BF16_COLUMNS + j) * 2 + i % 2;
}

static size_t whole_steps(size_t k) {
    return (k + KN_BF16_STEP - 1) / KN_BF16_STEP * KN_BF16_STEP;
}

static void transpose_bf16(const void *src, size_t stride, size_t rows, size_t k, uint16_t *panel) {
    for (size_t j = 0; j < KN_TRANSPOSE_ROWS; j++)
        for (size_t i = 0; i < whole_steps(k); i++) {
            uint16_t *to = pair_at(panel, i, j);
            if (j < rows && i < k)
                memcpy(to, (const char *)src + j * stride + i * sizeof *to, sizeof *to);
            else
                *to = 0;
        }
}

static void gather_bf16(const float *src, size_t stride, size_t n, size_t k, uint16_t *panel) {
    for (size_t i = 0; i < whole_steps(k); i++)
        for (size_t j = 0; j < KN_BF16_COLUMNS; j++)
            *pair_at(panel, i, j) = i < k && j < n ? kn_bf16_from_float(src[i * stride + j]) : 0;
}

static void product_bf16(const void *left, size_t rows, size_t k, const void *right, float *c, size_t c_stride,
                         size_t n, const float *bias, bool add) {
    const uint16_t *a = left, *panel = right;
    for (size_t i = 0; i < rows; i++, a += KN_BF16_STRIDE, c += c_stride) {
        double sum[KN_BF16_COLUMNS] = { 0 };
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < n; j++)
                sum[j] += (double)kn_float_from_bf16(a[p]) *
                          kn_float_from_bf16(panel[(p / 2 * KN_BF16_COLUMNS + j) * 2 + p % 2]);
        for (size_t j = 0; j < n; j++)
            c[j] = (float)(sum[j] + (add ? c[j] : bias ? bias[j] : 0));
    }
}

static void dots_bf16(const void *w, size_t w_stride, size_t columns, const uint16_t *x, size_t stride, size_t rows,
                      size_t n, float (*sum)[KN_FEW_ROWS_BF16]) {
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < rows; i++) {
            double s = 0;
            for (size_t p = 0; p < n; p++) {
                uint16_t code;
                memcpy(&code, (const char *)w + j * w_stride + p * sizeof code, sizeof code);
                s += (double)kn_float_from_bf16(x[i * stride + p]) * kn_float_from_bf16(code);
            }
            sum[j][i] = (float)(sum[j][i] + s);
        }
}

static void dots(const float *w, const float *x, size_t stride, size_t rows, size_t n, float *sum) {
    for (size_t i = 0; i < rows; i++) {
        double s = 0;
        for (size_t p = 0; p < n; p++)
            s += (double)x[i * stride + p] * w[p];
        sum[i] = (float)(sum[i] + s);
    }
}

static float softmax(float *s, size_t n, float scale, float *max) {
    for (size_t i = 0; i < n; i++) {
        s[i] *= scale;
        *max = fmaxf(*max, s[i]);
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        s[i] = expf(s[i] - *max);
        sum += s[i];
    }
    return (float)sum;
}

static float softmax_bf16(float *s, size_t n, size_t n_all, float scale, float *max) {
    float largest = -INFINITY;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, s[i]);
    if (n > 0 && largest * scale > *max + 8)
        *max = largest * scale;
    double sum = 0;
    for (size_t i = 0; i < whole_steps(n_all); i++) {
        uint16_t weight = i < n ? kn_bf16_from_float((float)exp2((double)s[i] * scale - *max)) : 0;
        sum += kn_float_from_bf16(weight);
        memcpy((uint8_t *)s + i * sizeof weight, &weight, sizeof weight); /* behind what is still to be read */
    }
    return (float)sum;
}

static float silu_of(float x) {
    return (float)(x / (1 + exp(-(double)x)));
}

static void silu(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = silu_of(x[i]);
}

/* x/2 * (1 + erf(x / sqrt(2))), without the cancellation for negative x */
static void gelu(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(0.5 * x[i] * erfc(-M_SQRT1_2 * x[i]));
}

/* x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), without the cancellation for negative x */
static void gelu_tanh(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double v = x[i], u = sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
        x[i] = (float)(v / (1 + exp(-2 * u)));
    }
}

static void tanh_all(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)tanh(x[i]);
}

/* x * tanh(ln(1 + e^x)) */
static void mish(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(x[i] * tanh(log1p(exp(x[i]))));
}

static void multiply(const float *x, float by, float *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * by;
}

static void add(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static void add_gated(float *x, const float *gate, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(x[i] + (double)gate[i] * y[i]);
}

static void sigmoid_gate(float *x, const float *gate, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(x[i] / (1 + exp(-(double)gate[i])));
}

static void swiglu(const float *gate, const float *up, float *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = silu_of(gate[i]) * up[i];
}

static bool is_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static void prelu(float *x, size_t stride, size_t rows, size_t n, const float *slope) {
    for (size_t r = 0; r < rows; r++, x += stride)
        for (size_t i = 0; i < n; i++)
            x[i] *= x[i] < 0 ? slope[i] : 1;
}

static double sum_of_squares(const float *x, size_t n, double mean) {
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += (x[i] - mean) * (x[i] - mean);
    return s;
}

static void rms_norm(const float *x, const float *w, float eps, float *out, size_t n) {
    double by = 1 / sqrt(sum_of_squares(x, n, 0) / (double)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(x[i] * by * w[i]);
}

static void norm_modulate(const float *x, const float *scale, const float *shift, float eps, float *out, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    double mean = sum / (double)n, by = 1 / sqrt(sum_of_squares(x, n, mean) / (double)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((x[i] - mean) * by * (scale ? 1 + (double)scale[i] : 1) + (shift ? shift[i] : 0));
}

static void unit_norm(const float *x, const float *w, bool with_silu, float *out, size_t n) {
    double by = sqrt((double)n) / fmax(sqrt(sum_of_squares(x, n, 0)), 1e-12);
    for (size_t i = 0; i < n; i++) {
        float v = (float)(x[i] * by * w[i]);
        out[i] = with_silu ? silu_of(v) : v;
    }
}

static void affine(const float *x, const float *scale, const float *shift, bool with_silu, float *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float v = (float)((double)x[i] * scale[i] + shift[i]);
        out[i] = with_silu ? silu_of(v) : v;
    }
}

static void moments(const float *x, size_t rows, size_t n, float *mean, float *squares) {
    for (size_t j = 0; j < n; j++) {
        double sum = 0, s = 0;
        for (size_t i = 0; i < rows; i++)
            sum += x[i * n + j];
        mean[j] = (float)(sum / (double)rows);
        for (size_t i = 0; i < rows; i++)
            s += ((double)x[i * n + j] - mean[j]) * ((double)x[i * n + j] - mean[j]);
        squares[j] = (float)s;
    }
}

static void rotate(float *x, const float *cos, const float *sin, size_t n, kn_rope_pairs pairs) {
    for (size_t j = 0; j < n / 2; j++) {
        float *first = pairs == KN_ROPE_HALVES ? x + j : x + 2 * j;
        float *second = pairs == KN_ROPE_HALVES ? first + n / 2 : first + 1;
        double a = *first, b = *second;
        *first = (float)(a * cos[j] - b * sin[j]);
        *second = (float)(a * sin[j] + b * cos[j]);
    }
}

static void stage(const float *x, size_t stride, size_t pixels, size_t n, const float *by, const float *scale,
                  const float *shift, bool with_silu, float *out) {
    for (size_t p = 0; p < pixels; p++)
        for (size_t i = 0; i < KN_TILE_CHANNELS; i++) {
            double v = i < n ? x[p * stride + i] : 0;
            if (i < n)
                v = v * (by ? by[p] : 1) * (scale ? scale[i] : 1) + (shift ? shift[i] : 0);
            out[p * KN_TILE_CHANNELS + i] = i < n && with_silu ? silu_of((float)v) : (float)v;
        }
}

static void unit_factors(const float *x, size_t pixels, size_t n, float *out) {
    for (size_t p = 0; p < pixels; p++)
        out[p] = (float)(sqrt((double)n) / fmax(sqrt(sum_of_squares(x + p * n, n, 0)), 1e-12));
}

static void depthwise(const float *x, size_t row, size_t pixel, const float *w, size_t w_row, size_t rows,
                      size_t columns, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) {
        double sum = out[i];
        for (size_t t = 0; t < rows * columns; t++)
            sum +=
                (double)x[t / columns * row + t % columns * pixel + i] * w[t / columns * w_row + t % columns * n + i];
        out[i] = (float)sum;
    }
}

/* output . ((weight . w) * (input . x)) is what three taps make of the pixels in two outputs: in each direction, so
 * that a tile is these matrices from the left and their transposes from the right. */
static const struct tiling {
    size_t size;
    double input[4][4], weight[4][3], output[2][4];
} tilings[KN_TILINGS] = {
    [KN_TILING_PLAIN] = {
        .size = 4,
        .input = { { 1, 0, -1, 0 }, { 0, 1, 1, 0 }, { 0, -1, 1, 0 }, { 0, 1, 0, -1 } },
        .weight = { { 1, 0, 0 }, { 0.5, 0.5, 0.5 }, { 0.5, -0.5, 0.5 }, { 0, 0, 1 } },
        .output = { { 1, 1, 1, 0 }, { 0, 1, -1, -1 } },
    },
    [KN_TILING_DOUBLED] = {
        .size = 3,
        .input = { { 1, -1, 0 }, { 0, 1, 0 }, { 0, 1, -1 } },
        .weight = { { 1, 0, 0 }, { 1, 1, 1 }, { 0, 0, 1 } },
        .output = { { 1, 1, 0 }, { 0, 1, -1 } },
    },
};

static void tile_weight(const struct tiling *g, const float *w, size_t tap, size_t n, float *u, size_t plane) {
    for (size_t p = 0; p < g->size * g->size; p++)
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t t = 0; t < 9; t++)
                sum += g->weight[p / g->size][t / 3] * g->weight[p % g->size][t % 3] * w[t * tap + i];
            u[p * plane + i] = (float)sum;
        }
}

static void tile_weight_plain(const float *w, size_t tap, size_t n, float *u, size_t plane) {
    tile_weight(&tilings[KN_TILING_PLAIN], w, tap, n, u, plane);
}

static void tile_weight_doubled(const float *w, size_t tap, size_t n, float *u, size_t plane) {
    tile_weight(&tilings[KN_TILING_DOUBLED], w, tap, n, u, plane);
}

static void put_f32(const float *x, size_t n, void *dst) {
    memcpy(dst, x, n * sizeof *x);
}

static void tile_input(const struct tiling *g, const float *x, size_t row, size_t tiles, void *v, size_t plane,
                       size_t bytes, void (*put)(const float *x, size_t n, void *dst)) {
    size_t pixels = g->size * g->size, step = (g->size - 2) * KN_TILE_CHANNELS;
    for (size_t t = 0; t < tiles; t++)
        for (size_t p = 0; p < pixels; p++)
            for (size_t i = 0; i < KN_TILE_CHANNELS; i++) {
                double sum = 0;
                for (size_t q = 0; q < pixels; q++) {
                    size_t dy = q / g->size, dx = q % g->size;
                    sum += g->input[p / g->size][dy] * g->input[p % g->size][dx] *
                           x[t * step + dy * row + dx * KN_TILE_CHANNELS + i];
                }
                put(&(float){ (float)sum }, 1, (uint8_t *)v + (p * plane + t * KN_STRIDE) * sizeof(float) + i * bytes);
            }
}

static void tile_input_plain(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(&tilings[KN_TILING_PLAIN], x, row, tiles, v, plane, sizeof(float), put_f32);
}

static void tile_input_doubled(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(&tilings[KN_TILING_DOUBLED], x, row, tiles, v, plane, sizeof(float), put_f32);
}

static void tile_input_plain_bf16(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(&tilings[KN_TILING_PLAIN], x, row, tiles, v, plane, sizeof(uint16_t), to_bf16);
}

static void tile_input_doubled_bf16(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(&tilings[KN_TILING_DOUBLED], x, row, tiles, v, plane, sizeof(uint16_t), to_bf16);
}

static void tile_output(const struct tiling *g, const float *m, size_t plane, size_t n, const float *bias, bool add,
                        float *y, size_t row, size_t pixel, size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            for (size_t i = 0; i < n; i++) {
                float *to = y + r * row + c * pixel + i;
                double sum = (bias ? bias[i] : 0) + (add ? *to : 0);
                for (size_t p = 0; p < g->size * g->size; p++)
                    sum += g->output[r][p / g->size] * g->output[c % 2][p % g->size] *
                           m[p * plane + c / 2 * KN_MAX_COLUMNS + i];
                *to = (float)sum;
            }
}

static void tile_output_plain(const float *m, size_t plane, size_t n, const float *bias, bool add, float *y, size_t row,
                              size_t pixel, size_t rows, size_t columns) {
    tile_output(&tilings[KN_TILING_PLAIN], m, plane, n, bias, add, y, row, pixel, rows, columns);
}

static void tile_output_doubled(const float *m, size_t plane, size_t n, const float *bias, bool add, float *y,
                                size_t row, size_t pixel, size_t rows, size_t columns) {
    tile_output(&tilings[KN_TILING_DOUBLED], m, plane, n, bias, add, y, row, pixel, rows, columns);
}

static void turn_groups(float *x, size_t n, size_t group) {
    for (size_t step = 1; step < group; step *= 4)
        for (size_t i = 0; i < n; i++) {
            if (i / step % 4)
                continue;
            float a = x[i], b = x[i + step], c = x[i + 2 * step], d = x[i + 3 * step];
            float half = ((a + b) + (c + d)) * 0.5f;
            x[i] = half - d;
            x[i + step] = half - c;
            x[i + 2 * step] = half - b;
            x[i + 3 * step] = half - a;
        }
}

static void round_int8(float *x, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    float scale = fmaxf(largest / 127, 1e-30f);
    for (size_t i = 0; i < n; i++)
        x[i] = rintf(x[i] / scale) * scale;
}

static float scale_int8(const float *x, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return NAN;
        largest = fmaxf(largest, fabsf(x[i]));
    }
    return fmaxf(largest / 127, 1e-30f);
}

static void to_int8(const float *x, size_t n, float s, void *dst) {
    uint8_t *to = dst;
    for (size_t i = 0; i < n; i++)
        to[i] = isfinite(x[i] / s) ? (uint8_t)(128 + (int)rintf(x[i] / s)) : 128;
}

static void transpose_int8(const int8_t *src, size_t stride, size_t rows, size_t k, void *panel, int32_t *sums) {
    int8_t *to = panel;
    size_t filled = (k + KN_INT8_STEP - 1) / KN_INT8_STEP * KN_INT8_STEP;
    for (size_t j = 0; j < KN_TRANSPOSE_ROWS; j++)
        for (size_t i = 0; i < filled; i++) {
            int8_t q = j < rows && i < k ? src[j * stride + i] : 0;
            to[(i / 4 * KN_INT8_COLUMNS + j) * 4 + i % 4] = q;
            sums[j] += 128 * q;
        }
}

static void product_int8(const void *left, size_t rows, size_t k, const void *right, float *c, size_t c_stride,
                         size_t n, const float *bias, bool add) {
    (void)bias;
    const uint8_t *a = left;
    const int8_t *panel = right;
    for (size_t i = 0; i < rows; i++, a += KN_STRIDE * sizeof *c, c += c_stride)
        for (size_t j = 0; j < n; j++) {
            int32_t sum = 0;
            if (add)
                memcpy(&sum, c + j, sizeof sum);
            for (size_t p = 0; p < k; p++)
                sum += a[p] * panel[(p / 4 * KN_INT8_COLUMNS + j) * 4 + p % 4];
            memcpy(c + j, &sum, sizeof sum);
        }
}

static void finish_int8(float *c, const int32_t *sums, const float *scale, float by, const float *bias, size_t n) {
    for (size_t j = 0; j < n; j++) {
        int32_t sum;
        memcpy(&sum, c + j, sizeof sum);
        c[j] = (float)((double)(sum - sums[j]) * by * scale[j] + bias[j]);
    }
}

/* So many columns at a time, whose sums a compiler keeps in vectors. */
enum { BYTE_COLUMNS = 256 };

static void weigh_columns(const uint8_t *rows, size_t stride, const int32_t *weight, size_t count, size_t n,
                          uint8_t *out) {
    int32_t sum[BYTE_COLUMNS];
    for (size_t i = 0; i < n; i++)
        sum[i] = 1 << (KN_BYTE_WEIGHT_BITS - 1);
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < n; i++)
            sum[i] += rows[k * stride + i] * weight[k];
    for (size_t i = 0; i < n; i++) {
        int32_t whole = sum[i] >> KN_BYTE_WEIGHT_BITS;
        out[i] = (uint8_t)(whole < 0 ? 0 : whole > 255 ? 255 : whole);
    }
}

static void weigh_rows(const uint8_t *rows, size_t stride, const int32_t *weight, size_t count, size_t n,
                       uint8_t *out) {
    for (size_t i = 0; i < n; i += BYTE_COLUMNS)
        weigh_columns(rows + i, stride, weight, count, KN_MIN(n - i, BYTE_COLUMNS), out + i);
}

void kn_kernels_init_reference(kn_kernels *k) {
    *k = (kn_kernels){
        .name = "reference",
        .columns = COLUMNS,
        .group_columns = 128,
        .few_rows_bf16 = KN_FEW_ROWS_BF16,
        .decode = {
            [KN_F32] = decode_KN_F32,
            [KN_F16] = decode_KN_F16,
            [KN_BF16] = decode_KN_BF16,
            [KN_F8_E4M3] = decode_KN_F8_E4M3,
            [KN_F8_E5M2] = decode_KN_F8_E5M2,
            [KN_I8] = decode_KN_I8,
            [KN_Q4_0] = decode_KN_Q4_0,
            [KN_Q4_1] = decode_KN_Q4_1,
            [KN_Q5_0] = decode_KN_Q5_0,
            [KN_Q5_1] = decode_KN_Q5_1,
            [KN_Q8_0] = decode_KN_Q8_0,
            [KN_Q2_K] = decode_KN_Q2_K,
            [KN_Q3_K] = decode_KN_Q3_K,
            [KN_Q4_K] = decode_KN_Q4_K,
            [KN_Q5_K] = decode_KN_Q5_K,
            [KN_Q6_K] = decode_KN_Q6_K,
            [KN_IQ4_NL] = decode_KN_IQ4_NL,
            [KN_IQ4_XS] = decode_KN_IQ4_XS,
        },
        .transpose = transpose,
        .gather = gather,
        .product = product,
        .to_bf16 = to_bf16,
        .transpose_bf16 = transpose_bf16,
        .gather_bf16 = gather_bf16,
        .product_bf16 = product_bf16,
        .dots_bf16 = dots_bf16,
        .dots = dots,
        .softmax = softmax,
        .softmax_bf16 = softmax_bf16,
        .silu = silu,
        .gelu = gelu,
        .gelu_tanh = gelu_tanh,
        .tanh = tanh_all,
        .mish = mish,
        .multiply = multiply,
        .add = add,
        .add_gated = add_gated,
        .sigmoid_gate = sigmoid_gate,
        .swiglu = swiglu,
        .is_finite = is_finite,
        .prelu = prelu,
        .rms_norm = rms_norm,
        .norm_modulate = norm_modulate,
        .unit_norm = unit_norm,
        .affine = affine,
        .moments = moments,
        .rotate = rotate,
        .stage = stage,
        .stage_bf16 = stage,
        .unit_factors = unit_factors,
        .depthwise = depthwise,
        .tile_weight = { tile_weight_plain, tile_weight_doubled },
        .tile_input = { tile_input_plain, tile_input_doubled },
        .tile_input_bf16 = { tile_input_plain_bf16, tile_input_doubled_bf16 },
        .tile_output = { tile_output_plain, tile_output_doubled },
        .turn_groups = turn_groups,
        .round_int8 = round_int8,
        .weigh_rows = weigh_rows,
        .int8_zero = 128,
        .int8_bytes = 1,
        .int8_columns = KN_INT8_COLUMNS,
        .scale_int8 = scale_int8,
        .to_int8 = to_int8,
        .transpose_int8 = transpose_int8,
        .product_int8 = product_int8,
        .finish_int8 = finish_int8,
    };
}
