/* The one interface between models and devices: operations on tensors, in the order the model writes them.
 *
 * A kn_run is one computation on one device: scratch memory, a sticky error, a flag to stop. After the first failure
 * ops do nothing and return "none", so model code needs no checks; the caller looks at run->err at the end. Results
 * live in the run's scratch memory until their scope closes or they are dropped. Tensors are float32; shapes are given
 * behind each op. The CPU computes at once; other devices may record and submit.
 *
 * Precision: KN_EXACT computes in float32 and gives the same bits for any number of threads. KN_FAST may use narrower
 * products where the hardware gains from them; docs/performance.md states the error. */
#ifndef KN_COMPUTE_OPS_H
#define KN_COMPUTE_OPS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/tensor.h"

typedef enum kn_precision { KN_FAST, KN_EXACT } kn_precision;

typedef struct kn_device kn_device;

/* threads: 0 = one for each core that this process may use (base/threads.h). */
bool kn_device_open_cpu(unsigned threads, kn_device **ret, kn_error *err);
void kn_device_close(kn_device *d);

/* "cpu", and the instruction set in use, e.g. "avx512" ("reference", "avx2"); threads of its pool. */
const char *kn_device_name(const kn_device *d);
const char *kn_device_kernels(const kn_device *d);
unsigned kn_device_threads(const kn_device *d);

typedef struct kn_run kn_run;
typedef void kn_watch_fn(void *ctx, kn_run *r, const char *name, kn_tensor t);

struct kn_run {
    kn_device *device;
    kn_precision precision;
    const atomic_bool *stop; /* may be NULL; ops end early with KN_E_CANCELLED once it is set */
    kn_error err;
    struct kn_scratch *scratch;
    bool shapes_only;   /* ops make their results without filling them, and read neither tensors nor weights */
    kn_watch_fn *watch; /* NULL, or shown every tensor that model code calls by name; set by the caller after opening */
    void *watch_ctx;
    double products; /* multiply-adds of matrices, convolutions and attention so far, as a paper counts them */
};

/* One run at a time per device. limit_bytes bounds the scratch memory (0 = physical memory). */
bool kn_run_open(kn_device *d, kn_precision p, const atomic_bool *stop, uint64_t limit_bytes, kn_run *ret,
                 kn_error *err);
/* A run that computes nothing: what memory a computation would take is known when it has gone through, be it more than
 * there is. Values that are downloaded stay as they were. */
bool kn_run_open_shapes(kn_device *d, kn_precision p, const atomic_bool *stop, kn_run *ret, kn_error *err);
void kn_run_close(kn_run *r);
uint64_t kn_run_peak_bytes(const kn_run *r); /* most scratch memory in use at one time since the last call */

/* Records a failure of the model's own; ops that fail use the same place. */
void kn_run_fail(kn_run *r, kn_code code, const char *fmt, ...) KN_PRINTF(3, 4);

/* Scratch memory. A scope ends with everything made inside it released except `keep` (which then belongs to the scope
 * around). kn_drop releases one tensor early; views are not tensors of their own and must not be dropped. */
typedef struct kn_scope {
    int depth;
} kn_scope;
kn_scope kn_scope_open(kn_run *r);
kn_tensor kn_scope_close(kn_run *r, kn_scope s, kn_tensor keep);
void kn_drop(kn_run *r, kn_tensor t);

/* Making, filling and reading tensors. kn_new leaves the content undefined. */
kn_tensor kn_new(kn_run *r, int rank, const int64_t *dim);
kn_tensor kn_upload(kn_run *r, int rank, const int64_t *dim, const float *values);
void kn_download(kn_run *r, kn_tensor t, float *values);
void kn_copy(kn_run *r, kn_tensor to, kn_tensor from);                        /* same number of elements */
void kn_copy_columns(kn_run *r, kn_tensor to, int64_t first, kn_tensor from); /* to[n, first …] = from[n, d] */
kn_tensor kn_columns(kn_run *r, kn_tensor x, int64_t first, int64_t count);   /* x[n, first …] -> [n, count] */

/* Views share the memory of what they look at. */
kn_tensor kn_rows(kn_run *r, kn_tensor t, int64_t from, int64_t count); /* of [rows, width] */
kn_tensor kn_reshape(kn_run *r, kn_tensor t, int rank, const int64_t *dim);

/* Shows an intermediate result to whoever watches the run (tests, --dump). */
void kn_watch(kn_run *r, kn_tensor t, const char *name, ...) KN_PRINTF(3, 4);

/* Fails with KN_E_NUMERIC, naming `what`, if t holds a NaN or an infinity. */
void kn_check_finite(kn_run *r, kn_tensor t, const char *what);

/* Matrices. */
kn_tensor kn_linear(kn_run *r, kn_tensor x, const kn_weight *w); /* [..., in] -> [..., out], + bias */
kn_tensor kn_embedding(kn_run *r, const kn_weight *table, const int32_t *ids, int64_t n); /* -> [n, width] */
/* Sums of `taps` rows each: ids and shares are [n, taps] -> [n, width]. Interpolation between rows of a table. */
kn_tensor kn_embedding_blend(kn_run *r, const kn_weight *table, const int32_t *ids, const float *shares, int64_t n,
                             int taps);

/* Elementwise, in place unless a result is returned. */
void kn_silu(kn_run *r, kn_tensor x);
void kn_gelu(kn_run *r, kn_tensor x); /* exact, with erf */
void kn_gelu_tanh(kn_run *r, kn_tensor x);
void kn_tanh(kn_run *r, kn_tensor x);
void kn_mish(kn_run *r, kn_tensor x);                          /* x * tanh(ln(1 + e^x)) */
void kn_leaky_relu(kn_run *r, kn_tensor x, float slope);       /* x < 0: x * slope */
void kn_prelu(kn_run *r, kn_tensor x, const kn_weight *slope); /* the same, each column with its own; slope [d] */
void kn_add_constant(kn_run *r, kn_tensor x, float by);        /* x += by */
/* x += y * by in the columns that both have; x [n, d], y [n, e]. */
void kn_add_scaled(kn_run *r, kn_tensor x, float by, kn_tensor y);
void kn_add(kn_run *r, kn_tensor x, kn_tensor y);                               /* x += y, same shape */
void kn_add_gated(kn_run *r, kn_tensor x, kn_tensor gate, kn_tensor y);         /* x[n,d] += gate[d] * y[n,d] */
void kn_affine(kn_run *r, kn_tensor x, const float *scale, const float *shift); /* x[n,d] = x * scale[d] + shift[d] */
void kn_sigmoid_gate(kn_run *r, kn_tensor x, kn_tensor gate);                   /* x *= sigmoid(gate), same shape */
kn_tensor kn_swiglu(kn_run *r, kn_tensor gate, kn_tensor up);                   /* [n, m], [n, m] -> silu(gate) * up */
/* Halves of columns: [n, 2 * m] -> [n, m], mish(first) * second. */
kn_tensor kn_mish_glu(kn_run *r, kn_tensor x);
/* Of every k rows one, their sum weighted by w [k]: [n * k, d] -> [n, d]. */
kn_tensor kn_sum_rows(kn_run *r, kn_tensor x, const kn_weight *w);

/* Norms over the last dimension. */
kn_tensor kn_rms_norm(kn_run *r, kn_tensor x, const kn_weight *w, float eps); /* x / sqrt(mean(x^2) + eps) * w */
/* The same, then * (1 + scale); scale [d] may be none. */
kn_tensor kn_rms_norm_modulate(kn_run *r, kn_tensor x, const kn_weight *w, kn_tensor scale, float eps);
/* LayerNorm without affine part, then * (1 + scale) + shift; scale, shift [d], each may be none. */
kn_tensor kn_norm_modulate(kn_run *r, kn_tensor x, kn_tensor scale, kn_tensor shift, float eps);
/* LayerNorm * (1 + scale) + shift, with vectors of the network: its weight is to be taken with plus = -1. */
kn_tensor kn_layer_norm(kn_run *r, kn_tensor x, const kn_weight *scale, const kn_weight *shift, float eps);
/* What modulates any other norm: x[n,d] = x * (1 + scale[d]) + shift[d], in place. */
void kn_modulate(kn_run *r, kn_tensor x, kn_tensor scale, kn_tensor shift);
/* x / max(|x|_2, 1e-12) * sqrt(d) * w, then silu if asked: the norm of the Wan-style VAEs. */
kn_tensor kn_unit_norm(kn_run *r, kn_tensor x, const kn_weight *w, bool silu);
/* Over all of a picture [h, w, c], c / groups channels at a time: (x - mean) / sqrt(variance + eps) * w + bias, then
 * silu if asked; w, bias [c]. */
kn_tensor kn_group_norm(kn_run *r, kn_tensor x, const kn_weight *w, const kn_weight *bias, int groups, float eps,
                        bool silu);

/* Attention. */
typedef enum kn_rope_pairs { KN_ROPE_INTERLEAVED, KN_ROPE_HALVES } kn_rope_pairs; /* (2j, 2j+1) or (j, j + d/2) */
/* Per head: RMS norm with weight w [head] (NULL: none), then rotation by the angles' cos and sin [n, head / 2].
 * x [n, heads * head], changed in place. */
void kn_qk_norm_rope(kn_run *r, kn_tensor x, const kn_weight *w, float eps, kn_tensor cos, kn_tensor sin,
                     kn_rope_pairs pairs);
typedef struct kn_kv {
    kn_tensor k, v; /* [n, kv_heads * head]; none = no rows */
} kn_kv;
/* Softmax attention with scale 1/sqrt(head) over the rows of `before` (all visible) followed by those of `own`.
 * causal: query i sees own rows 0..i; otherwise all. heads is a multiple of kv_heads. q [n, heads * head] -> same. */
kn_tensor kn_attention(kn_run *r, kn_tensor q, kn_kv before, kn_kv own, int heads, int kv_heads, bool causal);

/* Pictures [h, w, c]. Convolution weights are [out, kh, kw, in] with bias. pad: zeros added on each side. */
typedef struct kn_pad {
    int top, left, bottom, right;
} kn_pad;
kn_tensor kn_conv2d(kn_run *r, kn_tensor x, const kn_weight *w, int stride, kn_pad pad);
kn_tensor kn_upsample2x(kn_run *r, kn_tensor x); /* nearest */
/* Convolutions by 3x3, padded by one on each side, of what the op in front makes of x, which is never stored. If `onto`
 * is there they are added to it, and it is returned. */
kn_tensor kn_upsample2x_conv(kn_run *r, kn_tensor x, const kn_weight *w, kn_tensor onto); /* [2h, 2w, out] */
kn_tensor kn_group_norm_conv(kn_run *r, kn_tensor x, const kn_weight *weight, const kn_weight *bias, int groups,
                             float eps, const kn_weight *w, kn_tensor onto); /* with silu in between */
kn_tensor kn_unit_norm_conv(kn_run *r, kn_tensor x, const kn_weight *weight, const kn_weight *w,
                            kn_tensor onto); /* with silu in between */
/* What dense blocks grow by: the first `in` channels of x are convolved by 3x3, padded by one on each side, and leaky
 * ReLU of that becomes the `out` channels behind them. */
void kn_dense_conv(kn_run *r, kn_tensor x, const kn_weight *w, float slope);
/* Each channel by a filter of its own, [c, kh, kw, 1] with odd sides, padded to the same size. */
kn_tensor kn_depthwise_conv2d(kn_run *r, kn_tensor x, const kn_weight *w);

/* Between channels and pixels: [h, w, c * by^2] <-> [h * by, w * by, c], where a channel's by^2 pixels are channels
 * one behind the other, row by row. base [h, w, c], which may be none, is added to each of a pixel's by^2. */
kn_tensor kn_pixel_shuffle(kn_run *r, kn_tensor x, int by, kn_tensor base);
kn_tensor kn_pixel_unshuffle(kn_run *r, kn_tensor x, int by);
/* Upsampling by learned places: x [h, w, c] -> [h * by, w * by, c]. Each of KN_DYSAMPLE_GROUPS groups of channels reads
 * pixel (by * X + j, by * Y + i) at X + o_x, Y + o_y, linearly between pixels, with o = offset / 2 + at; offset
 * [h, w, 2 * groups * by^2] and at [the same channels] have x before y, then group, i, j, from slow to fast. */
enum { KN_DYSAMPLE_GROUPS = 4 };
kn_tensor kn_dysample(kn_run *r, kn_tensor x, kn_tensor offset, const kn_weight *at, int by);

/* Parameter-free shortcuts of the Qwen-Image 2.1 VAE (as in Wan 2.2), for one frame; `frames` is 2 in stages that also
 * halve or double time, else 1. */
kn_tensor kn_avg_shortcut(kn_run *r, kn_tensor x, int64_t out_channels, int frames); /* [2h, 2w, c] -> [h, w, out] */
kn_tensor kn_dup_shortcut(kn_run *r, kn_tensor x, int64_t out_channels, int frames); /* [h, w, c] -> [2h, 2w, out] */

#endif
