/* Bursts of what tiers above NEON multiply with, built with flags of its own. */
#include <arm_neon.h>

#include "compute/cpu/roofline_burst.h"

CHAINS_OF(kn_burst_sdot, , int32x4_t, vdupq_n_s32(0), 2 * 16, vdotq_s32(x, vdupq_n_s8(3), vdupq_n_s8(-3)))
CHAINS_OF(kn_burst_smmla, , int32x4_t, vdupq_n_s32(0), 2 * 32, vmmlaq_s32(x, vdupq_n_s8(3), vdupq_n_s8(-3)))
CHAINS_OF(kn_burst_bfmmla, , float32x4_t, vdupq_n_f32(0), 2 * 16,
          vbfmmlaq_f32(x, vcvtq_low_bf16_f32(vdupq_n_f32(1)), vcvtq_low_bf16_f32(vdupq_n_f32(-1))))
