/* What a model file holds and what it is good for, from its header alone: of the tensor data, only scales and records
 * of quantised layers are read. */
#ifndef KN_PIPELINES_INSPECT_H
#define KN_PIPELINES_INSPECT_H

#include "pipelines/detect.h"
#include "pipelines/pipeline.h"

typedef struct kn_inspection {
    const kn_kind *kind; /* NULL: unknown */
    char prefix[KN_PREFIX_MAX];
    uint64_t tensor_bytes;
    size_t tensors, of_dtype[KN_DTYPE_COUNT];
    size_t quantised_layers, missing_scales;
    bool has_vision;                      /* a vision tower is in the same file */
    const kn_kind *others[KN_ROLE_OTHER]; /* what else an all-in-one file holds; NULL behind the last one */
    kn_error problem; /* without a slot: why nothing can be drawn with it, as far as it tells by itself; KN_OK: none */
} kn_inspection;

/* slot: of an all-in-one file only what belongs there; NULL: the file as it is. Errors are about the file alone; the
 * caller puts its name in front. */
bool kn_inspect_file(const kn_source *source, const kn_slot *slot, kn_inspection *ret, kn_error *err);

/* Whether a file can be what a slot of an architecture wants, every key accounted for. The error says why not and
 * begins with the slot's name. */
bool kn_inspect_fit(const kn_slot *slot, const kn_source *source, kn_error *err);

#endif
