/* From a recipe to pixels, for every architecture behind the same few calls.
 *
 * A recipe is complete: defaults have been filled in and every number checked (settings.h does that). A pipeline owns
 * the model's components; it loads and frees them stage by stage, or keeps them, as its residency says. What encoders
 * made of prompts and pictures it keeps either way, for the next picture that is drawn from the same. */
#ifndef KN_PIPELINES_PIPELINE_H
#define KN_PIPELINES_PIPELINE_H

#include <stdatomic.h>
#include <stdint.h>

#include "compute/ops.h"
#include "image/mask.h"
#include "sampling/noise.h"
#include "sampling/sampler.h"
#include "sampling/schedule.h"
#include "weights/weights.h"

/* Where a component comes from: a path, or bytes that are part of the program. */
typedef struct kn_source {
    const char *path;
    const uint8_t *data;
    size_t len;
} kn_source;

/* A place in a pipeline that one model file fills. */
typedef struct kn_slot {
    const char *name;  /* "text encoder": what messages begin with */
    const char *id;    /* the kind of file that belongs here, see detect.h */
    const char *wants; /* the same for sentences: "a Qwen3-VL text encoder" */
    size_t network_bytes;
    void (*take)(void *network, kn_binder *b); /* fills the network, which has network_bytes */
    /* NULL, or sets beforehand what no tensor tells, from what stands beside the file. */
    bool (*prepare)(void *network, const kn_source *source, kn_error *err);
} kn_slot;

typedef struct kn_model_files {
    kn_source diffusion_model, text_encoder, vae;
    kn_source vision;    /* nothing: in the text encoder's file, or nowhere */
    kn_source tokenizer; /* a folder, a tokenizer.json, or the bytes of one; nothing: the built-in one */
} kn_model_files;

typedef enum kn_residency { KN_STAGED, KN_CACHED } kn_residency;

enum { KN_VAE_TILE_SIDE = 512 }; /* pixels of a tile's side where tiles are wanted; an eighth overlaps */

typedef struct kn_recipe {
    const char *prompt, *negative_prompt; /* checked UTF-8 */
    int width, height;
    double cfg;             /* 1 = off, for every architecture */
    bool rescaled_guidance; /* guidance changes directions alone, not lengths */
    uint64_t seed;
    const kn_sampler *sampler;
    kn_sigmas sigmas;
    kn_noise_kind noise;
    const float *init_noise; /* instead of noise from the seed, [channels][h][w]; NULL: none */
    size_t init_noise_count;
    const kn_image *references; /* upright RGBA, in the order in which the prompt counts them */
    int reference_count;
    unsigned reference_resolution; /* about its square is how many pixels the model sees of each; 0: their own size */
    const kn_image *init_image;    /* upright RGBA to start from, noised to the first sigma; NULL: none */
    const kn_mask *mask;           /* of the recipe's size: what of init_image is drawn anew; NULL: all of it */
    const kn_mask *shown;          /* beside a mask: what of the result is shown; the rest is init_image to the byte */
    int cut_right, cut_bottom;     /* columns and rows of the result that are not part of the picture */
    bool vae_tiling;               /* what is larger than a tile goes through the VAE in tiles in any case */
    bool allow_swap;               /* try even if it cannot fit in memory */
} kn_recipe;

/* Whether the negative prompt counts: it costs a second pass of the network. */
static inline bool kn_recipe_is_guided(const kn_recipe *r) {
    return r->cfg > 1;
}

/* Told after something has been done; false stops the job. phase: "load", "encode", "step", "decode". */
typedef bool kn_progress_fn(void *ctx, const char *phase, int step, int steps);

/* Shown after each step how the picture is coming along: RGBA, one pixel for each cell of the latent. */
typedef void kn_preview_fn(void *ctx, int step, int steps, const kn_image *picture);

/* Shown what the golden files hold, under their names; values are float32 in the order of `dim`. */
typedef void kn_dump_fn(void *ctx, const char *name, int rank, const int64_t *dim, const float *values);

typedef struct kn_hooks {
    kn_progress_fn *progress; /* may be NULL */
    void *progress_ctx;
    kn_preview_fn *preview; /* may be NULL */
    void *preview_ctx;
    kn_dump_fn *dump; /* may be NULL */
    void *dump_ctx;
    const atomic_bool *stop; /* may be NULL */
    bool plan;               /* load and compute nothing: the report tells what memory it would take */
} kn_hooks;

typedef enum kn_stage {
    KN_STAGE_PICTURES, /* given pictures become latents */
    KN_STAGE_SEE,      /* and what the text encoder sees of them */
    KN_STAGE_ENCODE,
    KN_STAGE_DIFFUSE,
    KN_STAGE_DECODE,
    KN_STAGE_COUNT,
} kn_stage;

typedef struct kn_stage_report {
    const char *name; /* "pictures", "see", "encode", "diffuse", "decode"; NULL: it is no part of this picture */
    double load_seconds, seconds;
    uint64_t weight_bytes, peak_bytes; /* stored weights of the stage; most memory beside them in use */
    int runs, reused; /* how often it was done, and how often an earlier picture's results served instead */
} kn_stage_report;

typedef struct kn_draw_report {
    kn_stage_report stage[KN_STAGE_COUNT];
    double products;                             /* as in a kn_run; up to date whenever progress is told */
    int prompt_tokens;                           /* that the model saw, its template included */
    int dropped_tokens, dropped_negative_tokens; /* known when "encode" is told: cut from the end of a long prompt */
} kn_draw_report;

/* Several pictures as one: times and numbers are added up, the largest memory counts, the rest is the last one's. */
void kn_draw_report_add(kn_draw_report *sum, const kn_draw_report *one);

typedef struct kn_pipeline kn_pipeline;
typedef struct kn_stages kn_stages; /* what is special about an architecture, see job.h */
struct kn_architecture;

/* Opens every component and checks it, and that they belong together; reads no tensor data. */
bool kn_pipeline_open(const struct kn_architecture *a, const kn_model_files *files, kn_device *device,
                      kn_precision precision, kn_residency residency, kn_pipeline **ret, kn_error *err);
void kn_pipeline_close(kn_pipeline *p); /* NULL is fine */

/* Whether it can be given reference pictures. */
bool kn_pipeline_sees(const kn_pipeline *p);
/* The same; if it is for want of a file, or for what is in it, the error says so. */
bool kn_pipeline_check_sight(const kn_pipeline *p, kn_error *err);
/* Whether the files of its networks are still those that it was opened with. */
bool kn_pipeline_is_current(const kn_pipeline *p);

/* Whether a model of these stages takes a prompt beside references with these longer sides, told without the model: by
 * the tokenizer, which is read only for long prompts. KN_E_RANGE: it is too long. */
bool kn_stages_have_room(const kn_stages *s, const kn_source *tokenizer, const char *prompt, const uint32_t *sides,
                         int count, kn_error *err);

/* One picture; none in a plan. One call at a time. */
bool kn_pipeline_draw(kn_pipeline *p, const kn_recipe *recipe, const kn_hooks *hooks, kn_image *ret,
                      kn_draw_report *report, kn_error *err);

#endif
