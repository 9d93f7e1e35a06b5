/* Convolution by tiles, after Winograd: two neighbouring outputs of a filter with three taps take four products instead
 * of six, so a tile of 2 x 2 outputs takes 16 instead of 36. Pixels and weights are brought into a form ("planes") in
 * which a tile is 16 independent products, each summed over the channels like any matrix product: [tiles, channels] by
 * [channels, out]. Sums and differences bring the planes back to pixels. Where the picture is seen at twice its size,
 * each pixel four times, a plane in each direction is zero and the two middle ones are one: 9 products instead of 36.
 *
 * A task takes a block of tiles and some output channels: it stages the block's pixels, with the norm that comes
 * before, a few channels at a time, makes all their planes, and goes through the output channels a panel at a time.
 * Blocks are cut by shapes only; elements do not depend on how tasks are cut. */
#include <math.h>

#include "compute/cpu/conv.h"

enum {
    FEWEST_TILES = 24, /* of a block: the panels are read once per block */
    MOST_TILES = 96,
    BLOCK_BYTES = 512 << 10, /* of planes that a block should have, to stay in a second-level cache */
};

struct tiles {
    const kn_conv *c;
    const kn_kernels *kernels;
    kn_tiling tiling;
    int64_t side, step, planes;        /* pixels of a tile's side; from tile to tile; planes of a tile */
    int64_t rows, columns;             /* tiles of the picture */
    int64_t block_rows, block_columns; /* tiles of a block */
    int64_t blocks_down, blocks_across;
    int64_t inner_blocks;               /* of KN_BLOCK channels */
    int64_t panels, task_panels, tasks; /* panels of output channels; in one task; tasks per block */
    float *weights;                     /* [panels][planes][channels][kernels->columns] */
    float *rooms;                       /* one per thread */
    int64_t staged, planed, multiplied; /* floats of a room's parts */
};

/* What a task works in. */
struct room {
    float *staged; /* [(rows - 1) * step + side][(columns - 1) * step + side][KN_TILE_CHANNELS] */
    float *by;     /* one for each of these pixels */
    float *input;  /* [planes][inner_blocks][tiles][KN_STRIDE] */
    float *output; /* [planes][tiles][KN_MAX_COLUMNS] */
};

static int64_t pixels_of(const struct tiles *t, int64_t tiles) {
    return (tiles - 1) * t->step + t->side;
}

/* All planes of one panel of weights. */
static void transform_panel(void *ctx, size_t item, unsigned thread) {
    const struct tiles *t = ctx;
    const kn_weight *w = t->c->w;
    const kn_kernels *kernels = t->kernels;
    int64_t columns = (int64_t)kernels->columns, channels = t->c->channels, from = (int64_t)item * columns;
    int64_t n = KN_MIN(columns, w->dim[0] - from), plane = KN_TRANSPOSE_ROWS * KN_STRIDE;
    float *taps = t->rooms + (int64_t)thread * (t->staged + t->planed + t->multiplied); /* [9][KN_STRIDE] */
    float *rows = taps + 9 * KN_STRIDE; /* [planes][KN_TRANSPOSE_ROWS][KN_STRIDE] */
    float *to = t->weights + (int64_t)item * t->planes * channels * columns;
    size_t tap_bytes = kn_dtype_bytes(w->dtype, (size_t)channels);
    for (int64_t k0 = 0; k0 < channels; k0 += KN_BLOCK) {
        size_t k = (size_t)KN_MIN(KN_BLOCK, channels - k0);
        for (int64_t j = 0; j < n; j += KN_TRANSPOSE_ROWS) {
            int64_t group = KN_MIN(KN_TRANSPOSE_ROWS, n - j);
            for (int64_t i = 0; i < group; i++) {
                int64_t row = from + j + i;
                for (int64_t tap = 0; tap < 9; tap++)
                    kernels->decode[w->dtype]((const uint8_t *)w->data + (size_t)(9 * row + tap) * tap_bytes +
                                                  kn_dtype_bytes(w->dtype, (size_t)k0),
                                              k, w->row_scale ? w->row_scale[row] : w->scale, taps + tap * KN_STRIDE);
                kernels->tile_weight[t->tiling](taps, KN_STRIDE, k, rows + i * KN_STRIDE, (size_t)plane);
            }
            for (int64_t p = 0; p < t->planes; p++)
                kernels->transpose(rows + p * plane, KN_STRIDE * sizeof(float), (size_t)group, k,
                                   to + (p * channels + k0) * columns + j);
        }
    }
}

struct block {
    int64_t row, rows, column, columns, tiles; /* in tiles */
    int64_t y, x, height, width;               /* of the pixels that it sees */
};

static void stage_block(const struct tiles *t, const struct block *b, const struct room *room) {
    const kn_conv *c = t->c;
    int64_t plane = t->inner_blocks * t->block_rows * t->block_columns * KN_STRIDE;
    for (int64_t y = 0; c->unit && y < b->height; y++)
        kn_conv_unit_factors(c, b->y + y, b->x, b->width, room->by + y * b->width);
    for (int64_t c0 = 0; c0 < c->channels; c0 += KN_TILE_CHANNELS) {
        for (int64_t y = 0; y < b->height; y++)
            kn_conv_stage(c, b->y + y, b->x, b->width, c0, KN_MIN(KN_TILE_CHANNELS, c->channels - c0),
                          c->unit ? room->by + y * b->width : NULL, room->staged + y * b->width * KN_TILE_CHANNELS);
        float *to = room->input + c0 / KN_BLOCK * b->tiles * KN_STRIDE + c0 % KN_BLOCK;
        for (int64_t i = 0; i < b->rows; i++)
            t->kernels->tile_input[t->tiling](room->staged + i * t->step * b->width * KN_TILE_CHANNELS,
                                              (size_t)(b->width * KN_TILE_CHANNELS), (size_t)b->columns,
                                              to + i * b->columns * KN_STRIDE, (size_t)plane);
    }
}

static void multiply_block(const struct tiles *t, const struct block *b, const struct room *room, int64_t panel) {
    const kn_conv *c = t->c;
    int64_t columns = (int64_t)t->kernels->columns, from = panel * columns, n = KN_MIN(columns, c->w->dim[0] - from);
    int64_t most = t->block_rows * t->block_columns;
    for (int64_t p = 0; p < t->planes; p++)
        for (int64_t k0 = 0; k0 < c->channels; k0 += KN_BLOCK)
            t->kernels->product(room->input + (p * t->inner_blocks * most + k0 / KN_BLOCK * b->tiles) * KN_STRIDE,
                                (size_t)b->tiles, (size_t)KN_MIN(KN_BLOCK, c->channels - k0),
                                t->weights + ((panel * t->planes + p) * c->channels + k0) * columns,
                                room->output + p * most * KN_MAX_COLUMNS, KN_MAX_COLUMNS, (size_t)n, NULL, k0 > 0);
    for (int64_t i = 0; i < b->rows; i++) {
        int64_t y = 2 * (b->row + i), x = 2 * b->column;
        t->kernels->tile_output[t->tiling](
            room->output + i * b->columns * KN_MAX_COLUMNS, (size_t)(most * KN_MAX_COLUMNS), (size_t)n,
            c->w->bias ? c->w->bias + from : NULL, c->add, c->out + (y * c->out_width + x) * c->w->dim[0] + from,
            (size_t)(c->out_width * c->w->dim[0]), (size_t)c->w->dim[0], (size_t)KN_MIN(2, c->out_height - y),
            (size_t)KN_MIN(2 * b->columns, c->out_width - x));
    }
}

static void convolve_block(void *ctx, size_t item, unsigned thread) {
    const struct tiles *t = ctx;
    const kn_conv *c = t->c;
    int64_t task = (int64_t)item % t->tasks, at = (int64_t)item / t->tasks;
    struct block b = { .row = at / t->blocks_across * t->block_rows,
                       .column = at % t->blocks_across * t->block_columns };
    b.rows = KN_MIN(t->block_rows, t->rows - b.row);
    b.columns = KN_MIN(t->block_columns, t->columns - b.column);
    b.tiles = b.rows * b.columns;
    b.y = b.row * t->step - (c->doubled ? 1 : c->pad.top);
    b.x = b.column * t->step - (c->doubled ? 1 : c->pad.left);
    b.height = pixels_of(t, b.rows);
    b.width = pixels_of(t, b.columns);
    float *own = t->rooms + (int64_t)thread * (t->staged + t->planed + t->multiplied);
    struct room room = { .staged = own,
                         .by = own + t->staged / (KN_TILE_CHANNELS + 1) * KN_TILE_CHANNELS,
                         .input = own + t->staged,
                         .output = own + t->staged + t->planed };
    stage_block(t, &b, &room);
    int64_t end = KN_MIN(t->panels, (task + 1) * t->task_panels);
    for (int64_t panel = task * t->task_panels; panel < end && !kn_is_stopped(c->run); panel++)
        multiply_block(t, &b, &room, panel);
}

/* n in as few equal parts of at most `most` as there can be: what one has. */
static int64_t even_part(int64_t n, int64_t most) {
    int64_t parts = (n + most - 1) / most;
    return (n + parts - 1) / parts;
}

static void choose_blocks(struct tiles *t, unsigned threads) {
    int64_t bytes = t->planes * t->c->channels * (int64_t)sizeof(float);
    int64_t most = KN_MAX(FEWEST_TILES, KN_MIN(MOST_TILES, BLOCK_BYTES / bytes));
    int64_t side = (int64_t)sqrt((double)most);
    t->block_rows = even_part(t->rows, side);
    t->block_columns = even_part(t->columns, most / t->block_rows);
    t->blocks_down = (t->rows + t->block_rows - 1) / t->block_rows;
    t->blocks_across = (t->columns + t->block_columns - 1) / t->block_columns;
    t->task_panels = t->panels;
    while (threads > 1 && t->task_panels > 1 && t->blocks_down * t->blocks_across * t->tasks < 4 * (int64_t)threads) {
        t->task_panels = (t->task_panels + 1) / 2;
        t->tasks = (t->panels + t->task_panels - 1) / t->task_panels;
    }
}

static int64_t whole_lines(int64_t floats) {
    return (floats + 15) / 16 * 16;
}

bool kn_conv_fits_tiles(const kn_conv *c) {
    enum { FEWEST_CHANNELS = 16, FEWEST_TO_REPAY = 32 }; /* tiles, for making the weights' planes */
    int64_t tiles = (c->out_height + 1) / 2 * ((c->out_width + 1) / 2);
    return c->w->dim[1] == 3 && c->w->dim[2] == 3 && c->stride == 1 && c->channels >= FEWEST_CHANNELS &&
           c->w->dim[0] >= FEWEST_CHANNELS && tiles >= FEWEST_TO_REPAY;
}

void kn_conv_by_tiles(const kn_conv *c) {
    kn_run *r = c->run;
    int64_t side = c->doubled ? 3 : 4, threads = kn_device_threads(r->device);
    struct tiles t = { .c = c,
                       .kernels = &r->device->kernels,
                       .tiling = c->doubled ? KN_TILING_DOUBLED : KN_TILING_PLAIN,
                       .side = side,
                       .step = side - 2,
                       .planes = side * side,
                       .rows = (c->out_height + 1) / 2,
                       .columns = (c->out_width + 1) / 2,
                       .inner_blocks = (c->channels + KN_BLOCK - 1) / KN_BLOCK,
                       .tasks = 1 };
    int64_t columns = (int64_t)t.kernels->columns;
    t.panels = (c->w->dim[0] + columns - 1) / columns;
    choose_blocks(&t, (unsigned)threads);
    int64_t tiles = t.block_rows * t.block_columns;
    t.staged = whole_lines((KN_TILE_CHANNELS + 1) * pixels_of(&t, t.block_rows) * pixels_of(&t, t.block_columns));
    t.planed = t.planes * KN_MAX(t.inner_blocks * tiles, KN_TRANSPOSE_ROWS) * KN_STRIDE + 9 * KN_STRIDE;
    t.multiplied = t.planes * tiles * KN_MAX_COLUMNS;
    kn_tensor weights = kn_new(r, 2, (int64_t[]){ t.panels * t.planes * c->channels, columns });
    kn_tensor rooms = kn_new(r, 2, (int64_t[]){ threads, t.staged + t.planed + t.multiplied });
    if (!kn_go_on(r))
        return;
    t.weights = kn_data(weights);
    t.rooms = kn_data(rooms);
    double work = (double)kn_elements(weights);
    kn_parallel(r, (size_t)t.panels, work, transform_panel, &t);
    kn_parallel(r, (size_t)(t.blocks_down * t.blocks_across * t.tasks), work * (double)(t.rows * t.columns),
                convolve_block, &t);
    kn_drop(r, weights);
    kn_drop(r, rooms);
}
