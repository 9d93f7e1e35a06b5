#include "pipelines/component.h"

#include <string.h>

#include "base/text.h"

static bool bind(kn_component *c, bool check_only, kn_error *err) {
    kn_binder *b = NULL;
    if (!kn_binder_new(c->file, c->prefix, check_only, &b, err))
        return false;
    c->slot->take(c->network, b);
    const char *own = kn_section_of(c->prefix);
    for (int i = 0; *own && kn_sections[i]; i++) /* the others account for theirs */
        if (strcmp(kn_sections[i], own) != 0)
            kn_ignore_outside(b, "%s", kn_sections[i]);
    if (!kn_binder_finish(b, err)) {
        kn_binder_free(b);
        return false;
    }
    c->bytes = kn_binder_bytes(b);
    if (check_only)
        kn_binder_free(b);
    else
        c->binder = b;
    return true;
}

static bool open_file(kn_component *c, const kn_source *source, kn_error *err) {
    if (!source->path)
        return kn_weights_open_bytes(source->data, source->len, &c->file, err);
    return kn_weights_open(source->path, &c->file, err);
}

/* A shard by itself lacks most of its model, which would be told name by name. */
static bool is_whole(const kn_source *source, kn_error *err) {
    const char *slash = source->path ? strrchr(source->path, '/') : NULL, *name = slash ? slash + 1 : source->path;
    return !name || !kn_shard_stem(name) ||
           kn_fail(err, KN_E_USAGE,
                   "is one shard of a split model; name its index (….safetensors.index.json) or folder instead");
}

static bool is_wanted(kn_component *c, kn_error *err) {
    if (kn_detect_as(c->file, c->slot->id, c->prefix))
        return true;
    const kn_kind *kind = kn_detect(c->file, c->prefix);
    if (kn_weights_count(c->file) == 0)
        return kn_fail(err, KN_E_FORMAT, "the file holds no tensors");
    if (!kind && !kn_weights_refuse_foreign(c->file, "", err))
        return false;
    if (!kind)
        return kn_fail(err, KN_E_FORMAT, "the file is not %s: its tensor names belong to no known network",
                       c->slot->wants);
    return kn_fail(err, KN_E_FORMAT, "the file is %s; %s is needed here", kind->title, c->slot->wants);
}

bool kn_component_open(kn_component *c, const kn_slot *slot, const kn_source *source, void *network, kn_error *err) {
    *c = (kn_component){ .slot = slot, .network = network };
    bool right = open_file(c, source, err) && is_whole(source, err) && is_wanted(c, err);
    if (!right && source->path)
        kn_fail_within(err, "'%s'", kn_quote_path(source->path).text);
    right = right && (!slot->prepare || slot->prepare(network, source, err));
    if (right && bind(c, true, err)) /* names many keys where it fails: they need the room that the path would take */
        return true;
    kn_component_close(c);
    return kn_fail_within(err, "%s", slot->name);
}

bool kn_component_load(kn_component *c, kn_error *err) {
    return c->binder || bind(c, false, err) || kn_fail_within(err, "%s", c->slot->name);
}

void kn_component_unload(kn_component *c) {
    if (!c->binder)
        return;
    kn_binder_free(c->binder);
    c->binder = NULL;
    kn_weights_forget_pages(c->file);
}

bool kn_component_is_current(const kn_component *c) {
    return !c->file || kn_weights_are_current(c->file);
}

void kn_component_close(kn_component *c) {
    kn_component_unload(c);
    if (c->file)
        kn_weights_close(c->file);
    c->file = NULL;
}
