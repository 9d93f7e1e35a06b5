#include "image/import.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "image/import_comfy.h"
#include "image/png.h"
#include "image/write.h"
#include "sampling/sampler.h"
#include "sampling/schedule.h"

enum { SIDE_MIN = 16, SIDE_MAX = 16384, SIDE_STEP = 16, CFG_MAX = 30 };

const char *const kn_import_sources[KN_IMPORT_SOURCES] = { "none", "kuno", "comfyui", "a1111" };

const kn_import_words kn_import_warnings[KN_IMPORT_WARNINGS] = {
    [KN_IMPORT_SEED_TOO_LARGE] = { "seed-exceeds-signed-64-bit",
                                   "the seed is above 2^63-1: `kuno generate` takes it, the service does not" },
    [KN_IMPORT_SEED_MAY_DIFFER] = { "seed-may-differ",
                                    "the editor changes the seed after each picture: the stored one may be the next" },
    [KN_IMPORT_BIT_DEPTH] = { "output-bit-depth", "the picture was saved in another form than PNG of 8 bits" },
    [KN_IMPORT_NEGATIVE_IGNORED] = { "negative-ignored", "the negative prompt has no effect without guidance (cfg 1)" },
    [KN_IMPORT_DEFAULT_SHIFT] = { "flow-shift-default",
                                  "the workflow says no flow shift; ComfyUI's own for this model is mu 1.15" },
    [KN_IMPORT_TURBO_SCHEDULE] = { "turbo-schedule", "steps and scheduler are replaced by Turbo's own 8 noise levels" },
    [KN_IMPORT_CACHE] = { "cache-setting", "the cache had settings of its own, which mean nothing here" },
    [KN_IMPORT_REFERENCE_RESOLUTION] = { "reference-resolution",
                                         "references were seen at another resolution than 1024" },
    [KN_IMPORT_OTHER_SAMPLER] = { "other-sampler", "the sampler is not known here; the model's own is used" },
    [KN_IMPORT_OTHER_SCHEDULER] = { "other-scheduler", "the schedule is not known here; the model's own is used" },
    [KN_IMPORT_LORA] = { "lora", "the prompt names LoRAs, which cannot be used in prompts" },
    [KN_IMPORT_SIZE_ROUNDED] = { "size-rounded", "the size is none that can be drawn; the nearest one is proposed" },
    [KN_IMPORT_START_PICTURE] = { "start-picture", "it was drawn from a picture, which must be given again" },
    [KN_IMPORT_MASK] = { "mask", "it was drawn within a mask, which must be given again" },
    [KN_IMPORT_NOISE] = { "start-noise", "it was drawn from noise of a file, which must be given again" },
    [KN_IMPORT_SEED_UNUSABLE] = { "seed-unusable", "the seed is no whole number from 0 to 2^64-1; another is drawn" },
    [KN_IMPORT_STEPS_UNUSABLE] = { "steps-unusable",
                                   "the steps are no number from 1 to 200; the model's own are used" },
    [KN_IMPORT_CFG_UNUSABLE] = { "cfg-unusable", "the guidance is no number from 0 to 30; the model's own is used" },
    [KN_IMPORT_SIZE_UNUSABLE] = { "size-unusable", "the size is none of a picture; the model's own is used" },
    [KN_IMPORT_LEFT_OUT] = { "settings-left-out", "further settings have no counterpart here and are left out" },
    [KN_IMPORT_PROMPT_SYNTAX] = { "prompt-syntax",
                                  "the prompts have weights, embeddings or the like, which mean nothing here: they are "
                                  "drawn as the words and brackets that they are" },
};

/* ---- texts ---- */

bool kn_import_keep(kn_json_text text, size_t most, const char *what, char **ret, kn_error *err) {
    if (text.len > most)
        return kn_fail(err, KN_E_RANGE, "'%s' has %zu bytes, at most %zu can be taken over", what, text.len, most);
    char *copy = strndup(text.data, text.len);
    if (!copy)
        return kn_fail_nomem(err, text.len);
    free(*ret);
    *ret = copy;
    return true;
}

static bool keep(const char *text, char **ret, kn_error *err) {
    return kn_import_keep((kn_json_text){ text, strlen(text) }, SIZE_MAX, "", ret, err);
}

static bool keep_prompt(const char *text, char **ret, kn_error *err) {
    return kn_import_keep((kn_json_text){ text, strlen(text) }, KN_IMPORT_PROMPT_BYTES, "prompt", ret, err);
}

static void warn(kn_import *to, kn_import_warning warning) {
    to->warnings |= 1u << warning;
}

/* ---- pairs of a parameters text ---- */

static bool take_seed(kn_import *to, const char *value, kn_error *err) {
    uint64_t seed = 0;
    if (!kn_parse_u64(value, &seed)) {
        warn(to, KN_IMPORT_SEED_UNUSABLE);
        return true;
    }
    if (seed > INT64_MAX)
        warn(to, KN_IMPORT_SEED_TOO_LARGE);
    return keep(value, &to->seed, err);
}

static void take_steps(kn_import *to, const char *value) {
    uint64_t steps = 0;
    if (kn_parse_u64(value, &steps) && steps >= 1 && steps <= KN_IMPORT_STEPS_MAX)
        to->steps = (unsigned)steps;
    else
        warn(to, KN_IMPORT_STEPS_UNUSABLE);
}

static void take_cfg(kn_import *to, const char *value) {
    double cfg = 0;
    if (!kn_parse_double(value, &cfg) || !(cfg >= 0 && cfg <= CFG_MAX)) {
        warn(to, KN_IMPORT_CFG_UNUSABLE);
        return;
    }
    to->has_cfg = true;
    to->cfg = cfg;
}

uint32_t kn_import_side(uint32_t side) {
    if (!side)
        return 0;
    uint32_t nearest = (side + SIDE_STEP / 2) / SIDE_STEP * SIDE_STEP;
    return KN_MIN(KN_MAX(nearest, SIDE_MIN), SIDE_MAX);
}

/* "832x1248" */
static bool read_size(const char *value, uint64_t *ret_width, uint64_t *ret_height) {
    enum { DIGITS = 8 };
    const char *x = strchr(value, 'x');
    char first[DIGITS];
    if (!x || (size_t)(x - value) >= sizeof first)
        return false;
    memcpy(first, value, (size_t)(x - value));
    first[x - value] = 0;
    return kn_parse_u64(first, ret_width) && kn_parse_u64(x + 1, ret_height) && *ret_width && *ret_height &&
           *ret_width <= UINT16_MAX && *ret_height <= UINT16_MAX;
}

static void take_size(kn_import *to, const char *value) {
    uint64_t width = 0, height = 0;
    if (!read_size(value, &width, &height)) {
        warn(to, KN_IMPORT_SIZE_UNUSABLE);
        return;
    }
    to->width = (uint32_t)width;
    to->height = (uint32_t)height;
    bool as_it_was = kn_import_side(to->width) == to->width && kn_import_side(to->height) == to->height;
    if (!as_it_was && to->source != KN_IMPORT_KUNO) /* ours has another size only where a picture gives it */
        warn(to, KN_IMPORT_SIZE_ROUNDED);
}

const char *kn_import_sampler(const kn_import *found) {
    const kn_sampler *known = NULL;
    if (!found->sampler || found->source == KN_IMPORT_KUNO)
        return found->sampler;
    return kn_sampler_find(found->sampler, &known, NULL) ? known->name.name : NULL;
}

/* A1111 writes "SGM Uniform" for what ComfyUI and we call sgm_uniform. What others mean by our own names is not known.
 */
static const char *foreign_scheduler(const char *text) {
    static const kn_schedule known[] = { KN_SCHEDULE_SIMPLE, KN_SCHEDULE_SGM_UNIFORM, KN_SCHEDULE_NORMAL,
                                         KN_SCHEDULE_BETA };
    for (size_t i = 0; i < KN_COUNT(known); i++) {
        const char *name = kn_schedules[known[i]].name, *at = text;
        while (*name && (*name == tolower((unsigned char)*at) || (*name == '_' && *at == ' '))) {
            name++;
            at++;
        }
        if (!*name && !*at)
            return kn_schedules[known[i]].name;
    }
    return NULL;
}

/* Turbo has its own; a list that was given (our "custom") is not told. */
const char *kn_import_scheduler(const kn_import *found) {
    if (!found->scheduler || found->turbo)
        return NULL;
    if (found->source == KN_IMPORT_KUNO)
        return strcmp(found->scheduler, "custom") == 0 ? NULL : found->scheduler;
    return foreign_scheduler(found->scheduler);
}

/* "DPM++ 2M Karras", as A1111 wrote it before the schedule had a name of its own. */
static bool split_sampler(kn_import *to, kn_error *err) {
    static const char *const schedules[] = { " Karras", " Exponential", " Polyexponential" };
    size_t len = strlen(to->sampler);
    for (size_t i = 0; i < KN_COUNT(schedules); i++) {
        size_t n = strlen(schedules[i]);
        if (len <= n || strcasecmp(to->sampler + len - n, schedules[i]) != 0)
            continue;
        if (!keep(schedules[i] + 1, &to->scheduler, err))
            return false;
        to->sampler[len - n] = 0;
        return true;
    }
    return true;
}

bool kn_import_leaves_out(const kn_import *found, const kn_parameter *pair) {
    /* Taken over, or what tells of models and programs and is information only. */
    static const char *const others[] = { "Steps",         "CFG scale", "Seed",        "Size", "Sampler",
                                          "Schedule type", "Model",     "Model hash",  "VAE",  "VAE hash",
                                          "Hashes",        "Version",   "Created Date" };
    for (size_t i = 0; i < KN_COUNT(others); i++)
        if (strcmp(pair->key, others[i]) == 0)
            return false;
    return found->source == KN_IMPORT_A1111;
}

static void look_at_rest(kn_import *to) {
    for (size_t i = 0; i < to->parameters.count; i++)
        if (kn_import_leaves_out(to, &to->parameters.list[i]))
            warn(to, KN_IMPORT_LEFT_OUT);
}

/* What everybody writes. */
static bool take_common(kn_import *to, kn_error *err) {
    const char *value = NULL;
    if ((value = kn_parameters_find(&to->parameters, "Seed")) && !take_seed(to, value, err))
        return false;
    if ((value = kn_parameters_find(&to->parameters, "Steps")))
        take_steps(to, value);
    if ((value = kn_parameters_find(&to->parameters, "CFG scale")))
        take_cfg(to, value);
    if ((value = kn_parameters_find(&to->parameters, "Size")))
        take_size(to, value);
    if ((value = kn_parameters_find(&to->parameters, "Sampler"))) {
        if (!keep(value, &to->sampler, err) || (to->source == KN_IMPORT_A1111 && !split_sampler(to, err)))
            return false;
        if (!kn_import_sampler(to))
            warn(to, KN_IMPORT_OTHER_SAMPLER);
    }
    if ((value = kn_parameters_find(&to->parameters, "Schedule type"))) {
        if (!keep(value, &to->scheduler, err))
            return false;
    }
    if (to->scheduler && !kn_import_scheduler(to))
        warn(to, KN_IMPORT_OTHER_SCHEDULER);
    look_at_rest(to);
    return true;
}

/* What only we write. */
static bool take_own(kn_import *to, kn_error *err) {
    const char *value = NULL;
    uint64_t count = 0;
    if ((value = kn_parameters_find(&to->parameters, "Added guidance")))
        take_cfg(to, value); /* as its users write it, in place of the other number */
    if ((value = kn_parameters_find(&to->parameters, "Flow shift")))
        to->has_flow_shift = kn_parse_double(value, &to->flow_shift);
    if ((value = kn_parameters_find(&to->parameters, "References")) && kn_parse_u64(value, &count))
        to->reference_count = (unsigned)KN_MIN(count, KN_IMPORT_REFERENCES_MAX);
    if (kn_parameters_find(&to->parameters, "Denoising strength"))
        warn(to, KN_IMPORT_START_PICTURE);
    if (kn_parameters_find(&to->parameters, "Mask"))
        warn(to, KN_IMPORT_MASK);
    if ((value = kn_parameters_find(&to->parameters, "RNG")) && strcmp(value, "given") == 0)
        warn(to, KN_IMPORT_NOISE);
    value = kn_parameters_find(&to->parameters, "Model");
    return !value || keep(value, &to->model, err);
}

/* ---- what a prompt says in signs of its own ---- */

static bool is_of_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool has_word(const char *text, const char *word) {
    size_t len = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += len)
        if ((at == text || !is_of_word(at[-1])) && !is_of_word(at[len]))
            return true;
    return false;
}

static bool has_pair(const char *text, char open, char close) {
    const char *from = strchr(text, open);
    return from && from[1] && strchr(from + 2, close);
}

static bool has_embedding(const char *text) {
    static const char mark[] = "embedding:";
    for (const char *at = text; (at = strstr(at, mark)); at += sizeof mark - 1)
        if ((at == text || !is_of_word(at[-1])) && (unsigned char)at[sizeof mark - 1] > ' ')
            return true;
    return false;
}

/* A1111 gives every pair of brackets a meaning, be it that a backslash takes it away. ComfyUI's encoders of the models
 * here read a prompt without weights, as we do. */
static bool has_syntax(const kn_import *to, const char *prompt) {
    bool foreign = to->source == KN_IMPORT_A1111;
    return (foreign && (has_pair(prompt, '(', ')') || has_pair(prompt, '[', ']') || has_word(prompt, "BREAK") ||
                        has_word(prompt, "AND"))) ||
           (to->source != KN_IMPORT_KUNO && has_embedding(prompt));
}

static void look_at_prompts(kn_import *to) {
    if (has_syntax(to, to->prompt) || has_syntax(to, to->negative_prompt))
        warn(to, KN_IMPORT_PROMPT_SYNTAX);
}

/* Lines end as they do here. */
static void unify_lines(char *text) {
    char *to = text;
    for (const char *at = text; *at; at++) {
        bool before_end = *at == '\r' && (at[1] == '\n' || !at[1]);
        if (!before_end)
            *to++ = *at == '\r' ? '\n' : *at;
    }
    *to = 0;
}

static bool take_prompts(kn_import *to, kn_error *err) {
    if (!keep_prompt(to->parameters.prompt, &to->prompt, err) ||
        !keep_prompt(to->parameters.negative, &to->negative_prompt, err))
        return false;
    if (to->source == KN_IMPORT_A1111) {
        unify_lines(to->prompt);
        unify_lines(to->negative_prompt);
    }
    look_at_prompts(to);
    return true;
}

/* ---- a text of settings ---- */

static bool read_parameters(const char *text, kn_import *to, kn_error *err) {
    static const char own[] = "kuno ";
    to->source = KN_IMPORT_A1111;
    if (!kn_parameters_read(text, &to->parameters, err))
        return kn_fail_within(err, "the text of settings");
    const char *version = kn_parameters_find(&to->parameters, "Version");
    if (version && strncmp(version, own, sizeof own - 1) == 0)
        to->source = KN_IMPORT_KUNO;
    const char *prompt = to->parameters.prompt, *negative = to->parameters.negative;
    if (strstr(prompt, "<lora:") || strstr(negative, "<lora:"))
        warn(to, KN_IMPORT_LORA);
    return take_prompts(to, err) && take_common(to, err) && (to->source != KN_IMPORT_KUNO || take_own(to, err));
}

/* ---- which text ---- */

/* Where a key comes more than once, nobody can tell which text is meant, unless they are alike. */
static bool find_text(const kn_png_texts *texts, const char *key, const char **ret, kn_error *err) {
    *ret = kn_png_texts_find(texts, key);
    for (size_t i = 0; *ret && i < texts->count; i++)
        if (strcmp(texts->items[i].key, key) == 0 && strcmp(texts->items[i].text, *ret) != 0)
            return kn_fail(err, KN_E_FORMAT, "has two different texts '%s'", key);
    return true;
}

static bool read_graph(const char *text, bool edited, kn_import *to, kn_error *err) {
    const kn_json_text whole = { text, strlen(text) };
    kn_graph g = { 0 };
    to->source = KN_IMPORT_COMFYUI;
    if (!(edited ? kn_graph_read_edited : kn_graph_read_executed)(whole, &g, err))
        return false;
    bool ok = kn_import_follow(&g, to, err);
    kn_graph_free(&g);
    ok = ok && (to->negative_prompt || keep("", &to->negative_prompt, err));
    if (ok)
        look_at_prompts(to);
    return ok;
}

static bool read_texts(const kn_png_texts *texts, kn_import *to, kn_error *err) {
    enum { EXECUTED, EDITED, PARAMETERS, KEYS };
    static const char *const keys[KEYS] = { "prompt", "workflow", KN_PARAMETERS_KEY };
    for (int i = 0; i < KEYS; i++) {
        const char *text = NULL;
        if (!find_text(texts, keys[i], &text, err))
            return false;
        if (!text)
            continue;
        to->key = keys[i];
        return i == PARAMETERS ? read_parameters(text, to, err) : read_graph(text, i == EDITED, to, err);
    }
    return true;
}

static bool read_png(const void *data, size_t len, const kn_image_limits *limits, kn_import *to, kn_error *err) {
    kn_png_texts texts = { 0 };
    if (!kn_png_texts_read(data, len, limits, &texts, err))
        return false;
    bool ok = read_texts(&texts, to, err);
    kn_png_texts_free(&texts);
    return ok;
}

/* JPEG and WebP files have room for one text. */
static bool read_comment(const void *data, size_t len, kn_import *to, kn_error *err) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_PARAMETERS_BYTES_MAX);
    if (!kn_image_parameters(data, len, &text))
        return true;
    to->key = KN_PARAMETERS_KEY;
    return read_parameters(text.data, to, err);
}

bool kn_import_read(const void *data, size_t len, const kn_image_limits *limits, kn_import *ret, kn_error *err) {
    kn_image_kind kind = KN_IMAGE_UNKNOWN;
    *ret = (kn_import){ .source = KN_IMPORT_NONE };
    if (!kn_image_check_file(data, len, limits, &kind, err))
        return false;
    bool ok = kind == KN_IMAGE_JPEG || kind == KN_IMAGE_WEBP ? read_comment(data, len, ret, err)
                                                             : read_png(data, len, limits, ret, err);
    if (!ok) {
        const kn_import what = { .source = ret->source, .key = ret->key };
        kn_import_free(ret);
        *ret = what;
    }
    return ok;
}

void kn_import_free(kn_import *found) {
    char **const texts[] = { &found->prompt,   &found->negative_prompt, &found->seed,         &found->model,
                             &found->sampler,  &found->scheduler,       &found->cache_device, &found->cache_dtype,
                             &found->files[0], &found->files[1],        &found->files[2] };
    for (size_t i = 0; i < KN_COUNT(texts); i++)
        free(*texts[i]);
    kn_parameters_free(&found->parameters);
    *found = (kn_import){ .source = KN_IMPORT_NONE };
}
