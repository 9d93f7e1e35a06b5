#include "models/srvgg.h"

void kn_srvgg_load(kn_srvgg *m, kn_binder *b) {
    *m = (kn_srvgg){ 0 };
    while (m->convs < KN_SRVGG_MAX_CONVS && kn_has(b, "body.%d.weight", 2 * m->convs))
        m->convs++;
    int64_t width = 3;
    for (int i = 0; i < m->convs; i++) {
        m->conv[i] = kn_take_conv(b, -1, width, 3, 3, "body.%d", 2 * i);
        width = m->conv[i].dim[0];
        if (i + 1 < m->convs)
            m->slope[i] = kn_take_vector(b, width, 0, "body.%d.weight", 2 * i + 1);
    }
    m->scale = kn_enlarge_side(width, 3);
    if (!m->scale)
        kn_binder_fail(b, "%lld channels coming out are no enlargement that is known", (long long)width);
}

kn_tensor kn_srvgg_run(kn_run *r, const kn_srvgg *m, kn_tensor picture) {
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_conv2d(r, picture, &m->conv[0], 1, kn_enlarge_around); /* [h, w, width] */
    for (int i = 1; i < m->convs; i++) {
        kn_prelu(r, x, &m->slope[i - 1]);
        x = kn_enlarge_next(r, x, kn_conv2d(r, x, &m->conv[i], 1, kn_enlarge_around));
    }
    return kn_scope_close(r, s, kn_pixel_shuffle(r, x, m->scale, picture)); /* [h * scale, w * scale, 3] */
}
