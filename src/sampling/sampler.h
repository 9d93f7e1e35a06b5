/* Samplers: how a latent is carried along a schedule from noise to image, given a network that tells the velocity.
 *
 * x_s = (1 - s) * image + s * noise; the network estimates v = dx/ds = noise - image, so the clean estimate at any time
 * is D = x - s v. A sampler calls the network and combines x, v and D of this step and earlier ones. It knows no
 * tensors and no devices: latents are n float32 values in host memory. Factors are computed in double, sums are rounded
 * once.
 *
 * Names mean what they mean in ComfyUI; unipc is the one of diffusers (order 2, "bh2"), from which ComfyUI's uni_pc
 * differs in details and is therefore not an alias. */
#ifndef KN_SAMPLING_SAMPLER_H
#define KN_SAMPLING_SAMPLER_H

#include "sampling/names.h"

struct kn_solver;

typedef struct kn_sampler {
    kn_name name;
    bool stochastic;         /* adds fresh noise in every step but the last */
    unsigned calls_per_step; /* network evaluations; heun needs only one in the step that ends at 0 */

    /* The rest is for kn_sample. */
    unsigned history; /* clean estimates of earlier steps that are kept */
    unsigned spare;   /* latents of working memory */
    bool below_one;   /* computes with ln((1 - s) / s), so that the first sigma must lie below 1 */
    bool (*step)(struct kn_solver *s);
} kn_sampler;

enum { KN_SAMPLER_COUNT = 7 };

extern const kn_sampler kn_samplers[KN_SAMPLER_COUNT]; /* euler, the default, comes first */
bool kn_sampler_find(const char *name, const kn_sampler **ret, kn_error *err);

/* Network evaluations of a schedule of that many steps. */
size_t kn_sampler_calls(const kn_sampler *s, size_t steps);

/* Before each call of the network: puts into x what is to stand there at this noise level, such as the known part of a
 * picture. */
typedef void kn_settle_fn(void *ctx, float *x, float sigma, size_t n);

/* v[0 … n-1] = the velocity at (x, sigma), guidance included. False with err set stops the sampling. */
typedef bool kn_velocity_fn(void *ctx, const float *x, float sigma, float *v, kn_error *err);

/* dst[0 … n-1] = fresh standard normal values: usually one kn_noise_fill of a generator from kn_noise_init_steps. */
typedef void kn_draw_fn(void *ctx, float *dst, size_t n);

/* After each step: progress, preview. False with err set stops the sampling. */
typedef struct kn_step {
    size_t index, steps; /* 0 … steps - 1 */
    float sigma, next;   /* where the step began and ended */
    const float *x;      /* the latent at `next` */
    const float *clean;  /* the step's clean estimate: what a preview shows */
    size_t n;
} kn_step;
typedef bool kn_step_fn(void *ctx, const kn_step *step, kn_error *err);

typedef struct kn_sampling {
    const kn_sampler *sampler;
    const float *sigmas;  /* steps + 1 values, falling from at most 1 to 0 */
    size_t steps;         /* 0: nothing is done */
    kn_settle_fn *settle; /* may be NULL */
    kn_velocity_fn *velocity;
    kn_draw_fn *draw;       /* for stochastic samplers, else NULL */
    kn_step_fn *after_step; /* may be NULL */
    void *ctx;              /* of all four */
} kn_sampling;

/* x: the latent at sigmas[0], replaced by the image at sigma 0. A step whose result is not finite is KN_E_NUMERIC;
 * errors name sampler, step and sigma. After an error x holds something unfinished. */
bool kn_sample(const kn_sampling *s, float *x, size_t n, kn_error *err);

/* Guidance: v_pos = v_neg + cfg * (v_pos - v_neg). cfg 1 is no guidance: the caller then leaves the second pass out.
 * Programs that add to the positive side (Krea 2, Z-Image: v_pos + g * (v_pos - v_neg)) mean cfg = 1 + g. */
void kn_guide(float *v_pos, const float *v_neg, float cfg, size_t n);

/* x = (1 - sigma) * clean + sigma * noise: where a picture enters the schedule. x may be clean or noise. */
void kn_add_noise(float *x, const float *clean, const float *noise, float sigma, size_t n);

/* Inpainting, with a mask that is 1 where something new is wanted and 0 where the picture is known. Before each call of
 * the network the known picture is put back into x at its noise level; what the network tells of it afterwards is
 * replaced by the velocity that leads there, so that every sampler's clean estimate is the known picture. Between, both
 * are blended. All arrays have n values. */
void kn_keep_known(float *x, const float *mask, const float *clean, const float *noise, float sigma, size_t n);
void kn_steer_to_known(float *v, const float *mask, const float *x, const float *clean, float sigma, size_t n);

#endif
