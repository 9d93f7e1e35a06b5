#include "pipelines/conditions.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct kn_conditions {
    kn_condition **at; /* the one that was asked for last comes last */
    size_t count, room;
    uint64_t last_serial;
};

size_t kn_values_count(const kn_values *v) {
    size_t n = 1;
    for (int i = 0; i < v->rank; i++)
        n *= (size_t)v->dim[i];
    return n;
}

bool kn_values_take(kn_run *r, kn_tensor t, kn_values *ret, kn_error *err) {
    kn_values v = { .rank = t.rank };
    if (r->err.code != KN_OK) {
        *err = r->err;
        return false;
    }
    memcpy(v.dim, t.dim, sizeof v.dim);
    size_t bytes = sizeof(float) * kn_values_count(&v);
    v.at = malloc(KN_MAX(bytes, 1));
    if (!v.at)
        return kn_fail_nomem(err, bytes);
    kn_download(r, t, v.at);
    *ret = v;
    return true;
}

kn_tensor kn_values_upload(kn_run *r, const kn_values *v) {
    return kn_upload(r, v->rank, v->dim, v->at);
}

static void free_condition(kn_condition *c) {
    free(c->text);
    kn_image_free(&c->picture);
    kn_tokens_free(&c->tokens);
    free(c->values.at);
    free(c);
}

kn_conditions *kn_conditions_new(void) {
    return calloc(1, sizeof(kn_conditions));
}

void kn_conditions_free(kn_conditions *c) {
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        free_condition(c->at[i]);
    free(c->at);
    free(c);
}

static bool same_picture(const kn_image *a, const kn_image *b) {
    return a->width == b->width && a->height == b->height && a->channels == b->channels &&
           (!a->pixels || memcmp(a->pixels, b->pixels, (size_t)a->width * a->height * a->channels) == 0);
}

static bool same_given(const kn_condition *a, const kn_condition *b) {
    return !a->text == !b->text && (!a->text || strcmp(a->text, b->text) == 0) &&
           memcmp(a->about, b->about, sizeof a->about) == 0 && same_picture(&a->picture, &b->picture);
}

/* Moves one to the end. */
static kn_condition *touch(kn_conditions *c, size_t i) {
    kn_condition *found = c->at[i];
    memmove(c->at + i, c->at + i + 1, (c->count - i - 1) * sizeof *c->at);
    c->at[c->count - 1] = found;
    return found;
}

/* given: taken over. */
static kn_condition *find_or_add(kn_conditions *c, kn_condition *given) {
    for (size_t i = 0; i < c->count; i++) {
        if (same_given(c->at[i], given)) {
            free_condition(given);
            return touch(c, i);
        }
    }
    kn_condition **at = kn_array_grow(c->at, c->count, &c->room, sizeof(kn_condition *), NULL);
    if (!at) {
        free_condition(given);
        return NULL;
    }
    given->serial = ++c->last_serial;
    c->at = at;
    c->at[c->count++] = given;
    return given;
}

kn_condition *kn_conditions_of_text(kn_conditions *c, const char *text, kn_condition *const *about, int count) {
    kn_condition *given = calloc(1, sizeof *given);
    if (!given)
        return NULL;
    for (int i = 0; i < count; i++)
        given->about[i] = about[i]->serial;
    given->text = strdup(text);
    if (given->text)
        return find_or_add(c, given);
    free_condition(given);
    return NULL;
}

kn_condition *kn_conditions_of_picture(kn_conditions *c, kn_image *picture) {
    kn_condition *given = calloc(1, sizeof *given);
    if (given) {
        given->picture = *picture;
        *picture = (kn_image){ 0 };
        return find_or_add(c, given);
    }
    kn_image_free(picture);
    return NULL;
}

void kn_condition_cut(kn_condition *c, size_t most) {
    size_t kept = KN_MIN(c->tokens.n, most);
    c->dropped = (int)(c->tokens.n - kept);
    c->tokens.n = kept;
}

static size_t bytes_of(const kn_condition *c) {
    return (c->text ? strlen(c->text) : 0) + (size_t)c->picture.width * c->picture.height * c->picture.channels +
           c->tokens.n * sizeof *c->tokens.id + (c->values.at ? kn_values_count(&c->values) * sizeof(float) : 0);
}

void kn_conditions_trim(kn_conditions *c) {
    size_t bytes = 0, kept = c->count;
    for (size_t i = c->count, n = 0; i-- > 0;) {
        bool made = c->at[i]->is_made;
        bytes += made ? bytes_of(c->at[i]) : 0;
        if (made && bytes <= KN_CONDITIONS_BYTES && ++n <= KN_CONDITIONS_COUNT) {
            c->at[--kept] = c->at[i];
        } else {
            free_condition(c->at[i]);
        }
    }
    if (kept > 0)
        memmove(c->at, c->at + kept, (c->count - kept) * sizeof *c->at);
    c->count -= kept;
}
