#include "workers/picture_job.h"

#include <math.h>

#include "image/canvas.h"
#include "image/gain_map.h"
#include "image/png.h"
#include "image/read.h"
#include "image/resize.h"
#include "image/transform.h"
#include "image/write.h"
#include "workers/frames.h"

enum {
    TEXT_BYTES = 1 << 20,
    GRID = 16,  /* of all models */
    LEAST = 64, /* smallest side that is drawn */
};

static uint32_t scaled(uint32_t side, double by) {
    return (uint32_t)KN_MAX(lround(side * by), 1);
}

static uint32_t on_grid(uint32_t side) {
    return kn_side_on_grid(KN_MAX(side, (uint32_t)LEAST), GRID);
}

/* picture is replaced. */
static bool shrink(kn_image *picture, uint32_t largest, kn_error *err) {
    uint32_t longer = KN_MAX(picture->width, picture->height);
    kn_image smaller = { 0 };
    if (!largest || longer <= largest)
        return true;
    double by = (double)largest / longer;
    if (!kn_image_resize(picture, scaled(picture->width, by), scaled(picture->height, by), &smaller, err))
        return false;
    kn_image_free(picture);
    *picture = smaller;
    return true;
}

kn_job_code kn_picture_job(const void *file, size_t len, uint32_t largest, kn_picture_facts *ret, kn_buf *png,
                           kn_error *err) {
    kn_image picture = { 0 };
    bool ok = kn_image_read(file, len, &KN_IMAGE_LIMITS, &picture, err);
    if (ok) {
        *ret = (kn_picture_facts){ .width = picture.width,
                                   .height = picture.height,
                                   .was_turned = picture.was_turned,
                                   .is_transparent = kn_image_is_transparent(&picture),
                                   .gain_map = kn_gain_map_look(file, len, &KN_IMAGE_LIMITS),
                                   .icc_profile = kn_icc_name_in(file, len),
                                   .mask_lacks =
                                       kn_mask_lacks_of(&picture, on_grid(picture.width), on_grid(picture.height)) };
        ok = shrink(&picture, largest, err);
        if (!ret->is_transparent)
            kn_image_drop_alpha(&picture);
        ok = ok && kn_png_write(&picture, NULL, 0, png, err);
    }
    kn_image_free(&picture);
    return ok ? KN_JOB_DONE : err->code == KN_E_NOMEM ? KN_JOB_OUT_OF_MEMORY : KN_JOB_REFERENCE_INVALID;
}

kn_job_code kn_convert_job(const void *from, size_t len, kn_image_kind kind, unsigned quality, kn_buf *file,
                           kn_error *err) {
    KN_AUTO_BUF text;
    kn_image_limits limits = KN_IMAGE_LIMITS;
    kn_image picture = { 0 };
    kn_gain_map map = { .piece_count = 0 };
    kn_image_form form = { .kind = kind, .quality = quality };
    limits.bytes = KN_LARGE_BYTES;
    kn_buf_init(&text, TEXT_BYTES);
    bool ok = kn_image_read(from, len, &limits, &picture, err);
    if (ok && !kn_image_is_transparent(&picture))
        kn_image_drop_alpha(&picture);
    if (ok && kn_image_parameters(from, len, &text) && kn_image_has_room(kind, text.data))
        form.parameters = text.data;
    if (ok && kind == KN_IMAGE_JPEG && kn_gain_map_read(from, len, &limits, &map, NULL))
        form.gain_map = &map;
    ok = ok && kn_image_write(&picture, &form, file, err);
    kn_gain_map_free(&map);
    kn_image_free(&picture);
    return ok ? KN_JOB_DONE : err->code == KN_E_NOMEM ? KN_JOB_OUT_OF_MEMORY : KN_JOB_REFERENCE_INVALID;
}
