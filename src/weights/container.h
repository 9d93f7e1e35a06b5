/* Inside of this room: what an opened component holds, and the readers that fill it, one for each container format.
 *
 * A reader fills entries and metadata, sorts them and checks all that its format promises. */
#ifndef KN_WEIGHTS_CONTAINER_H
#define KN_WEIGHTS_CONTAINER_H

#include "base/file.h"
#include "base/text.h"
#include "weights/weights.h"

typedef struct kn_pair {
    const char *key, *value;
    kn_texts texts;
} kn_pair;

struct kn_weights {
    kn_map map;         /* empty when the bytes belong to the caller, or to the parts */
    char *path;         /* of that file, or of the index that joins the parts; NULL: the bytes belong to the caller */
    kn_edition edition; /* of what lay there */
    kn_entry *entry;    /* [count] */
    size_t count;
    kn_pair *metadata; /* [metadata_count] */
    size_t metadata_count;
    char *text;        /* all names, keys and values, each with its NUL */
    char *own_names;   /* the names that were changed, the same */
    kn_weights **part; /* [part_count]: the shards of a split model, whose entries have moved here */
    size_t part_count;
};

/* Fills w, which is empty. What it has allocated when it fails, its caller frees. */
bool kn_safetensors_read(const uint8_t *data, size_t len, kn_weights *w, kn_error *err);

bool kn_gguf_read(const uint8_t *data, size_t len, kn_weights *w, kn_error *err);

/* Gives the tensors of a GGUF file that llama.cpp's converters wrote the names that the networks know them by. */
bool kn_gguf_take_own_names(kn_weights *w, kn_error *err);

/* Opens the shard of that name, a plain file name; *ret is NULL if there is none. */
typedef bool kn_shard_open_fn(void *ctx, const char *name, kn_weights **ret, kn_error *err);

/* A split model: `index` says which shard holds which tensor, and all must be as it says. */
bool kn_shards_read(const char *index, size_t len, kn_shard_open_fn *open, void *ctx, kn_weights **ret, kn_error *err);

/* Sorts entries by name and metadata by key; refuses what is there twice. */
bool kn_weights_sort(kn_weights *w, kn_error *err);

/* The entries in the order of their data, empty ones before what begins at the same place; the caller frees *ret. */
bool kn_weights_by_place(const kn_weights *w, const kn_entry ***ret, kn_error *err);

/* For a file that has fewer bytes than it says. Always returns false. */
bool kn_fail_truncated(uint64_t have, uint64_t need, kn_error *err);

/* Says what the bytes are if they are one of the things that people take for a model file; silent if they are not.
 * Always returns false. */
bool kn_refuse_known_file(const uint8_t *data, size_t len, kn_error *err);

/* The entry called stem + suffix; NULL: not there. */
const kn_entry *kn_weights_find_joined(const kn_weights *w, const char *stem, size_t stem_len, const char *suffix);

/* The entries whose names start with prefix lie together: [*ret_first, *ret_end). */
void kn_weights_range(const kn_weights *w, const char *prefix, size_t *ret_first, size_t *ret_end);

bool kn_starts_with(const char *text, const char *start);
bool kn_ends_with(const char *text, size_t len, const char *end);

/* A tensor's name for a message. A long one loses its beginning: which layer and which part is said at the end. */
kn_quoted kn_quote_name(const char *name, size_t len);

/* Dimensions for a message. */
kn_shape_text kn_shape_of_entry(const kn_entry *e);

#endif
