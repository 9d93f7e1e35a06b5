/* Convolution to a few channels, as at the end of a decoder. One panel holds the filters of all taps side by side, so
 * that a pixel is multiplied once and gives what it contributes to each of the nine pixels around it; an output is the
 * sum of what its neighbours have for it. A task takes a block of the result and multiplies the pixels it needs a row
 * at a time. */
#include <string.h>

#include "compute/cpu/conv.h"

enum { TAPS = 9, BLOCK_ROWS = 32, BLOCK_COLUMNS = 64, WIDTH = BLOCK_COLUMNS + 2 /* pixels in one row */ };

struct few {
    const kn_conv *c;
    kn_summing sum;
    int64_t columns, panels; /* columns in all, of filters and taps: tap * filters + filter */
    int64_t blocks_across;
    float *weights; /* [panels][sum.words][sum.columns] */
    float *rooms;   /* one per thread */
    int64_t room_words;
};

/* What a task works in. */
struct room {
    float *staged; /* [WIDTH][KN_TILE_CHANNELS] */
    float *by;     /* [WIDTH] */
    float *input;  /* [passes][WIDTH][KN_STRIDE] */
    float *shares; /* [3][panels][WIDTH][KN_MAX_COLUMNS]: of the last three rows of pixels */
};

static void pack_panel(void *ctx, size_t item, unsigned thread) {
    const struct few *f = ctx;
    int64_t from = (int64_t)item * f->sum.columns, n = KN_MIN(f->sum.columns, f->columns - from);
    float *rows = f->rooms + thread * f->room_words, *rounded = rows + KN_TRANSPOSE_ROWS * KN_STRIDE;
    for (int64_t k0 = 0; k0 < f->c->channels; k0 += KN_BLOCK) {
        size_t k = (size_t)KN_MIN(KN_BLOCK, f->c->channels - k0);
        for (int64_t j = 0; j < n; j += KN_TRANSPOSE_ROWS) {
            int64_t group = KN_MIN(KN_TRANSPOSE_ROWS, n - j), filters = f->c->w->dim[0];
            for (int64_t i = 0; i < group; i++)
                kn_conv_decode(f->c, (from + j + i) % filters, (from + j + i) / filters, k0, k, rows + i * KN_STRIDE);
            kn_pack_columns(&f->sum, rows, (size_t)group, k0, k, j, rounded,
                            f->weights + (int64_t)item * f->sum.words * f->sum.columns);
        }
    }
}

/* The shares of `width` pixels of row y from x on. */
static void multiply_row(const struct few *f, int64_t y, int64_t x, int64_t width, const struct room *room,
                         float *shares) {
    const kn_conv *c = f->c;
    if (c->unit)
        kn_conv_unit_factors(c, y, x, width, room->by);
    for (int64_t c0 = 0; c0 < c->channels; c0 += KN_TILE_CHANNELS) {
        kn_conv_stage(c, y, x, width, c0, KN_MIN(KN_TILE_CHANNELS, c->channels - c0), c->unit ? room->by : NULL,
                      room->staged);
        float *to = room->input + c0 / f->sum.at_once * width * KN_STRIDE + c0 % f->sum.at_once / f->sum.per_word;
        for (int64_t i = 0; i < width; i++)
            if (f->sum.narrow)
                f->sum.kernels->to_bf16(room->staged + i * KN_TILE_CHANNELS, KN_TILE_CHANNELS, to + i * KN_STRIDE);
            else
                memcpy(to + i * KN_STRIDE, room->staged + i * KN_TILE_CHANNELS, KN_TILE_CHANNELS * sizeof *to);
    }
    for (int64_t p = 0; p < f->panels; p++)
        kn_sum_channels(&f->sum, room->input, width, f->weights + p * f->sum.words * f->sum.columns,
                        KN_MIN(f->sum.columns, f->columns - p * f->sum.columns), shares + p * WIDTH * KN_MAX_COLUMNS);
}

/* Adds up what three rows of pixels have for one row of the result. */
static void add_shares(const struct few *f, const float *const rows[3], int64_t width, float *out) {
    int64_t filters = f->c->w->dim[0];
    const float *of_first[KN_MAX_COLUMNS]; /* what is added to the first pixel, by column */
    for (int64_t i = 0; i < f->columns; i++) {
        int64_t tap = i / filters, panel = i / f->sum.columns;
        of_first[i] = rows[tap / 3] + (panel * WIDTH + tap % 3) * KN_MAX_COLUMNS + i % f->sum.columns;
    }
    for (int64_t x = 0; x < width; x++, out += filters)
        for (int64_t o = 0; o < filters; o++) {
            float sum = f->c->w->bias ? f->c->w->bias[o] : 0;
            for (int64_t i = o; i < f->columns; i += filters)
                sum += of_first[i][x * KN_MAX_COLUMNS];
            out[o] = f->c->add ? out[o] + sum : sum;
        }
}

static void convolve_block(void *ctx, size_t item, unsigned thread) {
    const struct few *f = ctx;
    const kn_conv *c = f->c;
    int64_t y = (int64_t)item / f->blocks_across * BLOCK_ROWS, x = (int64_t)item % f->blocks_across * BLOCK_COLUMNS;
    int64_t rows = KN_MIN(BLOCK_ROWS, c->out_height - y), width = KN_MIN(BLOCK_COLUMNS, c->out_width - x);
    int64_t row_shares = f->panels * WIDTH * KN_MAX_COLUMNS;
    float *own = f->rooms + thread * f->room_words;
    struct room room = { .staged = own, .by = own + WIDTH * KN_TILE_CHANNELS };
    room.input = room.by + WIDTH;
    room.shares = room.input + (f->sum.passes * WIDTH + KN_BF16_ROWS) * KN_STRIDE;
    for (int64_t i = 0; i < rows + 2 && !kn_is_stopped(c->run); i++) {
        multiply_row(f, y + i - c->pad.top, x - c->pad.left, width + 2, &room, room.shares + i % 3 * row_shares);
        const float *const three[3] = { room.shares + (i + 1) % 3 * row_shares, room.shares + (i + 2) % 3 * row_shares,
                                        room.shares + i % 3 * row_shares };
        if (i >= 2)
            add_shares(f, three, width, c->out + ((y + i - 2) * c->out_width + x) * c->w->dim[0]);
    }
}

bool kn_conv_fits_few(const kn_conv *c) {
    enum { MOST_FILTERS = KN_MAX_COLUMNS / TAPS, FEWEST_CHANNELS = 16, FEWEST_PIXELS = 64 };
    return c->w->dim[1] == 3 && c->w->dim[2] == 3 && c->stride == 1 && !c->doubled && c->w->dim[0] <= MOST_FILTERS &&
           c->channels >= FEWEST_CHANNELS && c->out_height * c->out_width >= FEWEST_PIXELS;
}

void kn_conv_to_few(const kn_conv *c) {
    kn_run *r = c->run;
    struct few f = { .c = c, .sum = kn_summing_of(c), .columns = TAPS * c->w->dim[0] };
    f.panels = (f.columns + f.sum.columns - 1) / f.sum.columns;
    f.blocks_across = (c->out_width + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    f.room_words = KN_MAX(WIDTH * (KN_TILE_CHANNELS + 1) + (f.sum.passes * WIDTH + KN_BF16_ROWS) * KN_STRIDE +
                              3 * f.panels * WIDTH * KN_MAX_COLUMNS,
                          2 * KN_TRANSPOSE_ROWS * KN_STRIDE);
    f.room_words = (f.room_words + 15) / 16 * 16;
    kn_tensor weights = kn_new(r, 2, (int64_t[]){ f.panels * f.sum.words, f.sum.columns });
    kn_tensor rooms = kn_new(r, 2, (int64_t[]){ kn_device_threads(r->device), f.room_words });
    if (!kn_go_on(r))
        return;
    f.weights = kn_data(weights);
    f.rooms = kn_data(rooms);
    int64_t blocks = (c->out_height + BLOCK_ROWS - 1) / BLOCK_ROWS * f.blocks_across;
    double work = (double)(c->channels * f.columns);
    kn_parallel(r, (size_t)f.panels, work, pack_panel, &f);
    kn_parallel(r, (size_t)blocks, work * (double)(c->out_height * c->out_width), convolve_block, &f);
    kn_drop(r, weights);
    kn_drop(r, rooms);
}
