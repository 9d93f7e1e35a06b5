/* What the autoencoders of the Wan family are built of, for one frame. Their causal 3-D convolutions then collapse to
 * two dimensions: the earlier taps in time meet only zeros, the last one is all that counts, and what only halves or
 * doubles time is never used.
 *
 * Files come in two spellings of the same tree: Wan's own, which ComfyUI has too, and diffusers'. */
#ifndef KN_MODELS_WAN_BLOCKS_H
#define KN_MODELS_WAN_BLOCKS_H

#include "compute/ops.h"
#include "weights/weights.h"

enum { KN_WAN_MAX_LEVELS = 5, KN_WAN_MAX_CHANNELS = 64 /* of a latent */ };

typedef struct kn_wan_residual {
    kn_weight norm1, conv1, norm2, conv2, shortcut; /* shortcut.data is NULL where channels stay the same */
} kn_wan_residual;

typedef struct kn_wan_attention {
    kn_weight norm, q, k, v, out;
} kn_wan_attention;

typedef struct kn_wan_level {
    kn_wan_residual residual[3]; /* two when encoding */
    kn_weight resample;          /* data is NULL on the last level */
} kn_wan_level;

/* An encoder or a decoder; the middle is the narrow end. */
typedef struct kn_wan_half {
    kn_weight in;
    kn_wan_residual middle[2];
    kn_wan_attention attention;
    kn_wan_level level[KN_WAN_MAX_LEVELS];
    kn_weight norm_out, out;
} kn_wan_half;

typedef enum kn_wan_naming { KN_WAN_ORIGINAL, KN_WAN_DIFFUSERS } kn_wan_naming;
kn_wan_naming kn_wan_naming_of(const kn_binder *b);

/* half: "encoder" or "decoder"; at: where a block stands in the file, "decoder.upsamples.0". Numbers of channels may be
 * -1: what the file has. */
void kn_wan_take_in(kn_wan_half *m, kn_binder *b, kn_wan_naming naming, const char *half, int64_t in);
void kn_wan_take_middle(kn_wan_half *m, kn_binder *b, kn_wan_naming naming, const char *half, int64_t channels);
void kn_wan_take_out(kn_wan_half *m, kn_binder *b, kn_wan_naming naming, const char *half, int64_t in, int64_t out);
kn_wan_residual kn_wan_take_residual(kn_binder *b, kn_wan_naming naming, const char *at, int64_t in, int64_t out);
kn_weight kn_wan_take_resample(kn_binder *b, const char *at, int64_t in, int64_t out);
/* 1x1 convolutions between the halves. Of the encoder's the means are kept; the log variances are for training. */
kn_weight kn_wan_take_after_encoder(kn_binder *b, kn_wan_naming naming, int64_t channels);
kn_weight kn_wan_take_before_decoder(kn_binder *b, kn_wan_naming naming, int64_t channels);

static const kn_pad kn_wan_around = { 1, 1, 1, 1 };      /* 3x3, same size */
static const kn_pad kn_wan_right_below = { 0, 0, 1, 1 }; /* before a 3x3 with stride 2 */

/* Takes the place of a tensor that is not needed any more. */
kn_tensor kn_wan_next(kn_run *r, kn_tensor old, kn_tensor now);

/* x: [h, w, in] -> [h, w, out]: two convolutions around a shortcut. Takes the place of x unless that is to be kept. */
kn_tensor kn_wan_residual_run(kn_run *r, const kn_wan_residual *b, kn_tensor x, bool keep);
/* These two take the place of x. name: what the middle is watched as, with ".resnet0" and ".attn" in it. */
kn_tensor kn_wan_middle_run(kn_run *r, const kn_wan_half *m, const char *name, kn_tensor x);
kn_tensor kn_wan_out_run(kn_run *r, const kn_wan_half *m, kn_tensor x);
/* A latent as diffusion models see it: (x - mean) / deviation per channel, in place. */
void kn_wan_normalise(kn_run *r, kn_tensor x, const float *mean, const float *deviation, int channels);

#endif
