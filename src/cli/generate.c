#include "cli/generate.h"

#include <string.h>

#include "cli/command.h"
#include "pipelines/inpaint.h"
#include "sampling/noise.h"
#include "sampling/sampler.h"
#include "sampling/schedule.h"

static const kn_name devices[] = { { "cpu", { NULL }, "all cores, or as many threads as --threads says" } };
static const kn_name residencies[] = {
    { "staged", { NULL }, "each part of the model leaves memory when it is done" },
    { "cached", { NULL }, "all parts stay for the next picture of --count" },
};

enum { COUNT_MAX = 10000 };

_Static_assert(KN_GIVEN_REALS_MAX == KN_MAX_STEPS + 1, "a list of sigmas has one value more than there are steps");

#define AT(member) offsetof(kn_generate_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to draw"),
    KN_OPT(TEXT, 0, NULL, "PROMPT", AT(prompt), "what the picture shows, in quotes"),
    KN_OPT(TEXT, 'p', "prompt", "TEXT", AT(prompt), "the same as PROMPT"),
    KN_OPT(TEXT, 'n', "negative-prompt", "TEXT", AT(negative_prompt),
           "what it shall not show; counts only with guidance (--cfg)"),
    KN_OPT_RANGE(SIZE, 0, "size", "WxH", AT(size), 16, 16384, "width and height in pixels, multiples of 16"),
    KN_OPT(SEED, 's', "seed", "N", AT(seed),
           "what the noise starts from: 0 to 2^64-1, or -1 for a random seed (default); the same seed gives the same "
           "picture"),
    KN_OPT_RANGE(INTEGER, 0, "count", "N", AT(count), 1, COUNT_MAX,
                 "draw so many pictures, each with the seed of the one before plus 1"),

    KN_OPT_GROUP("Pictures to work from"),
    KN_OPT(PATHS, 0, "reference", "IMG", AT(references),
           "a PNG, JPEG or WebP file that the prompt is about, as <image1>, <image2> and so on in the order given; "
           "where --size says nothing, the picture has the shape of the first one, at the model's usual size"),
    KN_OPT(PATH, 0, "init-image", "IMG", AT(init_image), "start from this picture in place of noise alone"),
    KN_OPT_RANGE(REAL, 0, "strength", "X", AT(strength), 0, 1,
                 "how much of --init-image may change: 0 nothing, 1 everything (default: 0.6, and 1 with --mask or "
                 "--outpaint)"),
    KN_OPT(PATH, 0, "mask", "IMG", AT(mask),
           "draw only what is white in this picture of the size of --init-image, or what is transparent; every other "
           "pixel stays as it is"),
    KN_OPT(FLAG, 0, "mask-invert", NULL, AT(mask_invert), "draw what --mask would keep, and keep what it would draw"),
    KN_OPT_RANGE(INTEGER, 0, "mask-grow", "N", AT(mask_grow), 0, KN_MASK_REACH_MAX,
                 "draw so many pixels around it, too (default: 0)"),
    KN_OPT_RANGE(INTEGER, 0, "mask-fade", "N", AT(mask_fade), 0, KN_MASK_REACH_MAX,
                 "over so many pixels what is drawn passes into what stays (default: 4; with --outpaint 40)"),
    KN_OPT_RANGE(REALS, 0, "outpaint", "L,T,R,B", AT(outpaint), 0, KN_SIDE_MAX,
                 "draw so many pixels more on the left, top, right and bottom of --init-image"),
    KN_OPT(FLAG, 0, "no-region", NULL, AT(no_region),
           "do not show Qwen-Image 2.1 what is to be drawn, in red in a reference, which costs time; it then sees only "
           "what is around"),

    KN_OPT_GROUP("Model"),
    KN_OPT(TEXT, 0, "model-profile", "NAME", AT(model_profile), "the model to use, a profile in models.toml"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "read profiles from this models.toml"),
    KN_OPT(PATH, 0, "diffusion-model", "FILE", AT(diffusion_model),
           "use this in place of the profile's diffusion model"),
    KN_OPT(PATH, 0, "text-encoder", "FILE", AT(text_encoder), "use this in place of the profile's text encoder"),
    KN_OPT(PATH, 0, "vision", "FILE", AT(vision),
           "use this in place of the profile's vision encoder, or of the one in the text encoder's file"),
    KN_OPT(PATH, 0, "vae", "FILE", AT(vae), "use this in place of the profile's VAE"),
    KN_OPT(PATH, 0, "tokenizer-path", "DIR", AT(tokenizer_path),
           "use this tokenizer in place of the profile's or of Qwen's, which is built in"),

    KN_OPT_GROUP("Sampling (defaults are the model's)"),
    KN_OPT_RANGE(INTEGER, 0, "steps", "N", AT(steps), 1, KN_MAX_STEPS, "sampling steps"),
    KN_OPT_RANGE(
        REAL, 0, "cfg", "X", AT(cfg), 0, 100,
        "guidance scale as in ComfyUI and A1111, 1 turns it off; for Krea 2 how much is added, 0 turns it off"),
    KN_OPT_CHOICE(0, "sampler", AT(sampler), kn_samplers, "how steps are made"),
    KN_OPT_CHOICE(0, "scheduler", AT(scheduler), kn_schedules, "how steps are spaced"),
    KN_OPT_RANGE(REALS, 0, "sigmas", "LIST", AT(sigmas), 0, 1,
                 "noise levels of the steps in place of a scheduler, falling, with commas"),
    KN_OPT_RANGE(REAL, 0, "flow-shift", "X", AT(flow_shift), 0, 100,
                 "move noise levels by this factor, in place of the model's own shift"),
    KN_OPT_RANGE(REAL, 0, "mu", "X", AT(mu), -20, 20,
                 "move noise levels by e to this power, where models are moved like that: Krea 2, Qwen-Image"),
    KN_OPT_RANGE(REAL, 0, "shift-y1", "X", AT(shift_y1), -20, 20,
                 "where mu follows from the picture's size, its value for small pictures"),
    KN_OPT_RANGE(REAL, 0, "shift-y2", "X", AT(shift_y2), -20, 20,
                 "where mu follows from the picture's size, its value for large pictures"),
    KN_OPT_CHOICE(0, "rng", AT(rng), kn_noise_kinds, "whose noise a seed gives"),
    KN_OPT(PATH, 0, "init-noise", "FILE", AT(init_noise),
           "take the start noise from the tensor 'noise' of this safetensors file"),

    KN_OPT_GROUP("Output"),
    KN_OPT(
        PATH, 'o', "output", "FILE", AT(output),
        "where the picture goes (default: output.png), as PNG, or as the ending says .jpg or .webp, with quality 95; "
        "- is standard output; with --count a number comes before the ending"),
    KN_OPT(FLAG, 0, "no-clobber", NULL, AT(no_clobber), "never replace an existing file"),
    KN_OPT(FLAG, 0, "no-metadata", NULL, AT(no_metadata), "leave prompt and settings out of the file"),
    KN_OPT(FLAG, 0, "opaque", NULL, AT(opaque), "make every pixel fully opaque"),
    KN_OPT(PATH, 0, "dump", "DIR", AT(dump),
           "write what happens on the way, from tokens to latents, to DIR/dump.safetensors"),
    KN_OPT(FLAG, 0, "json", NULL, AT(json), "describe the result as one JSON object on standard output"),
    KN_OPT(FLAG, 'q', "quiet", NULL, AT(quiet), "show no progress"),

    KN_OPT_GROUP("Machine"),
    KN_OPT_CHOICE(0, "device", AT(device), devices, "what computes"),
    KN_OPT_RANGE(INTEGER, 't', "threads", "N", AT(threads), 1, 1024,
                 "threads to compute with (default: one for each core that this process may use)"),
    KN_OPT_CHOICE(0, "precision", AT(precision), kn_precision_names,
                  "narrower products where the processor gains from them, or float32 throughout"),
    KN_OPT_CHOICE(0, "residency", AT(residency), residencies,
                  "free each part of the model when it is done, or keep all for the next picture of --count"),
    KN_OPT(FLAG, 0, "vae-tiling", NULL, AT(vae_tiling),
           "decode and encode pictures in overlapping tiles of 512 pixels, which takes less memory; without it only "
           "what would not fit is tiled"),
    KN_OPT(FLAG, 0, "allow-swap", NULL, AT(allow_swap),
           "begin even if the memory that is free will not do; the machine may become very slow"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

static bool check_pictures(const kn_generate_options *o, kn_error *err) {
    if (o->strength.set && !o->init_image)
        return kn_fail(err, KN_E_USAGE, "--strength says how much of --init-image may change; give that, too");
    if ((o->mask || o->outpaint.count) && !o->init_image)
        return kn_fail(err, KN_E_USAGE, "%s works on --init-image; give that, too", o->mask ? "--mask" : "--outpaint");
    if (o->mask && o->outpaint.count)
        return kn_fail(err, KN_E_USAGE, "--outpaint has a mask of its own; leave --mask out");
    if ((o->mask_invert || o->mask_grow.set) && !o->mask)
        return kn_fail(err, KN_E_USAGE, "--mask-%s changes --mask; give that, too", o->mask_invert ? "invert" : "grow");
    if ((o->mask_fade.set || o->no_region) && !o->mask && !o->outpaint.count)
        return kn_fail(err, KN_E_USAGE, "%s goes with --mask or --outpaint; give one of them",
                       o->no_region ? "--no-region" : "--mask-fade");
    bool whole = o->outpaint.count == 0 || o->outpaint.count == 4;
    double sum = 0;
    for (size_t i = 0; whole && i < o->outpaint.count; i++) {
        whole = o->outpaint.values[i] == (double)(uint32_t)o->outpaint.values[i];
        sum += o->outpaint.values[i];
    }
    if (!whole)
        return kn_fail(err, KN_E_USAGE, "--outpaint needs four whole numbers: left,top,right,bottom");
    if (o->outpaint.count && sum == 0)
        return kn_fail(err, KN_E_USAGE, "--outpaint by 0 pixels on every side adds nothing");
    if (o->outpaint.count && o->size.set)
        return kn_fail(err, KN_E_USAGE, "--outpaint makes the size from --init-image; leave --size out");
    return true;
}

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
    return check_pictures(o, err);
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
