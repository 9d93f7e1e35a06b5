#include "studio/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_form.h"
#include "base/text.h"
#include "image/write.h"
#include "pipelines/inpaint.h"
#include "studio/store.h"
#include "workers/recipe.h"

enum { SETTINGS_CHARACTERS = 1000 };

const char *const kn_studio_kinds[KN_KIND_COUNT] = {
    "auto", "text_to_image", "edit", "inpaint", "outpaint", "upscale",
};
const char *const kn_preset_names[KN_PRESETS] = { "fast", "balanced", "quality" };
const char *const kn_input_roles[KN_INPUT_ROLES] = { "source", "reference", "mask" };
const char *const kn_picture_formats[KN_PICTURE_FORMATS] = { "png", "jpeg", "webp" };
const char *const kn_picture_endings[KN_PICTURE_FORMATS] = { "png", "jpg", "webp" };
const char *const kn_picture_media_types[KN_PICTURE_FORMATS] = { "image/png", "image/jpeg", "image/webp" };

bool kn_name_is_valid(const char *text, size_t len) {
    static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    if (!len || len >= KN_NAME_BYTES || strchr("._-", text[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!text[i] || !strchr(chars, text[i]))
            return false;
    return true;
}

bool kn_seed_parse(const char *text, size_t len, uint64_t *ret) {
    char digits[20] = "";
    if (!len || len >= sizeof digits || (text[0] == '0' && len > 1))
        return false;
    memcpy(digits, text, len);
    uint64_t v;
    if (!kn_parse_u64(digits, &v) || v > INT64_MAX)
        return false;
    *ret = v;
    return true;
}

/* ---- texts ---- */

static void take_text(kn_form *f, size_t min, size_t max, char **ret) {
    kn_json_text text;
    if (!kn_form_prose(f, min, max, &text))
        return;
    *ret = strndup(text.data, text.len);
    if (!*ret)
        kn_form_fail(f, KN_E_NOMEM, "out of memory");
}

/* What it says of others' weights is not told again: it may be anything. */
static void take_prompt(kn_form *f, size_t min, char **ret) {
    size_t len;
    take_text(f, min, KN_REQUEST_PROMPT_MAX, ret);
    if (*ret && kn_recipe_lora(*ret, &len))
        kn_form_fail(f, KN_E_UNSUPPORTED, "there are no LoRAs here; none can be used in prompts");
}

static void take_name(kn_form *f, char ret[KN_NAME_BYTES]) {
    kn_json_text text;
    if (!kn_form_prose(f, 1, KN_NAME_BYTES - 1, &text))
        return;
    if (kn_name_is_valid(text.data, text.len))
        memcpy(ret, text.data, text.len); /* what is behind it is 0 */
    else
        kn_form_fail(f, KN_E_FORMAT, "a name of a-z, 0-9, '.', '_' and '-' is expected");
}

static void take_input_id(kn_form *f, char ret[KN_SHA256_TEXT]) {
    kn_json_text text;
    if (!kn_form_prose(f, 1, 1000, &text))
        return;
    if (text.len == KN_SHA256_TEXT - 1 && kn_text_is_hex(text.data, text.len))
        memcpy(ret, text.data, text.len);
    else
        kn_form_fail(f, KN_E_FORMAT, "64 hexadecimal digits are expected");
}

static void take_seed(kn_form *f, kn_studio_request *r) {
    kn_json_text text;
    if (!kn_form_prose(f, 0, 1000, &text))
        return;
    r->has_seed = kn_seed_parse(text.data, text.len, &r->seed);
    if (!r->has_seed)
        kn_form_fail(f, KN_E_RANGE, "a decimal number below 2^63 in quotes is expected");
}

static void take_u32(kn_form *f, uint64_t min, uint64_t max, uint32_t *ret) {
    uint64_t v;
    if (kn_form_u64(f, min, max, &v))
        *ret = (uint32_t)v;
}

/* ---- parts of a request ---- */

/* "3:2", each side 1 to 99. */
static void take_ratio(kn_form *f, kn_studio_request *r) {
    kn_json_text text;
    if (!kn_form_prose(f, 0, 1000, &text))
        return;
    uint32_t side[2] = { 0, 0 };
    size_t at = 0, digits = 0, n = 0;
    for (; at < text.len && n < 2; at++) {
        char c = text.data[at];
        if (c >= '0' && c <= '9' && digits < 2 && (digits || c != '0')) {
            side[n] = side[n] * 10 + (uint32_t)(c - '0');
            digits++;
        } else if (c == ':' && digits && !n) {
            digits = 0;
            n = 1;
        } else {
            break;
        }
    }
    if (at != text.len || n != 1 || !digits) {
        kn_form_fail(f, KN_E_FORMAT, "a ratio such as 3:2 is expected, both sides 1 to 99");
        return;
    }
    r->ratio_width = side[0];
    r->ratio_height = side[1];
}

static void take_size(const kn_form *outer, kn_studio_request *r) {
    enum { MODE, RATIO, WIDTH, HEIGHT };
    static const char *const keys[] = {
        [MODE] = "mode", [RATIO] = "aspect_ratio", [WIDTH] = "width", [HEIGHT] = "height"
    };
    static const char *const modes[KN_SIZE_MODES] = { "auto", "1k", "1.5k", "2k", "source", "custom" };
    kn_form f;
    size_t mode = 0;
    kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case MODE: kn_form_word(&f, modes, KN_COUNT(modes), &mode); break;
        case RATIO: take_ratio(&f, r); break;
        case WIDTH: take_u32(&f, KN_PICTURE_SIDE_MIN, KN_PICTURE_SIDE_MAX, &r->width); break;
        case HEIGHT: take_u32(&f, KN_PICTURE_SIDE_MIN, KN_PICTURE_SIDE_MAX, &r->height); break;
        }
    }
    kn_form_need(&f, MODE);
    r->size_mode = (kn_size_mode)mode;
    if (r->size_mode == KN_SIZE_CUSTOM) {
        kn_form_need(&f, WIDTH);
        kn_form_need(&f, HEIGHT);
    } else if (r->width || r->height) {
        kn_form_fail(&f, KN_E_USAGE, "width and height go with the mode 'custom'");
    }
    if (r->ratio_width && (r->size_mode == KN_SIZE_CUSTOM || r->size_mode == KN_SIZE_SOURCE))
        kn_form_fail(&f, KN_E_USAGE, "the mode '%s' has an aspect ratio of its own", modes[r->size_mode]);
}

static void take_inputs(kn_form *outer, kn_studio_request *r) {
    enum { ID, ROLE };
    static const char *const keys[] = { [ID] = "input_id", [ROLE] = "role" };
    for (bool in = kn_form_items(outer); in && kn_form_item(outer);) {
        if (r->input_count == KN_REQUEST_INPUTS) {
            kn_form_fail(outer, KN_E_RANGE, "more than %d inputs", KN_REQUEST_INPUTS);
            return;
        }
        kn_request_input *input = &r->inputs[r->input_count++];
        kn_form f;
        size_t role = 0;
        kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
        for (int key; kn_form_next(&f, &key);) {
            if (key == ID)
                take_input_id(&f, input->id);
            else
                kn_form_word(&f, kn_input_roles, KN_INPUT_ROLES, &role);
        }
        kn_form_need(&f, ID);
        kn_form_need(&f, ROLE);
        input->role = (kn_input_role)role;
    }
}

static void take_outpaint(const kn_form *outer, kn_studio_request *r) {
    static const char *const keys[] = { "left", "right", "top", "bottom" };
    kn_form f;
    kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);)
        take_u32(&f, 0, 8192, &r->outpaint[key]);
}

static void take_upscale(const kn_form *outer, kn_studio_request *r) {
    enum { UPSCALER, FACTOR, WIDTH, HEIGHT, TILE, BLEND, PRESCALE, METHOD };
    static const char *const keys[] = {
        [UPSCALER] = "upscaler", [FACTOR] = "factor", [WIDTH] = "width",       [HEIGHT] = "height",
        [TILE] = "tile_size",    [BLEND] = "blend",   [PRESCALE] = "prescale", [METHOD] = "method",
    };
    static const char *const methods[] = { "model", "detailed" };
    kn_upscale_spec *u = &r->upscale;
    kn_form f;
    size_t method = 0;
    r->has_upscale = true;
    kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case UPSCALER: take_name(&f, u->upscaler); break;
        case FACTOR: kn_form_real(&f, 1, 8, &u->factor); break;
        case WIDTH: take_u32(&f, KN_PICTURE_SIDE_MIN, KN_PICTURE_SIDE_MAX, &u->width); break;
        case HEIGHT: take_u32(&f, KN_PICTURE_SIDE_MIN, KN_PICTURE_SIDE_MAX, &u->height); break;
        case TILE: take_u32(&f, 0, 2048, &u->tile_size); break;
        case BLEND: kn_form_real(&f, 0, 1, &u->blend); break;
        case PRESCALE: kn_form_bool(&f, &u->prescale); break;
        case METHOD: kn_form_word(&f, methods, KN_COUNT(methods), &method); break;
        }
    }
    u->has_tile_size = kn_form_has(&f, TILE);
    u->has_blend = kn_form_has(&f, BLEND);
    u->has_prescale = kn_form_has(&f, PRESCALE);
    u->detailed = method == 1;
    if (u->factor > 0 ? u->width || u->height : !u->width != !u->height)
        kn_form_fail(&f, KN_E_USAGE, "either factor, or width and height, are expected");
}

static void take_output(const kn_form *outer, kn_studio_request *r) {
    enum { FORMAT, QUALITY, TRANSPARENT, METADATA, HDR, SAVE };
    static const char *const keys[] = {
        [FORMAT] = "format",           [QUALITY] = "quality", [TRANSPARENT] = "transparent",
        [METADATA] = "embed_metadata", [HDR] = "keep_hdr",    [SAVE] = "save_to_gallery",
    };
    kn_output_spec *o = &r->output;
    kn_form f;
    size_t format = KN_PICTURE_PNG;
    uint64_t quality = o->quality;
    kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case FORMAT: kn_form_word(&f, kn_picture_formats, KN_PICTURE_FORMATS, &format); break;
        case QUALITY: kn_form_u64(&f, 1, 100, &quality); break;
        case TRANSPARENT: kn_form_bool(&f, &o->transparent); break;
        case METADATA: kn_form_bool(&f, &o->embed_metadata); break;
        case HDR: kn_form_bool(&f, &o->keep_hdr); break;
        case SAVE: kn_form_bool(&f, &o->save_to_gallery); break;
        }
    }
    o->format = (kn_picture_format)format;
    o->quality = (unsigned)quality;
    if (o->transparent && o->format == KN_PICTURE_JPEG) {
        f.key = TRANSPARENT;
        kn_form_fail(&f, KN_E_USAGE, "a JPEG file has no transparency; png and webp have it");
    }
}

void kn_tags_fold(char **tags, size_t *count) {
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        size_t same = 0;
        char *tag = tags[i];
        tags[i] = NULL;
        while (same < kept && strcmp(tags[same], tag) != 0)
            same++;
        if (same == kept)
            tags[kept++] = tag;
        else
            free(tag);
    }
    *count = kept;
}

static void take_tags(kn_form *f, kn_studio_request *r) {
    for (bool in = kn_form_items(f); in && kn_form_item(f);) {
        if (r->tag_count == KN_REQUEST_TAGS) {
            kn_form_fail(f, KN_E_RANGE, "more than %d tags", KN_REQUEST_TAGS);
            return;
        }
        take_text(f, 1, KN_TAG_MAX, &r->tags[r->tag_count]);
        if (r->tags[r->tag_count])
            r->tag_count++;
    }
    kn_tags_fold(r->tags, &r->tag_count);
}

/* ---- whole requests ---- */

enum {
    KIND,
    PROMPT,
    NEGATIVE,
    PROFILE,
    PRESET,
    SIZE,
    INPUTS,
    OUTPAINT,
    FEATHER,
    SEED,
    BATCH,
    SAMPLER,
    CACHE,
    THRESHOLD,
    UPSCALE,
    OUTPUT,
    TITLE,
    TAGS
};
static const char *const job_keys[] = {
    [KIND] = "kind",
    [PROMPT] = "prompt",
    [NEGATIVE] = "negative_prompt",
    [PROFILE] = "profile",
    [PRESET] = "preset",
    [SIZE] = "size",
    [INPUTS] = "inputs",
    [OUTPAINT] = "outpaint",
    [FEATHER] = "feather",
    [SEED] = "seed",
    [BATCH] = "batch",
    [SAMPLER] = "sampler",
    [CACHE] = "cache",
    [THRESHOLD] = "cache_threshold",
    [UPSCALE] = "upscale",
    [OUTPUT] = "output",
    [TITLE] = "title",
    [TAGS] = "tags",
};

static void take_sampler(kn_form *f, kn_studio_request *r) {
    kn_json_text text;
    if (kn_form_prose(f, 0, 40, &text))
        memcpy(r->sampler, text.data, text.len);
}

static void take_job_member(kn_form *f, int key, kn_studio_request *r) {
    static const char *const caches[] = { "off", "easycache" };
    size_t word = 0;
    switch (key) {
    case KIND:
        if (kn_form_word(f, kn_studio_kinds, KN_KIND_UPSCALE, &word))
            r->kind = (kn_studio_kind)word;
        break;
    case PROMPT: take_prompt(f, 1, &r->prompt); break;
    case NEGATIVE: take_prompt(f, 0, &r->negative_prompt); break;
    case PROFILE: take_name(f, r->profile); break;
    case PRESET:
        r->has_preset = kn_form_word(f, kn_preset_names, KN_PRESETS, &word);
        r->preset = (kn_preset_id)word;
        break;
    case SIZE: take_size(f, r); break;
    case INPUTS: take_inputs(f, r); break;
    case OUTPAINT: take_outpaint(f, r); break;
    case FEATHER:
        take_u32(f, 0, KN_MASK_REACH_MAX, &r->feather);
        r->has_feather = true;
        break;
    case SEED: take_seed(f, r); break;
    case BATCH: kn_form_u64(f, 1, KN_REQUEST_BATCH, &r->batch); break;
    case SAMPLER: take_sampler(f, r); break;
    case CACHE:
        kn_form_word(f, caches, KN_COUNT(caches), &word);
        r->easycache = word == 1;
        break;
    case THRESHOLD: r->has_cache_threshold = kn_form_real(f, 0, 1, &r->cache_threshold); break;
    case UPSCALE: take_upscale(f, r); break;
    case OUTPUT: take_output(f, r); break;
    case TITLE: take_text(f, 0, KN_TITLE_MAX, &r->title); break;
    case TAGS: take_tags(f, r); break;
    }
}

/* The pictures of a batch have seeds that follow each other, all of them below 2^63. */
static void check_seeds(kn_form *f, const kn_studio_request *r) {
    f->key = SEED;
    if (r->has_seed && r->seed > (uint64_t)INT64_MAX - (r->batch - 1))
        kn_form_fail(f, KN_E_RANGE, "the seeds of the batch would exceed 2^63");
}

static void read_job(kn_json_reader *j, kn_form *f, kn_studio_request *r) {
    kn_form_open(f, j, NULL, job_keys, KN_COUNT(job_keys));
    for (int key; kn_form_next(f, &key);)
        take_job_member(f, key, r);
    kn_form_need(f, PROMPT);
    if (!j->failed)
        check_seeds(f, r);
}

static void take_item(kn_form *f, kn_studio_request *r) {
    kn_json_text text;
    if (!kn_form_prose(f, 0, 1000, &text))
        return;
    if (text.len < sizeof r->gallery_item)
        memcpy(r->gallery_item, text.data, text.len);
    if (!kn_id_is_valid(r->gallery_item, "img_"))
        kn_form_fail(f, KN_E_FORMAT, "the id of a picture in the gallery is expected");
}

static void read_upscale(kn_json_reader *j, kn_form *f, kn_studio_request *r) {
    enum { INPUT, ITEM, SPEC, WRITE };
    static const char *const keys[] = {
        [INPUT] = "input_id", [ITEM] = "gallery_item", [SPEC] = "upscale", [WRITE] = "output"
    };
    r->kind = KN_KIND_UPSCALE;
    kn_form_open(f, j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(f, &key);) {
        switch (key) {
        case INPUT:
            r->input_count = 1;
            take_input_id(f, r->inputs[0].id);
            break;
        case ITEM: take_item(f, r); break;
        case SPEC: take_upscale(f, r); break;
        case WRITE: take_output(f, r); break;
        }
    }
    kn_form_need(f, SPEC);
    f->key = -1;
    if (!j->failed && kn_form_has(f, INPUT) == kn_form_has(f, ITEM))
        kn_form_fail(f, KN_E_USAGE, "exactly one of input_id and gallery_item is expected");
}

bool kn_request_read(const char *text, size_t len, bool upscale, kn_studio_request *ret, kn_buf *pointer,
                     kn_error *err) {
    const kn_json_text body = { text, len };
    kn_studio_request r = {
        .batch = 1,
        .output = { .quality = 95, .embed_metadata = true, .keep_hdr = true, .save_to_gallery = true },
    };
    kn_json_reader j;
    kn_form f;
    kn_json_begin_inside(&j, body, "the body", err);
    j.pointer = pointer;
    if (upscale)
        read_upscale(&j, &f, &r);
    else
        read_job(&j, &f, &r);
    bool ok = kn_form_finish(&f);
    if (ok)
        *ret = r;
    else
        kn_request_free(&r);
    return ok;
}

/* What else is written there has a few hundred characters. */
bool kn_request_embeds_metadata(const kn_studio_request *r) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 2 * KN_REQUEST_PROMPT_BYTES + 2 * SETTINGS_CHARACTERS);
    bool ok = kn_buf_printf(&text, "%s%s%*s", r->prompt ? r->prompt : "", r->negative_prompt ? r->negative_prompt : "",
                            SETTINGS_CHARACTERS, "");
    return r->output.embed_metadata && ok &&
           (r->output.format != KN_PICTURE_JPEG || kn_image_has_room(KN_IMAGE_JPEG, text.data));
}

void kn_request_free(kn_studio_request *r) {
    free(r->prompt);
    free(r->negative_prompt);
    free(r->title);
    for (size_t i = 0; i < r->tag_count; i++)
        free(r->tags[i]);
    *r = (kn_studio_request){ 0 };
}
