/* kuno image-worker: the process in which the server has pictures drawn and read. What it does is src/workers'. */
#include "workers/image_worker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

typedef struct worker_options {
    const char *config, *model_profile, *upscalers, *device, *precision, *residency, *isolation;
    kn_given_integer threads;
    bool session;
} worker_options;

static const kn_name devices[] = { { "cpu", { NULL }, "all cores, or as many threads as --threads says" } };
static const kn_name residencies[] = {
    { "staged", { NULL }, "each part of the model leaves memory when it is done" },
    { "cached", { NULL }, "all parts stay for the next picture" },
};

#define AT(member) offsetof(worker_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to do"),
    KN_OPT(FLAG, 0, "session", NULL, AT(session), "do one job after the other, in frames, until the input ends"),
    KN_OPT_CHOICE(0, "isolation", AT(isolation), kn_isolation_names, "what if this machine cannot lock the process in"),

    KN_OPT_GROUP("Model"),
    KN_OPT(TEXT, 0, "model-profile", "NAME", AT(model_profile), "the model of recipes that name none"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "read profiles from this models.toml"),
    KN_OPT(PATH, 0, "upscalers", "DIR", AT(upscalers), "where the upscalers are that recipes name"),

    KN_OPT_GROUP("Machine"),
    KN_OPT_CHOICE(0, "device", AT(device), devices, "what computes"),
    KN_OPT_RANGE(INTEGER, 't', "threads", "N", AT(threads), 1, 1024,
                 "threads to compute with (default: one for each core that this process may use)"),
    KN_OPT_CHOICE(0, "precision", AT(precision), kn_precision_names,
                  "narrower products where the processor gains from them, or float32 throughout"),
    KN_OPT_CHOICE(0, "residency", AT(residency), residencies,
                  "free each part of the model when it is done, or keep all for the next picture (default in a "
                  "session)"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

static kn_isolation isolation_of(const char *name) {
    bool best_effort = name && strcmp(name, kn_isolation_names[KN_ISOLATION_BEST_EFFORT].name) == 0;
    return best_effort ? KN_ISOLATION_BEST_EFFORT : KN_ISOLATION_REQUIRED;
}

static int run(const void *given) {
    const worker_options *o = given;
    const char *frames = getenv("KUNO_IMAGE_FRAMES");
    const kn_image_worker worker = {
        .model = { .config = o->config,
                   .profile = o->model_profile,
                   .device = o->device,
                   .precision = o->precision,
                   .residency = o->residency ? o->residency
                                : o->session ? "cached"
                                             : NULL,
                   .threads = { .given = o->threads.set, .value = (double)o->threads.value } },
        .upscalers = o->upscalers,
        .isolation = isolation_of(o->isolation),
        .session = o->session,
        .frames = frames && strcmp(frames, "1") == 0,
    };
    int status = kn_image_worker_run(&worker);
    /* Nothing is left to be written, and what libraries do at the end of a process is not for a locked one. */
    _exit(status);
}

const kn_command kn_command_image_worker = {
    .name = "image-worker",
    .help = "Draw or read pictures for the server, in a process that is locked in",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(worker_options),
    .run = run,
};
