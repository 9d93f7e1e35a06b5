#include "workers/workflows.h"

#include <string.h>

#include "pipelines/demo.h"
#include "pipelines/model.h"

/* Whether a profile can do what the workflow is. The built-in model sees no pictures, whatever its variant could. */
static bool serves(const kn_profile *p, const kn_workflow *w) {
    if (strcmp(p->architecture, w->architecture) != 0)
        return false;
    const kn_architecture *a = kn_architecture_find(p->architecture);
    const kn_variant *v = p->variant ? kn_variant_find(a, p->variant) : &a->variants[0];
    return !w->edits || (v->max_references > 0 && p != &kn_demo_profile);
}

const kn_profile *kn_workflow_profile(const kn_workflow *w, const kn_profiles *all, const char *usual) {
    const kn_profile *p = NULL;
    if (kn_profiles_select(all, usual, &p, NULL) && serves(p, w))
        return p;
    for (size_t i = 0; i < all->n; i++)
        if (serves(&all->profiles[i], w))
            return &all->profiles[i];
    return all->builtin && serves(all->builtin, w) ? all->builtin : NULL;
}

bool kn_workflows_served(const char *config, unsigned *ret, kn_error *err) {
    kn_profiles all = { 0 };
    *ret = 0;
    if (!kn_model_profiles(config, &all, err))
        return false;
    for (int i = 0; i < KN_WORKFLOWS; i++)
        if (kn_workflow_profile(&kn_workflows[i], &all, NULL))
            *ret |= 1u << i;
    kn_profiles_free(&all);
    return true;
}
