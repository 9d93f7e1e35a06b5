/* Model files: what is in them, checked to the last byte before anything believes it.
 *
 * A kn_weights is one opened component: one safetensors or GGUF file, or several that an index joins (mapped; no tensor
 * data is read when opening), with names, shapes, storage types and metadata. It knows nothing of networks. A kn_binder
 * takes what a network needs out of it and accounts for every key: in the end nothing may be missing, and nothing
 * unknown may be left.
 *
 * A GGUF file looks like any other: dimensions are turned to our order, text encoders and vision towers as llama.cpp
 * names them get the names of their networks, below "model." and "visual.". Numbers of its metadata are text, short
 * arrays of whole numbers "1,2,3"; other arrays are "", but lists of texts can be had by kn_weights_texts.
 *
 * Scaled FP8 and INT8 weights arrive with their scales whichever way the file marks them. FP8 codes in a file (or
 * prefix) without any mark and without any scale are plain casts: their scale is 1. Other quantised formats are refused
 * by name. */
#ifndef KN_WEIGHTS_WEIGHTS_H
#define KN_WEIGHTS_WEIGHTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

enum { KN_FILE_MAX_RANK = 8 };

typedef struct kn_entry {
    const char *name;
    kn_dtype dtype;
    int rank; /* 0: a scalar */
    uint64_t dim[KN_FILE_MAX_RANK];
    const uint8_t *data; /* in the mapping; no alignment promised */
    uint64_t bytes, elements;
} kn_entry;

typedef struct kn_weights kn_weights;

/* Opens and validates. path is a model file, whose first bytes say which of the two formats it is; the index of a model
 * that is split over several files ("….safetensors.index.json"), which lie beside it; or a folder with one of these, as
 * diffusers and transformers write them. The error says what the file is when it is not a model (LFS pointer, web page,
 * pickle, …) but does not contain the path. */
bool kn_weights_open(const char *path, kn_weights **ret, kn_error *err);
/* The same of one file over bytes that the caller keeps alive (the built-in model, tests, fuzzing). */
bool kn_weights_open_bytes(const uint8_t *data, size_t len, kn_weights **ret, kn_error *err);
void kn_weights_close(kn_weights *w);
/* Whether every file of it still lies where it was opened, as it was then. What was mapped stays as it was where
 * another one was put in its place. */
bool kn_weights_are_current(const kn_weights *w);
/* Gives the mapped pages back to the system; they come again when they are read. */
void kn_weights_forget_pages(const kn_weights *w);
/* Of the tensors whose names begin with the prefix: whether the system has most of them in its memory, and having it
 * read them, in the order of the file, before anybody needs them. The latter is for a thread of its own: it may take as
 * long as the disk does, and ends early when `stop` is set. */
bool kn_weights_are_near(const kn_weights *w, const char *prefix);
void kn_weights_fetch_pages(const kn_weights *w, const char *prefix, const atomic_bool *stop);

/* How split models are named: "model.safetensors.index.json" is the index of "model-00001-of-00002.safetensors" and
 * "model-00002-of-00002.safetensors", whose stem is "model". Length of the stem; 0: it is no name of a shard. */
bool kn_is_shard_index(const char *path);
size_t kn_shard_stem(const char *name);

size_t kn_weights_count(const kn_weights *w);
const kn_entry *kn_weights_at(const kn_weights *w, size_t i);                                     /* sorted by name */
const kn_entry *kn_weights_find(const kn_weights *w, const char *name);                           /* NULL: not there */
const kn_entry *kn_weights_find_below(const kn_weights *w, const char *prefix, const char *leaf); /* prefix + leaf */
const char *kn_weights_metadata(const kn_weights *w, const char *key);                            /* NULL: not there */
uint64_t kn_weights_bytes(const kn_weights *w); /* of all tensor data */

/* A list of texts in the metadata of a GGUF file, such as its vocabulary: any bytes, one behind the other in the
 * mapping. count 0: there is no such list. */
typedef struct kn_texts {
    const uint8_t *at;
    uint64_t count;
} kn_texts;

kn_texts kn_weights_texts(const kn_weights *w, const char *key);
bool kn_texts_next(kn_texts *t, const char **ret, size_t *ret_len); /* false behind the last one */

/* What stands in front of a leaf name in this file: "model.diffusion_model." for "txt_in.text_norm.weight", or "".
 * False if no name, or more than one, is that leaf or ends in "." and the leaf, or if ret is too small. */
bool kn_weights_prefix_of(const kn_weights *w, const char *leaf, char *ret, size_t size);

/* Refuses, naming the format, if a name under the prefix is one that only quantised formats have that are not supported
 * (Nunchaku, AWQ, bitsandbytes, …). For files that are nothing else; a binder looks itself. */
bool kn_weights_refuse_foreign(const kn_weights *w, const char *prefix, kn_error *err);

/* Do all elements decode to finite numbers? Reads the tensor's data, so not for every matrix at each start. */
bool kn_entry_is_finite(const kn_entry *e);

/* Takes weights by name from an opened file. Like a kn_run it has a sticky error of its own kind: names that are
 * missing or have the wrong shape are collected, and kn_binder_finish reports them all (the first ten, then a count),
 * so that loading code needs no checks. After a failure the taken weights must not be used. */
typedef struct kn_binder kn_binder;

/* prefix is put in front of every name that is asked for; keys outside it are left over unless ignored below. Reads how
 * the weights under the prefix are quantised and refuses what contradicts itself or is not supported. */
/* check_only: convolutions are not converted, so that a file can be accounted for without reading its data; what is
 * taken must then not be used. */
bool kn_binder_new(const kn_weights *w, const char *prefix, bool check_only, kn_binder **ret, kn_error *err);
void kn_binder_free(kn_binder *b); /* frees also converted copies: call when the component is unloaded */

bool kn_has(const kn_binder *b, const char *fmt, ...) KN_PRINTF(2, 3); /* prefix + name exists */

/* In dims, -1 takes what the file has; so does 0, which is what a weight that could not be taken shows. Names are
 * without ".weight"/".bias".
 * kn_take_matrix: "<name>.weight" [out, in] in its stored format, with its scale(s) and quantisation record, and
 * "<name>.bias" if the file has one. Also for embedding tables and for 1x1 convolutions [out, in, 1, 1]. */
kn_weight kn_take_matrix(kn_binder *b, int64_t out, int64_t in, const char *fmt, ...) KN_PRINTF(4, 5);
/* The same of a layer that has a bias in every file. */
kn_weight kn_take_biased(kn_binder *b, int64_t out, int64_t in, const char *fmt, ...) KN_PRINTF(4, 5);
/* "<name>.weight" [out, …] of a convolution that steps by its own size, as the matrix [out, in] of its flattened
 * patches, and its bias. */
kn_weight kn_take_patch_matrix(kn_binder *b, int64_t out, int64_t in, const char *fmt, ...) KN_PRINTF(4, 5);
/* A vector by its full name, e.g. "norm.weight", converted to float32; `plus` is added to each element. Singleton
 * dimensions are dropped. */
kn_weight kn_take_vector(kn_binder *b, int64_t n, float plus, const char *fmt, ...) KN_PRINTF(4, 5);
/* A few rows of vectors by their full name, [rows, width] or one after the other [rows * width], as float32. */
kn_weight kn_take_table(kn_binder *b, int64_t rows, int64_t width, const char *fmt, ...) KN_PRINTF(4, 5);
/* A convolution "<name>.weight" [out, in, kh, kw], or [out, in, 1, kh, kw], and its bias, turned to [out, kh, kw, in]
 * in a copy of the same storage type. A temporal extent of more than one keeps only the last tap. */
kn_weight kn_take_conv(kn_binder *b, int64_t out, int64_t in, int64_t kh, int64_t kw, const char *fmt, ...)
    KN_PRINTF(6, 7);
/* Rows `from` … `from + count - 1` of a matrix as a matrix of their own (no copy). */
kn_weight kn_weight_rows(const kn_weight *w, int64_t from, int64_t count);

/* Known keys that the network does not use: every name that starts with prefix + fmt counts as consumed. */
void kn_ignore(kn_binder *b, const char *fmt, ...) KN_PRINTF(2, 3);
/* The same without the binder's prefix: the other components of an all-in-one file. */
void kn_ignore_outside(kn_binder *b, const char *fmt, ...) KN_PRINTF(2, 3);

/* Records that the shapes contradict each other; shown by kn_binder_finish. */
void kn_binder_fail(kn_binder *b, const char *fmt, ...) KN_PRINTF(2, 3);

/* What the taken tensors take up in the file; nothing of what is ignored. */
uint64_t kn_binder_bytes(const kn_binder *b);

/* All taken, nothing missing, nothing left? Errors name the keys. */
bool kn_binder_finish(kn_binder *b, kn_error *err);

#endif
