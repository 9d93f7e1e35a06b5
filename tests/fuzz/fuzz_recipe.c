/* Any bytes as a recipe: what is taken keeps to every limit, checked or decoded alike. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "workers/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_side(const kn_optional *side) {
    if (side->given && (side->value < KN_RECIPE_SIDE_MIN || side->value > KN_RECIPE_SIDE_MAX))
        abort();
}

static void check_size(const kn_recipe_size *s) {
    if (s->width > KN_RECIPE_RESULT_MAX || s->height > KN_RECIPE_RESULT_MAX || !s->width != !s->height ||
        !(s->blend >= 0 && s->blend <= 1) || (s->upscaler && (strchr(s->upscaler, '/') || s->upscaler[0] == '.')))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_image_recipe r = { 0 }, checked = { 0 };
    kn_error err = { 0 }, again = { 0 };
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 1000);
    kn_job_code code = kn_image_recipe_read((const char *)data, size, true, &r, &pointer, &err);
    if (kn_image_recipe_read((const char *)data, size, false, &checked, NULL, &again) != code)
        abort();
    kn_image_recipe_free(&checked);
    if (kn_image_recipe_check((const char *)data, size, &checked, NULL, &again) == KN_JOB_DONE &&
        (code != KN_JOB_DONE || !checked.workflow || !checked.seed_given || checked.model || checked.strength.given))
        abort();
    kn_image_recipe_free(&checked);
    if (code != KN_JOB_DONE) {
        if (err.code == KN_OK || !err.text[0] || kn_utf8_check(err.text, strlen(err.text)) != strlen(err.text))
            abort();
        return 0;
    }
    check_side(&r.width);
    check_side(&r.height);
    check_size(&r.size);
    bool prompted = r.prompt ? *r.prompt : r.init_image.len && r.size.width && !r.mask.len && !r.workflow;
    if (!prompted || r.seed > INT64_MAX || r.reference_count > KN_RECIPE_REFERENCES_MAX ||
        (r.steps.given && !(r.steps.value >= 1 && r.steps.value <= KN_RECIPE_STEPS_MAX)) ||
        (r.workflow && r.workflow->edits != (r.reference_count > 0)))
        abort();
    for (int i = 0; i < r.reference_count; i++)
        if (!r.references[i].len)
            abort();
    kn_image_recipe_free(&r);
    return 0;
}
