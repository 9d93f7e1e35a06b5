/* Which files of a model tree make whole models together.
 *
 * For each diffusion model the files that fit its places are tried, those nearest to it first, until a pipeline opens
 * with them: what counts are the checks that drawing makes, too. Only headers are read. */
#ifndef KN_PIPELINES_COLLECTION_H
#define KN_PIPELINES_COLLECTION_H

#include "base/buf.h"
#include "pipelines/inspect.h"
#include "pipelines/model_tree.h"
#include "pipelines/registry.h"

typedef enum kn_place { KN_PLACE_DIFFUSION, KN_PLACE_TEXT, KN_PLACE_VISION, KN_PLACE_VAE, KN_PLACES } kn_place;

enum { KN_COLLECTION_ARCHITECTURES = 16 };

typedef struct kn_collected_file {
    const char *path;
    const kn_kind *kind;                             /* NULL: unknown */
    bool says_vl;                                    /* a text encoder: its name or config.json says Qwen-VL */
    unsigned char fits[KN_COLLECTION_ARCHITECTURES]; /* a bit for each place */
    kn_error problem; /* why it cannot be used though it is, or may be, what an architecture wants; KN_OK: none */
} kn_collected_file;

typedef struct kn_collected_tokenizer {
    const char *path;
    int32_t tokens; /* 0: it cannot be used */
} kn_collected_tokenizer;

typedef struct kn_collected_model {
    char name[64]; /* of its profile */
    const kn_architecture *architecture;
    const kn_variant *variant;
    bool variant_is_guess;          /* the file's name does not tell */
    const char *part[KN_PLACES];    /* NULL: none */
    bool text_is_guess;             /* the text encoder may be another one than what is wanted */
    bool in_one;                    /* all parts but the tokenizer are the same file */
    const char *tokenizer;          /* NULL: the built-in one */
    const char *missing[KN_PLACES]; /* what nothing was found for, NULL behind the last one */
    kn_error problem;               /* why what was found does not go together; KN_OK: it does */
} kn_collected_model;

typedef struct kn_collection {
    kn_model_tree tree;
    kn_collected_file *files;           /* [tree.files.count] */
    kn_collected_tokenizer *tokenizers; /* [tree.tokenizers.count], those with the most tokens first */
    kn_collected_model *models;
    size_t model_count;
} kn_collection;

bool kn_collection_make(const char *folder, kn_collection *ret, kn_error *err);
void kn_collection_free(kn_collection *c);

bool kn_collected_is_complete(const kn_collected_model *m);

/* The table for models.toml, which works wherever that file is. False when memory is out. */
bool kn_collected_profile(const kn_collected_model *m, kn_buf *into);

#endif
