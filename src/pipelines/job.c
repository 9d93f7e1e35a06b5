#include "pipelines/job.h"

#include <stdatomic.h>

#include "base/clock.h"

bool kn_job_progress(kn_job *j, const char *phase, int step, int steps, kn_error *err) {
    j->report->products = j->run.products;
    if (j->hooks->stop && atomic_load(j->hooks->stop))
        return kn_fail(err, KN_E_CANCELLED, "cancelled");
    if (j->hooks->progress && !j->hooks->progress(j->hooks->progress_ctx, phase, step, steps))
        return kn_fail(err, KN_E_CANCELLED, "cancelled");
    return true;
}

void kn_job_dump(kn_job *j, const char *name, int rank, const int64_t *dim, const float *values) {
    if (j->hooks->dump)
        j->hooks->dump(j->hooks->dump_ctx, name, rank, dim, values);
}

void kn_job_dump_latent(kn_job *j, const char *name, const float *x) {
    kn_job_dump(j, name, 3, (int64_t[]){ j->channels, j->h, j->w }, x);
}

static const char *const names[KN_STAGE_COUNT] = { "pictures", "see", "encode", "diffuse", "decode" };

/* What is loaded after a stage of this picture; the VAE is fetched during the last step, else it would be forgotten. */
static const kn_component *component_after(const kn_job *j, kn_stage stage) {
    const kn_pipeline *p = j->pipeline;
    const kn_component *const next[KN_STAGE_COUNT] = {
        [KN_STAGE_PICTURES] = j->recipe->reference_count ? &p->vision : &p->text,
        [KN_STAGE_SEE] = &p->text,
        [KN_STAGE_ENCODE] = &p->diffusion,
    };
    return next[stage];
}

bool kn_job_begin(kn_job *j, kn_stage stage, kn_component *c, kn_error *err) {
    kn_stage_report *s = &j->report->stage[stage];
    double start = kn_now();
    if (!j->hooks->plan) {
        kn_ahead_start(&j->ahead, c, component_after(j, stage));
        if (!kn_component_load(c, err))
            return false;
    }
    *s = (kn_stage_report){
        .name = names[stage], .load_seconds = kn_now() - start, .weight_bytes = c->bytes, .runs = 1
    };
    kn_run_peak_bytes(&j->run);
    s->seconds = -kn_now();
    return kn_job_progress(j, "load", 0, 0, err);
}

void kn_job_end(kn_job *j, kn_stage stage, kn_component *c) {
    kn_stage_report *s = &j->report->stage[stage];
    kn_ahead_stop(&j->ahead);
    s->seconds += kn_now();
    s->peak_bytes = kn_run_peak_bytes(&j->run) + j->host_bytes;
    j->host_bytes = 0;
    if (j->pipeline->residency == KN_STAGED)
        kn_component_unload(c);
}

void kn_job_skip(kn_job *j, kn_stage stage) {
    j->report->stage[stage] = (kn_stage_report){ .name = names[stage], .reused = 1 };
}

bool kn_job_went_well(const kn_job *j, kn_error *err) {
    if (j->run.err.code != KN_OK)
        *err = j->run.err;
    return j->run.err.code == KN_OK;
}

void kn_draw_report_add(kn_draw_report *sum, const kn_draw_report *one) {
    kn_draw_report all = *one;
    for (int i = 0; i < KN_STAGE_COUNT; i++) {
        kn_stage_report *to = &all.stage[i];
        const kn_stage_report *before = &sum->stage[i];
        to->name = to->name ? to->name : before->name;
        to->load_seconds += before->load_seconds;
        to->seconds += before->seconds;
        to->weight_bytes = KN_MAX(to->weight_bytes, before->weight_bytes);
        to->peak_bytes = KN_MAX(to->peak_bytes, before->peak_bytes);
        to->runs += before->runs;
        to->reused += before->reused;
    }
    *sum = all;
}
