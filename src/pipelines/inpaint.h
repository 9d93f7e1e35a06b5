/* Inpainting and outpainting before anything is drawn: from the pictures that are given to those that a recipe needs.
 *
 * The picture comes onto the model's grid, outpainted with room on its sides; the mask says what is drawn, and how much
 * of that is shown. Qwen-Image 2.1 does not see masks: it is shown the region, too, as it was taught, by the picture
 * and a copy with the region in red among its references, and by a sentence about them. */
#ifndef KN_PIPELINES_INPAINT_H
#define KN_PIPELINES_INPAINT_H

#include "image/canvas.h"
#include "pipelines/conditions.h"
#include "sampling/schedule.h"

typedef struct kn_inpaint_wish {
    const kn_image *mask; /* of the size of the picture: see kn_mask_from_picture; NULL: none */
    bool invert;          /* black is drawn anew */
    kn_optional grow;     /* by so many pixels; default 0 */
    kn_optional fade;     /* over so many pixels does what is drawn pass into what stays; default 4, outpainting 40 */
    kn_sides outpaint;    /* all 0: no outpainting */
    bool show_region;     /* to a model that can be shown it */
} kn_inpaint_wish;

/* What is asked for agrees with itself and with the picture, which may be NULL. */
bool kn_inpaint_check(const kn_inpaint_wish *wish, const kn_image *picture, kn_error *err);

static inline bool kn_inpaint_extends(const kn_inpaint_wish *wish) {
    return wish->outpaint.left || wish->outpaint.top || wish->outpaint.right || wish->outpaint.bottom;
}
static inline bool kn_inpaint_is_wanted(const kn_inpaint_wish *wish) {
    return wish->mask || kn_inpaint_extends(wish);
}

/* What belongs to a recipe, which points here. */
typedef struct kn_inpaint {
    kn_image picture;                      /* to start from; of the recipe's size */
    kn_mask mask, shown;                   /* as in a recipe */
    kn_image marked;                       /* the picture with the region in red; no pixels if it is not shown */
    char *prompt;                          /* with the sentence about the region, or NULL: as it was given */
    int reference_count;                   /* the given ones, the picture and the marked one */
    kn_image reference[KN_MAX_REFERENCES]; /* views of them */
} kn_inpaint;

/* wish: checked. The picture, or the canvas that outpainting makes of it, comes to width x height: resized if `resize`
 * says so; if not, it is padded, and what the padding shows stays what it is where the mask beside it keeps that. */
bool kn_inpaint_make(const kn_inpaint_wish *wish, const kn_image *picture, uint32_t width, uint32_t height, bool resize,
                     kn_inpaint **ret, kn_error *err);
void kn_inpaint_free(kn_inpaint *p); /* NULL is fine */

/* Where the picture had to be drawn smaller and was enlarged again, by `enlarged`: every pixel that the mask keeps,
 * that of the sides too, is the given one again. wish: checked, with a mask or sides. drawn: of the picture's channels,
 * and of its size or that of its canvas. */
bool kn_inpaint_restore(const kn_inpaint_wish *wish, const kn_image *picture, double enlarged, kn_image *drawn,
                        kn_error *err);

/* Adds the picture and its marked copy to these references, and the sentence to the prompt, unless that speaks of the
 * copy already. There must be room for two. */
bool kn_inpaint_show_region(kn_inpaint *p, const char *prompt, const kn_image *references, int count, kn_error *err);

#endif
