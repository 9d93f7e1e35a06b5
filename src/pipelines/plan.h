/* What memory a recipe takes, known before anything is loaded: the pipeline goes through its own lines once, in a run
 * that follows shapes only. So the plan cannot say anything else than what the computation then does. */
#ifndef KN_PIPELINES_PLAN_H
#define KN_PIPELINES_PLAN_H

#include "pipelines/model.h"

/* The report's weight_bytes and peak_bytes, stage by stage. stop may be NULL. */
bool kn_plan_make(const kn_model *m, const kn_recipe *recipe, const atomic_bool *stop, kn_draw_report *ret,
                  kn_error *err);

/* The most that must be in memory until the end of a stage: its weights, those that stay from the stages before it, and
 * scratch memory, which the run keeps. Tensors in mapped files count: they are all read in every step. */
uint64_t kn_plan_bytes(const kn_draw_report *plan, kn_stage stage, kn_residency residency);

/* Refuses what cannot fit into so many bytes, with the figures and the largest size of that shape that would fit. */
bool kn_plan_check(const kn_model *m, const kn_recipe *recipe, uint64_t available, const atomic_bool *stop,
                   kn_error *err);

/* One picture: checked against the memory that there is, unless the recipe allows to swap, then drawn. */
bool kn_model_draw(kn_model *m, const kn_recipe *recipe, const kn_hooks *hooks, kn_image *ret, kn_draw_report *report,
                   kn_error *err);

#endif
