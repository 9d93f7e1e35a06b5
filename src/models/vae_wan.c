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

/* Wan counts all blocks of a half in a row, and diffusers those of the encoder too. */
static kn_wan_place encoder_place(kn_wan_naming naming, int level, int block) {
    kn_wan_place p;
    snprintf(p.text, sizeof p.text, "encoder.%s.%d", naming == KN_WAN_ORIGINAL ? "downsamples" : "down_blocks",
             3 * level + block);
    return p;
}

static kn_wan_place decoder_place(kn_wan_naming naming, int level, int block) {
    kn_wan_place p;
    if (naming == KN_WAN_ORIGINAL)
        snprintf(p.text, sizeof p.text, "decoder.upsamples.%d", 4 * level + block);
    else if (block < 3)
        snprintf(p.text, sizeof p.text, "decoder.up_blocks.%d.resnets.%d", level, block);
    else
        snprintf(p.text, sizeof p.text, "decoder.up_blocks.%d.upsamplers.0", level);
    return p;
}

void kn_vae_wan_load(kn_vae_wan *m, kn_binder *b) {
    static const kn_wan_form form = { .levels = KN_VAE_WAN_LEVELS,
                                      .picture_channels = 3,
                                      .latent_channels = KN_VAE_WAN_CHANNELS,
                                      .narrows = true,
                                      .encoder_place = encoder_place,
                                      .decoder_place = decoder_place };
    kn_wan_load(m, b, &form);
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
