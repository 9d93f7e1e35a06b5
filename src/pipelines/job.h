/* How all pipelines draw a picture, and the table by which an architecture says what is special about it.
 *
 * pipeline.c goes through the stages: given pictures become latents, prompts become rows of numbers, the diffusion
 * model turns noise into a latent, which the VAE turns into pixels. What encoders made is kept (conditions.h); each
 * stage's component is loaded when there is something to do, and leaves again when the residency is staged. Progress,
 * dumps, measuring, plans of memory and sampling are the same for all. */
#ifndef KN_PIPELINES_JOB_H
#define KN_PIPELINES_JOB_H

#include "pipelines/ahead.h"
#include "pipelines/autoencoder.h"
#include "pipelines/component.h"
#include "pipelines/conditions.h"
#include "pipelines/pipeline.h"

/* The prompt's, and with guidance the negative prompt's, part of everything. */
typedef enum kn_side { KN_POSITIVE, KN_NEGATIVE, KN_SIDES } kn_side;

/* One call of kn_pipeline_draw. */
typedef struct kn_job {
    kn_pipeline *pipeline;
    const kn_recipe *recipe;
    const kn_hooks *hooks;
    kn_draw_report *report;
    kn_run run;
    int channels, h, w;                                                   /* of the latent */
    kn_conditions *conditions;                                            /* the pipeline's; in a plan its own */
    kn_condition *reference[KN_MAX_REFERENCES], *seen[KN_MAX_REFERENCES]; /* for the VAE; for the vision encoder */
    kn_condition *start, *prompt[KN_SIDES];
    kn_mask mask;        /* of the start, on the latent's grid; without values if all of it may change */
    void *state;         /* the architecture's: what its functions keep for each other, zeroed at the beginning */
    uint64_t host_bytes; /* that the stage takes beside the run's memory */
    kn_ahead ahead;
} kn_job;

/* How the diffusion model sees a latent: one row per patch of patch x patch cells, in it channel by channel or cell by
 * cell. With patch 1 both are the same. */
typedef enum kn_patch_order { KN_CHANNELS_OUTSIDE, KN_CHANNELS_INSIDE } kn_patch_order;

/* What must meet where parts were made for each other. */
typedef struct kn_widths {
    int64_t vocabulary, text; /* of the text encoder */
    int64_t wanted_text;      /* by the diffusion model */
    int64_t patch;            /* of the diffusion model's rows */
} kn_widths;

struct kn_stages {
    const kn_autoencoder *vae;
    int patch;
    kn_patch_order order;
    float sign; /* output * sign is the velocity */
    size_t state_bytes;

    kn_widths (*widths)(const kn_pipeline *p);
    bool (*fits)(const kn_pipeline *p, kn_error *err); /* the rest of what must meet; NULL: nothing */

    /* A prompt in its template, cut to what the model takes: fills tokens, skip and dropped. */
    bool (*tokenize)(const kn_job *j, const char *prompt, kn_condition *ret, kn_error *err);
    /* Whether tokenize would take it beside references with these longer sides. NULL: what is too long is cut. */
    bool (*has_room)(const kn_tokenizer *t, const char *prompt, const uint32_t *sides, int count, kn_error *err);
    /* The rows that condition, from the tokens. */
    kn_tensor (*encode)(kn_job *j, const kn_condition *prompt);
    /* What the diffusion model makes of these rows once, for all steps; goes to the state. */
    void (*prepare)(kn_job *j, kn_side side, kn_tensor rows);
    /* latent: a row per patch; the output has the same shape. */
    kn_tensor (*output)(kn_job *j, kn_side side, kn_tensor latent, float sigma);

    /* Of those that take reference pictures. About the square of seen_resolution is how many pixels the vision encoder
     * sees of each; 0: those that the VAE gets, by the recipe. */
    unsigned seen_resolution;
    bool (*see)(kn_job *j, int reference, kn_error *err); /* by the vision encoder; goes to the state */
    bool (*sees)(kn_pipeline *p, kn_error *err);          /* whether the vision encoder fits the rest */
};

struct kn_pipeline {
    const kn_stages *stages;
    kn_device *device;
    kn_precision precision;
    kn_residency residency;
    kn_tokenizer *tokenizer;
    int32_t turn_start; /* id of <|im_start|> */
    kn_component text, vision, diffusion, vae;
    kn_error blind; /* why reference pictures cannot be seen; KN_OK: they can */
    kn_conditions *conditions;
    float *preview_map; /* of preview.h; NULL: none was wanted yet */
};

/* Tells that something has been done; false with err set when the job is to stop. */
bool kn_job_progress(kn_job *j, const char *phase, int step, int steps, kn_error *err);

/* Shows an intermediate result to hooks->dump, if there is one. */
void kn_job_dump(kn_job *j, const char *name, int rank, const int64_t *dim, const float *values);
void kn_job_dump_latent(kn_job *j, const char *name, const float *x);

/* A stage: its component is loaded, its time and memory are measured, and it leaves again when the residency is staged.
 * End it whether or not it went well. */
bool kn_job_begin(kn_job *j, kn_stage stage, kn_component *c, kn_error *err);
void kn_job_end(kn_job *j, kn_stage stage, kn_component *c);
/* Instead of both: there was nothing left to do, as an earlier picture had done it. */
void kn_job_skip(kn_job *j, kn_stage stage);

/* Copies a run's failure to err; true if there is none. */
bool kn_job_went_well(const kn_job *j, kn_error *err);

/* latent: [channels][h][w] -> [patches, channels * patch * patch]. */
kn_tensor kn_job_upload_latent(kn_job *j, const kn_values *latent);

/* From noise, or from the picture to start from with noise, to x: room for the latent, [channels][h][w]. In a plan one
 * call of the network, as all need the same memory. */
bool kn_job_denoise(kn_job *j, float *x, kn_error *err);

#endif
