#include "models/wan_blocks.h"

#include <stdio.h>

static const struct spelling {
    const char *in, *middle[2], *attention, *norm_out, *out;
    const char *norm1, *conv1, *norm2, *conv2, *shortcut;
    const char *after_encoder, *before_decoder;
} spellings[] = {
    [KN_WAN_ORIGINAL] = {
        .in = "conv1",
        .middle = { "middle.0", "middle.2" },
        .attention = "middle.1",
        .norm_out = "head.0",
        .out = "head.2",
        .norm1 = "residual.0",
        .conv1 = "residual.2",
        .norm2 = "residual.3",
        .conv2 = "residual.6",
        .shortcut = "shortcut",
        .after_encoder = "conv1",
        .before_decoder = "conv2",
    },
    [KN_WAN_DIFFUSERS] = {
        .in = "conv_in",
        .middle = { "mid_block.resnets.0", "mid_block.resnets.1" },
        .attention = "mid_block.attentions.0",
        .norm_out = "norm_out",
        .out = "conv_out",
        .norm1 = "norm1",
        .conv1 = "conv1",
        .norm2 = "norm2",
        .conv2 = "conv2",
        .shortcut = "conv_shortcut",
        .after_encoder = "quant_conv",
        .before_decoder = "post_quant_conv",
    },
};

static kn_wan_residual take_residual(kn_binder *b, const struct spelling *names, const char *at, int64_t in,
                                     int64_t out) {
    kn_wan_residual x = {
        .norm1 = kn_take_vector(b, in, 0, "%s.%s.gamma", at, names->norm1),
        .conv1 = kn_take_conv(b, out, in, 3, 3, "%s.%s", at, names->conv1),
        .norm2 = kn_take_vector(b, out < 0 ? -1 : out, 0, "%s.%s.gamma", at, names->norm2),
    };
    if (out < 0)
        out = x.conv1.dim[0];
    x.conv2 = kn_take_conv(b, out, out, 3, 3, "%s.%s", at, names->conv2);
    if (out != in)
        x.shortcut = kn_take_matrix(b, out, in, "%s.%s", at, names->shortcut);
    return x;
}

static kn_wan_attention take_attention(kn_binder *b, const char *half, const char *name, int64_t c) {
    kn_weight qkv = kn_take_matrix(b, 3 * c, c, "%s.%s.to_qkv", half, name);
    return (kn_wan_attention){
        .norm = kn_take_vector(b, c, 0, "%s.%s.norm.gamma", half, name),
        .q = kn_weight_rows(&qkv, 0, c),
        .k = kn_weight_rows(&qkv, c, c),
        .v = kn_weight_rows(&qkv, 2 * c, c),
        .out = kn_take_matrix(b, c, c, "%s.%s.proj", half, name),
    };
}

static void take_middle(kn_wan_half *m, kn_binder *b, const struct spelling *names, const char *half, int64_t c) {
    for (int i = 0; i < 2; i++) {
        kn_wan_place at;
        snprintf(at.text, sizeof at.text, "%s.%s", half, names->middle[i]);
        m->middle[i] = take_residual(b, names, at.text, c, c);
    }
    m->attention = take_attention(b, half, names->attention, c);
}

static void take_out(kn_wan_half *m, kn_binder *b, const struct spelling *names, const char *half, int64_t in,
                     int64_t out) {
    m->norm_out = kn_take_vector(b, in, 0, "%s.%s.gamma", half, names->norm_out);
    m->out = kn_take_conv(b, out, in, 3, 3, "%s.%s", half, names->out);
}

static kn_weight take_resample(kn_binder *b, kn_wan_place at, int64_t in, int64_t out) {
    kn_ignore(b, "%s.time_conv.", at.text); /* one frame: never used */
    return kn_take_conv(b, out, in, 3, 3, "%s.resample.1", at.text);
}

/* The widths of both halves follow from the first convolution of each residual block. */
static void take_encoder(kn_wan_half *m, kn_binder *b, kn_wan_naming naming, const kn_wan_form *f) {
    const struct spelling *names = &spellings[naming];
    m->in = kn_take_conv(b, -1, f->picture_channels, 3, 3, "encoder.%s", names->in);
    int64_t c = m->in.dim[0];
    for (int l = 0; l < f->levels; l++) {
        kn_wan_level *v = &m->level[l];
        for (int i = 0; i < 2; i++) {
            v->residual[i] = take_residual(b, names, f->encoder_place(naming, l, i).text, c, i ? c : -1);
            c = v->residual[i].conv1.dim[0];
        }
        if (l + 1 < f->levels)
            v->resample = take_resample(b, f->encoder_place(naming, l, 2), c, c);
    }
    take_middle(m, b, names, "encoder", c);
    take_out(m, b, names, "encoder", c, 2 * f->latent_channels);
}

static void take_decoder(kn_wan_half *m, kn_binder *b, kn_wan_naming naming, const kn_wan_form *f) {
    const struct spelling *names = &spellings[naming];
    m->in = kn_take_conv(b, -1, f->latent_channels, 3, 3, "decoder.%s", names->in);
    int64_t c = m->in.dim[0];
    take_middle(m, b, names, "decoder", c);
    for (int l = 0; l < f->levels; l++) {
        kn_wan_level *v = &m->level[l];
        for (int i = 0; i < 3; i++) {
            v->residual[i] = take_residual(b, names, f->decoder_place(naming, l, i).text, c, i ? c : -1);
            c = v->residual[i].conv1.dim[0];
        }
        if (l + 1 < f->levels) {
            v->resample = take_resample(b, f->decoder_place(naming, l, 3), c, f->narrows ? -1 : c);
            c = v->resample.dim[0];
        }
    }
    take_out(m, b, names, "decoder", c, f->picture_channels);
}

void kn_wan_load(kn_wan_vae *m, kn_binder *b, const kn_wan_form *f) {
    kn_wan_naming naming = kn_has(b, "decoder.conv_in.weight") ? KN_WAN_DIFFUSERS : KN_WAN_ORIGINAL;
    int64_t c = f->latent_channels;
    *m = (kn_wan_vae){ 0 };
    take_encoder(&m->encoder, b, naming, f);
    take_decoder(&m->decoder, b, naming, f);
    /* 1x1 convolutions between the halves. Of the encoder's the means are kept; the log variances are for training. */
    kn_weight both = kn_take_matrix(b, 2 * c, 2 * c, "%s", spellings[naming].after_encoder);
    m->after_encoder = kn_weight_rows(&both, 0, c);
    m->before_decoder = kn_take_matrix(b, c, c, "%s", spellings[naming].before_decoder);
}

kn_tensor kn_wan_next(kn_run *r, kn_tensor old, kn_tensor now) {
    kn_drop(r, old);
    return now;
}

kn_tensor kn_wan_residual_run(kn_run *r, const kn_wan_residual *b, kn_tensor x, bool keep) {
    kn_scope s = kn_scope_open(r);
    kn_tensor y = kn_unit_norm_conv(r, x, &b->norm1, &b->conv1, KN_NONE), onto = x;
    if (b->shortcut.data) {
        onto = kn_linear(r, x, &b->shortcut);
    } else if (keep) {
        onto = kn_new(r, x.rank, x.dim);
        kn_copy(r, onto, x);
    }
    y = kn_unit_norm_conv(r, y, &b->norm2, &b->conv2, onto);
    if (b->shortcut.data && !keep)
        kn_drop(r, x);
    return kn_scope_close(r, s, y);
}

/* One head over all pixels; x: [h, w, c], changed in place. */
static void attention(kn_run *r, const kn_wan_attention *b, kn_tensor x) {
    kn_scope s = kn_scope_open(r);
    kn_tensor rows = kn_reshape(r, x, 2, (int64_t[]){ kn_row_count(x), kn_last_dim(x) });
    kn_tensor u = kn_unit_norm(r, rows, &b->norm, false);
    kn_kv own = { kn_linear(r, u, &b->k), kn_linear(r, u, &b->v) };
    kn_tensor a = kn_attention(r, kn_linear(r, u, &b->q), (kn_kv){ 0 }, own, 1, 1, false);
    kn_add(r, rows, kn_linear(r, a, &b->out));
    kn_scope_close(r, s, KN_NONE);
}

kn_tensor kn_wan_middle_run(kn_run *r, const kn_wan_half *m, const char *name, kn_tensor x) {
    x = kn_wan_residual_run(r, &m->middle[0], x, false);
    kn_watch(r, x, "%s.resnet0", name);
    attention(r, &m->attention, x);
    kn_watch(r, x, "%s.attn", name);
    x = kn_wan_residual_run(r, &m->middle[1], x, false);
    kn_watch(r, x, "%s", name);
    return x;
}

kn_tensor kn_wan_out_run(kn_run *r, const kn_wan_half *m, kn_tensor x) {
    return kn_wan_next(r, x, kn_unit_norm_conv(r, x, &m->norm_out, &m->out, KN_NONE));
}

void kn_wan_normalise(kn_run *r, kn_tensor x, const float *mean, const float *deviation, int channels) {
    float scale[KN_WAN_MAX_CHANNELS], shift[KN_WAN_MAX_CHANNELS];
    for (int c = 0; c < channels; c++) {
        scale[c] = 1 / deviation[c];
        shift[c] = -mean[c] / deviation[c];
    }
    kn_affine(r, x, scale, shift);
}
