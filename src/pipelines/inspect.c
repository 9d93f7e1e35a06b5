#include "pipelines/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/component.h"

/* Such types hold their scales themselves. */
static bool has_blocks(const kn_entry *e) {
    return kn_dtype_of(e->dtype)->block > 1;
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

/* "<layer>.weight" of a matrix that is not stored as plain numbers; *layer is the length of its name without ".weight".
 */
static bool is_quantised(const kn_entry *e, int *layer) {
    static const char suffix[] = ".weight";
    bool scaled = e->dtype == KN_F8_E4M3 || e->dtype == KN_F8_E5M2 || e->dtype == KN_I8;
    if ((!scaled && !has_blocks(e)) || e->rank != 2 || !ends_with(e->name, suffix))
        return false;
    *layer = (int)(strlen(e->name) - (sizeof suffix - 1));
    return true;
}

static bool has_scale(const kn_weights *w, const char *name, int layer) {
    char scale[1024];
    for (int older = 0; older < 2; older++) {
        int n = snprintf(scale, sizeof scale, "%.*s%s", layer, name, older ? ".scale_weight" : ".weight_scale");
        if (n < (int)sizeof scale && kn_weights_find(w, scale))
            return true;
    }
    return false;
}

/* section: what the names of those to count begin with. */
static void count(const kn_weights *w, const char *section, kn_inspection *ret) {
    int layer = 0;
    for (size_t i = 0; i < kn_weights_count(w); i++) {
        const kn_entry *e = kn_weights_at(w, i);
        if (strncmp(e->name, section, strlen(section)) != 0)
            continue;
        ret->tensors++;
        ret->tensor_bytes += e->bytes;
        ret->of_dtype[e->dtype]++;
        ret->has_vision |= strncmp(e->name, "visual.", 7) == 0 || strstr(e->name, ".visual.") != NULL;
        if (is_quantised(e, &layer)) {
            ret->quantised_layers++;
            ret->missing_scales += !has_blocks(e) && !has_scale(w, e->name, layer);
        }
    }
}

static void find_others(const kn_weights *w, kn_inspection *ret) {
    char prefix[KN_PREFIX_MAX];
    size_t n = 0;
    for (kn_role role = KN_ROLE_DIFFUSION; role < KN_ROLE_OTHER; role++) {
        const kn_kind *kind = kn_detect_role(w, role, prefix);
        if (kind && kind != ret->kind && role != KN_ROLE_VISION) /* has_vision tells already */
            ret->others[n++] = kind;
    }
}

/* Whether the weights below a prefix are stored in a way that can be read: a binder looks. */
static bool is_readable(const kn_weights *w, const char *prefix, kn_error *err) {
    kn_binder *b = NULL;
    if (!kn_binder_new(w, prefix, true, &b, err))
        return false;
    kn_binder_free(b);
    return true;
}

/* Each network in the file by itself, so that none is judged by the weights of another; what is unknown as a whole. */
static bool all_readable(const kn_weights *w, const kn_kind *kind, kn_error *err) {
    char prefix[KN_PREFIX_MAX];
    if (!kind)
        return is_readable(w, "", err);
    for (kn_role role = KN_ROLE_DIFFUSION; kind->role != KN_ROLE_OTHER && role < KN_ROLE_OTHER; role++)
        if (kn_detect_role(w, role, prefix) && !is_readable(w, prefix, err))
            return false;
    return true;
}

bool kn_inspect_file(const kn_source *source, const kn_slot *slot, kn_inspection *ret, kn_error *err) {
    kn_weights *w = NULL;
    bool open = source->path ? kn_weights_open(source->path, &w, err)
                             : kn_weights_open_bytes(source->data, source->len, &w, err);
    if (!open)
        return false;
    kn_inspection found = { 0 };
    found.kind = slot ? kn_detect_as(w, slot->id, found.prefix) : NULL;
    if (!found.kind)
        found.kind = kn_detect(w, found.prefix);
    bool ok = found.kind || kn_weights_refuse_foreign(w, "", err);
    count(w, slot ? kn_section_of(found.prefix) : "", &found);
    if (!slot && found.kind && found.kind->role != KN_ROLE_OTHER)
        find_others(w, &found);
    if (slot ? is_readable(w, found.prefix, &(kn_error){ 0 }) : all_readable(w, found.kind, &found.problem))
        found.missing_scales = 0; /* those without one are plain casts */
    if (!slot && !found.kind && found.problem.code == KN_OK)
        kn_fail(&found.problem, KN_E_FORMAT,
                found.tensors ? "its tensor names belong to no known network" : "the file holds no tensors");
    kn_weights_close(w);
    if (ok)
        *ret = found;
    return ok;
}

bool kn_inspect_fit(const kn_slot *slot, const kn_source *source, kn_error *err) {
    kn_component c;
    void *network = calloc(1, slot->network_bytes);
    if (!network)
        return kn_fail_nomem(err, slot->network_bytes);
    bool fits = kn_component_open(&c, slot, source, network, err);
    if (fits)
        kn_component_close(&c);
    free(network);
    return fits;
}
