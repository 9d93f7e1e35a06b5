#include "pipelines/inpaint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/resize.h"

enum {
    FADE = 4,
    FADE_OUTPAINT = 40, /* as in ComfyUI */
    CELL = 16,          /* pixels for one place of a latent, at most */
};

/* A number of pixels; what: for the message. */
static bool check_reach(const char *what, kn_optional pixels, kn_error *err) {
    bool fits = !pixels.given || (pixels.value >= 0 && pixels.value <= KN_MASK_REACH_MAX);
    return fits || kn_fail(err, KN_E_RANGE, "the mask cannot %s %.0f pixels; 0 to %d are possible", what, pixels.value,
                           KN_MASK_REACH_MAX);
}

static bool check_sides(const kn_inpaint_wish *wish, kn_error *err) {
    const kn_sides *s = &wish->outpaint;
    uint32_t most = KN_MAX(KN_MAX(s->left, s->right), KN_MAX(s->top, s->bottom));
    if (most > KN_SIDE_MAX)
        return kn_fail(err, KN_E_RANGE, "outpainting by %u pixels on one side; at most %d are possible", most,
                       KN_SIDE_MAX);
    return !wish->mask || kn_fail(err, KN_E_USAGE, "outpainting has a mask of its own; another one cannot be given");
}

bool kn_inpaint_check(const kn_inpaint_wish *wish, const kn_image *picture, kn_error *err) {
    const kn_image *mask = wish->mask;
    bool extends = kn_inpaint_extends(wish);
    if (!mask && (wish->invert || wish->grow.given))
        return kn_fail(err, KN_E_USAGE, "there is no mask to %s", wish->invert ? "invert" : "grow");
    if (!mask && !extends)
        return !wish->fade.given || kn_fail(err, KN_E_USAGE, "there is no mask to fade");
    if (!picture)
        return kn_fail(err, KN_E_USAGE, "%s needs a picture to start from", mask ? "a mask" : "outpainting");
    if (extends && !check_sides(wish, err))
        return false;
    if (mask && (mask->width != picture->width || mask->height != picture->height))
        return kn_fail(err, KN_E_USAGE, "the mask is %ux%u pixels large and the picture %ux%u; both need the same size",
                       mask->width, mask->height, picture->width, picture->height);
    return check_reach("grow by", wish->grow, err) && check_reach("fade over", wish->fade, err);
}

/* The mask as it was given, grown. */
static bool take_mask(const kn_inpaint_wish *wish, kn_mask *ret, kn_error *err) {
    if (!kn_mask_from_picture(wish->mask, ret, err))
        return false;
    if (wish->invert)
        kn_mask_invert(ret);
    if (kn_mask_is_empty(ret))
        return kn_fail(err, KN_E_USAGE, "the mask has no %s in it, so that nothing would be drawn",
                       wish->invert ? "black" : "white");
    return !wish->grow.given || kn_mask_grow(ret, (uint32_t)wish->grow.value, err);
}

static bool bring_to_size(kn_inpaint *p, const kn_image *picture, const kn_mask *mask, uint32_t width, uint32_t height,
                          bool resize, kn_error *err) {
    return resize ? kn_image_resize(picture, width, height, &p->picture, err) &&
                        kn_mask_resize(mask, width, height, &p->mask, err)
                  : kn_image_pad(picture, width, height, &p->picture, err) &&
                        kn_mask_pad(mask, width, height, &p->mask, err);
}

static bool copy_mask(const kn_mask *from, kn_mask *ret, kn_error *err) {
    return kn_mask_pad(from, from->width, from->height, ret, err);
}

/* Over so many pixels of a picture that is larger than what is drawn of it. */
static uint32_t fade_of(const kn_inpaint_wish *wish, double larger) {
    double fade = wish->fade.given ? wish->fade.value : kn_inpaint_extends(wish) ? FADE_OUTPAINT : FADE;
    return (uint32_t)fmin(rint(fade * larger), KN_MASK_REACH_MAX);
}

static bool inpaint(kn_inpaint *p, const kn_inpaint_wish *wish, const kn_image *picture, uint32_t width,
                    uint32_t height, bool resize, kn_error *err) {
    kn_mask given = { 0 };
    bool ok = take_mask(wish, &given, err) && bring_to_size(p, picture, &given, width, height, resize, err) &&
              copy_mask(&p->mask, &p->shown, err) && kn_mask_fade(&p->shown, fade_of(wish, 1), err);
    kn_mask_free(&given);
    return ok;
}

/* A canvas for the picture, and the mask of its new sides, which passes into the picture. */
static bool extend(const kn_inpaint_wish *wish, const kn_image *picture, double larger, kn_image *ret_canvas,
                   kn_mask *ret_mask, kn_error *err) {
    uint32_t room = (KN_MIN(picture->width, picture->height) - 1) / 2;
    return kn_image_extend(picture, wish->outpaint, ret_canvas, err) &&
           kn_mask_of_sides(picture->width, picture->height, wish->outpaint, KN_MIN(fade_of(wish, larger), room),
                            ret_mask, err);
}

static bool is_narrow(uint32_t side, double larger) {
    return side && side < CELL * larger;
}

/* A side that does not reach to the middle of a cell would not be drawn at all. */
static bool reach_cells(kn_mask *m, const kn_sides *s, double larger, kn_error *err) {
    bool narrow = is_narrow(s->left, larger) || is_narrow(s->top, larger) || is_narrow(s->right, larger) ||
                  is_narrow(s->bottom, larger);
    return !narrow || kn_mask_grow(m, CELL / 2, err);
}

/* What is shown passes from the new sides into the picture just as the mask does. */
static bool outpaint(kn_inpaint *p, const kn_inpaint_wish *wish, const kn_image *picture, uint32_t width,
                     uint32_t height, bool resize, kn_error *err) {
    kn_image canvas = { 0 };
    kn_mask sides = { 0 };
    double larger = (double)(wish->outpaint.left + picture->width + wish->outpaint.right) / width;
    bool ok = extend(wish, picture, larger, &canvas, &sides, err) &&
              bring_to_size(p, &canvas, &sides, width, height, resize, err) && copy_mask(&p->mask, &p->shown, err) &&
              reach_cells(&p->mask, &wish->outpaint, larger, err);
    kn_image_free(&canvas);
    kn_mask_free(&sides);
    return ok;
}

bool kn_inpaint_make(const kn_inpaint_wish *wish, const kn_image *picture, uint32_t width, uint32_t height, bool resize,
                     kn_inpaint **ret, kn_error *err) {
    kn_inpaint *p = calloc(1, sizeof *p);
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    if (wish->mask ? inpaint(p, wish, picture, width, height, resize, err)
                   : outpaint(p, wish, picture, width, height, resize, err)) {
        *ret = p;
        return true;
    }
    kn_inpaint_free(p);
    return false;
}

bool kn_inpaint_restore(const kn_inpaint_wish *wish, const kn_image *picture, double enlarged, kn_image *drawn,
                        kn_error *err) {
    kn_image canvas = { 0 };
    kn_mask shown = { 0 };
    bool extends = kn_inpaint_extends(wish);
    bool ok = extends ? extend(wish, picture, enlarged, &canvas, &shown, err)
                      : take_mask(wish, &shown, err) && kn_mask_fade(&shown, fade_of(wish, enlarged), err);
    if (ok)
        kn_image_lay_over(drawn, extends ? &canvas : picture, &shown);
    kn_image_free(&canvas);
    kn_mask_free(&shown);
    return ok;
}

void kn_inpaint_free(kn_inpaint *p) {
    if (!p)
        return;
    kn_image_free(&p->picture);
    kn_image_free(&p->marked);
    kn_mask_free(&p->mask);
    kn_mask_free(&p->shown);
    free(p->prompt);
    free(p);
}

/* number: of the picture among the references, the marked one comes next. */
static bool speak_of_region(kn_inpaint *p, const char *prompt, int number, kn_error *err) {
    static const char form[] = "In <image%d>, change the area marked in red in <image%d>: %s";
    char name[32];
    snprintf(name, sizeof name, "<image%d>", number + 1);
    size_t room = sizeof form + 2 * sizeof name + strlen(prompt);
    bool named = strstr(prompt, name) != NULL;
    p->prompt = named ? strdup(prompt) : malloc(room);
    if (!p->prompt)
        return kn_fail_nomem(err, room);
    if (!named)
        snprintf(p->prompt, room, form, number, number + 1, prompt);
    return true;
}

bool kn_inpaint_show_region(kn_inpaint *p, const char *prompt, const kn_image *references, int count, kn_error *err) {
    if (!kn_image_pad(&p->picture, p->picture.width, p->picture.height, &p->marked, err))
        return false;
    kn_image_paint_red(&p->marked, &p->mask);
    for (int i = 0; i < count; i++)
        p->reference[i] = references[i];
    p->reference[count] = p->picture;
    p->reference[count + 1] = p->marked;
    p->reference_count = count + 2;
    return speak_of_region(p, prompt, count + 1, err);
}
