#include "models/mosr.h"

static const float eps = 1e-6f;

/* i: as the file counts. */
static kn_mosr_block take_block(kn_binder *b, int i, int64_t width) {
    kn_mosr_block k = { .norm_scale = kn_take_vector(b, width, -1, "gblocks.%d.norm.weight", i),
                        .norm_shift = kn_take_vector(b, width, 0, "gblocks.%d.norm.bias", i),
                        .fc1 = kn_take_conv(b, -1, width, 3, 3, "gblocks.%d.fc1", i),
                        .conv = kn_take_conv(b, -1, 1, -1, -1, "gblocks.%d.conv", i) };
    int64_t both = k.fc1.dim[0], apart = k.conv.dim[0];
    k.fc2 = kn_take_conv(b, width, both / 2, 3, 3, "gblocks.%d.fc2", i);
    if (both % 2 || apart > both / 2)
        kn_binder_fail(b, "'gblocks.%d': %lld channels have no gate, or no room for %lld in a half", i, (long long)both,
                       (long long)apart);
    if (k.conv.data && (k.conv.dim[1] % 2 == 0 || k.conv.dim[2] % 2 == 0))
        kn_binder_fail(b, "'gblocks.%d.conv': a window of %lldx%lld has no middle", i, (long long)k.conv.dim[1],
                       (long long)k.conv.dim[2]);
    return k;
}

static void take_upsampler(kn_mosr *m, kn_binder *b, int64_t width) {
    int64_t channels = 0, planes = 3;
    if (kn_has(b, "upsampler.init_pos")) {
        m->upsampler = KN_MOSR_DYS;
        m->offset = kn_take_biased(b, -1, width, "upsampler.offset");
        channels = m->offset.dim[0];
        planes = 2 * (int64_t)KN_DYSAMPLE_GROUPS;
        m->scope = kn_take_matrix(b, channels, width, "upsampler.scope");
        m->place = kn_take_vector(b, channels, 0, "upsampler.init_pos");
        m->end = kn_take_biased(b, 3, width, "upsampler.end_conv");
        if (width % KN_DYSAMPLE_GROUPS)
            kn_binder_fail(b, "%lld channels are not %d groups", (long long)width, KN_DYSAMPLE_GROUPS);
    } else {
        bool means = kn_has(b, "upsampler.in_to_k.weight");
        m->upsampler = means ? KN_MOSR_GPS : KN_MOSR_PS;
        m->up = means ? kn_take_conv(b, -1, width, 3, 3, "upsampler.in_to_k")
                      : kn_take_conv(b, -1, width, 3, 3, "upsampler.0");
        channels = m->up.dim[0];
        planes = means ? 3 * (int64_t)KN_MOSR_MEANS : 3;
    }
    m->scale = kn_enlarge_side(channels, planes);
    if (!m->scale)
        kn_binder_fail(b, "'upsampler': %lld channels are no enlargement that is known", (long long)channels);
}

void kn_mosr_load(kn_mosr *m, kn_binder *b) {
    *m = (kn_mosr){ 0 };
    while (m->blocks < KN_MOSR_MAX_BLOCKS && kn_has(b, "gblocks.%d.fc1.weight", m->blocks + 1))
        m->blocks++;
    int n = m->blocks;
    m->in = kn_take_conv(b, -1, 3, 3, 3, "gblocks.0");
    int64_t width = m->in.dim[0];
    for (int i = 0; i < n; i++)
        m->block[i] = take_block(b, i + 1, width);
    m->after = kn_take_conv(b, -1, width, 3, 3, "gblocks.%d", n + 1);
    m->between = kn_take_conv(b, -1, m->after.dim[0], 3, 3, "gblocks.%d", n + 3);
    m->out = kn_take_biased(b, width, m->between.dim[0], "gblocks.%d", n + 5);
    m->shortcut[0] = kn_take_conv(b, -1, 3, 3, 3, "shortcut.block.0");
    m->shortcut[1] = kn_take_conv(b, width, m->shortcut[0].dim[0], 3, 3, "shortcut.block.2");
    m->straight = kn_take_biased(b, width, 3, "shortcut.conv11");
    take_upsampler(m, b, width);
}

static kn_tensor conv_mish(kn_run *r, kn_tensor x, const kn_weight *w) {
    kn_tensor y = kn_conv2d(r, x, w, 1, kn_enlarge_around);
    kn_mish(r, y);
    return y;
}

/* x: [h, w, width], changed in place. */
static void block(kn_run *r, const kn_mosr_block *b, kn_tensor x) {
    kn_scope s = kn_scope_open(r);
    kn_tensor t = kn_layer_norm(r, x, &b->norm_scale, &b->norm_shift, eps);
    t = kn_enlarge_next(r, t, kn_conv2d(r, t, &b->fc1, 1, kn_enlarge_around)); /* [h, w, 2 * hidden]: gate, value */
    int64_t apart = b->conv.dim[0], first = kn_last_dim(t) - apart;
    kn_tensor c = kn_columns(r, t, first, apart); /* the end of the value sees a wide window */
    c = kn_enlarge_next(r, c, kn_depthwise_conv2d(r, c, &b->conv));
    kn_copy_columns(r, t, first, c);
    kn_drop(r, c);
    t = kn_enlarge_next(r, t, kn_mish_glu(r, t)); /* [h, w, hidden] */
    kn_add(r, x, conv_mish(r, t, &b->fc2));
    kn_add_constant(r, x, -0.5f);
    kn_scope_close(r, s, KN_NONE);
}

/* The picture's own way: [h, w, 3] -> [h, w, width]. */
static kn_tensor shortcut(kn_run *r, const kn_mosr *m, kn_tensor picture) {
    kn_tensor y = conv_mish(r, picture, &m->shortcut[0]);
    y = kn_enlarge_next(r, y, conv_mish(r, y, &m->shortcut[1]));
    kn_tensor z = kn_linear(r, picture, &m->straight);
    kn_add(r, y, z);
    kn_drop(r, z);
    kn_add_constant(r, y, -0.5f);
    return y;
}

/* y: [h, w, 8 * 3 * scale^2] -> [h, w, 3 * scale^2]: of each pixel's eight pictures the mean. */
static kn_tensor mean(kn_run *r, const kn_mosr *m, kn_tensor y) {
    static const float shares[KN_MOSR_MEANS] = { 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f };
    static const kn_weight equal = {
        .data = shares, .dtype = KN_F32, .rank = 1, .dim = { KN_MOSR_MEANS }, .scale = 1, .name = "mean"
    };
    int64_t h = y.dim[0], w = y.dim[1], channels = 3 * (int64_t)m->scale * m->scale;
    kn_tensor rows = kn_reshape(r, y, 2, (int64_t[]){ h * w * KN_MOSR_MEANS, channels });
    return kn_reshape(r, kn_sum_rows(r, rows, &equal), 3, (int64_t[]){ h, w, channels });
}

static kn_tensor upsample(kn_run *r, const kn_mosr *m, kn_tensor y) {
    if (m->upsampler == KN_MOSR_DYS) {
        kn_tensor offset = kn_linear(r, y, &m->offset);
        kn_sigmoid_gate(r, offset, kn_linear(r, y, &m->scope));
        return kn_linear(r, kn_dysample(r, y, offset, &m->place, m->scale), &m->end);
    }
    kn_tensor up = kn_conv2d(r, y, &m->up, 1, kn_enlarge_around);
    return kn_pixel_shuffle(r, m->upsampler == KN_MOSR_GPS ? mean(r, m, up) : up, m->scale, KN_NONE);
}

kn_tensor kn_mosr_run(kn_run *r, const kn_mosr *m, kn_tensor picture) {
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_conv2d(r, picture, &m->in, 1, kn_enlarge_around); /* [h, w, width] */
    for (int i = 0; i < m->blocks; i++)
        block(r, &m->block[i], x);
    x = kn_enlarge_next(r, x, conv_mish(r, x, &m->after)); /* [h, w, 2 * width] */
    x = kn_enlarge_next(r, x, conv_mish(r, x, &m->between));
    x = kn_enlarge_next(r, x, kn_linear(r, x, &m->out));
    kn_tensor past = shortcut(r, m, picture);
    kn_add(r, x, past);
    kn_drop(r, past);
    return kn_scope_close(r, s, upsample(r, m, x)); /* [h * scale, w * scale, 3] */
}
