/* Schedules: the falling list of noise levels ("sigmas") that a picture passes on its way from noise (1) to image (0).
 *
 * A flow model sees x = (1 - sigma) * image + sigma * noise. Every list here has steps + 1 values, starts at most at 1,
 * falls strictly and ends in 0. Sigmas are computed in double and stored as float32, which is also what networks get.
 *
 * A list is made in two parts: a schedule spaces the steps over u in (0, 1], a shift moves them towards noise, by a
 * fixed amount or by one that grows with the picture. Which shift belongs to a model is the model's flow. Most callers
 * need only kn_sigmas_make; the parts are there for tests and for whoever explains a list to people. */
#ifndef KN_SAMPLING_SCHEDULE_H
#define KN_SAMPLING_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "sampling/names.h"

enum { KN_MAX_STEPS = 1000 };

typedef struct kn_sigmas {
    size_t steps;
    float at[KN_MAX_STEPS + 1]; /* at[steps] is 0 */
} kn_sigmas;

/* Shifts of u in [0, 1]. Rational: a u / (1 + (a - 1) u). Exponential: the same with a = e^mu; programs that have it
 * measure with a finer table. The other way back is 1 / a, or -mu. */
typedef enum kn_shift_form { KN_SHIFT_RATIONAL, KN_SHIFT_EXPONENTIAL } kn_shift_form;

typedef struct kn_shift {
    kn_shift_form form;
    double amount;   /* a, or mu */
    double terminal; /* where not 0: the list is stretched so that its last sigma before 0 is this one */
} kn_shift;

double kn_shift_apply(kn_shift s, double u);

/* mu by resolution: the line through two points (image tokens, mu), going on beyond them. */
typedef struct kn_mu_line {
    double x1, y1, x2, y2;
} kn_mu_line;

double kn_mu_at(kn_mu_line line, uint64_t image_tokens);

/* Ways to space the steps. Where programs disagree about a name, ComfyUI's meaning counts: "normal" is not
 * stable-diffusion.cpp's alias of "discrete", and "simple" reads a table of 10000 entries for exponential shifts. */
typedef enum kn_schedule {
    KN_SCHEDULE_OFFICIAL, /* 1, 1 - 1/N, … 1/N, shifted; diffusers and the models' own scripts */
    KN_SCHEDULE_SIMPLE,
    KN_SCHEDULE_SGM_UNIFORM,
    KN_SCHEDULE_NORMAL,
    KN_SCHEDULE_BETA, /* may come out shorter: steps that fall on the same table entry are one */
    KN_SCHEDULE_DISCRETE,
    KN_SCHEDULE_COUNT
} kn_schedule;

extern const kn_name kn_schedules[KN_SCHEDULE_COUNT];
bool kn_schedule_find(const char *name, kn_schedule *ret, kn_error *err);

/* The last `keep` steps of a schedule of `total` steps: 1 <= keep <= total. */
bool kn_schedule_build(kn_schedule schedule, kn_shift shift, size_t total, size_t keep, kn_sigmas *ret, kn_error *err);

/* Starting from a picture: how much of a schedule is run for a strength (0 keeps the picture, 1 ignores it).
 *   diffusers: N steps without the first N - N * strength, rounded down; fewer steps for less strength
 *   comfyui:   always N steps, the last ones of a schedule of N / strength, rounded down ("denoise")
 *   sdcpp:     stable-diffusion.cpp: one step more than diffusers where the product is whole, and never none */
typedef enum kn_start_rule { KN_START_DIFFUSERS, KN_START_COMFYUI, KN_START_SDCPP } kn_start_rule;

typedef struct kn_start {
    size_t total, keep; /* the last keep steps of a schedule of total steps; keep 0: return the picture as it is */
} kn_start;

bool kn_start_find(kn_start_rule rule, size_t steps, double strength, kn_start *ret, kn_error *err);

/* The flow of a model: its shift in its own script and in diffusers, and in programs with named schedules. */
typedef struct kn_flow_shift {
    kn_shift shift;
    kn_mu_line line; /* where x2 is not 0, shift.amount comes from here */
} kn_flow_shift;

typedef struct kn_flow {
    const char *name;
    const kn_flow_shift *own;   /* for KN_SCHEDULE_OFFICIAL */
    const kn_flow_shift *named; /* for the schedules of ComfyUI and stable-diffusion.cpp */
    const float *fixed;         /* distilled for exactly these fixed_steps sigmas; then there are no shifts */
    size_t fixed_steps;
} kn_flow;

typedef enum kn_flow_id {
    KN_FLOW_QWEN_IMAGE_21,
    KN_FLOW_QWEN_IMAGE_21_TURBO,
    KN_FLOW_QWEN_IMAGE_2512,
    KN_FLOW_KREA2_TURBO,
    KN_FLOW_KREA2_RAW,
    KN_FLOW_Z_IMAGE_TURBO,
    KN_FLOW_Z_IMAGE_BASE,
    KN_FLOW_COUNT
} kn_flow_id;

extern const kn_flow kn_flows[KN_FLOW_COUNT];

/* A number that may be left out. */
typedef struct kn_optional {
    bool given;
    double value;
} kn_optional;

typedef struct kn_sigma_request {
    const kn_flow *flow;
    kn_schedule schedule;
    size_t steps;          /* 0 is allowed where the list itself tells: custom and fixed sigmas */
    uint64_t image_tokens; /* of the network's image sequence */

    kn_optional flow_shift;         /* a rational shift in place of the model's, as ModelSamplingAuraFlow sets it */
    kn_optional mu;                 /* an exponential shift in place of the model's amount; its terminal stays */
    kn_optional shift_y1, shift_y2; /* ends of the model's line of mu */

    const float *custom; /* a falling list in (0, 1], with or without the 0 at the end; no shift is applied */
    size_t custom_count;

    kn_optional strength; /* left out: the whole schedule */
    kn_start_rule start_rule;
} kn_sigma_request;

/* ret->steps is 0 when the strength leaves nothing to do. Requests that contradict themselves or the model are errors,
 * never silently bent. */
bool kn_sigmas_make(const kn_sigma_request *q, kn_sigmas *ret, kn_error *err);

#endif
