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
    const char *vae;
    const char *tokenizer; /* a folder or a tokenizer.json; NULL and none in the profile: Qwen's, which is built in */
    unsigned threads;      /* 0: one per processor that this process may use */
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
    const char *phase; /* "load", "encode", "step", "decode" */
    int step, steps;   /* in phase "step": done, in all; otherwise 0 */
    double seconds;    /* since the call began */
} kuno_progress;

/* Called by the thread that called kuno_generate, after something has been done. Anything but 0 stops the call. */
typedef int kuno_progress_fn(void *context, const kuno_progress *progress);

typedef struct kuno_request {
    const char *prompt;          /* UTF-8, not empty */
    const char *negative_prompt; /* used when there is guidance; NULL: none */
    int width, height;           /* pixels, multiples of 16; 0: the model's default */
    int steps;                   /* 0: the model's default */
    double cfg;                  /* guidance, 1 = off, for Krea 2 0 = off; negative: the model's default */
    uint64_t seed;               /* of the noise, used when random_seed is 0 */
    int random_seed;             /* 1: choose a seed; kuno_image tells which */
    const char *sampler;         /* NULL: the model's default, "euler" for most */
    const char *scheduler;       /* NULL: the model's own */
    int allow_swap;              /* 1: begin even if the memory that is free will not do */
    kuno_progress_fn *progress;  /* may be NULL */
    void *progress_context;
} kuno_request;

/* Everything at the model's defaults, random seed, no prompt. Every request starts so: a zeroed one asks for cfg 0. */
KUNO_API void kuno_request_init(kuno_request *request);

typedef struct kuno_image {
    int width, height, channels; /* channels: 4 (RGBA) or 3 (RGB) */
    unsigned char *pixels;       /* height rows of width * channels bytes, top first */
    uint64_t seed;
    char *parameters; /* the settings as text, as it goes into the PNG; UTF-8 */
} kuno_image;

KUNO_API kuno_code kuno_generate(kuno_model *model, const kuno_request *request, kuno_image *ret, kuno_error *error);
KUNO_API void kuno_image_free(kuno_image *image); /* also of a zeroed image, and of NULL */

/* Written beside its place and renamed when complete; an existing file is replaced. Holds the settings as text. */
KUNO_API kuno_code kuno_image_write_png(const kuno_image *image, const char *path, kuno_error *error);

KUNO_API const char *kuno_version(void);

#ifdef __cplusplus
}
#endif

#endif
