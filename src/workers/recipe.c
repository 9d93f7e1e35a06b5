#include "workers/recipe.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/json_form.h"
#include "base/text.h"
#include "image/write.h"
#include "pipelines/inpaint.h"

const kn_workflow kn_workflows[KN_WORKFLOWS] = {
    { .id = "qwen-image-2512-text-to-image/v1",
      .architecture = "qwen-image",
      .collection = "qwen-image-2512-fp8",
      .takes_shift = true },
    { .id = "qwen-image-2.1-text-to-image/v1", .architecture = "qwen-image-2.1", .collection = "qwen-image-2.1-int8" },
    { .id = "qwen-image-2.1-edit/v1",
      .architecture = "qwen-image-2.1",
      .collection = "qwen-image-2.1-int8",
      .edits = true },
};

enum {
    WORKFLOW,
    MODEL,
    PROMPT,
    NEGATIVE,
    SEED,
    WIDTH,
    HEIGHT,
    STEPS,
    CFG,
    FLOW_SHIFT,
    SAMPLER,
    SCHEDULER,
    ATTENTION,
    REFERENCES,
    INIT_IMAGE,
    STRENGTH,
    METADATA,
    OPAQUE,
    MASK,
    OUTPAINT,
    FEATHER,
    SHOW_REGION,
    RESULT,
    FORMAT,
    QUALITY,
    KEEP_HDR,
};
static const char *const keys[] = {
    [WORKFLOW] = "workflow",
    [MODEL] = "model",
    [PROMPT] = "prompt",
    [NEGATIVE] = "negative_prompt",
    [SEED] = "seed",
    [WIDTH] = "width",
    [HEIGHT] = "height",
    [STEPS] = "steps",
    [CFG] = "cfg",
    [FLOW_SHIFT] = "flow_shift",
    [SAMPLER] = "sampler",
    [SCHEDULER] = "scheduler",
    [ATTENTION] = "attention",
    [REFERENCES] = "reference_images",
    [INIT_IMAGE] = "init_image",
    [STRENGTH] = "strength",
    [METADATA] = "metadata",
    [OPAQUE] = "opaque",
    [MASK] = "mask_image",
    [OUTPAINT] = "outpaint",
    [FEATHER] = "feather",
    [SHOW_REGION] = "show_region",
    [RESULT] = "result",
    [FORMAT] = "format",
    [QUALITY] = "quality",
    [KEEP_HDR] = "keep_hdr",
};

enum { NAME_BYTES = 128, SIDE_STEP = 16, SHIFT_MAX = 100 };

/* A recipe being read. The code is that of the first failure, if it is another than KN_JOB_INVALID. */
struct reading {
    kn_form form;
    bool with_pictures;
    bool plain;                /* nothing but what a workflow takes */
    size_t picture_characters; /* of base64, so far */
    kn_image_recipe recipe;
    kn_job_code code;
};

static void take_text(struct reading *r, size_t min, size_t max, char **ret) {
    kn_json_text text;
    if (kn_form_prose(&r->form, min, max, &text) && !(*ret = strndup(text.data, text.len)))
        kn_form_fail(&r->form, KN_E_NOMEM, "out of memory for %zu bytes", text.len);
}

const char *kn_recipe_lora(const char *prompt, size_t *ret_len) {
    static const char tag[] = "<lora:";
    const char *at = strstr(prompt, tag);
    const char *name = at ? at + sizeof tag - 1 : NULL;
    *ret_len = name ? strcspn(name, ":>") : 0;
    return name;
}

static void take_prompt(struct reading *r, size_t min, char **ret) {
    size_t len = 0;
    take_text(r, min, KN_RECIPE_PROMPT_CHARACTERS, ret);
    const char *lora = *ret ? kn_recipe_lora(*ret, &len) : NULL;
    if (lora && r->plain) /* refusals of these hold nothing of a prompt */
        kn_form_fail(&r->form, KN_E_UNSUPPORTED, "no LoRA can be used in prompts");
    else if (lora)
        kn_form_fail(&r->form, KN_E_UNSUPPORTED, "there is no LoRA '%s'; none can be used in prompts",
                     kn_quote(lora, len).text);
}

static void take_name(struct reading *r, char **ret) {
    kn_json_text text;
    if (kn_form_text(&r->form, 1, NAME_BYTES, &text) && !(*ret = strndup(text.data, text.len)))
        kn_form_fail(&r->form, KN_E_NOMEM, "out of memory for %zu bytes", text.len);
}

static void take_workflow(struct reading *r) {
    const char *ids[KN_WORKFLOWS];
    size_t which = 0;
    for (size_t i = 0; i < KN_WORKFLOWS; i++)
        ids[i] = kn_workflows[i].id;
    if (kn_form_word(&r->form, ids, KN_WORKFLOWS, &which))
        r->recipe.workflow = &kn_workflows[which];
}

static void take_integer(struct reading *r, uint64_t min, uint64_t max, kn_optional *ret) {
    uint64_t value = 0;
    if (kn_form_u64(&r->form, min, max, &value))
        *ret = (kn_optional){ .given = true, .value = (double)value };
}

static void take_real(struct reading *r, double max, kn_optional *ret) {
    ret->given = kn_form_real(&r->form, 0, max, &ret->value);
}

static void take_side(struct reading *r, kn_optional *ret) {
    take_integer(r, KN_RECIPE_SIDE_MIN, KN_RECIPE_SIDE_MAX, ret);
    if (ret->given && (unsigned)ret->value % SIDE_STEP)
        kn_form_fail(&r->form, KN_E_RANGE, "%.0f is not a multiple of %d", ret->value, SIDE_STEP);
}

/* A decimal text, so that no program loses digits; else also a whole number, and -1 is any. */
static void take_seed(struct reading *r) {
    kn_json_reader *j = r->form.j;
    kn_json_text text = { "", 0 };
    char digits[24] = "";
    uint64_t seed = 0;
    bool is_text = kn_json_peek(j) == '"';
    if (r->plain && !is_text && !j->failed)
        kn_form_fail(&r->form, KN_E_FORMAT, "digits in quotes are expected, as in \"42\", so that none is lost");
    bool is_read = is_text ? kn_form_text(&r->form, 1, sizeof digits - 1, &text) : kn_json_skip(j, &text);
    if (!is_read)
        return;
    if (text.len < sizeof digits)
        memcpy(digits, text.data, text.len);
    if (strcmp(digits, "-1") == 0 && !r->plain)
        return;
    if (!kn_parse_u64(digits, &seed) || seed > INT64_MAX)
        kn_form_fail(&r->form, KN_E_RANGE, "a whole number from 0 to 9223372036854775807 is expected%s",
                     r->plain ? "" : ", or -1 for any");
    r->recipe.seed = seed;
    r->recipe.seed_given = true;
}

static void take_attention(struct reading *r) {
    static const char *const words[] = { "standard", "fast" };
    size_t which = 0;
    if (!kn_form_word(&r->form, words, KN_COUNT(words), &which) || which == 0)
        return;
    r->code = KN_JOB_ATTENTION_UNSUPPORTED;
    kn_form_fail(&r->form, KN_E_UNSUPPORTED, "there is no fast attention on this device; leave it out");
}

/* Some programs say in front what kind of file follows. What it is decides the file itself. */
static kn_json_text without_data_url(kn_json_text text) {
    static const char mark[] = ";base64,";
    if (!kn_json_starts(text, "data:image/"))
        return text;
    const char *at = memmem(text.data, KN_MIN(text.len, 64), mark, sizeof mark - 1);
    if (!at)
        return text;
    at += sizeof mark - 1;
    return (kn_json_text){ at, text.len - (size_t)(at - text.data) };
}

static void take_picture(struct reading *r, kn_buf *ret) {
    const size_t most = (KN_RECIPE_REFERENCE_BYTES + 2) / 3 * 3; /* in whole groups of base64 */
    kn_json_text text;
    kn_error why = { 0 };
    kn_form *f = &r->form;
    if (!f->j->failed && kn_json_peek(f->j) != '"')
        kn_form_fail(f, KN_E_FORMAT, "a picture in base64 is expected, as a text in quotes");
    if (!kn_json_string(f->j, &text))
        return;
    if (!r->plain)
        text = without_data_url(text);
    r->picture_characters += text.len;
    kn_buf_init(ret, most);
    r->code = KN_JOB_REFERENCE_INVALID;
    if (!text.len)
        kn_form_fail(f, KN_E_FORMAT, "the picture is empty");
    else if (r->plain && kn_json_starts(text, "data:"))
        kn_form_fail(f, KN_E_FORMAT, "a picture in base64 alone is expected, without \"data:\" and a type in front");
    else if (text.len > most / 3 * 4)
        kn_form_fail(f, KN_E_RANGE, "a picture may have %d MiB at most", KN_RECIPE_REFERENCE_BYTES >> 20);
    else if (r->picture_characters > KN_RECIPE_REFERENCES_BYTES)
        kn_form_fail(f, KN_E_RANGE, "all pictures together may have %d MiB at most", KN_RECIPE_REFERENCES_BYTES >> 20);
    else if (!kn_base64_decode(text.data, text.len, r->with_pictures ? ret : NULL, &why))
        kn_form_fail(f, why.code, "%s", why.text);
    else
        r->code = KN_JOB_DONE;
}

static void take_references(struct reading *r) {
    kn_form *f = &r->form;
    for (bool in = kn_form_items(f); in && kn_form_item(f);) {
        if (r->recipe.reference_count == KN_RECIPE_REFERENCES_MAX)
            kn_form_fail(f, KN_E_RANGE, "%d pictures are possible at most", KN_RECIPE_REFERENCES_MAX);
        else
            take_picture(r, &r->recipe.references[r->recipe.reference_count++]);
    }
    if (!f->j->failed && r->recipe.reference_count == 0)
        kn_form_fail(f, KN_E_RANGE, "the list is empty; leave it out");
}

static void take_u32(kn_form *f, uint64_t min, uint64_t max, uint32_t *ret) {
    uint64_t v;
    if (kn_form_u64(f, min, max, &v))
        *ret = (uint32_t)v;
}

static void take_outpaint(struct reading *r) {
    enum { LEFT, RIGHT, TOP, BOTTOM };
    static const char *const sides[] = { [LEFT] = "left", [RIGHT] = "right", [TOP] = "top", [BOTTOM] = "bottom" };
    kn_sides *to = &r->recipe.outpaint;
    uint32_t *at[] = { [LEFT] = &to->left, [RIGHT] = &to->right, [TOP] = &to->top, [BOTTOM] = &to->bottom };
    kn_form f;
    kn_form_open(&f, r->form.j, &r->form, sides, KN_COUNT(sides));
    for (int key; kn_form_next(&f, &key);)
        take_u32(&f, 0, KN_SIDE_MAX, at[key]);
}

/* A file of the worker's own folder, which the name must not leave. */
static void take_upscaler(kn_form *f, char **ret) {
    kn_json_text text;
    if (!kn_form_text(f, 1, NAME_BYTES, &text))
        return;
    if (text.data[0] == '.' || memchr(text.data, '/', text.len))
        kn_form_fail(f, KN_E_FORMAT, "the name of a file is expected");
    else if (!(*ret = strndup(text.data, text.len)))
        kn_form_fail(f, KN_E_NOMEM, "out of memory for %zu bytes", text.len);
}

static void take_result(struct reading *r) {
    enum { RESULT_WIDTH, RESULT_HEIGHT, UPSCALER, TILE, BLEND, PRESCALE };
    static const char *const names[] = {
        [RESULT_WIDTH] = "width", [RESULT_HEIGHT] = "height", [UPSCALER] = "upscaler",
        [TILE] = "tile_size",     [BLEND] = "blend",          [PRESCALE] = "prescale",
    };
    kn_recipe_size *to = &r->recipe.size;
    kn_form f;
    kn_form_open(&f, r->form.j, &r->form, names, KN_COUNT(names));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case RESULT_WIDTH: take_u32(&f, 1, KN_RECIPE_RESULT_MAX, &to->width); break;
        case RESULT_HEIGHT: take_u32(&f, 1, KN_RECIPE_RESULT_MAX, &to->height); break;
        case UPSCALER: take_upscaler(&f, &to->upscaler); break;
        case TILE: take_u32(&f, 0, 2048, &to->tile); break;
        case BLEND: kn_form_real(&f, 0, 1, &to->blend); break;
        case PRESCALE: kn_form_bool(&f, &to->prescale); break;
        }
    }
    kn_form_need(&f, RESULT_WIDTH);
    kn_form_need(&f, RESULT_HEIGHT);
}

static void take_format(struct reading *r) {
    static const char *const words[] = { "png", "jpeg", "webp" };
    static const kn_image_kind kinds[] = { KN_IMAGE_PNG, KN_IMAGE_JPEG, KN_IMAGE_WEBP };
    size_t which = 0;
    if (kn_form_word(&r->form, words, KN_COUNT(words), &which))
        r->recipe.kind = kinds[which];
}

static void take_quality(struct reading *r) {
    uint64_t quality;
    if (kn_form_u64(&r->form, 1, 100, &quality))
        r->recipe.quality = (unsigned)quality;
}

static void take_value(struct reading *r, int key) {
    kn_image_recipe *to = &r->recipe;
    switch (key) {
    case WORKFLOW: take_workflow(r); break;
    case MODEL: take_name(r, &to->model); break;
    case PROMPT: take_prompt(r, 1, &to->prompt); break;
    case NEGATIVE: take_prompt(r, 0, &to->negative_prompt); break;
    case SEED: take_seed(r); break;
    case WIDTH: take_side(r, &to->width); break;
    case HEIGHT: take_side(r, &to->height); break;
    case STEPS: take_integer(r, 1, KN_RECIPE_STEPS_MAX, &to->steps); break;
    case CFG: take_real(r, KN_RECIPE_CFG_MAX, &to->cfg); break;
    case FLOW_SHIFT: take_real(r, SHIFT_MAX, &to->flow_shift); break;
    case SAMPLER: take_name(r, &to->sampler); break;
    case SCHEDULER: take_name(r, &to->scheduler); break;
    case ATTENTION: take_attention(r); break;
    case REFERENCES: take_references(r); break;
    case INIT_IMAGE: take_picture(r, &to->init_image); break;
    case STRENGTH: take_real(r, 1, &to->strength); break;
    case METADATA: kn_form_bool(&r->form, &to->metadata); break;
    case OPAQUE: kn_form_bool(&r->form, &to->opaque); break;
    case MASK: take_picture(r, &to->mask); break;
    case OUTPAINT: take_outpaint(r); break;
    case FEATHER: take_integer(r, 0, KN_MASK_REACH_MAX, &to->feather); break;
    case SHOW_REGION: kn_form_bool(&r->form, &to->show_region); break;
    case RESULT: take_result(r); break;
    case FORMAT: take_format(r); break;
    case QUALITY: take_quality(r); break;
    case KEEP_HDR: kn_form_bool(&r->form, &to->keep_hdr); break;
    }
}

static void refuse_key(struct reading *r, int key, const char *why) {
    r->form.key = key;
    kn_form_fail(&r->form, KN_E_USAGE, "%s", why);
}

/* What a workflow asks for beside its own name. */
static void check_workflow(struct reading *r) {
    static const int needed[] = { SEED, WIDTH, HEIGHT, STEPS, CFG };
    const kn_workflow *w = r->recipe.workflow;
    kn_form *f = &r->form;
    for (size_t i = 0; i < KN_COUNT(needed); i++)
        kn_form_need(f, needed[i]);
    if (w->takes_shift)
        kn_form_need(f, FLOW_SHIFT);
    if (f->j->failed)
        return;
    if (!w->takes_shift && r->recipe.flow_shift.given)
        refuse_key(r, FLOW_SHIFT, "this workflow chooses it by the size; leave it out");
    else if (!w->edits && r->recipe.reference_count)
        refuse_key(r, REFERENCES, "this workflow draws from the prompt alone; leave them out");
    else if (w->edits && !r->recipe.reference_count) {
        r->code = KN_JOB_REFERENCE_REQUIRED;
        refuse_key(r, REFERENCES, "this workflow edits pictures; give at least one");
    }
}

/* Keys that no workflow takes. */
static bool is_extra(int key) {
    switch (key) {
    case MODEL:
    case SAMPLER:
    case SCHEDULER:
    case INIT_IMAGE:
    case STRENGTH:
    case METADATA:
    case OPAQUE:
    case MASK:
    case OUTPAINT:
    case FEATHER:
    case SHOW_REGION:
    case RESULT:
    case FORMAT:
    case QUALITY:
    case KEEP_HDR: return true;
    default: return false;
    }
}

static void read_all(struct reading *r, kn_json_reader *j) {
    kn_form *f = &r->form;
    kn_form_open(f, j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(f, &key);) {
        if (r->plain && is_extra(key))
            kn_form_fail(f, KN_E_USAGE, "a workflow does not take it; leave it out");
        else
            take_value(r, key);
    }
    if (r->plain)
        kn_form_need(f, WORKFLOW);
    bool resizes_only = kn_form_has(f, RESULT) && kn_form_has(f, INIT_IMAGE) && !kn_form_has(f, MASK);
    if (!resizes_only || r->recipe.workflow)
        kn_form_need(f, PROMPT);
    if (!j->failed && (kn_form_has(f, MASK) || kn_form_has(f, OUTPAINT)) && !kn_form_has(f, INIT_IMAGE))
        refuse_key(r, kn_form_has(f, MASK) ? MASK : OUTPAINT, "it needs an init_image that it is about");
    if (!j->failed && kn_form_has(f, FEATHER) && !kn_form_has(f, MASK) && !kn_form_has(f, OUTPAINT))
        refuse_key(r, FEATHER, "it needs a mask_image or outpaint whose edge it is");
    if (!j->failed && r->recipe.workflow)
        check_workflow(r);
    if (!j->failed && r->recipe.strength.given && !kn_form_has(f, INIT_IMAGE))
        refuse_key(r, STRENGTH, "it needs an init_image to start from");
}

static kn_job_code read_text(struct reading *r, const char *text, size_t len, kn_image_recipe *ret, kn_buf *pointer,
                             kn_error *err) {
    kn_json_reader j;
    r->recipe.kind = KN_IMAGE_PNG;
    r->recipe.quality = KN_IMAGE_QUALITY;
    kn_json_begin_inside(&j, (kn_json_text){ text, len }, "the recipe", err);
    read_all(r, &j);
    bool ok = kn_json_finish(&j), placed = ok || !pointer || kn_form_pointer(&r->form, pointer);
    kn_json_close(&j);
    if (ok) {
        *ret = r->recipe;
        return KN_JOB_DONE;
    }
    kn_image_recipe_free(&r->recipe);
    if (err->code == KN_E_NOMEM || !placed)
        return KN_JOB_OUT_OF_MEMORY;
    return r->code == KN_JOB_DONE ? KN_JOB_INVALID : r->code;
}

kn_job_code kn_image_recipe_read(const char *text, size_t len, bool with_pictures, kn_image_recipe *ret,
                                 kn_buf *pointer, kn_error *err) {
    struct reading r = { .with_pictures = with_pictures };
    return read_text(&r, text, len, ret, pointer, err);
}

kn_job_code kn_image_recipe_check(const char *text, size_t len, kn_image_recipe *ret, kn_buf *pointer, kn_error *err) {
    struct reading r = { .plain = true };
    return read_text(&r, text, len, ret, pointer, err);
}

void kn_image_recipe_free(kn_image_recipe *r) {
    free(r->model);
    free(r->prompt);
    free(r->negative_prompt);
    free(r->sampler);
    free(r->scheduler);
    for (int i = 0; i < r->reference_count; i++)
        kn_buf_free(&r->references[i]);
    kn_buf_free(&r->init_image);
    kn_buf_free(&r->mask);
    free(r->size.upscaler);
    *r = (kn_image_recipe){ 0 };
}
