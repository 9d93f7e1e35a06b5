/* What a job would do, said before it begins: which way of working a request means, at what sizes, in how many steps,
 * with how much memory and time. A pure calculation: what it knows of the machine is given to it.
 *
 * Sizes: each preset has a number of pixels, in relation to what the model was trained for. A picture is worked on at
 * about so many, in the wanted shape, on the model's grid; what is wanted larger is enlarged afterwards. Where memory
 * does not do, the working size shrinks and a note says so; what enlarges afterwards goes in smaller tiles. */
#ifndef KN_STUDIO_PLANNER_H
#define KN_STUDIO_PLANNER_H

#include "studio/inputs.h"
#include "studio/profiles.h"
#include "studio/settings.h"
#include "studio/speed.h"
#include "studio/upscalers.h"

enum { KN_PLAN_NOTES = 12, KN_PLAN_ASPECT_MAX = 50 };

typedef struct kn_note {
    const char *code, *message, *severity;
} kn_note;

typedef struct kn_rect {
    uint32_t x, y, width, height;
} kn_rect;

/* A picture of the request, in its order. */
typedef struct kn_plan_input {
    char id[KN_SHA256_TEXT]; /* empty: one of the gallery's */
    kn_input_role role;
    uint32_t width, height;
    bool has_gain_map, has_damaged_map;
    unsigned mask_lacks;    /* kn_mask_lacks */
    bool has_other_colours; /* its colour profile is not sRGB, or cannot be read */
} kn_plan_input;

/* What clients of other APIs choose although a request cannot say it. Where the model cannot do it, it is brought into
 * what it can, with a note. */
typedef struct kn_plan_wish {
    kn_optional steps, cfg;
    kn_optional strength; /* how much of the source may change, where a model starts from it instead of seeing it */
} kn_plan_wish;

typedef struct kn_plan_setting {
    const kn_model_profile *profile;
    const kn_studio_settings *settings;
    const kn_upscaler_list *upscalers;
    kn_speed speed;
    uint64_t memory_bytes; /* that may be used; UINT64_MAX: unknown */
    unsigned kinds;        /* bits: what the engine can do */
    bool resizes;          /* it gives results another size than it works at */
    kn_plan_wish wish;
    size_t input_count;
    kn_plan_input inputs[KN_REQUEST_INPUTS];
} kn_plan_setting;

typedef struct kn_studio_plan {
    kn_studio_kind kind;
    char profile[KN_NAME_BYTES];
    uint32_t working_width, working_height, result_width, result_height;
    bool has_paste;
    kn_rect paste; /* of the source in the result */
    unsigned steps;
    double guidance;
    bool guided;          /* so that the negative prompt counts */
    kn_optional strength; /* the source is where it starts */
    char sampler[64];
    kn_sigmas sigmas;
    char upscaler[KN_NAME_BYTES]; /* empty: none */
    uint32_t tile_size;           /* of it; 0: it needs none */
    size_t reference_count;
    kn_plan_input references[KN_REQUEST_INPUTS]; /* at the sizes at which the model sees them */
    uint64_t budget_bytes, estimate_bytes;       /* UINT64_MAX: unknown */
    double units;                                /* of work, for each picture */
    double seconds;                              /* for all; negative: this machine has not been measured yet */
    bool keeps_hdr;                              /* the source's gain map goes with the result */
    size_t note_count, blocking_count;
    kn_note notes[KN_PLAN_NOTES], blocking[KN_PLAN_NOTES];
} kn_studio_plan;

/* False: the request cannot be meant so; pointer says which member. What only cannot be done now is in `blocking`. */
bool kn_plan_request(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *ret, kn_buf *pointer,
                     kn_error *err);
void kn_plan_block(kn_studio_plan *p, const char *code, const char *message); /* for a reason beyond the planner */

json_t *kn_studio_plan_json(const kn_studio_plan *p);
json_t *kn_note_json(const kn_note *note);
json_t *kn_notes_json(const kn_note *notes, size_t count);

/* What a preset means for a model. */
typedef struct kn_preset {
    const char *title;
    uint64_t pixels;
    unsigned steps;
} kn_preset;
kn_preset kn_preset_of(kn_preset_id id, const kn_model_profile *profile);

/* What can be asked of a model. */
typedef struct kn_model_limits {
    unsigned kinds; /* bits by kn_studio_kind */
    uint32_t max_side, grid;
    unsigned references;
    bool takes_start; /* it draws on from a source, where a client says how much of that may change */
} kn_model_limits;
kn_model_limits kn_model_limits_of(const kn_model_profile *profile, unsigned kinds);

/* The largest tiles for a second try after memory ran out; 0: there are no smaller ones. */
uint32_t kn_plan_smaller_tile(uint32_t tile_size);

#endif
