#include "models/vae_qwen21.h"

#include <stdio.h>

/* Latent statistics of the released model: per channel mean and deviation. */
static const float latent_mean[KN_VAE21_CHANNELS] = {
    0.5126f,  0.7721f,  -0.0631f, 1.3506f,  -0.7855f, -2.1025f, -0.3458f, 1.3722f,  1.8873f,  -1.7177f, -0.6510f,
    0.2732f,  0.7562f,  -0.6163f, -1.0277f, 3.8363f,  2.0210f,  0.0472f,  0.9320f,  2.0087f,  2.4954f,  -0.1391f,
    -1.4249f, 1.8464f,  -0.5236f, 1.2826f,  3.7046f,  -1.3035f, 2.7286f,  -1.4518f, -1.9036f, -1.9955f, -0.0342f,
    -1.0265f, -0.7636f, 3.0555f,  0.0746f,  -3.0751f, -0.1076f, 1.7376f,  -1.0914f, -1.9435f, -0.2784f, -1.3680f,
    0.4809f,  -0.4433f, 0.3764f,  0.5729f,  -2.0595f, 1.0960f,  -1.3260f, -2.0211f, -5.0179f, 0.5275f,  4.0162f,
    1.8505f,  0.3026f,  1.9373f,  1.4937f,  0.2632f,  0.5547f,  -1.7121f, -0.1562f, 0.0304f,
};
static const float latent_deviation[KN_VAE21_CHANNELS] = {
    3.2001f, 3.2936f, 3.4321f, 3.0091f, 3.1061f, 4.0379f, 4.0705f, 3.7910f, 3.0785f, 3.6500f, 3.9308f, 3.0904f, 2.8778f,
    3.7675f, 3.7320f, 5.0756f, 3.2864f, 4.0397f, 3.1317f, 4.0443f, 2.9249f, 3.9454f, 3.0988f, 4.2489f, 3.4896f, 3.8513f,
    3.9323f, 3.4719f, 3.7498f, 4.2830f, 3.5694f, 4.2467f, 3.9037f, 3.2947f, 5.0770f, 3.5075f, 3.2700f, 3.4767f, 2.8063f,
    5.1125f, 3.5327f, 4.7833f, 3.1286f, 4.1819f, 3.8527f, 3.8312f, 3.5605f, 4.3875f, 3.9624f, 4.0168f, 3.5643f, 4.0550f,
    5.5614f, 4.2963f, 4.4080f, 3.4959f, 3.8747f, 3.7608f, 3.5735f, 3.1490f, 3.7662f, 3.6746f, 3.4563f, 3.8161f,
};

static const kn_pad around = { 1, 1, 1, 1 };      /* 3x3, same size */
static const kn_pad right_below = { 0, 0, 1, 1 }; /* before a 3x3 with stride 2 */

/* The two spellings of the same tree. %s is "encoder" or "decoder", %d a level, then a block of it. */
struct naming {
    const char *in, *middle[2], *attention, *norm_out, *out;
    const char *down_residual, *down_resample, *down_time, *up_residual, *up_resample, *up_time;
    const char *norm1, *conv1, *norm2, *conv2, *shortcut;
    const char *after_encoder, *before_decoder;
};

static const struct naming wan = {
    .in = "%s.conv1",
    .middle = { "%s.middle.0", "%s.middle.2" },
    .attention = "%s.middle.1",
    .norm_out = "%s.head.0",
    .out = "%s.head.2",
    .down_residual = "encoder.downsamples.%d.downsamples.%d",
    .down_resample = "encoder.downsamples.%d.downsamples.2.resample.1",
    .down_time = "encoder.downsamples.%d.downsamples.2.time_conv.",
    .up_residual = "decoder.upsamples.%d.upsamples.%d",
    .up_resample = "decoder.upsamples.%d.upsamples.3.resample.1",
    .up_time = "decoder.upsamples.%d.upsamples.3.time_conv.",
    .norm1 = "residual.0.gamma",
    .conv1 = "residual.2",
    .norm2 = "residual.3.gamma",
    .conv2 = "residual.6",
    .shortcut = "shortcut",
    .after_encoder = "conv1",
    .before_decoder = "conv2",
};

static const struct naming diffusers = {
    .in = "%s.conv_in",
    .middle = { "%s.mid_block.resnets.0", "%s.mid_block.resnets.1" },
    .attention = "%s.mid_block.attentions.0",
    .norm_out = "%s.norm_out",
    .out = "%s.conv_out",
    .down_residual = "encoder.down_blocks.%d.resnets.%d",
    .down_resample = "encoder.down_blocks.%d.downsampler.resample.1",
    .down_time = "encoder.down_blocks.%d.downsampler.time_conv.",
    .up_residual = "decoder.up_blocks.%d.resnets.%d",
    .up_resample = "decoder.up_blocks.%d.upsampler.resample.1",
    .up_time = "decoder.up_blocks.%d.upsampler.time_conv.",
    .norm1 = "norm1.gamma",
    .conv1 = "conv1",
    .norm2 = "norm2.gamma",
    .conv2 = "conv2",
    .shortcut = "conv_shortcut",
    .after_encoder = "quant_conv",
    .before_decoder = "post_quant_conv",
};

/* A name of the tree above, filled in; the longest has about 60 bytes. */
struct name {
    char text[96];
};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static struct name half_name(const char *fmt, const char *half) {
    struct name n;
    snprintf(n.text, sizeof n.text, fmt, half);
    return n;
}
static struct name level_name(const char *fmt, int level, int block) {
    struct name n;
    snprintf(n.text, sizeof n.text, fmt, level, block);
    return n;
}
#pragma GCC diagnostic pop

static kn_vae21_residual take_residual(kn_binder *b, const struct naming *names, struct name at, int64_t in,
                                       int64_t out) {
    kn_vae21_residual x = {
        .norm1 = kn_take_vector(b, in, 0, "%s.%s", at.text, names->norm1),
        .conv1 = kn_take_conv(b, out, in, 3, 3, "%s.%s", at.text, names->conv1),
        .norm2 = kn_take_vector(b, out < 0 ? -1 : out, 0, "%s.%s", at.text, names->norm2),
    };
    if (out < 0)
        out = x.conv1.dim[0];
    x.conv2 = kn_take_conv(b, out, out, 3, 3, "%s.%s", at.text, names->conv2);
    if (out != in)
        x.shortcut = kn_take_matrix(b, out, in, "%s.%s", at.text, names->shortcut);
    return x;
}

static kn_vae21_attention take_attention(kn_binder *b, struct name at, int64_t c) {
    kn_weight qkv = kn_take_matrix(b, 3 * c, c, "%s.to_qkv", at.text);
    return (kn_vae21_attention){
        .norm = kn_take_vector(b, c, 0, "%s.norm.gamma", at.text),
        .q = kn_weight_rows(&qkv, 0, c),
        .k = kn_weight_rows(&qkv, c, c),
        .v = kn_weight_rows(&qkv, 2 * c, c),
        .out = kn_take_matrix(b, c, c, "%s.proj", at.text),
    };
}

static void take_middle(kn_vae21_half *m, kn_binder *b, const struct naming *names, const char *half, int64_t c) {
    for (int i = 0; i < 2; i++)
        m->middle[i] = take_residual(b, names, half_name(names->middle[i], half), c, c);
    m->attention = take_attention(b, half_name(names->attention, half), c);
}

/* The widths of both halves follow from the first convolution of each residual block. */
static void take_encoder(kn_vae21_half *m, kn_binder *b, const struct naming *names) {
    m->in = kn_take_conv(b, -1, 4, 3, 3, "%s", half_name(names->in, "encoder").text);
    int64_t c = m->in.dim[0];
    for (int l = 0; l < KN_VAE21_LEVELS; l++) {
        kn_vae21_level *v = &m->level[l];
        v->residual[0] = take_residual(b, names, level_name(names->down_residual, l, 0), c, -1);
        c = v->residual[0].conv1.dim[0];
        v->residual[1] = take_residual(b, names, level_name(names->down_residual, l, 1), c, c);
        if (l + 1 < KN_VAE21_LEVELS) {
            v->resample = kn_take_conv(b, c, c, 3, 3, "%s", level_name(names->down_resample, l, 0).text);
            kn_ignore(b, "%s", level_name(names->down_time, l, 0).text); /* one frame: never used */
        }
    }
    take_middle(m, b, names, "encoder", c);
    m->norm_out = kn_take_vector(b, c, 0, "%s.gamma", half_name(names->norm_out, "encoder").text);
    m->out = kn_take_conv(b, 2 * KN_VAE21_CHANNELS, c, 3, 3, "%s", half_name(names->out, "encoder").text);
}

static void take_decoder(kn_vae21_half *m, kn_binder *b, const struct naming *names) {
    m->in = kn_take_conv(b, -1, KN_VAE21_CHANNELS, 3, 3, "%s", half_name(names->in, "decoder").text);
    int64_t c = m->in.dim[0];
    take_middle(m, b, names, "decoder", c);
    for (int l = 0; l < KN_VAE21_LEVELS; l++) {
        kn_vae21_level *v = &m->level[l];
        for (int i = 0; i < 3; i++) {
            v->residual[i] = take_residual(b, names, level_name(names->up_residual, l, i), c, i ? c : -1);
            c = v->residual[i].conv1.dim[0];
        }
        if (l + 1 < KN_VAE21_LEVELS) {
            v->resample = kn_take_conv(b, c, c, 3, 3, "%s", level_name(names->up_resample, l, 0).text);
            kn_ignore(b, "%s", level_name(names->up_time, l, 0).text);
        }
    }
    m->norm_out = kn_take_vector(b, c, 0, "%s.gamma", half_name(names->norm_out, "decoder").text);
    m->out = kn_take_conv(b, 4, c, 3, 3, "%s", half_name(names->out, "decoder").text);
}

void kn_vae21_load(kn_vae21 *m, kn_binder *b) {
    const struct naming *names = kn_has(b, "decoder.conv_in.weight") ? &diffusers : &wan;
    *m = (kn_vae21){ 0 };
    take_encoder(&m->encoder, b, names);
    take_decoder(&m->decoder, b, names);
    kn_weight both = kn_take_matrix(b, 2 * KN_VAE21_CHANNELS, 2 * KN_VAE21_CHANNELS, "%s", names->after_encoder);
    m->after_encoder = kn_weight_rows(&both, 0, KN_VAE21_CHANNELS); /* means; the log variances are for training */
    m->before_decoder = kn_take_matrix(b, KN_VAE21_CHANNELS, KN_VAE21_CHANNELS, "%s", names->before_decoder);
}

/* Takes the place of a tensor that is not needed any more. */
static kn_tensor next(kn_run *r, kn_tensor old, kn_tensor now) {
    kn_drop(r, old);
    return now;
}

/* x: [h, w, in] -> [h, w, out]: two convolutions around a shortcut. x stays. */
static kn_tensor residual(kn_run *r, const kn_vae21_residual *b, kn_tensor x) {
    kn_scope s = kn_scope_open(r);
    kn_tensor y = kn_unit_norm(r, x, &b->norm1, true);
    y = next(r, y, kn_conv2d(r, y, &b->conv1, 1, around));
    y = next(r, y, kn_unit_norm(r, y, &b->norm2, true));
    y = next(r, y, kn_conv2d(r, y, &b->conv2, 1, around));
    kn_add(r, y, b->shortcut.data ? kn_linear(r, x, &b->shortcut) : x);
    return kn_scope_close(r, s, y);
}

/* One head over all pixels; x: [h, w, c], changed in place. */
static void attention(kn_run *r, const kn_vae21_attention *b, kn_tensor x) {
    kn_scope s = kn_scope_open(r);
    kn_tensor rows = kn_reshape(r, x, 2, (int64_t[]){ kn_row_count(x), kn_last_dim(x) });
    kn_tensor u = kn_unit_norm(r, rows, &b->norm, false);
    kn_kv own = { kn_linear(r, u, &b->k), kn_linear(r, u, &b->v) };
    kn_tensor a = kn_attention(r, kn_linear(r, u, &b->q), (kn_kv){ 0 }, own, 1, 1, false);
    kn_add(r, rows, kn_linear(r, a, &b->out));
    kn_scope_close(r, s, KN_NONE);
}

static kn_tensor middle(kn_run *r, const kn_vae21_half *m, kn_tensor x) {
    x = next(r, x, residual(r, &m->middle[0], x));
    attention(r, &m->attention, x);
    x = next(r, x, residual(r, &m->middle[1], x));
    kn_watch(r, x, "mid_block");
    return x;
}

static kn_tensor head(kn_run *r, const kn_vae21_half *m, kn_tensor x) {
    x = next(r, x, kn_unit_norm(r, x, &m->norm_out, true));
    return next(r, x, kn_conv2d(r, x, &m->out, 1, around));
}

kn_tensor kn_vae21_encode(kn_run *r, const kn_vae21 *m, kn_tensor picture) {
    const kn_vae21_half *e = &m->encoder;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_conv2d(r, picture, &e->in, 1, around);
    kn_watch(r, x, "conv_in");
    for (int l = 0; l < KN_VAE21_LEVELS; l++) {
        const kn_vae21_level *v = &e->level[l];
        kn_tensor y = residual(r, &v->residual[0], x);
        y = next(r, y, residual(r, &v->residual[1], y));
        if (v->resample.data) {
            y = next(r, y, kn_conv2d(r, y, &v->resample, 2, right_below));
            int frames = l > 0 ? 2 : 1; /* every level but the first also halves time */
            x = next(r, x, kn_avg_shortcut(r, x, kn_last_dim(y), frames));
            kn_watch(r, x, "down%d.avg_shortcut", l);
        }
        kn_add(r, y, x);
        x = next(r, x, y);
        kn_watch(r, x, "down%d", l);
    }
    x = head(r, e, middle(r, e, x));
    kn_watch(r, x, "conv_out");
    x = next(r, x, kn_linear(r, x, &m->after_encoder)); /* [h, w, 64] */
    kn_watch(r, x, "mean");
    float scale[KN_VAE21_CHANNELS], shift[KN_VAE21_CHANNELS];
    for (int c = 0; c < KN_VAE21_CHANNELS; c++) {
        scale[c] = 1 / latent_deviation[c];
        shift[c] = -latent_mean[c] / latent_deviation[c];
    }
    kn_affine(r, x, scale, shift);
    return kn_scope_close(r, s, x);
}

kn_tensor kn_vae21_decode(kn_run *r, const kn_vae21 *m, kn_tensor latent) {
    const kn_vae21_half *d = &m->decoder;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_new(r, latent.rank, latent.dim);
    kn_copy(r, x, latent);
    kn_affine(r, x, latent_deviation, latent_mean);
    x = next(r, x, kn_linear(r, x, &m->before_decoder));
    x = next(r, x, kn_conv2d(r, x, &d->in, 1, around));
    kn_watch(r, x, "conv_in");
    x = middle(r, d, x);
    for (int l = 0; l < KN_VAE21_LEVELS; l++) {
        const kn_vae21_level *v = &d->level[l];
        kn_tensor y = residual(r, &v->residual[0], x);
        y = next(r, y, residual(r, &v->residual[1], y));
        y = next(r, y, residual(r, &v->residual[2], y));
        if (v->resample.data) {
            y = next(r, y, kn_upsample2x(r, y));
            y = next(r, y, kn_conv2d(r, y, &v->resample, 1, around));
            int frames = l < 3 ? 2 : 1; /* the first three levels also double time */
            x = next(r, x, kn_dup_shortcut(r, x, kn_last_dim(y), frames));
            kn_add(r, y, x);
        }
        x = next(r, x, y);
        kn_watch(r, x, "up%d", l);
    }
    x = head(r, d, x);
    kn_watch(r, x, "head");
    return kn_scope_close(r, s, x);
}
