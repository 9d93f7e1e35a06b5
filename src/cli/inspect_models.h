/* kuno inspect-models: what its command line says. The work itself is inspect_models_run.c's. */
#ifndef KN_CLI_INSPECT_MODELS_H
#define KN_CLI_INSPECT_MODELS_H

#include "cli/options.h"

/* As given; without files and profile all profiles are meant. */
typedef struct kn_inspect_models_options {
    kn_given_paths files;
    const char *model_profile, *config;
    bool json;
} kn_inspect_models_options;

/* Returns the exit status; says on standard error what went wrong. */
int kn_inspect_models_run(const kn_inspect_models_options *o);

#endif
