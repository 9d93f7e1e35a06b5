/* One model file in one slot of a pipeline: opened and checked once, bound to its network while a stage needs it. */
#ifndef KN_PIPELINES_COMPONENT_H
#define KN_PIPELINES_COMPONENT_H

#include "pipelines/detect.h"
#include "pipelines/pipeline.h"

typedef struct kn_component {
    const kn_slot *slot;
    void *network; /* filled by slot->take */
    kn_weights *file;
    kn_binder *binder; /* NULL: not loaded */
    uint64_t bytes;    /* of the tensors that the network uses, as stored */
    char prefix[KN_PREFIX_MAX];
} kn_component;

/* Reads the header and checks that the file is what the slot wants, with every tensor it needs and none that nobody
 * knows. Reads no tensor data. */
bool kn_component_open(kn_component *c, const kn_slot *slot, const kn_source *source, void *network, kn_error *err);
bool kn_component_load(kn_component *c, kn_error *err); /* does nothing when loaded */
void kn_component_unload(kn_component *c);              /* also gives the file's pages back */
bool kn_component_is_current(const kn_component *c);    /* no other file has come in its file's place */
void kn_component_close(kn_component *c);

#endif
