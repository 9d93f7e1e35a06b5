#include "cli/inspect_models.h"

#include "cli/command.h"

#define AT(member) offsetof(kn_inspect_models_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to look at (default: all profiles)"),
    KN_OPT(PATHS, 0, NULL, "FILE", AT(files), "model files, or folders to look through, such as ComfyUI's models"),
    KN_OPT(TEXT, 0, "model-profile", "NAME", AT(model_profile), "a profile in models.toml"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "read profiles from this models.toml"),

    KN_OPT_GROUP("Output"),
    KN_OPT(FLAG, 0, "json", NULL, AT(json), "answer with one JSON object"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
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
