/* libkuno: draw pictures from text with local model files, in C.
 *
 *     kuno_model *model;
 *     kuno_error error;
 *     if (kuno_model_open(NULL, &model, &error))            // the built-in demonstration model
 *         ...error.text says what is wrong and what to do
 *     kuno_request request;
 *     kuno_request_init(&request);
 *     request.prompt = "a red apple";
 *     kuno_image image;
 *     if (kuno_generate(model, &request, &image, &error)) ...
 *     kuno_image_write_png(&image, "apple.png", &error);
 *     kuno_image_free(&image);
 *     kuno_model_close(model);
 *
 * Everything that `kuno generate` can do is here, too: pictures to work from, noise schedules, several pictures of one
 * prompt. A model remembers what encoders made of a prompt and of given pictures, within limits, so that drawing again
 * from the same begins with the diffusion model.
 *
 * Nothing is downloaded, no network is used, nothing is printed. Functions return a kuno_code; on failure they fill
 * *error (which may be NULL) and leave their outputs alone. A model serves one call at a time; different models may be
 * used by different threads at once. Pointers must not be NULL where nothing else is said.
 *
 * Model files are mapped: whoever makes one shorter while it is in use ends the process with SIGBUS, as the system has
 * it for mapped files. A program that must not end so runs the engine in a process of its own. */
#ifndef KUNO_H
#define KUNO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KUNO_API __attribute__((visibility("default")))
#else
#define KUNO_API
#endif

/* The program's exit codes are the same numbers. */
typedef enum kuno_code {
    KUNO_OK = 0,
    KUNO_FAILED = 1,      /* out of memory, a disk that cannot be read, a numeric failure, … */
    KUNO_INVALID = 2,     /* a file, setting or text that cannot be used as it is */
    KUNO_CANCELLED = 130, /* stopped by the progress callback or kuno_cancel */
} kuno_code;

typedef struct kuno_error {
    kuno_code code;
    char text[600]; /* one sentence, UTF-8, without full stop: "text encoder: layers.0.mlp.up_proj.weight is missing" */
} kuno_error;

typedef enum kuno_precision {
    KUNO_FAST,  /* narrower products where the processor gains from them */
    KUNO_EXACT, /* float32 throughout; the same pixels for any number of threads */
} kuno_precision;

/* All pointers may be NULL, all numbers 0: the meaning of that is given behind each. Texts are copied. */
typedef struct kuno_model_options {
    const char *config;          /* a models.toml; NULL: the user's own, if there is one */
    const char *profile;         /* a profile in it; NULL: its default_model, else the built-in "demo" */
    const char *diffusion_model; /* files or folders in place of the profile's; NULL: the profile's */
    const char *text_encoder;
    const char *vision; /* where the text encoder's file has no vision encoder in it */
    const char *vae;
    const char *tokenizer; /* a folder or a tokenizer.json; NULL and none in the profile: Qwen's, which is built in */
    unsigned threads;      /* 0: one per core that this process may use */
    kuno_precision precision;
    int keep_loaded; /* 0: free each stage when it is done, as one picture needs; 1: keep all for the next picture */
} kuno_model_options;

typedef struct kuno_model kuno_model;

/* Reads headers and checks every tensor name and shape; weights are read when they are needed. options may be NULL. */
KUNO_API kuno_code kuno_model_open(const kuno_model_options *options, kuno_model **ret, kuno_error *error);
KUNO_API void kuno_model_close(kuno_model *model); /* NULL is fine */

/* Asks the call that runs on this model to stop; it returns KUNO_CANCELLED within one step. May be called from any
 * thread and from a signal handler. The next kuno_generate starts afresh. */
KUNO_API void kuno_cancel(kuno_model *model);

typedef struct kuno_progress {
    const char *phase; /* "load", "encode", "step", "decode"; of an upscaler "load", "tile" */
    int step, steps;   /* in phases "step" and "tile": done, in all; otherwise 0 */
    double seconds;    /* since the call began */
} kuno_progress;

/* Called by the thread that called kuno_generate or kuno_upscale, after something has been done. Anything but 0 stops
 * the call. */
typedef int kuno_progress_fn(void *context, const kuno_progress *progress);

typedef struct kuno_image {
    int width, height, channels; /* channels: 4 (RGBA) or 3 (RGB) */
    unsigned char *pixels;       /* height rows of width * channels bytes, top first */
    uint64_t seed;               /* of a drawn picture */
    char *parameters;            /* its settings as text, as they go into the PNG; UTF-8. NULL: none */
} kuno_image;

/* Pixels on each side of a picture. */
typedef struct kuno_sides {
    int left, top, right, bottom;
} kuno_sides;

/* What is pointed at is needed until the call returns, and not changed. */
typedef struct kuno_request {
    const char *prompt;          /* UTF-8, not empty */
    const char *negative_prompt; /* used when there is guidance; NULL: none */
    int width, height;           /* pixels, multiples of 16; 0: of the given pictures, else the model's default */
    int steps;                   /* 0: the model's default */
    double cfg;                  /* guidance, 1 = off, for Krea 2 0 = off; negative: the model's default */
    uint64_t seed;               /* of the noise, used when random_seed is 0 */
    int random_seed;             /* 1: choose a seed; kuno_image tells which */

    /* Pictures to work from: those that the prompt is about, as <image1>, <image2>, …, and one to start from in place
     * of noise alone. The model's architecture must be able to. */
    const kuno_image *references;
    int reference_count;
    const kuno_image *init_image; /* NULL: none */
    double strength; /* how much of it may change, 0 … 1; negative: the default, 0.6, or 1 beside the following */

    /* Of the init image only a part is drawn anew, every other pixel stays as it is: what is white in the mask, or what
     * is transparent where something is; or room on its sides. Qwen-Image 2.1, which does not see masks, is shown the
     * part in red in a reference. Where no size is given, a masked picture keeps its own, and one with room on its
     * sides has that besides; where both width and height are, all of it comes to that. */
    const kuno_image *mask; /* of the init image's size; NULL: none */
    int mask_invert;        /* 1: what is black */
    int mask_grow;          /* and so many pixels around it, 0 … 256 */
    int mask_fade;          /* what is drawn passes into what stays over so many pixels; negative: the default */
    kuno_sides outpaint;    /* all 0: none */
    int no_region;          /* 1: do not show it, which takes less time */

    /* How steps are made and spaced. */
    const char *sampler;       /* NULL: the model's default, "euler" for most */
    const char *scheduler;     /* NULL: the model's own */
    double flow_shift, mu;     /* what moves the noise levels; NAN: the model's own */
    double shift_y1, shift_y2; /* the ends of mu where it follows from the picture's size; NAN: its own */
    const float *sigmas;       /* noise levels of one's own, falling; NULL: from the scheduler */
    size_t sigma_count;        /* the steps, with or without the final 0 */
    const char *rng;           /* whose noise a seed gives; NULL: "torch-cpu" */
    const float *init_noise;   /* instead of noise from the seed: [channels][h][w] of the latent; or NULL */
    size_t init_noise_count;   /* values of it */

    int opaque;                 /* 1: make every pixel fully opaque */
    int vae_tiling;             /* 1: decode and encode in tiles in any case, which takes less memory */
    int allow_swap;             /* 1: begin even if the memory that is free will not do */
    const char *dump;           /* a folder for dump.safetensors: what happens on the way to one picture; NULL: none */
    kuno_progress_fn *progress; /* may be NULL */
    void *progress_context;
} kuno_request;

/* Everything at the model's defaults, random seed, no prompt. Every request starts so: a zeroed one asks for cfg 0. */
KUNO_API void kuno_request_init(kuno_request *request);

KUNO_API kuno_code kuno_generate(kuno_model *model, const kuno_request *request, kuno_image *ret, kuno_error *error);
/* The same with `count` seeds that follow each other; ret has room for so many. All are drawn, or none is given. */
enum { KUNO_BATCH_MAX = 10000 };
KUNO_API kuno_code kuno_generate_batch(kuno_model *model, const kuno_request *request, size_t count, kuno_image *ret,
                                       kuno_error *error);

/* What the last call on a model did; times and runs are those of all its pictures together. */
enum { KUNO_STAGES = 5 };
typedef struct kuno_stage {
    const char *name; /* "pictures", "see", "encode", "diffuse", "decode"; NULL: it was no part of the pictures */
    int runs, reused; /* how often it was done, and how often an earlier picture's results served instead */
    double load_seconds, seconds;
    uint64_t weight_bytes, peak_bytes; /* stored weights; most memory beside them in use */
} kuno_stage;
typedef struct kuno_report {
    kuno_stage stages[KUNO_STAGES];
    int prompt_tokens;                           /* that the model saw, its template included */
    int dropped_tokens, dropped_negative_tokens; /* cut from the end of a prompt that was too long */
} kuno_report;
KUNO_API void kuno_model_report(const kuno_model *model, kuno_report *ret);

/* A PNG, JPEG or WebP file as upright RGBA, within limits that keep hostile files from taking the memory. */
KUNO_API kuno_code kuno_image_read(const char *path, kuno_image *ret, kuno_error *error);
/* Written beside its place and renamed when complete; an existing file is replaced. Holds the settings as text, unless
 * there are none. */
KUNO_API kuno_code kuno_image_write_png(const kuno_image *image, const char *path, kuno_error *error);
KUNO_API void kuno_image_free(kuno_image *image); /* also of a zeroed image, and of NULL */

/* Enlarging pictures, by a network (RRDBNet, as ESRGAN and most others are, SRVGG, MoSR) and Lanczos, or by the latter
 * alone. Like a model, an upscaler serves one call at a time. */
typedef struct kuno_upscaler kuno_upscaler;

/* file: safetensors; NULL: Lanczos alone. threads: 0: one per core that this process may use. */
KUNO_API kuno_code kuno_upscaler_open(const char *file, unsigned threads, kuno_precision precision, kuno_upscaler **ret,
                                      kuno_error *error);
KUNO_API void kuno_upscaler_close(kuno_upscaler *upscaler);      /* NULL is fine */
KUNO_API int kuno_upscaler_scale(const kuno_upscaler *upscaler); /* by how much the network enlarges; 1 without */
KUNO_API void kuno_upscaler_cancel(kuno_upscaler *upscaler);     /* as kuno_cancel, within a tile */

/* Zeroed, all is at its default. */
typedef struct kuno_upscale_request {
    int width, height; /* of the result, up to 8192; both 0: scale times as large */
    double blend;      /* share of what Lanczos alone would make in the result, 0 … 1 */
    int prescale;      /* 1: shrink a large picture first, so that the network makes 1.41 times what is wanted */
    int tile;          /* pixels of a tile's side, a multiple of 4; 0: as memory allows */
    kuno_progress_fn *progress; /* may be NULL */
    void *progress_context;
} kuno_upscale_request;

/* The result has an alpha channel if any of the picture's pixels is not opaque. */
KUNO_API kuno_code kuno_upscale(kuno_upscaler *upscaler, const kuno_image *image, const kuno_upscale_request *request,
                                kuno_image *ret, kuno_error *error);

KUNO_API const char *kuno_version(void);

#ifdef __cplusplus
}
#endif

#endif
