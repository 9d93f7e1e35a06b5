#include "models/timestep.h"

#include <math.h>

kn_tensor kn_timestep_waves_scaled(kn_run *r, float t, float scale) {
    enum { HALF = KN_TIMESTEP_WAVES / 2 };
    float waves[2 * HALF];
    for (int i = 0; i < HALF; i++) {
        float angle = scale * (t * (float)exp(-log(10000.0) * i / HALF));
        waves[i] = (float)cos((double)angle);
        waves[HALF + i] = (float)sin((double)angle);
    }
    return kn_upload(r, 2, (int64_t[]){ 1, 2 * HALF }, waves);
}

kn_tensor kn_timestep_waves(kn_run *r, float t) {
    return kn_timestep_waves_scaled(r, t, 1);
}
