#include "cli/generate.h"

#include <string.h>

#include "cli/command.h"
#include "sampling/noise.h"
#include "sampling/sampler.h"
#include "sampling/schedule.h"

static const kn_name devices[] = { { "cpu", { NULL }, "all processors, or as many as --threads says" } };
static const kn_name precisions[] = {
    { "fast", { NULL }, "narrower products where the processor gains from them" },
    { "exact", { NULL }, "float32 throughout" },
};
static const kn_name residencies[] = {
    { "staged", { NULL }, "each part of the model leaves memory when it is done" },
    { "cached", { NULL }, "all parts stay for the next picture of --count" },
};

enum { COUNT_MAX = 10000 };

_Static_assert(KN_GIVEN_REALS_MAX == KN_MAX_STEPS + 1, "a list of sigmas has one value more than there are steps");

#define AT(member) offsetof(kn_generate_options, member)

static const kn_option options[] = {
    { .kind = KN_OPTION_GROUP, .help = "What to draw" },
    { .kind = KN_OPTION_TEXT, .arg = "PROMPT", .at = AT(prompt), .help = "what the picture shows, in quotes" },
    { .kind = KN_OPTION_TEXT,
      .letter = 'p',
      .name = "prompt",
      .arg = "TEXT",
      .at = AT(prompt),
      .help = "the same as PROMPT" },
    { .kind = KN_OPTION_TEXT,
      .letter = 'n',
      .name = "negative-prompt",
      .arg = "TEXT",
      .at = AT(negative_prompt),
      .help = "what it shall not show; counts only with --cfg above 1" },
    { .kind = KN_OPTION_SIZE,
      .name = "size",
      .arg = "WxH",
      .at = AT(size),
      .min = 16,
      .max = 16384,
      .help = "width and height in pixels, multiples of 16" },
    { .kind = KN_OPTION_SEED,
      .letter = 's',
      .name = "seed",
      .arg = "N",
      .at = AT(seed),
      .help =
          "what the noise starts from: 0 to 2^64-1, or -1 for a random seed (default); the same seed gives the same "
          "picture" },
    { .kind = KN_OPTION_INTEGER,
      .name = "count",
      .arg = "N",
      .at = AT(count),
      .min = 1,
      .max = COUNT_MAX,
      .help = "draw so many pictures, each with the seed of the one before plus 1" },

    { .kind = KN_OPTION_GROUP, .help = "Model" },
    { .kind = KN_OPTION_TEXT,
      .name = "model-profile",
      .arg = "NAME",
      .at = AT(model_profile),
      .help = "the model to use, a profile in models.toml" },
    { .kind = KN_OPTION_PATH,
      .name = "config",
      .arg = "FILE",
      .at = AT(config),
      .help = "read profiles from this models.toml" },
    { .kind = KN_OPTION_PATH,
      .name = "diffusion-model",
      .arg = "FILE",
      .at = AT(diffusion_model),
      .help = "use this in place of the profile's diffusion model" },
    { .kind = KN_OPTION_PATH,
      .name = "text-encoder",
      .arg = "FILE",
      .at = AT(text_encoder),
      .help = "use this in place of the profile's text encoder" },
    { .kind = KN_OPTION_PATH,
      .name = "vae",
      .arg = "FILE",
      .at = AT(vae),
      .help = "use this in place of the profile's VAE" },
    { .kind = KN_OPTION_PATH,
      .name = "tokenizer-path",
      .arg = "DIR",
      .at = AT(tokenizer_path),
      .help = "use this in place of the profile's tokenizer" },

    { .kind = KN_OPTION_GROUP, .help = "Sampling (defaults are the model's)" },
    { .kind = KN_OPTION_INTEGER,
      .name = "steps",
      .arg = "N",
      .at = AT(steps),
      .min = 1,
      .max = KN_MAX_STEPS,
      .help = "sampling steps" },
    { .kind = KN_OPTION_REAL,
      .name = "cfg",
      .arg = "X",
      .at = AT(cfg),
      .min = 0,
      .max = 100,
      .help = "guidance scale as in ComfyUI and A1111; 1 turns it off" },
    { .kind = KN_OPTION_CHOICE,
      .name = "sampler",
      .arg = "NAME",
      .at = AT(sampler),
      .help = "how steps are made",
      KN_OPTION_NAMES(kn_samplers) },
    { .kind = KN_OPTION_CHOICE,
      .name = "scheduler",
      .arg = "NAME",
      .at = AT(scheduler),
      .help = "how steps are spaced",
      KN_OPTION_NAMES(kn_schedules) },
    { .kind = KN_OPTION_REALS,
      .name = "sigmas",
      .arg = "LIST",
      .at = AT(sigmas),
      .min = 0,
      .max = 1,
      .help = "noise levels of the steps in place of a scheduler, falling, with commas" },
    { .kind = KN_OPTION_CHOICE,
      .name = "rng",
      .arg = "NAME",
      .at = AT(rng),
      .help = "whose noise a seed gives",
      KN_OPTION_NAMES(kn_noise_kinds) },
    { .kind = KN_OPTION_PATH,
      .name = "init-noise",
      .arg = "FILE",
      .at = AT(init_noise),
      .help = "take the start noise from the tensor 'noise' of this safetensors file" },

    { .kind = KN_OPTION_GROUP, .help = "Output" },
    { .kind = KN_OPTION_PATH,
      .letter = 'o',
      .name = "output",
      .arg = "FILE",
      .at = AT(output),
      .help = "where the PNG file goes (default: output.png); - is standard output; with --count a number comes before "
              "the ending" },
    { .kind = KN_OPTION_FLAG, .name = "no-clobber", .at = AT(no_clobber), .help = "never replace an existing file" },
    { .kind = KN_OPTION_FLAG,
      .name = "no-metadata",
      .at = AT(no_metadata),
      .help = "leave prompt and settings out of the file" },
    { .kind = KN_OPTION_FLAG, .name = "opaque", .at = AT(opaque), .help = "make every pixel fully opaque" },
    { .kind = KN_OPTION_PATH,
      .name = "dump",
      .arg = "DIR",
      .at = AT(dump),
      .help = "write what happens on the way, from tokens to latents, to DIR/dump.safetensors" },
    { .kind = KN_OPTION_FLAG,
      .name = "json",
      .at = AT(json),
      .help = "describe the result as one JSON object on standard output" },
    { .kind = KN_OPTION_FLAG, .letter = 'q', .name = "quiet", .at = AT(quiet), .help = "show no progress" },

    { .kind = KN_OPTION_GROUP, .help = "Machine" },
    { .kind = KN_OPTION_CHOICE,
      .name = "device",
      .arg = "NAME",
      .at = AT(device),
      .help = "what computes",
      KN_OPTION_NAMES(devices) },
    { .kind = KN_OPTION_INTEGER,
      .letter = 't',
      .name = "threads",
      .arg = "N",
      .at = AT(threads),
      .min = 1,
      .max = 1024,
      .help = "processors to use (default: all that this process may use)" },
    { .kind = KN_OPTION_CHOICE,
      .name = "precision",
      .arg = "NAME",
      .at = AT(precision),
      .help = "speed or digits",
      KN_OPTION_NAMES(precisions) },
    { .kind = KN_OPTION_CHOICE,
      .name = "residency",
      .arg = "NAME",
      .at = AT(residency),
      .help = "what stays in memory",
      KN_OPTION_NAMES(residencies) },

    { .kind = KN_OPTION_GROUP, .help = "Other" },
    KN_OPTION_HELP_ROW,
};

/* What single options cannot know. */
static bool check(const void *given, kn_error *err) {
    const kn_generate_options *o = given;
    bool to_stdout = o->output && strcmp(o->output, "-") == 0;
    uint64_t more = o->count.set ? (uint64_t)o->count.value - 1 : 0;
    if (!o->prompt)
        return kn_fail(err, KN_E_USAGE, "needs a prompt, like: kuno generate \"a red boat on a quiet lake\"");
    if (to_stdout && o->json)
        return kn_fail(err, KN_E_USAGE, "--json and --output - both want standard output; name a file");
    if (to_stdout && more)
        return kn_fail(err, KN_E_USAGE, "--count: standard output takes one picture; name a file with --output");
    if (o->init_noise && more)
        return kn_fail(err, KN_E_USAGE, "--count: --init-noise gives the noise of one picture");
    if (o->seed.set && !o->seed.random && o->seed.value > UINT64_MAX - more)
        return kn_fail(err, KN_E_USAGE, "--count: the last seed would be beyond 18446744073709551615");
    if (o->sigmas.count && (o->steps.set || o->scheduler))
        return kn_fail(err, KN_E_USAGE, "--sigmas says what %s would; give one of them",
                       o->scheduler ? "--scheduler" : "--steps");
    return true;
}

static int run(const void *given) {
    return kn_generate_run(given);
}

const kn_command kn_command_generate = {
    .name = "generate",
    .help = "Draw pictures from a text",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(kn_generate_options),
    .check = check,
    .run = run,
};
