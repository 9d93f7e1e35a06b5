#include "studio/planner.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "image/gain_map.h"
#include "image/mask.h"
#include "image/resize.h"
#include "pipelines/registry.h"
#include "pipelines/settings.h"
#include "workers/recipe.h"

enum {
    MEGAPIXEL_SIDE = 1024, /* the presets' sizes are those of models trained at it */
    WORKING_LEAST = 64,    /* smallest side that is drawn */
    TOKEN_SIDE = 16,       /* pixels of a picture for one token of the network */
    EDIT_GRID = 32,        /* sizes at which pictures are given to the models that edit */
    SMALLEST_SIDE = 256,   /* below it no picture is made smaller for want of memory */
    TILE_LARGE = 768,
    TILE_SMALL = 256,
    TILE_LEAST = 128,
    TILE_STEP = 4, /* tiles are multiples of it */
    TILE_MIN = 16,
    TILE_MARGIN = 32,    /* that a tile sees on each side, at most */
    NETWORK_FACTOR = 4,  /* of one that has not been measured */
    FILTER_FACTOR = 2,   /* of what has none of its own */
    NETWORK_SIDE = 12288 /* of what it makes, at most */
};

#define STRENGTH_LEAST 0.05 /* with less, no step would be left to do */

/* Scratch memory beside the weights, measured with Qwen-Image 2.1 at 1024 to 2048 pixels: activations grow with tokens,
 * the decoder works in tiles and takes about the same for every size. */
#define TOKEN_BYTES       ((uint64_t)160 << 10)
#define DECODER_BYTES     ((uint64_t)600 << 20)
#define DECODER_PIXELS    ((uint64_t)512 * 512) /* below it the decoder takes less, in proportion */
#define LARGE_TILES_BYTES ((uint64_t)14 << 30)
#define ENLARGE_FROM      1.1 /* below that factor a filter does as well as a model */

/* What enlarging takes beside a network's file, measured with an RRDBNet of 64 channels that enlarges by 4, which takes
 * the most of those in use: for each pixel that a tile sees, and for any tile. Pictures are 8 bits a channel. */
#define TILE_PIXEL_BYTES ((uint64_t)1800)
#define TILE_BYTES       ((uint64_t)28 << 20)

static const struct {
    const char *title;
    double pixels; /* in squares of MEGAPIXEL_SIDE */
} presets[KN_PRESETS] = { { "Fast", 1 }, { "Balanced", 2.25 }, { "Quality", 4 } };

static void add_note(kn_note *list, size_t *count, const char *code, const char *message, const char *severity) {
    if (*count < KN_PLAN_NOTES)
        list[(*count)++] = (kn_note){ code, message, severity };
}

static void note(kn_studio_plan *p, const char *code, const char *message, const char *severity) {
    add_note(p->notes, &p->note_count, code, message, severity);
}

void kn_plan_block(kn_studio_plan *p, const char *code, const char *message) {
    add_note(p->blocking, &p->blocking_count, code, message, "error");
}

static bool refuse(kn_buf *pointer, kn_error *err, const char *where, const char *why) {
    kn_buf_clear(pointer);
    return kn_buf_add_text(pointer, where) ? kn_fail(err, KN_E_USAGE, "%s", why) : kn_fail_nomem(err, strlen(where));
}

/* ---- the way of working ---- */

static size_t count_role(const kn_studio_request *r, kn_input_role role) {
    size_t n = 0;
    for (size_t i = 0; i < r->input_count; i++)
        n += r->inputs[i].role == role;
    return n;
}

static bool find_kind(const kn_studio_request *r, kn_studio_kind *ret, kn_buf *pointer, kn_error *err) {
    bool grows = r->outpaint[0] || r->outpaint[1] || r->outpaint[2] || r->outpaint[3];
    size_t sources = count_role(r, KN_INPUT_SOURCE), masks = count_role(r, KN_INPUT_MASK);
    if (r->kind == KN_KIND_UPSCALE) {
        *ret = r->kind;
        return true;
    }
    if (sources > 1 || masks > 1)
        return refuse(pointer, err, "/inputs", "at most one source and one mask can be given");
    if ((masks || grows) && !sources)
        return refuse(pointer, err, "/inputs", "a source is needed, the picture that is to be changed");
    if (masks && grows)
        return refuse(pointer, err, "/outpaint", "outpainting has a mask of its own; leave one of them out");
    *ret = grows ? KN_KIND_OUTPAINT : masks ? KN_KIND_INPAINT : r->input_count ? KN_KIND_EDIT : KN_KIND_TEXT_TO_IMAGE;
    if (r->has_feather && *ret != KN_KIND_INPAINT && *ret != KN_KIND_OUTPAINT)
        return refuse(pointer, err, "/feather", "there is no edge to feather: it goes with a mask or with outpaint");
    return r->kind == KN_KIND_AUTO || r->kind == *ret ||
           refuse(pointer, err, "/kind", "the inputs and outpaint given do not go with this kind");
}

/* A model that sees no pictures may draw on from one. */
static bool can_start(const kn_model_profile *m) {
    return !m->references && m->architecture->takes_init_image;
}

/* Who says how much of a picture may change can have it from such a model. */
static bool starts_from_source(const kn_studio_request *r, const kn_plan_setting *with) {
    return with->wish.strength.given && can_start(with->profile) && r->input_count == 1 &&
           count_role(r, KN_INPUT_SOURCE) == 1;
}

static bool check_model(const kn_studio_request *r, kn_studio_kind kind, const kn_plan_setting *with, kn_buf *pointer,
                        kn_error *err) {
    const kn_model_profile *m = with->profile;
    size_t seen = r->input_count - count_role(r, KN_INPUT_MASK);
    if (kind == KN_KIND_EDIT && !m->references && !starts_from_source(r, with))
        return refuse(pointer, err, "/inputs", "this model cannot edit pictures");
    if ((kind == KN_KIND_INPAINT || kind == KN_KIND_OUTPAINT) && !m->architecture->takes_init_image)
        return refuse(pointer, err, "/inputs", "this model cannot change parts of a picture");
    if (!m->references && seen > 1)
        return refuse(pointer, err, "/inputs", "this model sees no pictures beside the one that it changes");
    if (m->references && seen > m->references)
        return refuse(pointer, err, "/inputs", "these are more pictures than this model can see at once");
    return true;
}

/* Any picture can be enlarged; to draw from, it has to show something. */
static bool check_pictures(const kn_plan_setting *with, kn_buf *pointer, kn_error *err) {
    for (size_t i = 0; i < with->input_count; i++) {
        const kn_image picture = { .width = with->inputs[i].width, .height = with->inputs[i].height };
        char where[64];
        kn_error why = { 0 };
        snprintf(where, sizeof where, "/inputs/%zu/input_id", i);
        if (with->inputs[i].role != KN_INPUT_MASK && !kn_settings_check_picture("picture", (int)i + 1, &picture, &why))
            return refuse(pointer, err, where, why.text);
    }
    return true;
}

/* ---- sizes ---- */

typedef struct size {
    uint32_t width, height;
} size;

static double native_squares(const kn_model_profile *m) {
    double pixels = (double)m->width * m->height / ((double)MEGAPIXEL_SIDE * MEGAPIXEL_SIDE);
    return fmin(pixels, 1);
}

kn_preset kn_preset_of(kn_preset_id id, const kn_model_profile *profile) {
    double squares = presets[id].pixels * native_squares(profile);
    return (kn_preset){
        .title = presets[id].title,
        .pixels = (uint64_t)(squares * MEGAPIXEL_SIDE * MEGAPIXEL_SIDE),
        .steps = profile->steps.given ? (unsigned)profile->steps.value : (unsigned)profile->variant->steps,
    };
}

kn_model_limits kn_model_limits_of(const kn_model_profile *profile, unsigned kinds) {
    kn_model_limits l = { .kinds = 1u << KN_KIND_TEXT_TO_IMAGE | 1u << KN_KIND_UPSCALE,
                          .max_side = KN_RECIPE_RESULT_MAX,
                          .grid = (uint32_t)profile->architecture->size_step,
                          .references = profile->references };
    l.takes_start = can_start(profile) && kinds >> KN_KIND_EDIT & 1;
    if (l.references)
        l.kinds |= 1u << KN_KIND_EDIT;
    if (profile->architecture->takes_init_image)
        l.kinds |= 1u << KN_KIND_INPAINT | 1u << KN_KIND_OUTPAINT;
    l.kinds &= kinds;
    return l;
}

static uint32_t to_grid(double side, uint32_t grid, uint32_t most) {
    double n = fmax(ceil((double)WORKING_LEAST / grid), rint(side / grid));
    return (uint32_t)fmin(n * grid, (double)(most / grid * grid));
}

static uint32_t grid_of(const kn_model_profile *m, kn_studio_kind kind) {
    uint32_t grid = (uint32_t)m->architecture->size_step;
    return kind == KN_KIND_EDIT ? (uint32_t)KN_MAX(grid, (uint32_t)EDIT_GRID) : grid;
}

/* About so many pixels in that shape. */
static size shaped(double pixels, double aspect, uint32_t grid, uint32_t most) {
    return (size){ to_grid(sqrt(pixels * aspect), grid, most), to_grid(sqrt(pixels / aspect), grid, most) };
}

static uint32_t round_up(uint32_t side, uint32_t grid) {
    return (KN_MAX(side, (uint32_t)WORKING_LEAST) + grid - 1) / grid * grid;
}

static const kn_plan_input *source_of(const kn_plan_setting *with) {
    for (size_t i = 0; i < with->input_count; i++)
        if (with->inputs[i].role == KN_INPUT_SOURCE)
            return &with->inputs[i];
    return with->input_count ? &with->inputs[0] : NULL;
}

/* What the engine would only say when the job runs. */
static bool is_good_mask(const kn_plan_input *mask, const kn_plan_input *source, const kn_architecture *a,
                         kn_error *err) {
    int cell = kn_architecture_cell(a);
    if (mask->width != source->width || mask->height != source->height)
        return kn_fail(err, KN_E_USAGE, "the mask is %ux%u pixels large and the picture %ux%u; both need the same size",
                       mask->width, mask->height, source->width, source->height);
    if (mask->mask_lacks & KN_MASK_LACKS_WHITE)
        return kn_fail(err, KN_E_USAGE, "the mask has no white in it, so that nothing would be drawn");
    return !(mask->mask_lacks & (cell > 8 ? KN_MASK_MISSES_CELLS_16 : KN_MASK_MISSES_CELLS_8)) ||
           kn_fail(
               err, KN_E_USAGE,
               "the mask's white falls between the model's cells of %d pixels, so that nothing would be drawn; make "
               "it larger",
               cell);
}

static bool check_mask(const kn_plan_setting *with, kn_buf *pointer, kn_error *err) {
    const kn_plan_input *source = source_of(with);
    for (size_t i = 0; source && i < with->input_count; i++) {
        const kn_plan_input *mask = &with->inputs[i];
        char where[64];
        kn_error why = { 0 };
        if (mask->role != KN_INPUT_MASK || is_good_mask(mask, source, with->profile->architecture, &why))
            continue;
        snprintf(where, sizeof where, "/inputs/%zu/input_id", i);
        return refuse(pointer, err, where, why.text);
    }
    return true;
}

static bool can_be_made(size s) {
    return s.width <= KN_RECIPE_RESULT_MAX && s.height <= KN_RECIPE_RESULT_MAX;
}

/* In figures, so that whoever asked knows by how much. */
static bool refuse_size(size s, const char *where, kn_buf *pointer, kn_error *err) {
    char why[120];
    snprintf(why, sizeof why,
             "the result would have %" PRIu32 " by %" PRIu32 " pixels; at most %d are possible on a side", s.width,
             s.height, KN_RECIPE_RESULT_MAX);
    return refuse(pointer, err, where, why);
}

/* What the result is to be, if the request says it to the pixel; else 0 by 0. */
static bool find_result(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *p, size *ret,
                        kn_buf *pointer, kn_error *err) {
    const kn_plan_input *source = source_of(with);
    *ret = (size){ 0 };
    if (p->kind == KN_KIND_OUTPAINT) {
        ret->width = r->outpaint[0] + source->width + r->outpaint[1];
        ret->height = r->outpaint[2] + source->height + r->outpaint[3];
        p->has_paste = true;
        p->paste = (kn_rect){ r->outpaint[0], r->outpaint[2], source->width, source->height };
        if (r->size_mode == KN_SIZE_CUSTOM || r->ratio_width)
            return refuse(pointer, err, "/size", "outpainting has a size of its own: the source's and what is added");
    } else if (r->size_mode == KN_SIZE_CUSTOM) {
        *ret = (size){ r->width, r->height };
    } else if (r->size_mode == KN_SIZE_SOURCE || p->kind == KN_KIND_INPAINT) {
        if (!source)
            return refuse(pointer, err, "/size/mode", "there is no source whose size could be taken");
        if (r->ratio_width)
            return refuse(pointer, err, "/size", "inpainting keeps the shape of its source");
        *ret = (size){ source->width, source->height };
    }
    const char *where = p->kind == KN_KIND_OUTPAINT ? "/outpaint" : p->kind == KN_KIND_INPAINT ? "/inputs" : "/size";
    return can_be_made(*ret) || refuse_size(*ret, where, pointer, err);
}

static double pixels_of(const kn_studio_request *r, const kn_plan_setting *with) {
    static const double squares[KN_SIZE_MODES] = { [KN_SIZE_1K] = 1, [KN_SIZE_1_5K] = 2.25, [KN_SIZE_2K] = 4 };
    if (squares[r->size_mode] > 0)
        return squares[r->size_mode] * MEGAPIXEL_SIDE * MEGAPIXEL_SIDE;
    kn_preset_id preset = r->has_preset ? r->preset : with->settings->preset;
    return (double)kn_preset_of(preset, with->profile).pixels;
}

static double aspect_of(const kn_studio_request *r, const kn_plan_setting *with, size result) {
    const kn_plan_input *source = source_of(with);
    if (result.width)
        return (double)result.width / result.height;
    if (r->ratio_width)
        return (double)r->ratio_width / r->ratio_height;
    if (source)
        return (double)source->width / source->height;
    return (double)with->profile->width / with->profile->height;
}

static double most_pixels(const kn_model_profile *m) {
    return fmax((double)kn_preset_of(KN_PRESET_QUALITY, m).pixels, (double)MEGAPIXEL_SIDE * MEGAPIXEL_SIDE);
}

/* Up to the largest preset, and no side beyond what the model's positions reach. */
static bool fits_model(const kn_model_profile *m, size s) {
    uint32_t most = (uint32_t)m->architecture->max_side;
    return s.width <= most && s.height <= most && (double)s.width * s.height <= most_pixels(m);
}

/* What changes a part of a picture works on all of its pixels, so that the others stay to the byte, if they are not too
 * many. */
static bool keeps_pixels(const kn_studio_plan *p, const kn_plan_setting *with, size result) {
    return (p->kind == KN_KIND_OUTPAINT || p->kind == KN_KIND_INPAINT) && fits_model(with->profile, result);
}

/* The size that is worked at for so many pixels. What is wanted to the pixel and is no larger is drawn as it is. */
static size working_size(const kn_studio_plan *p, const kn_plan_setting *with, size result, double pixels,
                         double aspect) {
    uint32_t grid = grid_of(with->profile, p->kind), most = (uint32_t)with->profile->architecture->max_side;
    if (keeps_pixels(p, with, result))
        return (size){ round_up(result.width, grid), round_up(result.height, grid) };
    bool fits =
        result.width && (double)result.width * result.height <= pixels && result.width <= most && result.height <= most;
    return fits ? (size){ round_up(result.width, grid), round_up(result.height, grid) }
                : shaped(pixels, aspect, grid, most);
}

/* ---- memory and time ---- */

static double tokens_of(double width, double height) {
    return width * height / (TOKEN_SIDE * TOKEN_SIDE);
}

static double all_tokens(const kn_studio_plan *p) {
    double tokens = tokens_of(p->working_width, p->working_height);
    for (size_t i = 0; i < p->reference_count; i++)
        tokens += tokens_of(p->references[i].width, p->references[i].height);
    return tokens;
}

/* Stages load and leave one after the other, so the largest counts. */
static uint64_t largest_stage(const kn_model_profile *m) {
    uint64_t text = kn_model_bytes(m, KN_MODEL_TEXT_ENCODER) + kn_model_bytes(m, KN_MODEL_VISION_ENCODER);
    return KN_MAX(text, KN_MAX(kn_model_bytes(m, KN_MODEL_DIFFUSION), kn_model_bytes(m, KN_MODEL_VAE)));
}

static uint64_t estimate_bytes(const kn_studio_plan *p, const kn_model_profile *m) {
    uint64_t pixels = (uint64_t)p->working_width * p->working_height;
    uint64_t decoder = DECODER_BYTES / DECODER_PIXELS * KN_MIN(pixels, DECODER_PIXELS);
    return largest_stage(m) + (uint64_t)all_tokens(p) * TOKEN_BYTES + decoder;
}

static uint64_t budget_of(const kn_plan_setting *with) {
    static const uint64_t gib[KN_HARDWARE_PRESETS] = { 0, 12, 16, 24, 32 };
    if (with->settings->memory_override_mib)
        return with->settings->memory_override_mib << 20;
    return with->settings->hardware ? gib[with->settings->hardware] << 30 : with->memory_bytes;
}

static void see_references(const kn_plan_setting *with, kn_studio_plan *p) {
    if (!with->profile->references)
        return;
    for (size_t i = 0; i < with->input_count; i++) {
        kn_plan_input seen = with->inputs[i];
        if (seen.role == KN_INPUT_MASK)
            continue;
        kn_reference_size(seen.width, seen.height, KN_REFERENCE_RESOLUTION, &seen.width, &seen.height);
        p->references[p->reference_count++] = seen;
    }
}

static void fit_into_memory(const kn_plan_setting *with, kn_studio_plan *p, size result, double pixels, double aspect) {
    bool reduced = false;
    p->budget_bytes = budget_of(with);
    for (;; pixels *= 0.9, reduced = true) {
        size work = working_size(p, with, result, pixels, aspect);
        p->working_width = work.width;
        p->working_height = work.height;
        p->estimate_bytes = estimate_bytes(p, with->profile);
        if (p->estimate_bytes <= p->budget_bytes || pixels < (double)SMALLEST_SIDE * SMALLEST_SIDE)
            break;
    }
    if (p->estimate_bytes > p->budget_bytes)
        kn_plan_block(p, "out_of_memory", "The model does not fit into the memory that may be used");
    else if (reduced)
        note(p, "size_reduced_for_memory", "The picture is drawn smaller, so that it fits into memory", "warning");
}

/* Attention grows with the square of the tokens; at 8192 of them it is as much work as all else. */
static void estimate_time(const kn_studio_request *r, const kn_plan_setting *with, bool guided, kn_studio_plan *p) {
    double tokens = all_tokens(p), pixels = (double)p->result_width * p->result_height;
    double step = tokens * (1 + tokens / 8192) * (guided ? 2 : 1) / 4096;
    p->units = p->kind == KN_KIND_UPSCALE ? pixels / 1e6 : p->steps * step + pixels / 1e6;
    p->seconds = with->speed.samples ? with->speed.ratio * p->units * (double)r->batch : -1;
}

/* ---- enlarging ---- */

/* By how much a picture is enlarged of which nothing else is said. */
static double usual_factor(const kn_upscale_spec *u, const kn_plan_setting *with) {
    const char *id = u->upscaler[0] ? u->upscaler : with->settings->upscaler;
    const kn_upscale_choice *found = kn_upscaler_named(with->upscalers, id);
    return found && found->factor ? found->factor : FILTER_FACTOR;
}

static bool wanted_size(const kn_upscale_spec *u, const kn_plan_setting *with, kn_studio_plan *p, kn_buf *pointer,
                        kn_error *err) {
    if (u->width) {
        p->result_width = u->width;
        p->result_height = u->height;
    } else {
        double factor = u->factor > 0 ? u->factor : usual_factor(u, with);
        p->result_width = (uint32_t)rint(fmin(p->working_width * factor, KN_PICTURE_SIDE_MAX));
        p->result_height = (uint32_t)rint(fmin(p->working_height * factor, KN_PICTURE_SIDE_MAX));
    }
    return can_be_made((size){ p->result_width, p->result_height }) ||
           refuse(pointer, err, "/upscale", "the result would have more than 8192 pixels on a side");
}

/* What is drawn beyond the result for the grid's sake is cut off. */
static bool is_margin(uint32_t work, uint32_t result) {
    return work >= result && work - result < EDIT_GRID;
}

static bool stays_as_drawn(const kn_studio_plan *p) {
    return p->kind == KN_KIND_UPSCALE
               ? p->result_width == p->working_width && p->result_height == p->working_height
               : is_margin(p->working_width, p->result_width) && is_margin(p->working_height, p->result_height);
}

static double factor_of(const kn_upscale_choice *u) {
    return u->factor ? u->factor : NETWORK_FACTOR;
}

/* How many times as large as the picture is what a network makes in the end: it goes through it until it is as large as
 * wanted. */
static double times_made(const kn_studio_plan *p, const kn_upscale_choice *u) {
    double side = fmax(p->working_width, p->working_height), factor = factor_of(u), times = factor;
    double wanted = fmax((double)p->result_width / p->working_width, (double)p->result_height / p->working_height);
    while (factor > 1 && times < wanted)
        times *= factor;
    return fmin(times, NETWORK_SIDE / side);
}

/* The picture as it comes and as a network sees it, what that makes of it, and the result twice: reduced from that, and
 * by the filter, which gives the transparency. */
static uint64_t picture_bytes(const kn_studio_plan *p, const kn_upscale_choice *u) {
    double from = (double)p->working_width * p->working_height, to = (double)p->result_width * p->result_height;
    double times = u->file ? times_made(p, u) : 0;
    return (uint64_t)(7 * from + 3 * from * times * times + 7 * to);
}

static uint64_t tile_bytes(const kn_studio_plan *p, const kn_upscale_choice *u) {
    double seen = times_made(p, u) / factor_of(u), most = p->tile_size + 2 * TILE_MARGIN;
    return (uint64_t)(fmin(most, p->working_width * seen) * fmin(most, p->working_height * seen)) * TILE_PIXEL_BYTES +
           TILE_BYTES;
}

uint32_t kn_plan_smaller_tile(uint32_t tile_size) {
    uint32_t now = tile_size ? tile_size : TILE_LARGE;
    return now > TILE_LEAST ? KN_MAX(now / 3 / TILE_STEP * TILE_STEP, (uint32_t)TILE_LEAST) : 0;
}

/* Enlarging comes after drawing, so the larger of both counts. Tiles become smaller until memory does. */
static void fit_enlarging(const kn_upscale_choice *u, bool is_wish, kn_studio_plan *p) {
    uint64_t pictures = picture_bytes(p, u), drawing = p->estimate_bytes, enlarging = pictures;
    uint32_t wanted = p->tile_size;
    if (u->file) {
        uint64_t rest = pictures + (uint64_t)u->bytes;
        for (uint32_t tile = wanted; tile; tile = kn_plan_smaller_tile(tile)) {
            p->tile_size = tile;
            enlarging = rest + tile_bytes(p, u);
            if (enlarging <= p->budget_bytes)
                break;
        }
    }
    p->estimate_bytes = KN_MAX(drawing, enlarging);
    if (enlarging > p->budget_bytes && drawing <= p->budget_bytes)
        kn_plan_block(p, "out_of_memory", "Enlarging the picture does not fit into the memory that may be used");
    else if (p->tile_size != wanted && is_wish)
        note(p, "tiles_reduced_for_memory", "The picture is enlarged in smaller tiles, so that it fits into memory",
             "info");
}

static void choose_upscaler(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *p) {
    const kn_upscale_spec *u = &r->upscale;
    double factor = fmax((double)p->result_width / p->working_width, (double)p->result_height / p->working_height);
    if (stays_as_drawn(p) && !r->has_upscale)
        return;
    const char *id = u->upscaler[0]          ? u->upscaler
                     : factor < ENLARGE_FROM ? KN_UPSCALER_FILTER
                                             : with->settings->upscaler;
    const kn_upscale_choice *found = kn_upscaler_named(with->upscalers, id);
    if (!found && u->upscaler[0]) {
        kn_plan_block(p, "missing_model", "The upscaler that was asked for is not installed");
    } else if (!found) {
        note(p, "upscaler_missing", "The upscaler of the settings is not installed; Lanczos is used", "warning");
        found = kn_upscaler_named(with->upscalers, KN_UPSCALER_FILTER);
    }
    if (!found)
        return;
    memcpy(p->upscaler, found->id, sizeof p->upscaler);
    uint32_t tile = u->has_tile_size ? u->tile_size : (uint32_t)with->settings->upscale_tile_size;
    bool roomy = p->budget_bytes == UINT64_MAX || p->budget_bytes >= LARGE_TILES_BYTES;
    if (found->file)
        p->tile_size = tile    ? KN_MAX(tile / TILE_STEP * TILE_STEP, (uint32_t)TILE_MIN)
                       : roomy ? TILE_LARGE
                               : TILE_SMALL;
    fit_enlarging(found, tile, p);
}

/* ---- all of it ---- */

/* What is wished for instead of what the profile says. */
static kn_optional chosen(kn_optional wish, kn_optional usual, double least, double most) {
    return wish.given ? (kn_optional){ true, fmin(fmax(wish.value, least), most) } : usual;
}

static bool set_steps(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *p, bool *ret_guided,
                      kn_buf *pointer, kn_error *err) {
    static const kn_generation_defaults none;
    static const kn_plan_wish nothing;
    const kn_model_profile *m = with->profile;
    const kn_plan_wish *w = m->variant->why_fixed ? &nothing : &with->wish;
    const kn_wish wish = {
        .prompt = r->prompt,
        .negative_prompt = r->negative_prompt,
        .width = { true, p->working_width },
        .height = { true, p->working_height },
        .steps = chosen(w->steps, m->steps, 1, KN_RECIPE_STEPS_MAX),
        .cfg = chosen(w->cfg, m->cfg, 0, KN_RECIPE_CFG_MAX),
        .seed_given = true,
        .sampler = r->sampler[0]   ? r->sampler
                   : m->sampler[0] ? m->sampler
                                   : NULL,
    };
    kn_settings s;
    kn_error why = { 0 };
    const kn_sampler *sampler;
    if (r->sampler[0] && !kn_sampler_find(r->sampler, &sampler, NULL))
        return refuse(pointer, err, "/sampler", "there is no such sampler; the capabilities list those that there are");
    if (!kn_settings_make(&wish, &none, m->architecture, m->variant, &s, &why))
        return refuse(pointer, err, r->sampler[0] ? "/sampler" : "", why.text);
    p->steps = (unsigned)s.recipe.sigmas.steps;
    p->guidance = s.cfg;
    p->sigmas = s.recipe.sigmas;
    snprintf(p->sampler, sizeof p->sampler, "%s", s.recipe.sampler->name.name);
    *ret_guided = p->guided = kn_recipe_is_guided(&s.recipe);
    if ((with->wish.steps.given && (unsigned)with->wish.steps.value != p->steps) ||
        (with->wish.cfg.given && (with->wish.cfg.value < p->guidance || with->wish.cfg.value > p->guidance)))
        note(p, "settings_adjusted", "Steps and guidance are those that the model can be run with", "info");
    if (r->negative_prompt && r->negative_prompt[0] && !*ret_guided)
        note(p, "negative_prompt_ignored", "This model runs without guidance, so the negative prompt has no effect",
             "info");
    return true;
}

/* A gain map belongs to a picture of the same shape that shows the same, in a file that has room for it. */
static void see_gain_map(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *p) {
    const kn_plan_input *source = source_of(with), *first = with->inputs;
    if (!source || !(source->has_gain_map || source->has_damaged_map) || !r->output.keep_hdr ||
        p->kind == KN_KIND_TEXT_TO_IMAGE)
        return;
    while (first < source && first->role == KN_INPUT_MASK)
        first++;
    if (source->has_damaged_map)
        note(
            p, "hdr_dropped",
            "The result is saved without the gain map of its source: it is damaged or incomplete, or of a kind that is "
            "not known here",
            "info");
    else if (r->output.format != KN_PICTURE_JPEG)
        note(p, "hdr_dropped",
             "The result is saved without the gain map of its source: only JPEG files have room for it", "info");
    else if (p->kind == KN_KIND_OUTPAINT || first != source ||
             !kn_gain_map_has_shape(source->width, source->height, p->result_width, p->result_height))
        note(p, "hdr_dropped", "The result is saved without the gain map of its source, as it shows something else",
             "info");
    else
        p->keeps_hdr = true;
}

/* Masks have no colours, and with a gain map goes the profile that it belongs to. */
static void see_colours(const kn_plan_setting *with, kn_studio_plan *p) {
    bool others = false;
    for (size_t i = 0; i < with->input_count && !p->keeps_hdr; i++)
        others = others || (with->inputs[i].has_other_colours && with->inputs[i].role != KN_INPUT_MASK);
    if (others)
        note(p, "colour_profile_ignored",
             "A picture has a colour profile other than sRGB, or a damaged one: its colours are taken for sRGB as they "
             "are",
             "info");
}

static void note_the_rest(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *p) {
    if (r->easycache)
        note(p, "cache_unavailable", "The engine has no such cache; every step is computed", "info");
    if (r->upscale.detailed)
        note(p, "method_is_model", "The method 'detailed' runs as 'model'", "info");
    if (r->output.embed_metadata && !kn_request_embeds_metadata(r))
        note(p, "metadata_dropped", "The prompt is too long for the notes of a JPEG file, so it has none", "info");
    see_gain_map(r, with, p);
    see_colours(with, p);
    const char *lacks = p->kind == KN_KIND_UPSCALE ? NULL : kn_model_obstacle(with->profile);
    if (lacks)
        kn_plan_block(p, "missing_model", lacks);
}

static bool plan_upscale(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *p, kn_buf *pointer,
                         kn_error *err) {
    const kn_plan_input *source = source_of(with);
    p->working_width = source->width;
    p->working_height = source->height;
    p->budget_bytes = budget_of(with);
    if (!wanted_size(&r->upscale, with, p, pointer, err))
        return false;
    choose_upscaler(r, with, p);
    if (!p->upscaler[0])
        p->estimate_bytes = UINT64_MAX;
    return true;
}

static bool plan_drawing(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *p, bool *ret_guided,
                         kn_buf *pointer, kn_error *err) {
    size result;
    if (!check_model(r, p->kind, with, pointer, err) || !check_pictures(with, pointer, err) ||
        !check_mask(with, pointer, err) || !find_result(r, with, p, &result, pointer, err))
        return false;
    double aspect = aspect_of(r, with, result), pixels = pixels_of(r, with);
    if (aspect > KN_PLAN_ASPECT_MAX || aspect * KN_PLAN_ASPECT_MAX < 1)
        return refuse(pointer, err, "/size", "one side is more than 50 times the other");
    if ((p->kind == KN_KIND_OUTPAINT || p->kind == KN_KIND_INPAINT) && !fits_model(with->profile, result))
        note(p, "source_resized",
             "The picture is larger than the model can work on: what is new in it is drawn smaller and enlarged again",
             "warning");
    see_references(with, p);
    if (p->kind == KN_KIND_EDIT && starts_from_source(r, with))
        p->strength = chosen(with->wish.strength, with->wish.strength, STRENGTH_LEAST, 1);
    fit_into_memory(with, p, result, pixels, aspect);
    bool exact = result.width && with->resizes;
    p->result_width = exact ? result.width : p->working_width;
    p->result_height = exact ? result.height : p->working_height;
    if (result.width && !exact && (result.width != p->result_width || result.height != p->result_height))
        note(p, "size_as_drawn", "The picture keeps the size at which it is drawn", "warning");
    if (r->has_upscale && result.width)
        return refuse(pointer, err, "/upscale", "the size of the result is given already");
    if (r->has_upscale && !wanted_size(&r->upscale, with, p, pointer, err))
        return false;
    choose_upscaler(r, with, p);
    return set_steps(r, with, p, ret_guided, pointer, err);
}

bool kn_plan_request(const kn_studio_request *r, const kn_plan_setting *with, kn_studio_plan *ret, kn_buf *pointer,
                     kn_error *err) {
    bool guided = false;
    kn_studio_plan *p = ret;
    memset(p, 0, sizeof *p);
    memcpy(p->profile, with->profile->name, sizeof p->profile);
    if (!find_kind(r, &p->kind, pointer, err))
        return false;
    if (!(with->kinds >> p->kind & 1))
        return refuse(pointer, err, "/kind", "this version cannot do that yet");
    if (!with->resizes && r->has_upscale)
        return refuse(pointer, err, "/upscale", "this version cannot enlarge pictures yet");
    if (!(p->kind == KN_KIND_UPSCALE ? plan_upscale(r, with, p, pointer, err)
                                     : plan_drawing(r, with, p, &guided, pointer, err)))
        return false;
    note_the_rest(r, with, p);
    estimate_time(r, with, guided, p);
    return true;
}

/* ---- as clients see it ---- */

json_t *kn_note_json(const kn_note *note) {
    return json_pack("{s:s, s:s, s:s}", "code", note->code, "message", note->message, "severity", note->severity);
}

json_t *kn_notes_json(const kn_note *notes, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, kn_note_json(&notes[i]));
    return list;
}

static json_t *bytes_json(uint64_t bytes) {
    return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *sigmas_json(const kn_sigmas *s) {
    json_t *list = json_array();
    for (size_t i = 0; s->steps && i <= s->steps; i++)
        json_array_append_new(list, json_real((double)s->at[i]));
    return list;
}

/* Pictures of the gallery have no input's id and are left out. */
static json_t *references_json(const kn_studio_plan *p) {
    json_t *list = json_array();
    for (size_t i = 0; i < p->reference_count; i++)
        if (p->references[i].id[0])
            json_array_append_new(
                list, json_pack("{s:s, s:I, s:I}", "input_id", p->references[i].id, "width",
                                (json_int_t)KN_MIN(p->references[i].width, (uint32_t)KN_PICTURE_SIDE_MAX), "height",
                                (json_int_t)KN_MIN(p->references[i].height, (uint32_t)KN_PICTURE_SIDE_MAX)));
    return list;
}

json_t *kn_studio_plan_json(const kn_studio_plan *p) {
    json_t *paste = p->has_paste
                        ? json_pack("{s:I, s:I, s:I, s:I}", "x", (json_int_t)p->paste.x, "y", (json_int_t)p->paste.y,
                                    "width", (json_int_t)p->paste.width, "height", (json_int_t)p->paste.height)
                        : json_null();
    bool known = p->estimate_bytes != UINT64_MAX && p->budget_bytes != UINT64_MAX;
    json_t *memory = json_pack("{s:o, s:o, s:b}", "budget_bytes", bytes_json(p->budget_bytes), "estimate_bytes",
                               bytes_json(p->estimate_bytes), "fits", !known || p->estimate_bytes <= p->budget_bytes);
    json_t *plan = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:n, s:o, s:I, s:f, s:s, s:o, s:s?, s:o, s:o, s:o, s:o, s:o, s:o}", "kind",
        kn_studio_kinds[p->kind], "profile", p->profile, "working_width", (json_int_t)p->working_width,
        "working_height", (json_int_t)p->working_height, "result_width", (json_int_t)p->result_width, "result_height",
        (json_int_t)p->result_height, "source_crop", "paste", paste, "steps", (json_int_t)p->steps, "guidance",
        p->guidance, "sampler", p->sampler, "sigmas", sigmas_json(&p->sigmas), "upscaler",
        p->upscaler[0] ? p->upscaler : NULL, "tile_size",
        p->tile_size ? json_integer((json_int_t)p->tile_size) : json_null(), "reference_sizes", references_json(p),
        "memory", memory, "estimated_seconds", p->seconds >= 0 ? json_real(p->seconds) : json_null(), "notes",
        kn_notes_json(p->notes, p->note_count), "blocking", kn_notes_json(p->blocking, p->blocking_count));
    if (plan && p->strength.given)
        json_object_set_new(plan, "strength", json_real(p->strength.value));
    if (plan && p->keeps_hdr)
        json_object_set_new(plan, "keeps_hdr", json_true());
    return plan;
}
