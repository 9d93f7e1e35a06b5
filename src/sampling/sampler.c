#include "sampling/sampler.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HISTORY = 2, MAX_SPARE = 2 };

/* A sampling under way, as its step function sees it. */
struct kn_solver {
    const kn_sampling *job;
    const double *sigma; /* steps + 1 */
    size_t step, n;
    float *x, *v;                  /* the latent, and the velocity at (x, sigma[step]) */
    float *clean[1 + MAX_HISTORY]; /* clean estimates of this step, the one before, … */
    float *spare[MAX_SPARE], *noise;
    kn_error *err;
};

struct term {
    double factor;
    const float *value;
};

/* ret = the sum of the terms; ret may be one of their values. */
static void sum_terms(float *ret, size_t n, const struct term *term, size_t count) {
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t k = 0; k < count; k++)
            sum += term[k].factor * (double)term[k].value[i];
        ret[i] = (float)sum;
    }
}

#define SUM(ret, n, ...)                                                                                               \
    sum_terms(ret, n, (const struct term[]){ __VA_ARGS__ }, KN_COUNT(((const struct term[]){ __VA_ARGS__ })))

static bool evaluate(struct kn_solver *s, float *x, double sigma, float *v) {
    if (s->job->settle)
        s->job->settle(s->job->ctx, x, (float)sigma, s->n);
    return s->job->velocity(s->job->ctx, x, (float)sigma, v, s->err);
}

/* Fresh noise for this step. */
static const float *draw(struct kn_solver *s) {
    s->job->draw(s->job->ctx, s->noise, s->n);
    return s->noise;
}

static bool finish_with_clean(struct kn_solver *s) {
    memcpy(s->x, s->clean[0], s->n * sizeof *s->x);
    return true;
}

static bool euler(struct kn_solver *s) {
    double from = s->sigma[s->step], to = s->sigma[s->step + 1];
    SUM(s->x, s->n, { 1, s->x }, { to - from, s->v });
    return true;
}

/* The mean of the slopes at both ends of an Euler step. */
static bool heun(struct kn_solver *s) {
    double from = s->sigma[s->step], to = s->sigma[s->step + 1], gap = to - from;
    if (to == 0)
        return euler(s);
    float *guess = s->spare[0], *slope = s->spare[1];
    SUM(guess, s->n, { 1, s->x }, { gap, s->v });
    if (!evaluate(s, guess, to, slope))
        return false;
    SUM(s->x, s->n, { 1, s->x }, { gap / 2, s->v }, { gap / 2, slope });
    return true;
}

/* Goes further down than asked for, to `down`, and back up to `to` with fresh noise, such that both the image's share
 * and the noise's variance are those of `to`. */
static bool euler_ancestral(struct kn_solver *s) {
    double from = s->sigma[s->step], to = s->sigma[s->step + 1];
    if (to == 0)
        return finish_with_clean(s);
    double down = to * to / from, up = (1 - to) / (1 - down);
    double renoise = sqrt(to * to - down * down * up * up);
    const float *noise = draw(s);
    SUM(s->x, s->n, { up * down / from, s->x }, { up * (1 - down / from), s->clean[0] }, { renoise, noise });
    return true;
}

/* Second order in ln sigma, with the clean estimate extrapolated from the step before. */
static bool dpmpp_2m(struct kn_solver *s) {
    double from = s->sigma[s->step], to = s->sigma[s->step + 1], ahead = 0;
    if (to == 0)
        return finish_with_clean(s);
    if (s->step > 0)
        ahead = log(from / to) / (2 * log(s->sigma[s->step - 1] / from));
    double share = 1 - to / from;
    SUM(s->x, s->n, { to / from, s->x }, { share * (1 + ahead), s->clean[0] }, { -share * ahead, s->clean[1] });
    return true;
}

/* Exponential integrator of second order in ln sigma (Refined Exponential Solver, multistep form). */
static bool res_multistep(struct kn_solver *s) {
    double from = s->sigma[s->step], to = s->sigma[s->step + 1];
    if (to == 0 || s->step == 0)
        return euler(s);
    double h = log(from / to), c2 = -log(s->sigma[s->step - 1] / from) / h;
    double phi1 = expm1(-h) / -h, phi2 = (phi1 - 1) / -h;
    SUM(s->x, s->n, { to / from, s->x }, { h * (phi1 - phi2 / c2), s->clean[0] }, { h * phi2 / c2, s->clean[1] });
    return true;
}

static double log_snr(double sigma) {
    return log1p(-sigma) - log(sigma);
}

/* UniPC of order 2 with B(h) = e^-h - 1: each step first corrects where the last one led, now that the clean estimate
 * there is known (without another call), then predicts the next. Zhao et al., UniPC, 2023. */
static void unipc_correct(struct kn_solver *s) {
    const double *sigma = s->sigma + s->step;
    double from = sigma[-1], to = sigma[0], h = log_snr(to) - log_snr(from), e = expm1(-h), gain = (1 - to) * e;
    double old = 0, now = 0.5; /* weights of the two differences from clean[1]; first order in the first step */
    if (s->step > 1) {
        double r = (log_snr(sigma[-2]) - log_snr(from)) / h;
        double phi1 = e / -h - 1, phi2 = phi1 / -h - 0.5;
        double sum = phi1 / e; /* old * r + now = sum and old * r * r + now = 2 phi2 / e */
        double rho = (sum - 2 * phi2 / e) / (1 - r);
        old = rho / r;
        now = sum - rho;
    }
    SUM(s->x, s->n, { to / from, s->spare[0] }, { -gain * (1 - old - now), s->clean[1] }, { -gain * now, s->clean[0] },
        { -gain * old, s->clean[2] });
}

static bool unipc(struct kn_solver *s) {
    const double *sigma = s->sigma + s->step;
    double from = sigma[0], to = sigma[1];
    if (s->step > 0)
        unipc_correct(s);
    if (to == 0)
        return finish_with_clean(s);
    memcpy(s->spare[0], s->x, s->n * sizeof *s->x);
    double h = log_snr(to) - log_snr(from), gain = (1 - to) * expm1(-h), ahead = 0;
    if (s->step > 0)
        ahead = h / (2 * (log_snr(sigma[-1]) - log_snr(from)));
    SUM(s->x, s->n, { to / from, s->x }, { -gain * (1 - ahead), s->clean[0] }, { -gain * ahead, s->clean[1] });
    return true;
}

/* For models distilled to jump to the image from anywhere: jump, then add noise again. */
static bool lcm(struct kn_solver *s) {
    double to = s->sigma[s->step + 1];
    if (to == 0)
        return finish_with_clean(s);
    const float *noise = draw(s);
    SUM(s->x, s->n, { to, noise }, { 1 - to, s->clean[0] });
    return true;
}

const kn_sampler kn_samplers[KN_SAMPLER_COUNT] = {
    { { "euler", { "k_euler" }, "first order; what the models are made for" }, .calls_per_step = 1, .step = euler },
    { { "heun", { "k_heun" }, "second order, two evaluations per step" },
      .calls_per_step = 2,
      .spare = 2,
      .step = heun },
    { { "euler_ancestral", { "euler_a", "euler a", "k_euler_a" }, "Euler with fresh noise in every step" },
      .stochastic = true,
      .calls_per_step = 1,
      .step = euler_ancestral },
    { { "dpmpp_2m", { "dpm++2m", "dpm++ 2m", "k_dpmpp_2m" }, "DPM-Solver++, second order multistep" },
      .calls_per_step = 1,
      .history = 1,
      .step = dpmpp_2m },
    { { "res_multistep", { "res multistep" }, "exponential integrator, second order multistep" },
      .calls_per_step = 1,
      .history = 1,
      .step = res_multistep },
    { { "unipc", { NULL }, "predictor and corrector, second order multistep, as in diffusers" },
      .calls_per_step = 1,
      .history = 2,
      .spare = 1,
      .below_one = true,
      .step = unipc },
    { { "lcm", { NULL }, "jumps to the image and adds noise again; for models distilled for it" },
      .stochastic = true,
      .calls_per_step = 1,
      .step = lcm },
};

bool kn_sampler_find(const char *name, const kn_sampler **ret, kn_error *err) {
    size_t i = 0;
    if (!KN_NAME_FIND("sampler", kn_samplers, name, &i, err))
        return false;
    *ret = &kn_samplers[i];
    return true;
}

size_t kn_sampler_calls(const kn_sampler *s, size_t steps) {
    return steps ? steps * s->calls_per_step - (s->calls_per_step - 1) : 0;
}

/* The job's sigmas in double, checked. */
static bool take_sigmas(const kn_sampling *job, double *ret, kn_error *err) {
    for (size_t i = 0; i <= job->steps; i++) {
        ret[i] = (double)job->sigmas[i];
        bool falls = i ? ret[i] < ret[i - 1] : ret[i] <= 1;
        if (!falls || (i == job->steps ? ret[i] != 0 : !(ret[i] > 0)))
            return kn_fail(err, KN_E_RANGE, "sigma %g at place %zu of %zu: a schedule falls from at most 1 to 0",
                           ret[i], i + 1, job->steps + 1);
    }
    /* Where ln((1 - s) / s) is needed the list starts at 0.999, or between 1 and the second sigma if that is closer. */
    if (job->sampler->below_one && ret[0] > 0.999)
        ret[0] = ret[1] < 0.999 ? 0.999 : (ret[0] + ret[1]) / 2;
    return true;
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static bool one_step(struct kn_solver *s) {
    const kn_sampling *job = s->job;
    double sigma = s->sigma[s->step];
    if (!evaluate(s, s->x, sigma, s->v))
        return false;
    float *oldest = s->clean[job->sampler->history];
    for (unsigned k = job->sampler->history; k > 0; k--)
        s->clean[k] = s->clean[k - 1];
    s->clean[0] = oldest;
    SUM(s->clean[0], s->n, { 1, s->x }, { -sigma, s->v });
    if (!job->sampler->step(s))
        return false;
    if (!all_finite(s->x, s->n))
        return kn_fail(s->err, KN_E_NUMERIC, "the latent is not finite after the step");
    if (!job->after_step)
        return true;
    kn_step done = { .index = s->step,
                     .steps = job->steps,
                     .sigma = (float)sigma,
                     .next = (float)s->sigma[s->step + 1],
                     .x = s->x,
                     .clean = s->clean[0],
                     .n = s->n };
    return job->after_step(job->ctx, &done, s->err);
}

static void free_doubles(double **p) {
    free(*p);
}

static void free_floats(float **p) {
    free(*p);
}

bool kn_sample(const kn_sampling *job, float *x, size_t n, kn_error *err) {
    const kn_sampler *sampler = job->sampler;
    if (!job->steps)
        return true;
    if (sampler->stochastic && !job->draw)
        return kn_fail(err, KN_E_USAGE, "sampler '%s' needs noise for its steps", sampler->name.name);

    /* v, clean estimates, spare latents and noise in one piece */
    size_t latents = 2 + sampler->history + sampler->spare + sampler->stochastic, values = 0;
    if (KN_MUL_OVERFLOWS(n, latents, &values))
        return kn_fail_nomem(err, SIZE_MAX);
    KN_CLEANUP(free_doubles) double *sigma = calloc(job->steps + 1, sizeof *sigma);
    KN_CLEANUP(free_floats) float *memory = calloc(values, sizeof *memory);
    if (!sigma || !memory)
        return kn_fail_nomem(err, values * sizeof *memory);
    if (!take_sigmas(job, sigma, err))
        return false;

    struct kn_solver s = { .job = job, .sigma = sigma, .n = n, .x = x, .err = err };
    float *at = memory;
    s.v = at;
    for (unsigned k = 0; k <= sampler->history; k++)
        s.clean[k] = at += n;
    for (unsigned k = 0; k < sampler->spare; k++)
        s.spare[k] = at += n;
    if (sampler->stochastic)
        s.noise = at + n;
    for (s.step = 0; s.step < job->steps; s.step++)
        if (!one_step(&s))
            return kn_fail_within(err, "%s, step %zu of %zu at sigma %g", sampler->name.name, s.step + 1, job->steps,
                                  sigma[s.step]);
    return true;
}
