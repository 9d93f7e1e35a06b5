#include "models/vae_flux.h"

#include <stdarg.h>
#include <stdio.h>

enum { GROUPS = 32 };
static const float eps = 1e-6f;

/* What the latents of the released model are scaled by to be of size one. */
static const float latent_mean = 0.1159f, latent_scale = 0.3611f;

static const kn_pad around = { 1, 1, 1, 1 };      /* 3x3, same size */
static const kn_pad right_below = { 0, 0, 1, 1 }; /* before a 3x3 with stride 2 */

/* The two spellings of the same tree: what stands behind "encoder." or "decoder.". */
struct naming {
    const char *middle[2], *attention, *norm_out;
    const char *down, *up, *block, *downsample, *upsample; /* "down.LEVEL.block.BLOCK", "down.LEVEL.downsample.conv" */
    const char *attention_norm, *q, *k, *v, *attention_out, *shortcut;
    bool counts_from_pixels; /* also when decoding, where the level next to the pixels runs last */
};

static const struct naming published = {
    .middle = { "mid.block_1", "mid.block_2" },
    .attention = "mid.attn_1",
    .norm_out = "norm_out",
    .down = "down",
    .up = "up",
    .block = "block",
    .downsample = "downsample.conv",
    .upsample = "upsample.conv",
    .attention_norm = "norm",
    .q = "q",
    .k = "k",
    .v = "v",
    .attention_out = "proj_out",
    .shortcut = "nin_shortcut",
    .counts_from_pixels = true,
};

static const struct naming diffusers = {
    .middle = { "mid_block.resnets.0", "mid_block.resnets.1" },
    .attention = "mid_block.attentions.0",
    .norm_out = "conv_norm_out",
    .down = "down_blocks",
    .up = "up_blocks",
    .block = "resnets",
    .downsample = "downsamplers.0.conv",
    .upsample = "upsamplers.0.conv",
    .attention_norm = "group_norm",
    .q = "to_q",
    .k = "to_k",
    .v = "to_v",
    .attention_out = "to_out.0",
    .shortcut = "conv_shortcut",
};

/* Where a block stands in the tree; the longest has about 40 bytes. */
struct name {
    char text[96];
};
static struct name name_of(const char *fmt, ...) KN_PRINTF(1, 2);
static struct name name_of(const char *fmt, ...) {
    struct name n;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(n.text, sizeof n.text, fmt, ap);
    va_end(ap);
    return n;
}

static kn_vae_flux_norm take_norm(kn_binder *b, int64_t c, const char *at, const char *leaf) {
    if (c % GROUPS)
        kn_binder_fail(b, "'%s.%s': %lld channels are not %d groups", at, leaf, (long long)c, GROUPS);
    return (kn_vae_flux_norm){ .weight = kn_take_vector(b, c, 0, "%s.%s.weight", at, leaf),
                               .bias = kn_take_vector(b, c, 0, "%s.%s.bias", at, leaf) };
}

/* out: -1 takes what the file has. */
static kn_vae_flux_residual take_residual(kn_binder *b, const struct naming *names, struct name at, int64_t in,
                                          int64_t out) {
    kn_vae_flux_residual x = { .norm1 = take_norm(b, in, at.text, "norm1"),
                               .conv1 = kn_take_conv(b, out, in, 3, 3, "%s.conv1", at.text) };
    out = x.conv1.dim[0];
    x.norm2 = take_norm(b, out, at.text, "norm2");
    x.conv2 = kn_take_conv(b, out, out, 3, 3, "%s.conv2", at.text);
    if (out != in)
        x.shortcut = kn_take_matrix(b, out, in, "%s.%s", at.text, names->shortcut);
    return x;
}

static void take_middle(kn_vae_flux_half *m, kn_binder *b, const struct naming *names, const char *half, int64_t c) {
    for (int i = 0; i < 2; i++)
        m->middle[i] = take_residual(b, names, name_of("%s.%s", half, names->middle[i]), c, c);
    struct name at = name_of("%s.%s", half, names->attention);
    m->attention = (kn_vae_flux_attention){
        .norm = take_norm(b, c, at.text, names->attention_norm),
        .q = kn_take_matrix(b, c, c, "%s.%s", at.text, names->q),
        .k = kn_take_matrix(b, c, c, "%s.%s", at.text, names->k),
        .v = kn_take_matrix(b, c, c, "%s.%s", at.text, names->v),
        .out = kn_take_matrix(b, c, c, "%s.%s", at.text, names->attention_out),
    };
}

/* The widths of both halves follow from the first convolution of each level. */
static void take_encoder(kn_vae_flux_half *m, kn_binder *b, const struct naming *names) {
    m->in = kn_take_conv(b, -1, 3, 3, 3, "encoder.conv_in");
    int64_t c = m->in.dim[0];
    for (int l = 0; l < KN_VAE_FLUX_LEVELS; l++) {
        kn_vae_flux_level *v = &m->level[l];
        struct name level = name_of("encoder.%s.%d", names->down, l);
        for (int i = 0; i < 2; i++) {
            v->residual[i] = take_residual(b, names, name_of("%s.%s.%d", level.text, names->block, i), c, i ? c : -1);
            c = v->residual[i].conv1.dim[0];
        }
        if (l + 1 < KN_VAE_FLUX_LEVELS)
            v->resample = kn_take_conv(b, c, c, 3, 3, "%s.%s", level.text, names->downsample);
    }
    take_middle(m, b, names, "encoder", c);
    m->norm_out = take_norm(b, c, "encoder", names->norm_out);
    kn_weight both = kn_take_conv(b, 2 * KN_VAE_FLUX_CHANNELS, c, 3, 3, "encoder.conv_out");
    m->out = kn_weight_rows(&both, 0, KN_VAE_FLUX_CHANNELS); /* means; the log variances are for training */
}

static void take_decoder(kn_vae_flux_half *m, kn_binder *b, const struct naming *names) {
    m->in = kn_take_conv(b, -1, KN_VAE_FLUX_CHANNELS, 3, 3, "decoder.conv_in");
    int64_t c = m->in.dim[0];
    take_middle(m, b, names, "decoder", c);
    for (int l = 0; l < KN_VAE_FLUX_LEVELS; l++) {
        kn_vae_flux_level *v = &m->level[l];
        int number = names->counts_from_pixels ? KN_VAE_FLUX_LEVELS - 1 - l : l;
        struct name level = name_of("decoder.%s.%d", names->up, number);
        for (int i = 0; i < 3; i++) {
            v->residual[i] = take_residual(b, names, name_of("%s.%s.%d", level.text, names->block, i), c, i ? c : -1);
            c = v->residual[i].conv1.dim[0];
        }
        if (l + 1 < KN_VAE_FLUX_LEVELS)
            v->resample = kn_take_conv(b, c, c, 3, 3, "%s.%s", level.text, names->upsample);
    }
    m->norm_out = take_norm(b, c, "decoder", names->norm_out);
    m->out = kn_take_conv(b, 3, c, 3, 3, "decoder.conv_out");
}

void kn_vae_flux_load(kn_vae_flux *m, kn_binder *b) {
    const struct naming *names = kn_has(b, "decoder.conv_norm_out.weight") ? &diffusers : &published;
    *m = (kn_vae_flux){ 0 };
    take_encoder(&m->encoder, b, names);
    take_decoder(&m->decoder, b, names);
}

/* Takes the place of a tensor that is not needed any more. */
static kn_tensor next(kn_run *r, kn_tensor old, kn_tensor now) {
    kn_drop(r, old);
    return now;
}

/* silu(norm(x)), convolved; added to `onto` if it is there. */
static kn_tensor norm_conv(kn_run *r, const kn_vae_flux_norm *n, const kn_weight *w, kn_tensor x, kn_tensor onto) {
    return kn_group_norm_conv(r, x, &n->weight, &n->bias, GROUPS, eps, w, onto);
}

/* x: [h, w, in] -> [h, w, out]: two convolutions around a shortcut. Takes the place of x. */
static kn_tensor residual(kn_run *r, const kn_vae_flux_residual *b, kn_tensor x) {
    kn_tensor y = norm_conv(r, &b->norm1, &b->conv1, x, KN_NONE);
    if (b->shortcut.data)
        x = next(r, x, kn_linear(r, x, &b->shortcut));
    x = norm_conv(r, &b->norm2, &b->conv2, y, x);
    kn_drop(r, y);
    return x;
}

/* One head over all pixels; x: [h, w, c], changed in place. */
static void attention(kn_run *r, const kn_vae_flux_attention *b, kn_tensor x) {
    kn_scope s = kn_scope_open(r);
    kn_tensor u = kn_group_norm(r, x, &b->norm.weight, &b->norm.bias, GROUPS, eps, false);
    kn_kv own = { kn_linear(r, u, &b->k), kn_linear(r, u, &b->v) };
    kn_tensor a = kn_attention(r, kn_linear(r, u, &b->q), (kn_kv){ 0 }, own, 1, 1, false);
    kn_add(r, x, kn_linear(r, a, &b->out));
    kn_scope_close(r, s, KN_NONE);
}

static kn_tensor middle(kn_run *r, const kn_vae_flux_half *m, kn_tensor x, const char *half) {
    x = residual(r, &m->middle[0], x);
    kn_watch(r, x, "%s.mid.resnet0", half);
    attention(r, &m->attention, x);
    kn_watch(r, x, "%s.mid.attn", half);
    x = residual(r, &m->middle[1], x);
    kn_watch(r, x, "%s.mid", half);
    return x;
}

static kn_tensor head(kn_run *r, const kn_vae_flux_half *m, kn_tensor x) {
    return next(r, x, norm_conv(r, &m->norm_out, &m->out, x, KN_NONE));
}

/* x = x * scale + shift, the same for all channels of a latent. */
static void rescale(kn_run *r, kn_tensor x, float scale, float shift) {
    float scales[KN_VAE_FLUX_CHANNELS], shifts[KN_VAE_FLUX_CHANNELS];
    for (int c = 0; c < KN_VAE_FLUX_CHANNELS; c++) {
        scales[c] = scale;
        shifts[c] = shift;
    }
    kn_affine(r, x, scales, shifts);
}

kn_tensor kn_vae_flux_encode(kn_run *r, const kn_vae_flux *m, kn_tensor picture) {
    const kn_vae_flux_half *e = &m->encoder;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_conv2d(r, picture, &e->in, 1, around);
    kn_watch(r, x, "encoder.conv_in");
    for (int l = 0; l < KN_VAE_FLUX_LEVELS; l++) {
        const kn_vae_flux_level *v = &e->level[l];
        for (int i = 0; i < 2; i++)
            x = residual(r, &v->residual[i], x);
        if (v->resample.data)
            x = next(r, x, kn_conv2d(r, x, &v->resample, 2, right_below));
    }
    x = head(r, e, middle(r, e, x, "encoder")); /* [h, w, 16] */
    kn_watch(r, x, "moments");
    rescale(r, x, latent_scale, -latent_mean * latent_scale);
    return kn_scope_close(r, s, x);
}

kn_tensor kn_vae_flux_decode(kn_run *r, const kn_vae_flux *m, kn_tensor latent) {
    const kn_vae_flux_half *d = &m->decoder;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_new(r, latent.rank, latent.dim);
    kn_copy(r, x, latent);
    rescale(r, x, 1 / latent_scale, latent_mean);
    x = next(r, x, kn_conv2d(r, x, &d->in, 1, around));
    kn_watch(r, x, "decoder.conv_in");
    x = middle(r, d, x, "decoder");
    for (int l = 0; l < KN_VAE_FLUX_LEVELS; l++) {
        const kn_vae_flux_level *v = &d->level[l];
        for (int i = 0; i < 3; i++)
            x = residual(r, &v->residual[i], x);
        if (v->resample.data)
            x = next(r, x, kn_upsample2x_conv(r, x, &v->resample, KN_NONE));
        kn_watch(r, x, "decoder.up%d", l);
    }
    x = head(r, d, x);
    kn_watch(r, x, "decoded");
    return kn_scope_close(r, s, x);
}
