/* What llama.cpp calls the tensors of networks that we know by their own names, in one table. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/container.h"

enum {
    GROWTH = 32,        /* bytes that no name gets longer by */
    DEEPSTACK_MAX = 64, /* layers among which those that feed the deepstack are looked for */
};

/* How names begin; "weight", "bias" and whatever else follows stays. '#' is a layer's number, '@' its place among the
 * layers that feed the deepstack. */
typedef struct row {
    const char *gguf, *own;
} row;

typedef struct names {
    const char *architecture, *projector; /* as the file's metadata have them; NULL: any */
    const row *rows;
    size_t count;
} names;

static const row text[] = {
    { "token_embd.", "model.embed_tokens." },
    { "output_norm.", "model.norm." },
    { "output.", "lm_head." },
    { "blk.#.attn_norm.", "model.layers.#.input_layernorm." },
    { "blk.#.attn_q.", "model.layers.#.self_attn.q_proj." },
    { "blk.#.attn_k.", "model.layers.#.self_attn.k_proj." },
    { "blk.#.attn_v.", "model.layers.#.self_attn.v_proj." },
    { "blk.#.attn_q_norm.", "model.layers.#.self_attn.q_norm." },
    { "blk.#.attn_k_norm.", "model.layers.#.self_attn.k_norm." },
    { "blk.#.attn_output.", "model.layers.#.self_attn.o_proj." },
    { "blk.#.ffn_norm.", "model.layers.#.post_attention_layernorm." },
    { "blk.#.ffn_gate.", "model.layers.#.mlp.gate_proj." },
    { "blk.#.ffn_up.", "model.layers.#.mlp.up_proj." },
    { "blk.#.ffn_down.", "model.layers.#.mlp.down_proj." },
};

/* The kernel over two frames comes as one for each. */
static const row vision[] = {
    { "v.patch_embd.weight.1", "visual.patch_embed.second_proj.weight" },
    { "v.patch_embd.", "visual.patch_embed.proj." },
    { "v.position_embd.", "visual.pos_embed." },
    { "v.blk.#.ln1.", "visual.blocks.#.norm1." },
    { "v.blk.#.ln2.", "visual.blocks.#.norm2." },
    { "v.blk.#.attn_qkv.", "visual.blocks.#.attn.qkv." },
    { "v.blk.#.attn_out.", "visual.blocks.#.attn.proj." },
    { "v.blk.#.ffn_up.", "visual.blocks.#.mlp.linear_fc1." },
    { "v.blk.#.ffn_down.", "visual.blocks.#.mlp.linear_fc2." },
    { "v.post_ln.", "visual.merger.norm." },
    { "mm.0.", "visual.merger.linear_fc1." },
    { "mm.2.", "visual.merger.linear_fc2." },
    { "v.deepstack.#.norm.", "visual.deepstack_merger_list.@.norm." },
    { "v.deepstack.#.fc1.", "visual.deepstack_merger_list.@.linear_fc1." },
    { "v.deepstack.#.fc2.", "visual.deepstack_merger_list.@.linear_fc2." },
};

static const row vision25[] = {
    { "v.patch_embd.weight.1", "visual.patch_embed.second_proj.weight" },
    { "v.patch_embd.", "visual.patch_embed.proj." },
    { "v.blk.#.ln1.", "visual.blocks.#.norm1." },
    { "v.blk.#.ln2.", "visual.blocks.#.norm2." },
    { "v.blk.#.attn_qkv.", "visual.blocks.#.attn.qkv." },
    { "v.blk.#.attn_q.", "visual.blocks.#.attn.q." },
    { "v.blk.#.attn_k.", "visual.blocks.#.attn.k." },
    { "v.blk.#.attn_v.", "visual.blocks.#.attn.v." },
    { "v.blk.#.attn_out.", "visual.blocks.#.attn.proj." },
    { "v.blk.#.ffn_gate.", "visual.blocks.#.mlp.gate_proj." },
    { "v.blk.#.ffn_up.", "visual.blocks.#.mlp.up_proj." },
    { "v.blk.#.ffn_down.", "visual.blocks.#.mlp.down_proj." },
    { "v.post_ln.", "visual.merger.ln_q." },
    { "mm.0.", "visual.merger.mlp.0." },
    { "mm.2.", "visual.merger.mlp.2." },
};

static const names tables[] = {
    { "qwen3vl", NULL, text, KN_COUNT(text) },
    { "qwen2vl", NULL, text, KN_COUNT(text) },
    { "qwen3", NULL, text, KN_COUNT(text) },
    { "clip", "qwen3vl_merger", vision, KN_COUNT(vision) },
    { "clip", "qwen2.5vl_merger", vision25, KN_COUNT(vision25) },
};

static const names *names_of(const kn_weights *w) {
    const char *architecture = kn_weights_metadata(w, "general.architecture");
    const char *projector = kn_weights_metadata(w, "clip.projector_type");
    if (!projector)
        projector = kn_weights_metadata(w, "clip.vision.projector_type");
    for (const names *t = tables; architecture && t < tables + KN_COUNT(tables); t++) {
        if (strcmp(architecture, t->architecture) == 0 &&
            (!t->projector || (projector && strcmp(projector, t->projector) == 0)))
            return t;
    }
    return NULL;
}

/* Does the name begin as the pattern says? *number is the layer's, *rest what follows the pattern. */
static bool matches(const char *pattern, const char *name, unsigned *number, const char **rest) {
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*name++ != *pattern)
                return false;
            continue;
        }
        const char *first = name;
        for (*number = 0; name < first + 4 && *name >= '0' && *name <= '9'; name++)
            *number = 10 * *number + (unsigned)(*name - '0');
        if (name == first || (*first == '0' && name > first + 1)) /* no two names for one layer */
            return false;
    }
    *rest = name;
    return (*name == 0) == (pattern[-1] != '.'); /* a pattern without a dot at the end is a whole name */
}

/* Bit n: layer n feeds the deepstack. Which of them it is, not where it stands, is in its own name. */
static uint64_t deepstack_of(const kn_weights *w) {
    uint64_t layers = 0;
    for (size_t i = 0; i < w->count; i++) {
        unsigned number = 0;
        const char *rest = NULL;
        if (matches("v.deepstack.#.", w->entry[i].name, &number, &rest) && number < DEEPSTACK_MAX)
            layers |= UINT64_C(1) << number;
    }
    return layers;
}

static unsigned place_of(unsigned layer, uint64_t deepstack) {
    return (unsigned)__builtin_popcountll(deepstack & ((UINT64_C(1) << layer) - 1));
}

/* Writes the network's own name and returns its length; 0: none is known, the name stays. */
static size_t own_name(const names *t, uint64_t deepstack, const char *name, char *out, size_t room) {
    unsigned number = 0;
    const char *rest = NULL;
    const row *r = t->rows, *end = t->rows + t->count;
    while (r < end && !matches(r->gguf, name, &number, &rest))
        r++;
    if (r == end || (strchr(r->own, '@') && number >= DEEPSTACK_MAX))
        return 0;
    size_t n = strcspn(r->own, "#@");
    char digits[12] = "";
    if (r->own[n])
        snprintf(digits, sizeof digits, "%u", r->own[n] == '#' ? number : place_of(number, deepstack));
    int len = snprintf(out, room, "%.*s%s%s%s", (int)n, r->own, digits, r->own + n + (r->own[n] != 0), rest);
    assert(len > 0 && (size_t)len < room);
    return (size_t)len;
}

bool kn_gguf_take_own_names(kn_weights *w, kn_error *err) {
    const names *t = names_of(w);
    if (!t)
        return true;
    uint64_t deepstack = deepstack_of(w);
    size_t bytes = 1;
    for (size_t i = 0; i < w->count; i++)
        bytes += strlen(w->entry[i].name) + GROWTH;
    char *at = w->own_names = malloc(bytes);
    if (!at)
        return kn_fail_nomem(err, bytes);
    for (size_t i = 0; i < w->count; i++) {
        size_t len = own_name(t, deepstack, w->entry[i].name, at, strlen(w->entry[i].name) + GROWTH);
        if (len) {
            w->entry[i].name = at;
            at += len + 1;
        }
    }
    return kn_weights_sort(w, err);
}
