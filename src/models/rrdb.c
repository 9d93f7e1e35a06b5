#include "models/rrdb.h"

#include <stdio.h>

static const float slope = 0.2f, share = 0.2f; /* of leaky ReLU; of what a block adds to its input */

enum naming { ESRGAN, REAL_ESRGAN, BSRGAN };

/* Where a layer stands in the file. */
struct place {
    char text[64];
};

static struct place dense_place(enum naming naming, int block, int dense, int conv) {
    struct place p;
    if (naming == ESRGAN)
        snprintf(p.text, sizeof p.text, "model.1.sub.%d.RDB%d.conv%d.0", block, dense + 1, conv + 1);
    else if (naming == REAL_ESRGAN)
        snprintf(p.text, sizeof p.text, "body.%d.rdb%d.conv%d", block, dense + 1, conv + 1);
    else
        snprintf(p.text, sizeof p.text, "RRDB_trunk.%d.RDB%d.conv%d", block, dense + 1, conv + 1);
    return p;
}

static struct place up_place(enum naming naming, int doubling) {
    struct place p;
    if (naming == ESRGAN)
        snprintf(p.text, sizeof p.text, "model.%d", 3 * (doubling + 1));
    else
        snprintf(p.text, sizeof p.text, naming == REAL_ESRGAN ? "conv_up%d" : "upconv%d", doubling + 1);
    return p;
}

/* The layers that are there once. */
enum single { FIRST, TRUNK, HR, LAST };

static struct place single_place(enum naming naming, enum single layer, const kn_rrdb *m) {
    static const char *const names[][4] = {
        [REAL_ESRGAN] = { "conv_first", "conv_body", "conv_hr", "conv_last" },
        [BSRGAN] = { "conv_first", "trunk_conv", "HRconv", "conv_last" },
    };
    const int number[] = { [FIRST] = 0, [HR] = 3 * m->doublings + 2, [LAST] = 3 * m->doublings + 4 };
    struct place p;
    if (naming != ESRGAN)
        snprintf(p.text, sizeof p.text, "%s", names[naming][layer]);
    else if (layer == TRUNK)
        snprintf(p.text, sizeof p.text, "model.1.sub.%d", m->blocks);
    else
        snprintf(p.text, sizeof p.text, "model.%d", number[layer]);
    return p;
}

static enum naming naming_of(const kn_binder *b) {
    if (kn_has(b, "model.0.weight"))
        return ESRGAN;
    return kn_has(b, "body.0.rdb1.conv1.weight") ? REAL_ESRGAN : BSRGAN;
}

/* ESRGAN numbers its layers, activations and doublings included, so that the last one tells how many there are. */
static int count_doublings(const kn_binder *b, enum naming naming) {
    int n = 0;
    if (naming == ESRGAN)
        while (n < KN_RRDB_MAX_DOUBLINGS && !kn_has(b, "model.%d.weight", 3 * n + 4))
            n++;
    else
        while (n < KN_RRDB_MAX_DOUBLINGS && kn_has(b, "%s.weight", up_place(naming, n).text))
            n++;
    return n;
}

static kn_weight take(kn_binder *b, int64_t out, int64_t in, struct place at) {
    return kn_take_conv(b, out, in, 3, 3, "%s", at.text);
}

void kn_rrdb_load(kn_rrdb *m, kn_binder *b) {
    enum naming naming = naming_of(b);
    *m = (kn_rrdb){ .doublings = count_doublings(b, naming) };
    while (m->blocks < KN_RRDB_MAX_BLOCKS && kn_has(b, "%s.weight", dense_place(naming, m->blocks, 0, 0).text))
        m->blocks++;
    m->first = take(b, -1, -1, single_place(naming, FIRST, m));
    m->unshuffle = kn_enlarge_side(m->first.dim[3], 3);
    m->scale = m->unshuffle ? (1 << m->doublings) / m->unshuffle : 0;
    if (m->first.data && (!m->scale || m->unshuffle == 3 || m->unshuffle > 4))
        kn_binder_fail(b, "%lld channels going in and %d doublings are no enlargement that is known",
                       (long long)m->first.dim[3], m->doublings);
    int64_t width = m->first.dim[0], growth = -1;
    for (int i = 0; i < m->blocks; i++)
        for (int d = 0; d < 3; d++)
            for (int c = 0; c < KN_RRDB_CONVS; c++) {
                bool is_last = c == KN_RRDB_CONVS - 1;
                kn_weight *w = &m->block[i][d].conv[c];
                *w = take(b, is_last ? width : growth, width + c * KN_MAX(growth, 0), dense_place(naming, i, d, c));
                growth = w->data && !is_last ? w->dim[0] : growth;
            }
    m->width = width;
    m->grown = width + (KN_RRDB_CONVS - 1) * KN_MAX(growth, 0);
    m->trunk = take(b, width, width, single_place(naming, TRUNK, m));
    for (int i = 0; i < m->doublings; i++)
        m->up[i] = take(b, width, width, up_place(naming, i));
    m->hr = take(b, width, width, single_place(naming, HR, m));
    m->last = take(b, 3, width, single_place(naming, LAST, m));
}

/* t: [h, w, grown], whose first channels are what goes in, and then what comes out. */
static void dense(kn_run *r, const kn_rrdb_dense *d, kn_tensor t) {
    for (int c = 0; c < KN_RRDB_CONVS - 1; c++)
        kn_dense_conv(r, t, &d->conv[c], slope);
    kn_tensor y = kn_conv2d(r, t, &d->conv[KN_RRDB_CONVS - 1], 1, kn_enlarge_around); /* [h, w, width] */
    kn_add_scaled(r, t, share, y);
    kn_drop(r, y);
}

/* x: [h, w, width], changed in place; t is room for the dense blocks. */
static void block(kn_run *r, const kn_rrdb_dense d[3], kn_tensor x, kn_tensor t) {
    kn_copy_columns(r, t, 0, x);
    for (int i = 0; i < 3; i++)
        dense(r, &d[i], t);
    kn_add_scaled(r, x, share, t);
}

/* x: [h, w, width] -> [h << doublings, w << doublings, 3]; x stays. */
static kn_tensor enlarge_band(kn_run *r, const kn_rrdb *m, kn_tensor x) {
    kn_scope s = kn_scope_open(r);
    for (int i = 0; i < m->doublings; i++) {
        kn_tensor y = kn_upsample2x_conv(r, x, &m->up[i], KN_NONE); /* [2h, 2w, width] */
        x = i ? kn_enlarge_next(r, x, y) : y;
        kn_leaky_relu(r, x, slope);
    }
    kn_tensor y = kn_conv2d(r, x, &m->hr, 1, kn_enlarge_around);
    x = m->doublings ? kn_enlarge_next(r, x, y) : y;
    kn_leaky_relu(r, x, slope);
    return kn_scope_close(r, s, kn_conv2d(r, x, &m->last, 1, kn_enlarge_around));
}

/* What is enlarged takes most of the memory, so it is made a band at a time. Each convolution sees a row further: in
 * all 2^doublings + 1 rows of what comes out, which are made of fewer than MARGIN rows of what goes in. An even number
 * of them keeps the tiles of the convolutions where they were, and with them every bit. */
static kn_tensor enlarge(kn_run *r, const kn_rrdb *m, kn_tensor x) {
    enum { BAND = 32, MARGIN = 2 };
    int64_t height = x.dim[0], times = (int64_t)1 << m->doublings;
    kn_tensor out = kn_new(r, 3, (int64_t[]){ height * times, x.dim[1] * times, 3 });
    for (int64_t at = 0; at < height; at += BAND) {
        int64_t rows = KN_MIN(BAND, height - at), above = KN_MIN(MARGIN, at);
        int64_t seen = above + KN_MIN(rows + MARGIN, height - at);
        kn_tensor y = enlarge_band(r, m, kn_rows(r, x, at - above, seen));
        kn_copy(r, kn_rows(r, out, at * times, rows * times), kn_rows(r, y, above * times, rows * times));
        kn_drop(r, y);
    }
    return out;
}

kn_tensor kn_rrdb_run(kn_run *r, const kn_rrdb *m, kn_tensor picture) {
    kn_scope s = kn_scope_open(r);
    kn_tensor in = m->unshuffle > 1 ? kn_pixel_unshuffle(r, picture, m->unshuffle) : picture;
    kn_tensor f = kn_conv2d(r, in, &m->first, 1, kn_enlarge_around); /* [h, w, width] */
    kn_tensor x = kn_new(r, f.rank, f.dim), t = kn_new(r, 3, (int64_t[]){ f.dim[0], f.dim[1], m->grown });
    kn_copy(r, x, f);
    for (int i = 0; i < m->blocks; i++)
        block(r, m->block[i], x, t);
    kn_drop(r, t);
    x = kn_enlarge_next(r, x, kn_conv2d(r, x, &m->trunk, 1, kn_enlarge_around));
    kn_add(r, x, f);
    x = kn_scope_close(r, s, x);
    kn_tensor y = enlarge(r, m, x);
    kn_drop(r, x);
    return y;
}
