/* One call of a pipeline's generate, and what all pipelines do alike: stages that load and leave, progress, dumps, the
 * way of a latent through the sampler, and the decoding of it. */
#ifndef KN_PIPELINES_JOB_H
#define KN_PIPELINES_JOB_H

#include "pipelines/component.h"
#include "pipelines/decode.h"
#include "pipelines/pipeline.h"
#include "text/tokenizer.h"

typedef struct kn_job {
    const kn_recipe *recipe;
    const kn_hooks *hooks;
    kn_draw_report *report;
    kn_residency residency;
    kn_run run;
    int channels, h, w;  /* of the latent */
    uint64_t host_bytes; /* that the stage takes beside the run's memory */
} kn_job;

/* Opens the job's run; one that follows shapes only when the hooks ask for a plan. */
bool kn_job_open(kn_job *j, kn_device *device, kn_precision precision, kn_error *err);

/* Tells that something has been done; false with err set when the job is to stop. */
bool kn_job_progress(kn_job *j, const char *phase, int step, int steps, kn_error *err);

/* Shows an intermediate result to hooks->dump, if there is one. */
void kn_job_dump(kn_job *j, const char *name, int rank, const int64_t *dim, const float *values);
void kn_job_dump_tokens(kn_job *j, const char *name, const kn_tokens *t);
void kn_job_dump_latent(kn_job *j, const char *name, const float *x);

/* A stage: its component is loaded, its time and memory are measured, and it leaves again when the residency is staged.
 * End it whether or not it went well. */
bool kn_job_begin(kn_job *j, kn_stage stage, kn_component *c, kn_error *err);
void kn_job_end(kn_job *j, kn_stage stage, kn_component *c);

/* Copies a run's failure to err; true if there is none. */
bool kn_job_went_well(const kn_job *j, kn_error *err);

/* Rows of a tensor in host memory: [count, width], owned. What a prompt became, for example. */
typedef struct kn_host_rows {
    float *at;
    int64_t count, width;
} kn_host_rows;
bool kn_host_rows_take(kn_job *j, kn_tensor t, kn_host_rows *ret, kn_error *err);

/* The recipe's picture to start from as a latent, by an encoder of RGB pictures [h, w, 3] in -1 … 1. x: room for
 * [channels][h][w]. */
typedef kn_tensor kn_encode_fn(kn_run *r, void *ctx, kn_tensor picture);
bool kn_job_encode_start(kn_job *j, kn_encode_fn *encode, void *ctx, float *x, kn_error *err);

/* How the network of a pipeline sees a latent: one row per patch of patch x patch cells, in it channel by channel or
 * cell by cell. With patch 1 both are the same. */
typedef enum kn_patch_order { KN_CHANNELS_OUTSIDE, KN_CHANNELS_INSIDE } kn_patch_order;

typedef struct kn_denoiser {
    /* latent: [rows, channels * patch * patch]; returns the network's output of the same shape. */
    kn_tensor (*output)(void *ctx, kn_run *r, kn_tensor latent, float sigma, bool negative);
    void *ctx;
    bool guided; /* two outputs per step, combined by the recipe's cfg */
    int patch;
    kn_patch_order order;
    float sign; /* output * sign is the velocity */
    /* Combines rows: positive becomes the guided ones. NULL: negative + cfg * (positive - negative). */
    void (*guide)(float *positive, const float *negative, float cfg, int64_t rows, int64_t width);
} kn_denoiser;

/* Noise, then the recipe's sampler over its sigmas; in a plan one call of the network, as all need the same memory.
 * clean: a latent to start from, noised to the first sigma; NULL: pure noise. x: room for the result, [channels][h][w].
 */
bool kn_job_diffuse(kn_job *j, const kn_denoiser *d, const float *clean, float *x, kn_error *err);

/* The whole stage: x, [channels][h][w], becomes 8-bit pixels; none in a plan. */
bool kn_job_decode(kn_job *j, kn_component *vae, const kn_decoder *d, const float *x, kn_image *ret, kn_error *err);

#endif
