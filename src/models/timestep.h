/* How diffusion transformers see time: as waves of falling frequency (Denoising Diffusion Probabilistic Models,
 * arXiv:2006.11239, with the cosines first). */
#ifndef KN_MODELS_TIMESTEP_H
#define KN_MODELS_TIMESTEP_H

#include "compute/ops.h"

enum { KN_TIMESTEP_WAVES = 256 };

/* cos, then sin, of t * 10000^(-i / 128) for i = 0 … 127: [1, 256]. */
kn_tensor kn_timestep_waves(kn_run *r, float t);
/* The same with angles of scale * (t * …), which is not quite (scale * t) * … in float32. */
kn_tensor kn_timestep_waves_scaled(kn_run *r, float t, float scale);

#endif
