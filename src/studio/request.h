/* What a client may ask for: the bodies of /api/v1/jobs, /plan and /upscale, read strictly (json_form.h). What goes
 * together and what a model can do is the planner's to say; here a request is understood, and nothing is filled in that
 * depends on settings. */
#ifndef KN_STUDIO_REQUEST_H
#define KN_STUDIO_REQUEST_H

#include <stdint.h>

#include "base/buf.h"

enum {
    KN_REQUEST_BYTES = 1 << 20,    /* of a body */
    KN_REQUEST_PROMPT_MAX = 32768, /* characters */
    KN_REQUEST_PROMPT_BYTES = 4 * KN_REQUEST_PROMPT_MAX,
    KN_REQUEST_INPUTS = 12,
    KN_REQUEST_BATCH = 8,
    KN_REQUEST_TAGS = 20,
    KN_TAG_MAX = 60,    /* characters */
    KN_TITLE_MAX = 200, /* characters */
    KN_PICTURE_SIDE_MIN = 16,
    KN_PICTURE_SIDE_MAX = 16384,
    KN_NAME_BYTES = 65, /* of profiles and upscalers */
    KN_SHA256_TEXT = 65,
};

typedef enum kn_studio_kind {
    KN_KIND_AUTO,
    KN_KIND_TEXT_TO_IMAGE,
    KN_KIND_EDIT,
    KN_KIND_INPAINT,
    KN_KIND_OUTPAINT,
    KN_KIND_UPSCALE,
    KN_KIND_COUNT,
} kn_studio_kind;
extern const char *const kn_studio_kinds[KN_KIND_COUNT];

typedef enum kn_preset_id { KN_PRESET_FAST, KN_PRESET_BALANCED, KN_PRESET_QUALITY, KN_PRESETS } kn_preset_id;
extern const char *const kn_preset_names[KN_PRESETS];

typedef enum kn_size_mode {
    KN_SIZE_AUTO,
    KN_SIZE_1K,
    KN_SIZE_1_5K,
    KN_SIZE_2K,
    KN_SIZE_SOURCE,
    KN_SIZE_CUSTOM,
    KN_SIZE_MODES,
} kn_size_mode;

typedef enum kn_input_role { KN_INPUT_SOURCE, KN_INPUT_REFERENCE, KN_INPUT_MASK, KN_INPUT_ROLES } kn_input_role;
extern const char *const kn_input_roles[KN_INPUT_ROLES];

typedef enum kn_picture_format {
    KN_PICTURE_PNG,
    KN_PICTURE_JPEG,
    KN_PICTURE_WEBP,
    KN_PICTURE_FORMATS
} kn_picture_format;
extern const char *const kn_picture_formats[KN_PICTURE_FORMATS];     /* "png" */
extern const char *const kn_picture_media_types[KN_PICTURE_FORMATS]; /* "image/png" */
extern const char *const kn_picture_endings[KN_PICTURE_FORMATS];     /* "png", of file names */

typedef struct kn_request_input {
    char id[KN_SHA256_TEXT];
    kn_input_role role;
} kn_request_input;

typedef struct kn_upscale_spec {
    char upscaler[KN_NAME_BYTES]; /* empty: the settings' */
    double factor;                /* 0: not given */
    uint32_t width, height;       /* 0: not given */
    bool has_tile_size, has_blend, has_prescale;
    uint32_t tile_size;
    double blend;
    bool prescale, detailed;
} kn_upscale_spec;

typedef struct kn_output_spec {
    kn_picture_format format;
    unsigned quality;
    bool transparent, embed_metadata, keep_hdr, save_to_gallery;
} kn_output_spec;

typedef struct kn_studio_request {
    kn_studio_kind kind;
    char *prompt, *negative_prompt; /* NULL: none */
    char profile[KN_NAME_BYTES];    /* empty: the active one */
    bool has_preset;
    kn_preset_id preset;
    kn_size_mode size_mode;
    uint32_t ratio_width, ratio_height; /* 0: not given */
    uint32_t width, height;             /* with KN_SIZE_CUSTOM */
    size_t input_count;
    kn_request_input inputs[KN_REQUEST_INPUTS];
    uint32_t outpaint[4]; /* left, right, top, bottom */
    bool has_feather;
    uint32_t feather; /* pixels, of a mask's or an outpainting's edge */
    bool has_seed;
    uint64_t seed;
    uint64_t batch;
    char sampler[4 * 40 + 1]; /* empty: the model's */
    bool easycache, has_cache_threshold;
    double cache_threshold;
    bool has_upscale;
    kn_upscale_spec upscale;
    kn_output_spec output;
    char *title;
    size_t tag_count;
    char *tags[KN_REQUEST_TAGS];
    char gallery_item[32]; /* of an upscale, in place of an input; empty: none */
} kn_studio_request;

/* A body of JSON whose form is checked. `upscale`: one of /upscale. Where it is not as it should be, `pointer` (a
 * buffer of the caller's) gets the JSON Pointer of the member that is wrong. */
bool kn_request_read(const char *text, size_t len, bool upscale, kn_studio_request *ret, kn_buf *pointer,
                     kn_error *err);
void kn_request_free(kn_studio_request *r);

void kn_tags_fold(char **tags, size_t *count); /* each once, in the order of their first time */

/* Whether the picture's file is to tell its settings: if that is wanted, and they fit into files of its format. */
bool kn_request_embeds_metadata(const kn_studio_request *r);

/* Names of profiles and upscalers: a-z 0-9 . _ -, the first one a letter or digit, at most 64. */
bool kn_name_is_valid(const char *text, size_t len);

/* A seed as it is written: decimal, no leading zeros, below 2^63. */
bool kn_seed_parse(const char *text, size_t len, uint64_t *ret);

#endif
