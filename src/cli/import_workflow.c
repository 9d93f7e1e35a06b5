/* kuno import-workflow: reads how a picture was made, and says the command that makes it again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/report.h"
#include "image/import.h"
#include "pipelines/model.h"

enum { TEXT_LIMIT = 4 << 20 };

typedef struct import_options {
    const char *picture, *config;
    bool json;
} import_options;

#define AT(member) offsetof(import_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to read"),
    KN_OPT(PATH, 0, NULL, "IMG", AT(picture), "a file that ComfyUI (PNG), A1111 or Kuno (PNG, JPEG, WebP) has saved"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "look for a profile that can draw it in this models.toml"),

    KN_OPT_GROUP("Output"),
    KN_OPT(FLAG, 0, "json", NULL, AT(json), "answer with one JSON object"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

static bool check(const void *given, kn_error *err) {
    const import_options *o = given;
    return o->picture || kn_fail(err, KN_E_USAGE, "needs a picture, like: kuno import-workflow ComfyUI_00001_.png");
}

/* ---- a command line ---- */

/* What no terminal should get as it is. */
static bool is_control(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

static bool has_control(const char *text) {
    const char *end = text + strlen(text);
    uint32_t c = 0;
    while (text < end)
        if (!kn_utf8_next(&text, end, &c) || (is_control(c) && c != '\n'))
            return true;
    return false;
}

/* As shells read it: in single quotes, or where it has control characters in $'…' with escapes. */
static bool add_quoted(const char *text, kn_buf *into) {
    bool escapes = has_control(text);
    bool ok = kn_buf_add_text(into, escapes ? "$'" : "'");
    for (const char *p = text; *p && ok; p++) {
        unsigned char c = (unsigned char)*p;
        if (escapes && (c < 0x20 || c >= 0x7F))
            ok = kn_buf_printf(into, "\\x%02x", c);
        else if (escapes && (c == '\'' || c == '\\'))
            ok = kn_buf_printf(into, "\\%c", c);
        else if (c == '\'')
            ok = kn_buf_add_text(into, "'\\''");
        else
            ok = kn_buf_add(into, p, 1);
    }
    return ok && kn_buf_add_text(into, "'");
}

static bool is_plain(const char *text) {
    return *text &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._,:/+-") == strlen(text);
}

/* NULL: there is none to say. */
static bool add_option(const char *name, const char *value, kn_buf *into) {
    return !value || (kn_buf_printf(into, " --%s=", name) &&
                      (is_plain(value) ? kn_buf_add_text(into, value) : add_quoted(value, into)));
}

static const char *pair(const kn_import *f, const char *key) {
    return f->source == KN_IMPORT_KUNO ? kn_parameters_find(&f->parameters, key) : NULL;
}

static bool add_numbers(const kn_import *f, kn_buf *into) {
    uint32_t width = kn_import_side(f->width), height = kn_import_side(f->height);
    bool by_picture = pair(f, "Outpaint") || pair(f, "Mask"); /* which makes the size */
    return (!width || !height || by_picture || kn_buf_printf(into, " --size=%ux%u", width, height)) &&
           (!f->steps || kn_buf_printf(into, " --steps=%u", f->steps)) &&
           (!f->has_cfg || kn_buf_printf(into, " --cfg=%.9g", f->cfg)) && add_option("seed", f->seed, into) &&
           add_option("sampler", kn_import_sampler(f), into) && add_option("scheduler", kn_import_scheduler(f), into) &&
           (!f->has_flow_shift || kn_buf_printf(into, " --flow-shift=%.9g", f->flow_shift));
}

/* Files that were there and are not in the picture stand as names in capitals. */
static bool add_pictures(const kn_import *f, kn_buf *into) {
    for (unsigned i = 1; i <= f->reference_count; i++)
        if (!kn_buf_printf(into, " --reference=REFERENCE-%u", i))
            return false;
    bool started = f->warnings >> KN_IMPORT_START_PICTURE & 1;
    return (!started || kn_buf_add_text(into, " --init-image=PICTURE")) &&
           add_option("strength", pair(f, "Denoising strength"), into) &&
           (!(f->warnings >> KN_IMPORT_MASK & 1) || kn_buf_add_text(into, " --mask=MASK")) &&
           add_option("outpaint", pair(f, "Outpaint"), into) &&
           (!(f->warnings >> KN_IMPORT_NOISE & 1) || kn_buf_add_text(into, " --init-noise=NOISE"));
}

static bool add_command(const kn_import *f, const import_options *o, const char *profile, kn_buf *into) {
    bool given = f->warnings >> KN_IMPORT_NOISE & 1;
    return kn_buf_add_text(into, "kuno generate") && add_option("config", o->config, into) &&
           add_option("model-profile", profile, into) && add_option("prompt", f->prompt, into) &&
           (!*f->negative_prompt || add_option("negative-prompt", f->negative_prompt, into)) && add_numbers(f, into) &&
           add_option("mu", pair(f, "Mu"), into) && add_option("shift-y1", pair(f, "Shift y1"), into) &&
           add_option("shift-y2", pair(f, "Shift y2"), into) && (given || add_option("rng", pair(f, "RNG"), into)) &&
           add_pictures(f, into);
}

/* ---- a profile ---- */

static bool can_draw(const kn_profile *p, const kn_import *f) {
    if (f->source == KN_IMPORT_KUNO)
        return f->model && strcmp(p->name, f->model) == 0;
    const kn_architecture *a = kn_architecture_find(p->architecture);
    return f->architecture && strcmp(p->architecture, f->architecture) == 0 &&
           strcmp(p->variant ? p->variant : a->variants[0].name, f->variant) == 0;
}

/* *ret (malloc): NULL if there is none, or none is meant. */
static bool find_profile(const kn_import *f, const char *config, char **ret, kn_error *err) {
    kn_profiles all = { 0 };
    const kn_profile *found = NULL;
    if (!kn_model_profiles(config, &all, err))
        return false;
    for (size_t i = 0; i < all.n && !found; i++)
        if (can_draw(&all.profiles[i], f))
            found = &all.profiles[i];
    if (!found && all.builtin && f->source == KN_IMPORT_KUNO && can_draw(all.builtin, f))
        found = all.builtin;
    *ret = found ? strdup(found->name) : NULL;
    bool ok = !found || *ret || kn_fail_nomem(err, strlen(found->name));
    kn_profiles_free(&all);
    return ok;
}

/* ---- telling ---- */

static void tell_left_out(const kn_import *f) {
    for (size_t i = 0; i < f->parameters.count; i++) {
        const kn_parameter *p = &f->parameters.list[i];
        if (kn_import_leaves_out(f, p))
            kn_warn("left out: %s: %s", kn_quote_z(p->key).text, kn_quote_z(p->value).text);
    }
}

static void tell_notes(const kn_import *f, const char *profile) {
    for (int i = 0; i < KN_IMPORT_WARNINGS; i++)
        if (f->warnings >> i & 1)
            kn_warn("%s", kn_import_warnings[i].sentence);
    tell_left_out(f);
    if (f->reference_count)
        kn_warn("%u reference picture%s must be given again; the file does not hold %s", f->reference_count,
                f->reference_count == 1 ? "" : "s", f->reference_count == 1 ? "it" : "them");
    if (profile)
        return;
    if (f->architecture)
        kn_warn("no profile in models.toml is for %s, variant %s; name one with --model-profile", f->architecture,
                f->variant);
    else if (f->model)
        kn_warn("there is no profile '%s'; the default one would draw it", kn_quote_z(f->model).text);
}

static bool print_json(const kn_import *f, const kn_buf *command, const char *profile, kn_error *err) {
    KN_AUTO_BUF out;
    kn_buf_init(&out, TEXT_LIMIT);
    json_t *all = kn_import_json(f);
    if (all)
        json_object_update_new(all, json_pack("{s:s?, s:s}", "profile", profile, "command", command->data));
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    bool ok = (text && kn_buf_printf(&out, "%s\n", text)) || kn_fail_nomem(err, TEXT_LIMIT);
    free(text);
    return ok && kn_print(&out, err);
}

static bool tell(const kn_import *f, const import_options *o, kn_error *err) {
    KN_AUTO_BUF command;
    kn_buf_init(&command, TEXT_LIMIT);
    char *profile = NULL;
    if (!find_profile(f, o->config, &profile, err))
        return false;
    bool ok = add_command(f, o, profile, &command) || kn_fail_nomem(err, TEXT_LIMIT);
    if (ok && o->json) {
        ok = print_json(f, &command, profile, err);
    } else if (ok) {
        tell_notes(f, profile);
        ok = (kn_buf_add_text(&command, "\n") || kn_fail_nomem(err, TEXT_LIMIT)) && kn_print(&command, err);
    }
    free(profile);
    return ok;
}

static bool read_picture(const char *path, kn_import *ret, kn_error *err) {
    KN_AUTO_BUF file;
    kn_buf_init(&file, KN_IMAGE_LIMITS.bytes + 1);
    bool ok = kn_file_read(path, KN_IMAGE_LIMITS.bytes, &file, err) &&
              kn_import_read(file.data, file.len, &KN_IMAGE_LIMITS, ret, err);
    if (ok && ret->source == KN_IMPORT_NONE)
        ok = kn_fail(err, KN_E_NOT_FOUND, "has no workflow metadata: nothing in it says how it was made");
    return ok || kn_fail_within(err, "'%s'", kn_quote_path(path).text);
}

static int run(const void *given) {
    const import_options *o = given;
    kn_import found = { .source = KN_IMPORT_NONE };
    kn_error err = { 0 };
    bool ok = read_picture(o->picture, &found, &err) && tell(&found, o, &err);
    kn_import_free(&found);
    return ok ? 0 : kn_report(NULL, &err);
}

const kn_command kn_command_import_workflow = {
    .name = "import-workflow",
    .help = "Tell how to draw a picture again that another program has made",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(import_options),
    .check = check,
    .run = run,
};
