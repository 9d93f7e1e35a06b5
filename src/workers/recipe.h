/* What a picture is asked for with: the JSON text that clients send and the image worker draws from.
 *
 *     { "workflow": "qwen-image-2.1-text-to-image/v1", "prompt": "A red boat.", "seed": "42",
 *       "width": 512, "height": 512, "steps": 20, "cfg": 1 }
 *
 * Read strictly: an unknown key, one that comes twice, a number outside of its range or a text where a number belongs
 * is an error that begins with its place. Pictures are in the text itself, in base64; paths and addresses are no
 * pictures, and nothing is ever fetched. Here the pictures stay files: decoding them is for the worker alone.
 *
 * A workflow is a fixed combination of model and way of working, for programs that want exactly that; with one, all its
 * settings must be given. Without one, only the prompt must be, and what is left out is as `kuno generate` has it. */
#ifndef KN_WORKERS_RECIPE_H
#define KN_WORKERS_RECIPE_H

#include "base/buf.h"
#include "image/canvas.h"
#include "image/image.h"
#include "sampling/schedule.h"
#include "workers/codes.h"

enum {
    KN_RECIPE_PROMPT_CHARACTERS = 32768,
    KN_RECIPE_SIDE_MIN = 64,
    KN_RECIPE_SIDE_MAX = 4096,
    KN_RECIPE_STEPS_MAX = 100,
    KN_RECIPE_RESULT_MAX = 8192, /* of a side that a picture is brought to */
    KN_RECIPE_CFG_MAX = 30,
    KN_RECIPE_REFERENCES_MAX = 10,
    KN_RECIPE_REFERENCE_BYTES = 16 << 20,  /* of each file */
    KN_RECIPE_REFERENCES_BYTES = 63 << 20, /* of all their base64 */
};

typedef struct kn_workflow {
    const char *id, *architecture;
    const char *collection; /* the models that it is made for */
    bool edits;             /* draws from references, else from the prompt alone */
    bool takes_shift;       /* flow_shift must be given, else must not */
} kn_workflow;

enum { KN_WORKFLOWS = 3 };
extern const kn_workflow kn_workflows[KN_WORKFLOWS];

/* Prompts of other programs may load additional weights in this way: "<lora:NAME:1>". Here that would be drawn as
 * words, so it is refused. NULL: there is none; else where the name begins, and its length. */
const char *kn_recipe_lora(const char *prompt, size_t *ret_len);

/* The size that a picture is brought to in the end, by an upscaler or by Lanczos. */
typedef struct kn_recipe_size {
    uint32_t width, height; /* 0: as it is drawn */
    char *upscaler;         /* a file's name in the worker's folder of upscalers; NULL: Lanczos */
    uint32_t tile;          /* 0: as memory allows */
    double blend;
    bool prescale;
} kn_recipe_size;

typedef struct kn_image_recipe {
    const kn_workflow *workflow;    /* NULL: none */
    char *model;                    /* a profile's name; NULL: whichever serves the workflow, or the default */
    char *prompt, *negative_prompt; /* prompt NULL: init_image is only brought to another size */
    kn_optional width, height, steps, cfg, flow_shift, strength;
    uint64_t seed; /* below 2^63 */
    bool seed_given;
    char *sampler, *scheduler; /* NULL: the model's */
    bool metadata, opaque;     /* settings inside the file; no transparency */
    bool keep_hdr;             /* with the gain map of init_image, else of the first reference (image/gain_map.h) */
    kn_image_kind kind;        /* of the file: KN_IMAGE_PNG, KN_IMAGE_JPEG or KN_IMAGE_WEBP */
    unsigned quality;          /* of the last two, 1 … 100 */
    int reference_count;
    kn_buf references[KN_RECIPE_REFERENCES_MAX]; /* files; empty if they were not asked for */
    kn_buf init_image;                           /* a file; empty: none */
    kn_buf mask;                                 /* a file: what of it is drawn anew; empty: all of it */
    kn_sides outpaint;                           /* what is added on its sides */
    kn_optional feather; /* over so many pixels of init_image does what is drawn pass into what stays */
    bool show_region;    /* to a model that sees pictures: what is drawn anew is marked in one more */
    kn_recipe_size size;
} kn_image_recipe;

/* with_pictures: false only checks them, which takes no memory. pointer, which may be NULL: where the error is, as a
 * JSON Pointer. Fills *ret only when the code is KN_JOB_DONE. */
kn_job_code kn_image_recipe_read(const char *text, size_t len, bool with_pictures, kn_image_recipe *ret,
                                 kn_buf *pointer, kn_error *err);
/* The same for a recipe of a workflow that others are to draw from: it has nothing but what a workflow takes, its seed
 * is a decimal text and its pictures are plain base64. Pictures are only checked. */
kn_job_code kn_image_recipe_check(const char *text, size_t len, kn_image_recipe *ret, kn_buf *pointer, kn_error *err);

void kn_image_recipe_free(kn_image_recipe *r);

#endif
