#include "cli/inspect_models.h"

#include "cli/command.h"

#define AT(member) offsetof(kn_inspect_models_options, member)

static const kn_option options[] = {
    { .kind = KN_OPTION_GROUP, .help = "What to look at (default: all profiles)" },
    { .kind = KN_OPTION_PATHS, .arg = "FILE", .at = AT(files), .help = "model files, or folders with their parts" },
    { .kind = KN_OPTION_TEXT,
      .name = "model-profile",
      .arg = "NAME",
      .at = AT(model_profile),
      .help = "a profile in models.toml" },
    { .kind = KN_OPTION_PATH,
      .name = "config",
      .arg = "FILE",
      .at = AT(config),
      .help = "read profiles from this models.toml" },

    { .kind = KN_OPTION_GROUP, .help = "Output" },
    { .kind = KN_OPTION_FLAG, .name = "json", .at = AT(json), .help = "answer with one JSON object" },

    { .kind = KN_OPTION_GROUP, .help = "Other" },
    KN_OPTION_HELP_ROW,
};

static bool check(const void *given, kn_error *err) {
    const kn_inspect_models_options *o = given;
    if (o->files.count && (o->model_profile || o->config))
        return kn_fail(err, KN_E_USAGE, "FILE and %s exclude each other", o->config ? "--config" : "--model-profile");
    return true;
}

static int run(const void *given) {
    return kn_inspect_models_run(given);
}

const kn_command kn_command_inspect_models = {
    .name = "inspect-models",
    .help = "Tell what model files are and whether they are complete",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(kn_inspect_models_options),
    .check = check,
    .run = run,
};
