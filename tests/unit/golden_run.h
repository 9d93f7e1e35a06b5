/* Whole runs of a pipeline beside recorded ones, and model files of full size that take no room. */
#ifndef KN_TESTS_GOLDEN_RUN_H
#define KN_TESTS_GOLDEN_RUN_H

#include "golden_model.h"

/* Draws what `case.json` in a folder below data asks for. In exact precision every tensor on the way is compared with
 * `io.safetensors`, and the pixels with `image.png` to one step; otherwise the pixels by their distance. */
void draw_recorded(const char *folder, const kn_model_wish *model_wish);

/* Whether a slot takes a released model at its full size, by its header alone, every one of so many tensors accounted
 * for; fails the test if not. manifest: name -> [type, shape] below data. */
void assert_full_size_fits(const char *manifest, const kn_slot *slot, size_t tensors);

#endif
