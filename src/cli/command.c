#include "cli/command.h"

#include <string.h>

const kn_command *const kn_commands[KN_COMMAND_COUNT] = {
    &kn_command_generate,       &kn_command_upscale,      &kn_command_import_workflow,
    &kn_command_inspect_models, &kn_command_fetch_models, &kn_command_serve,
    &kn_command_open,           &kn_command_mcp,          &kn_command_check,
    &kn_command_resources,      &kn_command_bench,        &kn_command_image_worker,
};

const kn_name kn_precision_names[KN_PRECISION_NAMES] = {
    { "fast", { NULL }, "narrower products where the processor gains from them" },
    { "exact", { NULL }, "float32 throughout" },
};

const kn_command *kn_command_find(const char *name) {
    for (size_t i = 0; i < KN_COMMAND_COUNT; i++) {
        if (strcmp(kn_commands[i]->name, name) == 0)
            return kn_commands[i];
    }
    return NULL;
}
