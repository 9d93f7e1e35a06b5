/* What each model's flow is, and how a request becomes a list of sigmas. */
#include <math.h>

#include "sampling/schedule.h"

static const float turbo_21[] = { 1.0f, 0.978453f, 0.95418f, 0.926626f, 0.89508f, 0.845148f, 0.704534f, 0.414568f };

static const kn_flow_shift qwen_image = { { KN_SHIFT_EXPONENTIAL, 0, 0.02 }, { 256, 0.5, 8192, 0.9 } };
static const kn_flow_shift krea2_raw = { { KN_SHIFT_EXPONENTIAL, 0, 0 }, { 256, 0.5, 6400, 1.15 } };
static const kn_flow_shift mu_1_15 = { .shift = { KN_SHIFT_EXPONENTIAL, 1.15, 0 } };
static const kn_flow_shift factor_3 = { .shift = { KN_SHIFT_RATIONAL, 3, 0 } };
static const kn_flow_shift factor_6 = { .shift = { KN_SHIFT_RATIONAL, 6, 0 } };

const kn_flow kn_flows[KN_FLOW_COUNT] = {
    [KN_FLOW_QWEN_IMAGE_21] = { .name = "qwen-image-2.1", .own = &qwen_image, .named = &qwen_image },
    [KN_FLOW_QWEN_IMAGE_21_TURBO] = { .name = "qwen-image-2.1-turbo",
                                      .fixed = turbo_21,
                                      .fixed_steps = KN_COUNT(turbo_21) },
    [KN_FLOW_QWEN_IMAGE_2512] = { .name = "qwen-image-2512", .own = &qwen_image, .named = &mu_1_15 },
    [KN_FLOW_KREA2_TURBO] = { .name = "krea2-turbo", .own = &mu_1_15, .named = &mu_1_15 },
    [KN_FLOW_KREA2_RAW] = { .name = "krea2-raw", .own = &krea2_raw, .named = &mu_1_15 },
    [KN_FLOW_Z_IMAGE_TURBO] = { .name = "z-image-turbo", .own = &factor_3, .named = &factor_3 },
    [KN_FLOW_Z_IMAGE_BASE] = { .name = "z-image-base", .own = &factor_6, .named = &factor_3 },
};

/* The shift of a request: what was asked for, else the model's. The line's ends belong to the model's own rule. */
static bool find_shift(const kn_sigma_request *q, kn_shift *ret, kn_error *err) {
    bool ends = q->shift_y1.given || q->shift_y2.given;
    const kn_flow_shift *rule = q->schedule == KN_SCHEDULE_OFFICIAL || ends ? q->flow->own : q->flow->named;
    kn_shift shift = rule->shift;
    kn_mu_line line = rule->line;
    if (q->flow_shift.given + q->mu.given + ends > 1)
        return kn_fail(err, KN_E_USAGE, "flow shift, mu and the ends of mu exclude each other");

    if (q->flow_shift.given) {
        if (!(q->flow_shift.value > 0 && q->flow_shift.value <= 100))
            return kn_fail(err, KN_E_RANGE, "flow shift is %g; above 0 and up to 100 is possible", q->flow_shift.value);
        *ret = (kn_shift){ KN_SHIFT_RATIONAL, q->flow_shift.value, 0 };
        return true;
    }
    if (q->mu.given && shift.form != KN_SHIFT_EXPONENTIAL)
        return kn_fail(err, KN_E_USAGE, "%s has no mu; its flow shift is %g", q->flow->name, shift.amount);
    if (ends && line.x2 == 0)
        return kn_fail(err, KN_E_USAGE, "%s does not take mu from the resolution: shift y1 and y2 have no effect",
                       q->flow->name);
    line.y1 = q->shift_y1.given ? q->shift_y1.value : line.y1;
    line.y2 = q->shift_y2.given ? q->shift_y2.value : line.y2;
    if (q->mu.given)
        shift.amount = q->mu.value;
    else if (line.x2 != 0)
        shift.amount = kn_mu_at(line, q->image_tokens);
    if (shift.form == KN_SHIFT_EXPONENTIAL && !(fabs(shift.amount) <= 20))
        return kn_fail(err, KN_E_RANGE, "mu is %g; -20 to 20 is possible", shift.amount);
    *ret = shift;
    return true;
}

static bool check_falling(const float *list, size_t steps, kn_error *err) {
    for (size_t i = 0; i < steps; i++) {
        double sigma = (double)list[i];
        if (!(sigma > 0 && sigma <= 1))
            return kn_fail(err, KN_E_RANGE, "sigma %zu is %g; above 0 and up to 1 is possible", i + 1, sigma);
        if (i && !(list[i] < list[i - 1]))
            return kn_fail(err, KN_E_RANGE, "sigma %zu is %g and does not fall below the %g before it", i + 1, sigma,
                           (double)list[i - 1]);
    }
    return true;
}

/* How much of so many steps is run. */
static bool find_start(const kn_sigma_request *q, size_t steps, kn_start *ret, kn_error *err) {
    if (steps < 1 || steps > KN_MAX_STEPS)
        return kn_fail(err, KN_E_RANGE, "steps is %zu; 1 to %d are possible", steps, KN_MAX_STEPS);
    *ret = (kn_start){ steps, steps };
    return !q->strength.given || kn_start_find(q->start_rule, steps, q->strength.value, ret, err);
}

static bool make_scheduled(const kn_sigma_request *q, kn_sigmas *ret, kn_error *err) {
    kn_shift shift;
    kn_start start;
    if (!find_start(q, q->steps, &start, err) || !find_shift(q, &shift, err))
        return false;
    if (start.keep)
        return kn_schedule_build(q->schedule, shift, start.total, start.keep, ret, err);
    *ret = (kn_sigmas){ .steps = 0 };
    return true;
}

/* A list that is taken as it is: a model's fixed one, or a custom one. */
static bool make_listed(const kn_sigma_request *q, const char *owner, const float *list, size_t count, kn_sigmas *ret,
                        kn_error *err) {
    size_t steps = count && list[count - 1] == 0 ? count - 1 : count;
    kn_start start;
    if (q->flow_shift.given || q->mu.given || q->shift_y1.given || q->shift_y2.given)
        return kn_fail(err, KN_E_USAGE, "%s is not shifted: flow shift and mu have no effect", owner);
    if (q->schedule != KN_SCHEDULE_OFFICIAL)
        return kn_fail(err, KN_E_USAGE, "%s has no schedule '%s'", owner, kn_schedules[q->schedule].name);
    if (q->steps && q->steps != steps)
        return kn_fail(err, KN_E_USAGE, "%s has %zu steps, not %zu", owner, steps, q->steps);
    if (!find_start(q, steps, &start, err) || !check_falling(list, steps, err))
        return false;
    if (start.total > steps)
        return kn_fail(err, KN_E_USAGE, "%s has %zu steps; a strength of %g would need %zu", owner, steps,
                       q->strength.value, start.total);
    *ret = (kn_sigmas){ .steps = start.keep };
    for (size_t i = 0; i < start.keep; i++)
        ret->at[i] = list[steps - start.keep + i];
    return true;
}

bool kn_sigmas_make(const kn_sigma_request *q, kn_sigmas *ret, kn_error *err) {
    if (q->custom)
        return make_listed(q, "the list of sigmas", q->custom, q->custom_count, ret, err);
    if (q->flow->fixed)
        return make_listed(q, q->flow->name, q->flow->fixed, q->flow->fixed_steps, ret, err);
    return make_scheduled(q, ret, err);
}
