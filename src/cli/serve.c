#include "cli/serve.h"

#include "cli/command.h"
#include "gateway/config.h"

#define AT(member) offsetof(kn_serve_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to serve"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "this config.json (default: " KN_CONFIG_PATH ", if it is there)"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

static int run(const void *given) {
    return kn_serve_run(given);
}

const kn_command kn_command_serve = {
    .name = "serve",
    .help = "Serve clients of Ollama, one request that needs the machine at a time",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(kn_serve_options),
    .run = run,
};
