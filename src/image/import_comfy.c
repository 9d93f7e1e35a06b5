/* The rules by which a graph becomes a recipe: which nodes there may be on the way from the picture back to its noise,
 * and what each of them means. */
#include "image/import_comfy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "image/resize.h"

enum {
    STEPS_LEFT = 1 << 18, /* inputs that are looked at on the way: a switch may ask for the same value twice */
    NAME_BYTES = 255,
    SIGMAS_BYTES = 4096,
    SIDE_MIN = 64,
    SIDE_MAX = 4096,
    SIDE_STEP = 16,
    RESOLUTION = 1024,
};

const double kn_import_turbo_sigmas[KN_IMPORT_SIGMAS] = {
    1.0, 0.978453, 0.95418, 0.926626, 0.89508, 0.845148, 0.704534, 0.414568, 0,
};

/* A graph being followed. */
struct way {
    const kn_graph *g;
    kn_import *to;
    bool *open; /* by nodes: the way leads through this one */
    size_t left;
    kn_error *err;

    uint32_t encoder; /* node of the positive prompt */
    bool is_21;       /* for Qwen-Image 2.1, else 2512 */
};

/* Where a link ends that was followed through everything which only passes values on. */
struct end {
    const kn_json_value *literal; /* NULL: an output of the node */
    uint32_t node, slot;          /* with a literal: the node that has it */
};

static const kn_graph_node *node_at(const struct way *w, uint32_t node) {
    return &w->g->nodes[node];
}

static bool is_a(const struct way *w, uint32_t node, const char *type) {
    return kn_json_is(node_at(w, node)->type, type);
}

static bool is_any(const struct way *w, uint32_t node, const char *const *types, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (is_a(w, node, types[i]))
            return true;
    return false;
}

/* "KSampler (3)" */
static kn_quoted_path name_of(const struct way *w, uint32_t node) {
    kn_quoted_path name;
    const kn_graph_node *n = node_at(w, node);
    snprintf(name.text, sizeof name.text, "%.100s (%.100s)", kn_quote(n->type.data, n->type.len).text,
             kn_quote_z(n->id).text);
    return name;
}

#define refuse(w, ...) kn_fail((w)->err, KN_E_UNSUPPORTED, __VA_ARGS__)

static bool refuse_node(struct way *w, uint32_t node) {
    if (is_a(w, node, "TextGenerate"))
        return refuse(w, "prompt produced by another model: %s", name_of(w, node).text);
    return refuse(w, "unsupported node %s", name_of(w, node).text);
}

static void warn(struct way *w, kn_import_warning warning) {
    w->to->warnings |= 1u << warning;
}

/* ---- following links ---- */

static bool enter(struct way *w, uint32_t node) {
    size_t work = 1 + node_at(w, node)->count;
    if (w->open[node])
        return refuse(w, "cycle in the workflow at %s", name_of(w, node).text);
    if (work > w->left)
        return refuse(w, "the workflow takes too many steps to follow");
    w->left -= work;
    w->open[node] = true;
    return true;
}

static void leave(struct way *w, uint32_t node) {
    w->open[node] = false;
}

static const kn_graph_input *need(struct way *w, uint32_t node, const char *name) {
    const kn_graph_input *input = kn_graph_find(w->g, node, name);
    if (!input)
        refuse(w, "missing input '%s' of %s", name, name_of(w, node).text);
    return input;
}

static bool follow(struct way *w, const kn_graph_input *from, uint32_t holder, struct end *ret);

static bool choose_branch(struct way *w, uint32_t node, const char **ret) {
    const kn_graph_input *input = need(w, node, "switch");
    struct end end;
    if (!input || !follow(w, input, node, &end))
        return false;
    if (!end.literal || (end.literal->kind != KN_JSON_TRUE && end.literal->kind != KN_JSON_FALSE))
        return refuse(w, "wrong type: 'switch' of %s is neither true nor false", name_of(w, node).text);
    *ret = end.literal->kind == KN_JSON_TRUE ? "on_true" : "on_false";
    return true;
}

/* The input that a node passes on. NULL: it makes something itself. */
static bool passes_on(struct way *w, uint32_t node, const char **ret) {
    static const char *const values[] = {
        "PrimitiveString", "PrimitiveStringMultiline", "PrimitiveInt",
        "PrimitiveFloat",  "PrimitiveBoolean",         "PrimitiveNode",
    };
    *ret = NULL;
    if (is_any(w, node, values, KN_COUNT(values)))
        *ret = "value";
    else if (is_a(w, node, "PreviewAny"))
        *ret = "source";
    else if (is_a(w, node, "ComfySwitchNode"))
        return choose_branch(w, node, ret);
    return true;
}

/* from: an input of `holder`. */
static bool follow(struct way *w, const kn_graph_input *from, uint32_t holder, struct end *ret) {
    const char *name = NULL;
    if (from->literal) {
        *ret = (struct end){ .literal = from->literal, .node = holder };
        return true;
    }
    if (from->from == KN_GRAPH_NOWHERE)
        return refuse(w, "missing node: an input of %s leads to none", name_of(w, holder).text);
    if (!enter(w, from->from))
        return false;
    bool ok = passes_on(w, from->from, &name);
    if (ok && name) {
        const kn_graph_input *next = need(w, from->from, name);
        ok = next && follow(w, next, from->from, ret);
    } else {
        *ret = (struct end){ .node = from->from, .slot = from->slot };
    }
    leave(w, from->from);
    return ok;
}

/* The node that an input comes from. */
static bool follow_node(struct way *w, uint32_t node, const char *name, struct end *ret) {
    const kn_graph_input *input = need(w, node, name);
    if (!input || !follow(w, input, node, ret))
        return false;
    return !ret->literal || refuse(w, "wrong type: '%s' of %s is no link", name, name_of(w, node).text);
}

static bool follow_value(struct way *w, uint32_t node, const char *name, struct end *ret) {
    const kn_graph_input *input = need(w, node, name);
    if (!input || !follow(w, input, node, ret))
        return false;
    return ret->literal || refuse_node(w, ret->node);
}

static bool wrong_type(struct way *w, uint32_t node, const char *name, const char *what) {
    return refuse(w, "wrong type: '%s' of %s is no %s", name, name_of(w, node).text, what);
}

static bool take_text(struct way *w, uint32_t node, const char *name, kn_json_text *ret) {
    struct end end;
    return follow_value(w, node, name, &end) &&
           (kn_json_value_text(end.literal, ret) || wrong_type(w, node, name, "text"));
}

static bool keep_text(struct way *w, uint32_t node, const char *name, size_t most, char **ret) {
    kn_json_text text;
    return take_text(w, node, name, &text) && kn_import_keep(text, most, name, ret, w->err);
}

static bool take_real(struct way *w, uint32_t node, const char *name, double min, double max, double *ret) {
    struct end end;
    if (!follow_value(w, node, name, &end))
        return false;
    if (!kn_json_value_real(end.literal, ret))
        return wrong_type(w, node, name, "number");
    return (*ret >= min && *ret <= max) ||
           refuse(w, "'%s' of %s is %g; %g to %g can be taken over", name, name_of(w, node).text, *ret, min, max);
}

static bool take_u64(struct way *w, uint32_t node, const char *name, uint64_t min, uint64_t max, uint64_t *ret) {
    struct end end;
    if (!follow_value(w, node, name, &end))
        return false;
    if (!kn_json_value_u64(end.literal, ret))
        return wrong_type(w, node, name, "whole number");
    return (*ret >= min && *ret <= max) ||
           refuse(w, "'%s' of %s is %llu; %llu to %llu can be taken over", name, name_of(w, node).text,
                  (unsigned long long)*ret, (unsigned long long)min, (unsigned long long)max);
}

/* ---- loaders ---- */

enum { DIFFUSION, ENCODER, VAE };

static bool take_vae(struct way *w, uint32_t node) {
    struct end end;
    if (!follow_node(w, node, "vae", &end))
        return false;
    return is_a(w, end.node, "VAELoader") ? keep_text(w, end.node, "vae_name", NAME_BYTES, &w->to->files[VAE])
                                          : refuse_node(w, end.node);
}

static bool take_clip(struct way *w, uint32_t node) {
    struct end end;
    kn_json_text type;
    if (!follow_node(w, node, "clip", &end))
        return false;
    if (!is_a(w, end.node, "CLIPLoader"))
        return refuse_node(w, end.node);
    if (!take_text(w, end.node, "type", &type))
        return false;
    if (!kn_json_is(type, "qwen_image"))
        return refuse(w, "unsupported text encoder '%s' of %s", kn_quote(type.data, type.len).text,
                      name_of(w, end.node).text);
    return keep_text(w, end.node, "clip_name", NAME_BYTES, &w->to->files[ENCODER]);
}

/* ---- the model ---- */

/* What is set on the way from a sampler to the model; of several settings the last one, which is met first, counts. */
struct model {
    uint32_t loader;
    bool shifted, cached;
    double shift;
};

static bool take_cache(struct way *w, uint32_t node) {
    static const struct {
        const char *input, *usual;
        size_t at;
    } rows[] = { { "device", "auto", offsetof(kn_import, cache_device) },
                 { "dtype", "default", offsetof(kn_import, cache_dtype) } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_json_text text;
        if (!take_text(w, node, rows[i].input, &text))
            return false;
        if (kn_json_is(text, rows[i].usual))
            continue;
        warn(w, KN_IMPORT_CACHE);
        if (!kn_import_keep(text, NAME_BYTES, rows[i].input, (char **)((char *)w->to + rows[i].at), w->err))
            return false;
    }
    return true;
}

static bool take_model_node(struct way *w, uint32_t node, struct model *m) {
    double shift = 0;
    if (is_a(w, node, "ModelSamplingAuraFlow") || is_a(w, node, "ModelSamplingFlux")) {
        if (w->is_21)
            return refuse(w, "fixed flow shift on Qwen-Image 2.1, which chooses it by the size: %s",
                          name_of(w, node).text);
        if (is_a(w, node, "ModelSamplingFlux"))
            return refuse_node(w, node);
        if (!take_real(w, node, "shift", 0.01, 100, &shift))
            return false;
        if (!m->shifted)
            m->shift = shift;
        m->shifted = true;
        return true;
    }
    if (!is_a(w, node, "QwenImage21Cache") || !w->is_21)
        return refuse_node(w, node);
    bool first = !m->cached;
    m->cached = true;
    return !first || take_cache(w, node);
}

/* All nodes on the way stay open, so that one which leads back is found; the chain is short. */
static bool take_model(struct way *w, uint32_t node, struct model *m) {
    static const char *const loaders[] = { "UNETLoader", "UnetLoaderGGUF" };
    struct end end;
    if (!follow_node(w, node, "model", &end))
        return false;
    m->loader = end.node;
    if (is_any(w, end.node, loaders, KN_COUNT(loaders)))
        return true;
    if (!enter(w, end.node))
        return false;
    bool ok = take_model_node(w, end.node, m) && take_model(w, end.node, m);
    leave(w, end.node);
    return ok;
}

static bool names_turbo(const char *file) {
    return strcasestr(file, "turbo") != NULL;
}

static bool take_models(struct way *w, uint32_t sampler, struct model *m) {
    return take_model(w, sampler, m) && keep_text(w, m->loader, "unet_name", NAME_BYTES, &w->to->files[DIFFUSION]);
}

/* ---- what is said of the picture ---- */

static bool take_references(struct way *w, uint32_t node) {
    enum { INPUTS = 16 };
    for (unsigned i = 1; i <= INPUTS; i++) {
        char name[32];
        struct end end;
        snprintf(name, sizeof name, "images.image_%u", i);
        if (!kn_graph_find(w->g, node, name))
            continue;
        if (!follow_node(w, node, name, &end))
            return false;
        if (!is_a(w, end.node, "LoadImage"))
            return refuse_node(w, end.node);
        if (++w->to->reference_count > KN_IMPORT_REFERENCES_MAX)
            return refuse(w, "%s has more than %d pictures", name_of(w, node).text, KN_IMPORT_REFERENCES_MAX);
    }
    bool has_vae = kn_graph_find(w->g, node, "vae") != NULL;
    uint64_t resolution = RESOLUTION;
    if (has_vae && !take_vae(w, node))
        return false;
    if (w->to->reference_count && !has_vae)
        return refuse(w, "%s sees pictures without a VAE; that is not supported", name_of(w, node).text);
    if (kn_graph_find(w->g, node, "resolution") && !take_u64(w, node, "resolution", 0, SIDE_MAX, &resolution))
        return false;
    if (w->to->reference_count && resolution != RESOLUTION)
        warn(w, KN_IMPORT_REFERENCE_RESOLUTION);
    return true;
}

static bool take_prompt(struct way *w, uint32_t node, const char *name, char **ret) {
    return keep_text(w, node, name, KN_IMPORT_PROMPT_BYTES, ret);
}

/* One node says both. */
static bool take_prompts_21(struct way *w, const struct end *positive, const struct end *negative) {
    uint32_t node = positive->node;
    bool zeroed = negative && is_a(w, negative->node, "ConditioningZeroOut");
    if (positive->slot != 0)
        return refuse(w, "wrong output %u of %s as the positive prompt", positive->slot, name_of(w, node).text);
    if (negative && !zeroed && !is_a(w, negative->node, "TextEncodeQwenImage21"))
        return refuse_node(w, negative->node);
    if (negative && !zeroed && (negative->node != node || negative->slot != 1))
        return refuse(w, "the negative prompt is not that of %s", name_of(w, node).text);
    return take_prompt(w, node, "prompt", &w->to->prompt) && take_clip(w, node) && take_references(w, node) &&
           (!negative || zeroed || take_prompt(w, node, "negative_prompt", &w->to->negative_prompt));
}

static bool take_prompts_2512(struct way *w, const struct end *positive, const struct end *negative) {
    if (!take_prompt(w, positive->node, "text", &w->to->prompt) || !take_clip(w, positive->node))
        return false;
    if (!negative || is_a(w, negative->node, "ConditioningZeroOut"))
        return true;
    return is_a(w, negative->node, "CLIPTextEncode")
               ? take_prompt(w, negative->node, "text", &w->to->negative_prompt) && take_clip(w, negative->node)
               : refuse_node(w, negative->node);
}

/* negative NULL: the guider has none. */
static bool take_prompts(struct way *w, uint32_t node, const char *positive_name, const char *negative_name) {
    struct end positive, negative;
    if (!follow_node(w, node, positive_name, &positive))
        return false;
    w->encoder = positive.node;
    w->is_21 = is_a(w, positive.node, "TextEncodeQwenImage21");
    if (!w->is_21 && !is_a(w, positive.node, "CLIPTextEncode"))
        return refuse_node(w, positive.node);
    if (negative_name && !follow_node(w, node, negative_name, &negative))
        return false;
    if (negative_name && is_a(w, negative.node, "ConditioningZeroOut") && w->to->cfg != 1)
        return refuse(w, "unsupported node %s with guidance", name_of(w, negative.node).text);
    const struct end *second = negative_name ? &negative : NULL;
    if (!enter(w, positive.node))
        return false;
    bool ok = w->is_21 ? take_prompts_21(w, &positive, second) : take_prompts_2512(w, &positive, second);
    leave(w, positive.node);
    if (ok && w->to->cfg == 1 && w->to->negative_prompt && *w->to->negative_prompt)
        warn(w, KN_IMPORT_NEGATIVE_IGNORED);
    return ok;
}

/* ---- its size ---- */

static bool select_resolution(struct way *w, uint32_t node, uint32_t *ret_width, uint32_t *ret_height) {
    static const unsigned ratios[][2] = { { 1, 1 }, { 2, 3 },  { 3, 2 },  { 3, 4 },
                                          { 4, 3 }, { 9, 16 }, { 16, 9 }, { 21, 9 } };
    kn_json_text ratio;
    double megapixels = 0;
    uint64_t multiple = 8;
    if (!take_text(w, node, "aspect_ratio", &ratio) || !take_real(w, node, "megapixels", 0.01, 100, &megapixels) ||
        (kn_graph_find(w->g, node, "multiple") && !take_u64(w, node, "multiple", 1, 1024, &multiple)))
        return false;
    const char *blank = memchr(ratio.data, ' ', ratio.len);
    const kn_json_text start = { ratio.data, blank ? (size_t)(blank - ratio.data) : ratio.len };
    for (size_t i = 0; i < KN_COUNT(ratios); i++) {
        char text[16];
        snprintf(text, sizeof text, "%u:%u", ratios[i][0], ratios[i][1]);
        if (!kn_json_is(start, text))
            continue;
        kn_aspect_size(ratios[i][0], ratios[i][1], megapixels * (1 << 20), (unsigned)multiple, ret_width, ret_height);
        return true;
    }
    return refuse(w, "unsupported aspect ratio '%s' of %s", kn_quote(ratio.data, ratio.len).text,
                  name_of(w, node).text);
}

static bool take_side(struct way *w, uint32_t node, const char *name, uint32_t *ret) {
    const kn_graph_input *input = need(w, node, name);
    uint32_t sides[2] = { 0, 0 };
    uint64_t side = 0;
    struct end end;
    if (!input || !follow(w, input, node, &end))
        return false;
    if (end.literal) {
        if (!kn_json_value_u64(end.literal, &side))
            return wrong_type(w, node, name, "whole number");
    } else {
        if (!is_a(w, end.node, "ResolutionSelector") || end.slot > 1)
            return refuse_node(w, end.node);
        if (!enter(w, end.node) || !select_resolution(w, end.node, &sides[0], &sides[1]))
            return false;
        leave(w, end.node);
        side = sides[end.slot];
    }
    if (side < SIDE_MIN || side > SIDE_MAX || side % SIDE_STEP)
        return refuse(w, "the %s %llu of %s is no multiple of %d from %d to %d", name, (unsigned long long)side,
                      name_of(w, node).text, SIDE_STEP, SIDE_MIN, SIDE_MAX);
    *ret = (uint32_t)side;
    return true;
}

static bool take_size(struct way *w, uint32_t sampler) {
    static const char *const empty[] = { "EmptySD3LatentImage", "EmptyLatentImage" };
    uint64_t batch = 0;
    struct end end;
    if (!follow_node(w, sampler, "latent_image", &end))
        return false;
    if (w->is_21 && end.node == w->encoder && end.slot == 2)
        return w->to->reference_count ||
               refuse(w, "the size is that of a picture which is not there: %s", name_of(w, end.node).text);
    if (!is_any(w, end.node, empty, KN_COUNT(empty)))
        return refuse_node(w, end.node);
    if (!enter(w, end.node) || !take_side(w, end.node, "width", &w->to->width) ||
        !take_side(w, end.node, "height", &w->to->height) ||
        !take_u64(w, end.node, "batch_size", 1, UINT32_MAX, &batch))
        return false;
    leave(w, end.node);
    return batch == 1 || refuse(w, "batch size %llu of %s; one picture at a time can be taken over",
                                (unsigned long long)batch, name_of(w, end.node).text);
}

/* ---- sampling ---- */

static bool take_seed(struct way *w, uint32_t node, const char *name) {
    uint64_t seed = 0;
    struct end end;
    if (!follow_value(w, node, name, &end))
        return false;
    if (!kn_json_value_u64(end.literal, &seed))
        return wrong_type(w, node, name, "whole number from 0 to 2^64-1");
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
    const kn_graph_input *control = kn_graph_find(w->g, end.node, KN_GRAPH_CONTROL);
    kn_json_text after;
    if (control && control->literal && kn_json_value_text(control->literal, &after) && !kn_json_is(after, "fixed"))
        warn(w, KN_IMPORT_SEED_MAY_DIFFER);
    if (seed > INT64_MAX)
        warn(w, KN_IMPORT_SEED_TOO_LARGE);
    return kn_import_keep((kn_json_text){ digits, (size_t)len }, sizeof digits, name, &w->to->seed, w->err);
}

/* A sampler's or scheduler's name, of which there is one that can be taken over. */
static bool check_name(struct way *w, uint32_t node, const char *input, const char *what, const char *only) {
    kn_json_text name;
    if (!take_text(w, node, input, &name))
        return false;
    return kn_json_is(name, only) || refuse(w, "unsupported %s '%s' of %s; only '%s' can be taken over", what,
                                            kn_quote(name.data, name.len).text, name_of(w, node).text, only);
}

/* Those of a KSampler and of a BasicScheduler. */
static bool take_schedule(struct way *w, uint32_t node) {
    uint64_t steps = 0;
    double denoise = 0;
    if (!check_name(w, node, "scheduler", "scheduler", "simple") ||
        !take_u64(w, node, "steps", 1, KN_IMPORT_STEPS_MAX, &steps) || !take_real(w, node, "denoise", 0, 1, &denoise))
        return false;
    w->to->steps = (unsigned)steps;
    return denoise == 1 ||
           refuse(w, "partial denoise %g of %s; only 1 can be taken over", denoise, name_of(w, node).text);
}

/* Only Turbo's own can be taken over: other models choose theirs by a rule. */
static bool take_sigmas(struct way *w, uint32_t node) {
    kn_json_text text;
    char list[SIGMAS_BYTES];
    if (!take_text(w, node, "sigmas", &text))
        return false;
    bool same = text.len < sizeof list;
    size_t count = 0;
    memcpy(list, text.data, same ? text.len : 0);
    list[same ? text.len : 0] = 0;
    for (char *rest = list, *word; same && (word = strsep(&rest, ","));) {
        double sigma = 0;
        word += strspn(word, " \t\r\n");
        word[strcspn(word, " \t\r\n")] = 0;
        same = count < KN_IMPORT_SIGMAS && kn_parse_double(word, &sigma) &&
               fabs(sigma - kn_import_turbo_sigmas[count]) <= 1e-6;
        count++;
    }
    if (!same || count != KN_IMPORT_SIGMAS)
        return refuse(w, "unsupported sigmas of %s; only those of Qwen-Image 2.1 Turbo can be taken over",
                      name_of(w, node).text);
    w->to->turbo = true;
    w->to->steps = KN_IMPORT_SIGMAS - 1;
    return true;
}

static bool take_cfg(struct way *w, uint32_t node) {
    w->to->has_cfg = true;
    return take_real(w, node, "cfg", 0, 30, &w->to->cfg);
}

static bool take_k_sampler(struct way *w, uint32_t node, struct model *m) {
    return take_seed(w, node, "seed") && take_cfg(w, node) && check_name(w, node, "sampler_name", "sampler", "euler") &&
           take_schedule(w, node) && take_prompts(w, node, "positive", "negative") && take_models(w, node, m);
}

static bool take_guider(struct way *w, uint32_t sampler, struct model *m) {
    struct end end;
    if (!follow_node(w, sampler, "guider", &end))
        return false;
    bool basic = is_a(w, end.node, "BasicGuider");
    if (!basic && !is_a(w, end.node, "CFGGuider"))
        return refuse_node(w, end.node);
    w->to->has_cfg = true;
    w->to->cfg = 1;
    if (!enter(w, end.node) || (!basic && !take_cfg(w, end.node)))
        return false;
    bool ok = take_prompts(w, end.node, basic ? "conditioning" : "positive", basic ? NULL : "negative") &&
              take_models(w, end.node, m);
    leave(w, end.node);
    return ok;
}

/* The noise levels are made for a model, too, which must be the same one. */
static bool take_levels(struct way *w, uint32_t sampler, const struct model *m) {
    struct model scheduled = { .cached = true };
    struct end end;
    if (!follow_node(w, sampler, "sigmas", &end))
        return false;
    if (is_a(w, end.node, "ManualSigmas"))
        return take_sigmas(w, end.node);
    if (!is_a(w, end.node, "BasicScheduler"))
        return refuse_node(w, end.node);
    if (!take_schedule(w, end.node) || !take_model(w, end.node, &scheduled))
        return false;
    return (scheduled.loader == m->loader && scheduled.shifted == m->shifted && scheduled.shift == m->shift) ||
           refuse(w, "%s makes noise levels for another model", name_of(w, end.node).text);
}

static bool take_custom_sampler(struct way *w, uint32_t node, struct model *m) {
    struct end noise, choice;
    if (!follow_node(w, node, "noise", &noise) || !follow_node(w, node, "sampler", &choice))
        return false;
    if (!is_a(w, noise.node, "RandomNoise"))
        return refuse_node(w, noise.node);
    if (!is_a(w, choice.node, "KSamplerSelect"))
        return refuse_node(w, choice.node);
    return take_seed(w, noise.node, "noise_seed") && check_name(w, choice.node, "sampler_name", "sampler", "euler") &&
           take_guider(w, node, m) && take_levels(w, node, m);
}

/* ---- which recipe it is ---- */

static bool settle(struct way *w, const struct model *m) {
    kn_import *to = w->to;
    bool named = names_turbo(to->files[DIFFUSION]);
    if (to->turbo && !w->is_21)
        return refuse(w, "unsupported sigmas for this model");
    if (w->is_21 && named && !to->turbo) {
        to->turbo = true;
        to->steps = KN_IMPORT_SIGMAS - 1;
        warn(w, KN_IMPORT_TURBO_SCHEDULE);
    }
    if (to->turbo && to->cfg != 1)
        return refuse(w, "guidance %g with Qwen-Image 2.1 Turbo, which works without (cfg 1)", to->cfg);
    if (!kn_import_keep((kn_json_text){ "euler", 5 }, NAME_BYTES, "sampler", &to->sampler, w->err) ||
        !kn_import_keep((kn_json_text){ "simple", 6 }, NAME_BYTES, "scheduler", &to->scheduler, w->err))
        return false;
    to->has_flow_shift = m->shifted;
    to->flow_shift = m->shift;
    to->architecture = w->is_21 ? "qwen-image-2.1" : "qwen-image";
    to->variant = to->turbo ? "turbo" : "base";
    if (!w->is_21) {
        to->workflow = "qwen-image-2512-text-to-image/v1";
        if (!m->shifted)
            warn(w, KN_IMPORT_DEFAULT_SHIFT);
    } else if (to->reference_count) {
        to->workflow = to->turbo ? "qwen-image-2.1-turbo-edit/v1" : "qwen-image-2.1-edit/v1";
    } else {
        to->workflow = to->turbo ? "qwen-image-2.1-turbo-text-to-image/v1" : "qwen-image-2.1-text-to-image/v1";
    }
    return true;
}

/* ---- from the picture to its sampler ---- */

static bool take_sampler(struct way *w, uint32_t node) {
    struct model m = { .loader = 0 };
    if (!enter(w, node))
        return false;
    bool ok = (is_a(w, node, "KSampler") ? take_k_sampler(w, node, &m) : take_custom_sampler(w, node, &m)) &&
              take_size(w, node) && settle(w, &m);
    leave(w, node);
    return ok;
}

/* Which sampler's picture an output node saves. */
static bool find_sampler(struct way *w, uint32_t output, uint32_t *ret) {
    static const char *const decoders[] = { "VAEDecode", "VAEDecodeTiled" };
    static const char *const samplers[] = { "KSampler", "SamplerCustomAdvanced" };
    struct end decoder, sampler;
    if (!enter(w, output) || !follow_node(w, output, "images", &decoder))
        return false;
    if (!is_any(w, decoder.node, decoders, KN_COUNT(decoders)))
        return refuse_node(w, decoder.node);
    if (!enter(w, decoder.node) || !take_vae(w, decoder.node) || !follow_node(w, decoder.node, "samples", &sampler))
        return false;
    if (!is_any(w, sampler.node, samplers, KN_COUNT(samplers)))
        return refuse_node(w, sampler.node);
    leave(w, decoder.node);
    leave(w, output);
    *ret = sampler.node;
    return true;
}

/* Ours are PNG files of 8 bits. */
static void note_output(struct way *w, uint32_t output) {
    static const char *const depths[] = { "format.bit_depth", "bit_depth" };
    const kn_graph_input *format = kn_graph_find(w->g, output, "format");
    kn_json_text text;
    if (!is_a(w, output, "SaveImageAdvanced"))
        return;
    if (format && kn_json_value_text(format->literal, &text) && !kn_json_is(text, "png"))
        warn(w, KN_IMPORT_BIT_DEPTH);
    for (size_t i = 0; i < KN_COUNT(depths); i++) {
        const kn_graph_input *depth = kn_graph_find(w->g, output, depths[i]);
        if (depth && kn_json_value_text(depth->literal, &text) && kn_json_is(text, "16-bit"))
            warn(w, KN_IMPORT_BIT_DEPTH);
    }
}

static bool take_outputs(struct way *w, const char *const *types, size_t count, bool *ret_found, uint32_t *sampler) {
    for (uint32_t i = 0; i < w->g->node_count; i++) {
        uint32_t from = 0;
        if (is_a(w, i, "SaveAnimatedWEBP"))
            return refuse_node(w, i);
        if (!is_any(w, i, types, count))
            continue;
        if (!find_sampler(w, i, &from))
            return false;
        if (*ret_found && from != *sampler)
            return refuse(w, "several independent results: of %s and %s", name_of(w, *sampler).text,
                          name_of(w, from).text);
        note_output(w, i);
        *ret_found = true;
        *sampler = from;
    }
    return true;
}

bool kn_import_follow(const kn_graph *g, kn_import *ret, kn_error *err) {
    static const char *const saves[] = { "SaveImage", "SaveImageAdvanced" };
    static const char *const previews[] = { "PreviewImage" };
    struct way w = { .g = g, .to = ret, .left = STEPS_LEFT, .err = err };
    bool found = false;
    uint32_t sampler = 0;
    w.open = calloc(g->node_count + 1, sizeof *w.open);
    if (!w.open)
        return kn_fail_nomem(err, g->node_count);
    bool ok = take_outputs(&w, saves, KN_COUNT(saves), &found, &sampler) &&
              (found || take_outputs(&w, previews, KN_COUNT(previews), &found, &sampler)) &&
              (found || refuse(&w, "no output node: nothing in the workflow saves a picture")) &&
              take_sampler(&w, sampler);
    free(w.open);
    return ok;
}
