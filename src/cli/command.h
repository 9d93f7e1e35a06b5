/* The commands of the program. Each is one row: its file describes it, main.c runs it, help.c and docs.c tell of it. */
#ifndef KN_CLI_COMMAND_H
#define KN_CLI_COMMAND_H

#include "cli/options.h"

typedef struct kn_command {
    const char *name, *help; /* help: one line, as a sentence without full stop */
    const kn_option *options;
    size_t option_count;
    size_t given_bytes;                              /* of the struct that its options fill */
    bool (*check)(const void *given, kn_error *err); /* whether they go together; NULL: always */
    int (*run)(const void *given);                   /* returns the exit status */
} kn_command;

extern const kn_command kn_command_bench, kn_command_check, kn_command_fetch_models, kn_command_generate,
    kn_command_image_worker, kn_command_import_workflow, kn_command_inspect_models, kn_command_mcp, kn_command_open,
    kn_command_resources, kn_command_serve, kn_command_upscale;

enum { KN_COMMAND_COUNT = 12 };
extern const kn_command *const kn_commands[KN_COMMAND_COUNT];

const kn_command *kn_command_find(const char *name);

/* What several commands choose from. */
enum { KN_PRECISION_NAMES = 2 };
extern const kn_name kn_precision_names[KN_PRECISION_NAMES];

#endif
