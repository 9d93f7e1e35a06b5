#include "models/vae_wan.h"

#include <stdio.h>

/* Latent statistics of the released model: per channel mean and deviation. */
static const float latent_mean[KN_VAE_WAN_CHANNELS] = {
    -0.7571f, -0.7089f, -0.9113f, 0.1075f,  -0.1745f, 0.9653f,  -0.1517f, 1.5508f,
    0.4134f,  -0.0715f, 0.5517f,  -0.3632f, -0.1922f, -0.9497f, 0.2503f,  -0.2921f,
};
static const float latent_deviation[KN_VAE_WAN_CHANNELS] = {
    2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f,
    3.2687f, 2.1526f, 2.8652f, 1.5579f, 1.6382f, 1.1253f, 2.8251f, 1.9160f,
};

/* Where a block of a level stands in the file. Wan counts all blocks of a half in a row, and diffusers those of the
 * encoder too; a level is two residual blocks (three when decoding) and what changes its size. */
struct place {
    char text[64];
};

static struct place encoder_place(kn_wan_naming naming, int level, int block) {
    struct place p;
    snprintf(p.text, sizeof p.text, "encoder.%s.%d", naming == KN_WAN_ORIGINAL ? "downsamples" : "down_blocks",
             3 * level + block);
    return p;
}

static struct place decoder_place(kn_wan_naming naming, int level, int block) {
    struct place p;
    if (naming == KN_WAN_ORIGINAL)
        snprintf(p.text, sizeof p.text, "decoder.upsamples.%d", 4 * level + block);
    else if (block < 3)
        snprintf(p.text, sizeof p.text, "decoder.up_blocks.%d.resnets.%d", level, block);
    else
        snprintf(p.text, sizeof p.text, "decoder.up_blocks.%d.upsamplers.0", level);
    return p;
}

/* The widths of both halves follow from the first convolution of each level. */
static void take_encoder(kn_wan_half *m, kn_binder *b, kn_wan_naming naming) {
    kn_wan_take_in(m, b, naming, "encoder", 3);
    int64_t c = m->in.dim[0];
    for (int l = 0; l < KN_VAE_WAN_LEVELS; l++) {
        kn_wan_level *v = &m->level[l];
        v->residual[0] = kn_wan_take_residual(b, naming, encoder_place(naming, l, 0).text, c, -1);
        c = v->residual[0].conv1.dim[0];
        v->residual[1] = kn_wan_take_residual(b, naming, encoder_place(naming, l, 1).text, c, c);
        if (l + 1 < KN_VAE_WAN_LEVELS)
            v->resample = kn_wan_take_resample(b, encoder_place(naming, l, 2).text, c, c);
    }
    kn_wan_take_middle(m, b, naming, "encoder", c);
    kn_wan_take_out(m, b, naming, "encoder", c, 2 * KN_VAE_WAN_CHANNELS);
}

/* Growing by two halves the channels, which the next level may double again. */
static void take_decoder(kn_wan_half *m, kn_binder *b, kn_wan_naming naming) {
    kn_wan_take_in(m, b, naming, "decoder", KN_VAE_WAN_CHANNELS);
    int64_t c = m->in.dim[0];
    kn_wan_take_middle(m, b, naming, "decoder", c);
    for (int l = 0; l < KN_VAE_WAN_LEVELS; l++) {
        kn_wan_level *v = &m->level[l];
        for (int i = 0; i < 3; i++) {
            v->residual[i] = kn_wan_take_residual(b, naming, decoder_place(naming, l, i).text, c, i ? c : -1);
            c = v->residual[i].conv1.dim[0];
        }
        if (l + 1 < KN_VAE_WAN_LEVELS) {
            v->resample = kn_wan_take_resample(b, decoder_place(naming, l, 3).text, c, -1);
            c = v->resample.dim[0];
        }
    }
    kn_wan_take_out(m, b, naming, "decoder", c, 3);
}

void kn_vae_wan_load(kn_vae_wan *m, kn_binder *b) {
    kn_wan_naming naming = kn_wan_naming_of(b);
    *m = (kn_vae_wan){ 0 };
    take_encoder(&m->encoder, b, naming);
    take_decoder(&m->decoder, b, naming);
    m->after_encoder = kn_wan_take_after_encoder(b, naming, KN_VAE_WAN_CHANNELS);
    m->before_decoder = kn_wan_take_before_decoder(b, naming, KN_VAE_WAN_CHANNELS);
}

kn_tensor kn_vae_wan_encode(kn_run *r, const kn_vae_wan *m, kn_tensor picture) {
    const kn_wan_half *e = &m->encoder;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_conv2d(r, picture, &e->in, 1, kn_wan_around);
    kn_watch(r, x, "encoder.conv_in");
    for (int l = 0; l < KN_VAE_WAN_LEVELS; l++) {
        const kn_wan_level *v = &e->level[l];
        x = kn_wan_residual_run(r, &v->residual[0], x, false);
        x = kn_wan_residual_run(r, &v->residual[1], x, false);
        if (v->resample.data)
            x = kn_wan_next(r, x, kn_conv2d(r, x, &v->resample, 2, kn_wan_right_below));
    }
    x = kn_wan_out_run(r, e, kn_wan_middle_run(r, e, "encoder.mid", x));
    x = kn_wan_next(r, x, kn_linear(r, x, &m->after_encoder)); /* [h / 8, w / 8, 16] */
    kn_watch(r, x, "moments");                                 /* the means of them */
    kn_wan_normalise(r, x, latent_mean, latent_deviation, KN_VAE_WAN_CHANNELS);
    return kn_scope_close(r, s, x);
}

kn_tensor kn_vae_wan_decode(kn_run *r, const kn_vae_wan *m, kn_tensor latent) {
    const kn_wan_half *d = &m->decoder;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_new(r, latent.rank, latent.dim);
    kn_copy(r, x, latent);
    kn_affine(r, x, latent_deviation, latent_mean);
    x = kn_wan_next(r, x, kn_linear(r, x, &m->before_decoder));
    x = kn_wan_next(r, x, kn_conv2d(r, x, &d->in, 1, kn_wan_around));
    kn_watch(r, x, "decoder.conv_in");
    x = kn_wan_middle_run(r, d, "decoder.mid", x);
    for (int l = 0; l < KN_VAE_WAN_LEVELS; l++) {
        const kn_wan_level *v = &d->level[l];
        for (int i = 0; i < 3; i++)
            x = kn_wan_residual_run(r, &v->residual[i], x, false);
        if (v->resample.data)
            x = kn_wan_next(r, x, kn_upsample2x_conv(r, x, &v->resample, KN_NONE));
        kn_watch(r, x, "decoder.up%d", l);
    }
    x = kn_wan_out_run(r, d, x); /* [8 h, 8 w, 3] */
    kn_watch(r, x, "decoded");
    return kn_scope_close(r, s, x);
}

/* Three pictures of the last level's channels are alive in its residual blocks: what goes in, and two between the
 * convolutions. So are they before it, where two of the three are one of twice the channels. */
uint64_t kn_vae_wan_bytes_per_pixel(const kn_vae_wan *m) {
    int64_t channels = m->decoder.level[KN_VAE_WAN_LEVELS - 1].residual[0].conv1.dim[3];
    return 14 * (uint64_t)channels; /* 4 * 3, and some room for the convolution's */
}
