/* What lies in a folder of models and all folders below it: model files, told by their first bytes, and tokenizers. Of
 * models that are split over several files the index stands for all.
 *
 * Links are followed, but nothing is visited twice, so that loops end, and none is followed to a folder that the whole
 * tree lies in. What begins with a dot and what lies in /proc, /sys and /dev is left out. */
#ifndef KN_PIPELINES_MODEL_TREE_H
#define KN_PIPELINES_MODEL_TREE_H

#include <stddef.h>

#include "base/error.h"

enum { KN_TREE_MAX_DEPTH = 12, KN_TREE_MAX_ENTRIES = 100000 };

typedef struct kn_paths {
    char **at;
    size_t count, room;
} kn_paths;

typedef struct kn_model_tree {
    kn_paths files;      /* safetensors, their indices and GGUF, in the order of their names */
    kn_paths tokenizers; /* folders with tokenizer.json, or with vocab.json and merges.txt */
    kn_paths unreadable; /* folders */
    bool cut;            /* there is more than the limits or the time allow, or where nothing is looked at */
} kn_model_tree;

/* within_s: for a large tree, which is cut then; 0: as long as it takes. */
bool kn_model_tree_read(const char *folder, double within_s, kn_model_tree *ret, kn_error *err);
void kn_model_tree_free(kn_model_tree *t);

#endif
