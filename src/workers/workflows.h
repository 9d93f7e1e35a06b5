/* Which profile of models.toml draws a workflow (recipe.h). */
#ifndef KN_WORKERS_WORKFLOWS_H
#define KN_WORKERS_WORKFLOWS_H

#include "workers/recipe.h"

struct kn_profile;
struct kn_profiles;

/* The one that would be used anyway (`usual`, or NULL: the default one), if it can, else the first one that can. NULL:
 * there is none. */
const struct kn_profile *kn_workflow_profile(const kn_workflow *w, const struct kn_profiles *all, const char *usual);

/* Which workflows some profile of a models.toml draws: bit n: kn_workflows[n]. config NULL: the user's own. */
bool kn_workflows_served(const char *config, unsigned *ret, kn_error *err);

#endif
