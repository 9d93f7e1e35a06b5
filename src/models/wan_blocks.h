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

typedef struct kn_wan_vae {
    kn_wan_half encoder, decoder;
    kn_weight after_encoder, before_decoder;
} kn_wan_vae;

typedef enum kn_wan_naming { KN_WAN_ORIGINAL, KN_WAN_DIFFUSERS } kn_wan_naming;

/* Where a block stands in the file: "decoder.upsamples.0". */
typedef struct kn_wan_place {
    char text[64];
} kn_wan_place;
typedef kn_wan_place kn_wan_place_fn(kn_wan_naming naming, int level, int block);

/* In what the members of the family differ. The blocks of a level are counted on: two residual ones when encoding,
 * three when decoding, then what changes the size. */
typedef struct kn_wan_form {
    int levels, picture_channels, latent_channels;
    bool narrows; /* what doubles the size halves the channels */
    kn_wan_place_fn *encoder_place, *decoder_place;
} kn_wan_form;

/* Takes encoder and decoder in either spelling; widths follow from the tensors. */
void kn_wan_load(kn_wan_vae *m, kn_binder *b, const kn_wan_form *f);

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
