/* Convolution by tiles, after Winograd: two neighbouring outputs of a filter with three taps take four products instead
 * of six, so a tile of 2 x 2 outputs takes 16 instead of 36. Pixels and weights are brought into a form ("planes") in
 * which a tile is 16 independent products, each summed over the channels like any matrix product: [tiles, channels] by
 * [channels, out]. Sums and differences bring the planes back to pixels. Where the picture is seen at twice its size,
 * each pixel four times, one plane in each direction is zero: 9 products instead of 36.
 *
 * A task takes a block of tiles and some output channels: it stages the block's pixels, with the norm that comes
 * before, a few channels at a time, makes all their planes, and goes through the output channels a panel at a time. An
 * element does not depend on how blocks and tasks are cut. */
#include <math.h>

#include "compute/cpu/conv.h"

/* Tiles of a block: the panels of weights are read once per block, and may have to come from memory. */
enum { BLOCK_TILES = 96 };

struct tiles {
    const kn_conv *c;
    kn_summing sum;
    kn_tiling tiling;
    int64_t side, step, planes;        /* pixels of a tile's side; from tile to tile; planes of a tile */
    int64_t rows, columns;             /* tiles of the picture */
    int64_t block_rows, block_columns; /* tiles of a block */
    int64_t blocks_down, blocks_across;
    int64_t panels, task_panels, tasks; /* panels of output channels; in one task; tasks per block */
    int64_t panel_words;                /* of one plane */
    float *weights;                     /* [panels][planes][panel_words] */
    float *rooms;                       /* one per thread */
    int64_t room_words, input_at, output_at;
    int64_t plane_words; /* of the input: [passes][tiles][KN_STRIDE] */
};

static int64_t pixels_of(const struct tiles *t, int64_t tiles) {
    return (tiles - 1) * t->step + t->side;
}

/* One panel of weights. Rounding comes last, so that nothing is rounded twice. */
static void transform_panel(void *ctx, size_t item, unsigned thread) {
    const struct tiles *t = ctx;
    int64_t from = (int64_t)item * t->sum.columns, n = KN_MIN(t->sum.columns, t->c->w->dim[0] - from);
    int64_t plane = KN_TRANSPOSE_ROWS * KN_STRIDE;
    float *taps = t->rooms + thread * t->room_words; /* [9][KN_STRIDE] */
    float *rows = taps + 9 * KN_STRIDE;              /* [planes][KN_TRANSPOSE_ROWS][KN_STRIDE] */
    float *rounded = rows + t->planes * plane;       /* as much as one plane */
    float *panel = t->weights + (int64_t)item * t->planes * t->panel_words;
    for (int64_t k0 = 0; k0 < t->c->channels; k0 += KN_BLOCK) {
        size_t k = (size_t)KN_MIN(KN_BLOCK, t->c->channels - k0);
        for (int64_t j = 0; j < n; j += KN_TRANSPOSE_ROWS) {
            size_t group = (size_t)KN_MIN(KN_TRANSPOSE_ROWS, n - j);
            for (size_t i = 0; i < group; i++) {
                for (int64_t tap = 0; tap < 9; tap++)
                    kn_conv_decode(t->c, from + j + (int64_t)i, tap, k0, k, taps + tap * KN_STRIDE);
                t->sum.kernels->tile_weight[t->tiling](taps, KN_STRIDE, k, rows + i * KN_STRIDE, (size_t)plane);
            }
            for (int64_t p = 0; p < t->planes; p++)
                kn_pack_columns(&t->sum, rows + p * plane, group, k0, k, j, rounded, panel + p * t->panel_words);
        }
    }
}

struct block {
    int64_t row, rows, column, columns, tiles; /* in tiles */
    int64_t y, x, height, width;               /* of the pixels that it sees */
    float *staged;                             /* [height][width][KN_TILE_CHANNELS] */
    float *by;                                 /* [height][width] */
    float *input;                              /* [planes][passes][tiles][KN_STRIDE] */
    float *output;                             /* [planes][tiles][KN_MAX_COLUMNS] */
};

static void stage_block(const struct tiles *t, const struct block *b) {
    const kn_conv *c = t->c;
    for (int64_t y = 0; c->unit && y < b->height; y++)
        kn_conv_unit_factors(c, b->y + y, b->x, b->width, b->by + y * b->width);
    for (int64_t c0 = 0; c0 < c->channels; c0 += KN_TILE_CHANNELS) {
        for (int64_t y = 0; y < b->height; y++)
            kn_conv_stage(c, b->y + y, b->x, b->width, c0, KN_MIN(KN_TILE_CHANNELS, c->channels - c0),
                          c->unit ? b->by + y * b->width : NULL, b->staged + y * b->width * KN_TILE_CHANNELS);
        float *to = b->input + c0 / t->sum.at_once * b->tiles * KN_STRIDE + c0 % t->sum.at_once / t->sum.per_word;
        for (int64_t i = 0; i < b->rows; i++)
            (t->sum.narrow ? t->sum.kernels->tile_input_bf16 : t->sum.kernels->tile_input)[t->tiling](
                b->staged + i * t->step * b->width * KN_TILE_CHANNELS, (size_t)(b->width * KN_TILE_CHANNELS),
                (size_t)b->columns, to + i * b->columns * KN_STRIDE, (size_t)t->plane_words);
    }
}

static void multiply_block(const struct tiles *t, const struct block *b, int64_t panel) {
    const kn_conv *c = t->c;
    int64_t from = panel * t->sum.columns, n = KN_MIN(t->sum.columns, c->w->dim[0] - from);
    int64_t plane = t->block_rows * t->block_columns * KN_MAX_COLUMNS;
    for (int64_t p = 0; p < t->planes; p++)
        kn_sum_channels(&t->sum, b->input + p * t->plane_words, b->tiles,
                        t->weights + (panel * t->planes + p) * t->panel_words, n, b->output + p * plane);
    for (int64_t i = 0; i < b->rows; i++) {
        int64_t y = 2 * (b->row + i), x = 2 * b->column, row = c->out_width * c->out_pixel;
        int64_t rows = KN_MIN(2, c->out_height - y), columns = KN_MIN(2 * b->columns, c->out_width - x);
        float *to = c->out + y * row + x * c->out_pixel + from;
        t->sum.kernels->tile_output[t->tiling](b->output + i * b->columns * KN_MAX_COLUMNS, (size_t)plane, (size_t)n,
                                               c->w->bias ? c->w->bias + from : NULL, c->add, to, (size_t)row,
                                               (size_t)c->out_pixel, (size_t)rows, (size_t)columns);
        for (int64_t k = 0; c->slope && k < rows; k++)
            t->sum.kernels->prelu(to + k * row, (size_t)c->out_pixel, (size_t)columns, (size_t)n, c->slope + from);
    }
}

static void convolve_block(void *ctx, size_t item, unsigned thread) {
    const struct tiles *t = ctx;
    const kn_conv *c = t->c;
    int64_t task = (int64_t)item % t->tasks, at = (int64_t)item / t->tasks;
    struct block b = { .row = at / t->blocks_across * t->block_rows,
                       .column = at % t->blocks_across * t->block_columns,
                       .staged = t->rooms + thread * t->room_words };
    b.rows = KN_MIN(t->block_rows, t->rows - b.row);
    b.columns = KN_MIN(t->block_columns, t->columns - b.column);
    b.tiles = b.rows * b.columns;
    b.y = b.row * t->step - (c->doubled ? 1 : c->pad.top);
    b.x = b.column * t->step - (c->doubled ? 1 : c->pad.left);
    b.height = pixels_of(t, b.rows);
    b.width = pixels_of(t, b.columns);
    b.by = b.staged + b.height * b.width * KN_TILE_CHANNELS;
    b.input = b.staged + t->input_at;
    b.output = b.staged + t->output_at;
    stage_block(t, &b);
    int64_t end = KN_MIN(t->panels, (task + 1) * t->task_panels);
    for (int64_t panel = task * t->task_panels; panel < end && !kn_is_stopped(c->run); panel++)
        multiply_block(t, &b, panel);
}

/* n in as few equal parts of at most `most` as there can be: what one has. */
static int64_t even_part(int64_t n, int64_t most) {
    int64_t parts = (n + most - 1) / most;
    return (n + parts - 1) / parts;
}

static void choose_blocks(struct tiles *t, unsigned threads) {
    t->block_rows = even_part(t->rows, (int64_t)sqrt(BLOCK_TILES));
    t->block_columns = even_part(t->columns, BLOCK_TILES / t->block_rows);
    t->blocks_down = (t->rows + t->block_rows - 1) / t->block_rows;
    t->blocks_across = (t->columns + t->block_columns - 1) / t->block_columns;
    t->task_panels = t->panels;
    t->tasks = 1;
    while (threads > 1 && t->task_panels > 1 && t->blocks_down * t->blocks_across * t->tasks < 4 * (int64_t)threads) {
        t->task_panels = (t->task_panels + 1) / 2;
        t->tasks = (t->panels + t->task_panels - 1) / t->task_panels;
    }
}

static int64_t whole_lines(int64_t words) {
    return (words + 15) / 16 * 16;
}

/* Where the parts of a thread's room begin. Making the weights' planes takes the same room. */
static void lay_out_room(struct tiles *t) {
    int64_t tiles = t->block_rows * t->block_columns;
    int64_t pixels = pixels_of(t, t->block_rows) * pixels_of(t, t->block_columns);
    t->plane_words = t->sum.passes * tiles * KN_STRIDE;
    t->input_at = whole_lines(pixels * (KN_TILE_CHANNELS + 1));
    t->output_at = t->input_at + t->planes * t->plane_words + KN_BF16_ROWS * KN_STRIDE;
    int64_t convolving = t->output_at + t->planes * tiles * KN_MAX_COLUMNS;
    t->room_words = KN_MAX(convolving, (9 + (t->planes + 1) * KN_TRANSPOSE_ROWS) * KN_STRIDE);
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
                       .sum = kn_summing_of(c),
                       .tiling = c->doubled ? KN_TILING_DOUBLED : KN_TILING_PLAIN,
                       .side = side,
                       .step = side - 2,
                       .planes = side * side,
                       .rows = (c->out_height + 1) / 2,
                       .columns = (c->out_width + 1) / 2 };
    t.panel_words = t.sum.words * t.sum.columns;
    t.panels = (c->w->dim[0] + t.sum.columns - 1) / t.sum.columns;
    choose_blocks(&t, (unsigned)threads);
    lay_out_room(&t);
    kn_tensor weights = kn_new(r, 2, (int64_t[]){ t.panels * t.planes, t.panel_words });
    kn_tensor rooms = kn_new(r, 2, (int64_t[]){ threads, t.room_words });
    if (!kn_go_on(r))
        return;
    t.weights = kn_data(weights);
    t.rooms = kn_data(rooms);
    double work = (double)(t.panels * t.planes * t.panel_words);
    kn_parallel(r, (size_t)t.panels, work, transform_panel, &t);
    kn_parallel(r, (size_t)(t.blocks_down * t.blocks_across * t.tasks), work * (double)(t.rows * t.columns),
                convolve_block, &t);
    kn_drop(r, weights);
    kn_drop(r, rooms);
}
