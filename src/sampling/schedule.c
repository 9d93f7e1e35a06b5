#include "sampling/schedule.h"

#include <math.h>

const kn_name kn_schedules[KN_SCHEDULE_COUNT] = {
    [KN_SCHEDULE_OFFICIAL] = { "official", { "default" }, "evenly spaced with the model's own shift, as in diffusers" },
    [KN_SCHEDULE_SIMPLE] = { "simple", { NULL }, "ComfyUI's: every so many entries of the model's table" },
    [KN_SCHEDULE_SGM_UNIFORM] = { "sgm_uniform", { NULL }, "ComfyUI's: evenly spaced, without the smallest sigma" },
    [KN_SCHEDULE_NORMAL] = { "normal", { NULL }, "ComfyUI's: evenly spaced down to the smallest sigma" },
    [KN_SCHEDULE_BETA] = { "beta", { NULL }, "ComfyUI's: denser at both ends" },
    [KN_SCHEDULE_DISCRETE] = { "discrete", { NULL }, "stable-diffusion.cpp's: evenly spaced down to 1/1000" },
};

bool kn_schedule_find(const char *name, kn_schedule *ret, kn_error *err) {
    size_t i = 0;
    if (!KN_NAME_FIND("schedule", kn_schedules, name, &i, err))
        return false;
    *ret = (kn_schedule)i;
    return true;
}

double kn_shift_apply(kn_shift s, double u) {
    double a = s.form == KN_SHIFT_EXPONENTIAL ? exp(s.amount) : s.amount;
    return a * u / (1 + (a - 1) * u);
}

double kn_mu_at(kn_mu_line line, uint64_t image_tokens) {
    return line.y1 + ((double)image_tokens - line.x1) * (line.y2 - line.y1) / (line.x2 - line.x1);
}

/* ComfyUI's models are tables of shifted values at k / M, k = 1 … M. */
static double table_entries(kn_shift s) {
    return s.form == KN_SHIFT_EXPONENTIAL ? 10000 : 1000;
}

/* The series in I_x(a, a) = x^a sum(x) / B(a, a); for x <= 1/2 each term is less than half of the one before. */
static double beta_integral(double a, double x) {
    double sum = 0, factor = 1;
    for (int k = 0; k < 60; k++) {
        sum += factor / (a + k);
        factor *= x * (k + 1 - a) / (k + 1);
    }
    return pow(x, a) * sum;
}

/* Where the cumulative beta distribution with both parameters a reaches p: it is symmetric, so half of it is enough. */
static double beta_quantile(double a, double p) {
    if (p > 0.5)
        return 1 - beta_quantile(a, 1 - p);
    double wanted = 2 * p * beta_integral(a, 0.5), low = 0, high = 0.5;
    for (int halving = 0; halving < 60; halving++) {
        double middle = (low + high) / 2;
        if (beta_integral(a, middle) <= wanted)
            low = middle;
        else
            high = middle;
    }
    return low; /* exactly 1/2 where p is: the table entry there is a tie */
}

/* Sigma i of n (n >= 1), before any stretch. */
static double spaced(kn_schedule schedule, kn_shift shift, size_t i, size_t n) {
    double at = (double)i, steps = (double)n, entries = table_entries(shift);
    double gaps = (double)KN_MAX(n - 1, (size_t)1); /* between the first and the last of n values */
    double smallest = kn_shift_apply(shift, 1 / entries);
    switch (schedule) {
    case KN_SCHEDULE_SIMPLE: return kn_shift_apply(shift, (entries - floor(at * (entries / steps))) / entries);
    case KN_SCHEDULE_SGM_UNIFORM: /* the end of the grid is a sigma already, and is shifted once more */
        return kn_shift_apply(shift, 1 - at * (1 - smallest) / steps);
    case KN_SCHEDULE_NORMAL: return kn_shift_apply(shift, 1 - at * (1 - smallest) / gaps);
    case KN_SCHEDULE_BETA:
        return kn_shift_apply(shift, (rint((entries - 1) * beta_quantile(0.6, 1 - at / steps)) + 1) / entries);
    case KN_SCHEDULE_DISCRETE: return kn_shift_apply(shift, (1000 - 999 * at / gaps) / 1000);
    default: return kn_shift_apply(shift, 1 - at / steps);
    }
}

bool kn_schedule_build(kn_schedule schedule, kn_shift shift, size_t total, size_t keep, kn_sigmas *ret, kn_error *err) {
    if (keep < 1 || keep > KN_MAX_STEPS || keep > total)
        return kn_fail(err, KN_E_RANGE, "%zu of %zu steps; 1 to %d are possible", keep, total, KN_MAX_STEPS);
    double last = spaced(schedule, shift, total - 1, total);
    double stretch = shift.terminal > 0 && total > 1 ? (1 - shift.terminal) / (1 - last) : 1;

    /* From the end, so that a part of a long schedule needs no more than itself. */
    kn_sigmas list = { .steps = 0 };
    float *slot = &list.at[keep], later = 0;
    for (size_t i = total; i-- > 0 && list.steps < keep;) {
        float sigma = (float)(1 - (1 - spaced(schedule, shift, i, total)) * stretch);
        if (schedule == KN_SCHEDULE_BETA && list.steps && sigma == later)
            continue;
        if (!(sigma > later && sigma <= 1))
            return kn_fail(err, KN_E_RANGE, "schedule '%s' with shift %g cannot make %zu falling steps",
                           kn_schedules[schedule].name, shift.amount, total);
        *--slot = later = sigma;
        list.steps++;
    }
    ret->steps = list.steps;
    for (size_t i = 0; i < list.steps; i++)
        ret->at[i] = slot[i];
    ret->at[list.steps] = 0;
    return true;
}

bool kn_start_find(kn_start_rule rule, size_t steps, double strength, kn_start *ret, kn_error *err) {
    if (!(strength >= 0 && strength <= 1))
        return kn_fail(err, KN_E_RANGE, "strength %g is not between 0 and 1", strength);
    double n = (double)steps;
    if (rule == KN_START_SDCPP) {
        size_t more = (size_t)((float)n * (float)strength); /* in float32, as there */
        *ret = (kn_start){ steps, KN_MIN(more + 1, steps) };
    } else if (rule == KN_START_DIFFUSERS) {
        *ret = (kn_start){ steps, steps - (size_t)(n - n * strength) };
    } else if (strength == 0) {
        *ret = (kn_start){ 0, 0 };
    } else if (strength > 0.9999) {
        *ret = (kn_start){ steps, steps };
    } else {
        double total = floor(n / strength);
        if (total > 1e6)
            return kn_fail(err, KN_E_RANGE, "strength %g is too small for %zu steps", strength, steps);
        *ret = (kn_start){ (size_t)total, steps };
    }
    return true;
}
