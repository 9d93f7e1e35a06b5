/* What a picture file says about how it was made, for making it again: ComfyUI's graphs, the text that A1111 and many
 * others write, and our own.
 *
 *     kn_import found;
 *     if (kn_import_read(file, len, &KN_IMAGE_LIMITS, &found, &err))
 *         … found.source: KN_IMPORT_NONE if it says nothing
 *     kn_import_free(&found);
 *
 * A graph is followed back from the picture that was saved, and only what is met on that way counts: notes, nodes that
 * lead nowhere and branches that a switch left out do not. What is met must be understood: a node that does something
 * else than Kuno would do is an error that names it, never left out. What can be taken over but not in every respect is
 * told in warnings. Names of files are information only; nothing in a picture is ever opened or fetched, and its pixels
 * are not decoded.
 *
 * Everything is bounded: texts as png.h says, a graph by 2000 nodes and 64 levels of JSON, links by the number of steps
 * that following them may take. */
#ifndef KN_IMAGE_IMPORT_H
#define KN_IMAGE_IMPORT_H

#include <jansson.h>

#include "image/image.h"
#include "image/parameters.h"

typedef enum kn_import_source {
    KN_IMPORT_NONE,
    KN_IMPORT_KUNO,
    KN_IMPORT_COMFYUI,
    KN_IMPORT_A1111,
    KN_IMPORT_SOURCES,
} kn_import_source;
extern const char *const kn_import_sources[KN_IMPORT_SOURCES];

/* What is not as it was, or cannot be known. Each has a word for programs and a sentence for people. */
typedef enum kn_import_warning {
    KN_IMPORT_SEED_TOO_LARGE, /* for the service; `kuno generate` takes it */
    KN_IMPORT_SEED_MAY_DIFFER,
    KN_IMPORT_BIT_DEPTH,
    KN_IMPORT_NEGATIVE_IGNORED,
    KN_IMPORT_DEFAULT_SHIFT,
    KN_IMPORT_TURBO_SCHEDULE,
    KN_IMPORT_CACHE,
    KN_IMPORT_REFERENCE_RESOLUTION,
    KN_IMPORT_OTHER_SAMPLER,
    KN_IMPORT_OTHER_SCHEDULER,
    KN_IMPORT_LORA,
    KN_IMPORT_SIZE_ROUNDED,
    KN_IMPORT_START_PICTURE,
    KN_IMPORT_MASK,
    KN_IMPORT_NOISE,
    KN_IMPORT_SEED_UNUSABLE,
    KN_IMPORT_STEPS_UNUSABLE,
    KN_IMPORT_CFG_UNUSABLE,
    KN_IMPORT_SIZE_UNUSABLE,
    KN_IMPORT_LEFT_OUT,
    KN_IMPORT_PROMPT_SYNTAX,
    KN_IMPORT_WARNINGS,
} kn_import_warning;

typedef struct kn_import_words {
    const char *word, *sentence;
} kn_import_words;
extern const kn_import_words kn_import_warnings[KN_IMPORT_WARNINGS];

enum {
    KN_IMPORT_FILES = 3,
    KN_IMPORT_PROMPT_BYTES = 4 * 32768,
    KN_IMPORT_STEPS_MAX = 200,
    KN_IMPORT_REFERENCES_MAX = 10,
    KN_IMPORT_SIGMAS = 9, /* of Turbo */
};

typedef struct kn_import {
    kn_import_source source;
    const char *key;                    /* of the text that counts: "prompt", "workflow", "parameters" */
    const char *workflow;               /* a fixed way of working, as in workers/recipe.h; NULL: none is meant */
    const char *architecture, *variant; /* that it is for; NULL: not known */
    char *prompt, *negative_prompt;     /* never NULL if there is a source */
    char *seed;                         /* decimal; NULL: not said, like all texts below */
    char *model;                        /* a profile's name, of our own */
    char *sampler, *scheduler;          /* as they are written */
    char *cache_device, *cache_dtype;   /* other than the usual ones */
    char *files[KN_IMPORT_FILES];       /* of diffusion model, text encoder and VAE */
    uint32_t width, height;             /* 0: not said, or as large as the first reference */
    unsigned steps;                     /* 0: not said */
    bool has_cfg, has_flow_shift;
    double cfg, flow_shift;
    bool turbo;               /* by its own noise levels */
    unsigned reference_count; /* of pictures that must be given again */
    unsigned warnings;        /* bits by kn_import_warning */
    kn_parameters parameters; /* all pairs of a `parameters` text */
} kn_import;

extern const double kn_import_turbo_sigmas[KN_IMPORT_SIGMAS];

/* PNG; of JPEG and WebP the comment in their EXIF notes. Of an error *ret has `source` and `key`, as far as they are
 * known; nothing is to be freed then. */
bool kn_import_read(const void *data, size_t len, const kn_image_limits *limits, kn_import *ret, kn_error *err);
void kn_import_free(kn_import *found);

/* All of it as one object, as docs/import-workflow.md describes it. NULL: out of memory. */
json_t *kn_import_json(const kn_import *found);

/* The size that is proposed: the nearest one that can be drawn. 0: none is. */
uint32_t kn_import_side(uint32_t side);

/* A pair of an A1111 text that means something for the picture and nothing here. */
bool kn_import_leaves_out(const kn_import *found, const kn_parameter *pair);

/* How the sampler and the scheduler are called here. NULL: the model's own are to be used. */
const char *kn_import_sampler(const kn_import *found);
const char *kn_import_scheduler(const kn_import *found);

#endif
