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

static kn_wan_place encoder_place(kn_wan_naming naming, int level, int block) {
    kn_wan_place p;
    if (naming == KN_WAN_ORIGINAL)
        snprintf(p.text, sizeof p.text, "encoder.downsamples.%d.downsamples.%d", level, block);
    else if (block < 2)
        snprintf(p.text, sizeof p.text, "encoder.down_blocks.%d.resnets.%d", level, block);
    else
        snprintf(p.text, sizeof p.text, "encoder.down_blocks.%d.downsampler", level);
    return p;
}

static kn_wan_place decoder_place(kn_wan_naming naming, int level, int block) {
    kn_wan_place p;
    if (naming == KN_WAN_ORIGINAL)
        snprintf(p.text, sizeof p.text, "decoder.upsamples.%d.upsamples.%d", level, block);
    else if (block < 3)
        snprintf(p.text, sizeof p.text, "decoder.up_blocks.%d.resnets.%d", level, block);
    else
        snprintf(p.text, sizeof p.text, "decoder.up_blocks.%d.upsampler", level);
    return p;
}

void kn_vae21_load(kn_vae21 *m, kn_binder *b) {
    static const kn_wan_form form = { .levels = KN_VAE21_LEVELS,
                                      .picture_channels = 4,
                                      .latent_channels = KN_VAE21_CHANNELS,
                                      .encoder_place = encoder_place,
                                      .decoder_place = decoder_place };
    kn_wan_load(m, b, &form);
}

kn_tensor kn_vae21_encode(kn_run *r, const kn_vae21 *m, kn_tensor picture) {
    const kn_wan_half *e = &m->encoder;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_conv2d(r, picture, &e->in, 1, kn_wan_around);
    kn_watch(r, x, "conv_in");
    for (int l = 0; l < KN_VAE21_LEVELS; l++) {
        const kn_wan_level *v = &e->level[l];
        kn_tensor y = kn_wan_residual_run(r, &v->residual[0], x, true);
        y = kn_wan_residual_run(r, &v->residual[1], y, false);
        if (v->resample.data) {
            y = kn_wan_next(r, y, kn_conv2d(r, y, &v->resample, 2, kn_wan_right_below));
            int frames = l > 0 ? 2 : 1; /* every level but the first also halves time */
            x = kn_wan_next(r, x, kn_avg_shortcut(r, x, kn_last_dim(y), frames));
            kn_watch(r, x, "down%d.avg_shortcut", l);
        }
        kn_add(r, y, x);
        x = kn_wan_next(r, x, y);
        kn_watch(r, x, "down%d", l);
    }
    x = kn_wan_out_run(r, e, kn_wan_middle_run(r, e, "mid_block", x));
    kn_watch(r, x, "conv_out");
    x = kn_wan_next(r, x, kn_linear(r, x, &m->after_encoder)); /* [h, w, 64] */
    kn_watch(r, x, "mean");
    kn_wan_normalise(r, x, latent_mean, latent_deviation, KN_VAE21_CHANNELS);
    return kn_scope_close(r, s, x);
}

kn_tensor kn_vae21_decode(kn_run *r, const kn_vae21 *m, kn_tensor latent) {
    const kn_wan_half *d = &m->decoder;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_new(r, latent.rank, latent.dim);
    kn_copy(r, x, latent);
    kn_affine(r, x, latent_deviation, latent_mean);
    x = kn_wan_next(r, x, kn_linear(r, x, &m->before_decoder));
    x = kn_wan_next(r, x, kn_conv2d(r, x, &d->in, 1, kn_wan_around));
    kn_watch(r, x, "conv_in");
    x = kn_wan_middle_run(r, d, "mid_block", x);
    for (int l = 0; l < KN_VAE21_LEVELS; l++) {
        const kn_wan_level *v = &d->level[l];
        bool grows = v->resample.data;
        kn_tensor y = kn_wan_residual_run(r, &v->residual[0], x, grows);
        y = kn_wan_residual_run(r, &v->residual[1], y, false);
        y = kn_wan_residual_run(r, &v->residual[2], y, false);
        if (grows) {
            int frames = l < 3 ? 2 : 1; /* the first three levels also double time */
            x = kn_wan_next(r, x, kn_dup_shortcut(r, x, v->resample.dim[0], frames));
            y = kn_wan_next(r, y, kn_upsample2x_conv(r, y, &v->resample, x));
        }
        x = y;
        kn_watch(r, x, "up%d", l);
    }
    x = kn_wan_out_run(r, d, x);
    kn_watch(r, x, "head");
    return kn_scope_close(r, s, x);
}
