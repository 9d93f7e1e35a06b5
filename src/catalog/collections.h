/* The catalogue of what can be downloaded: collections of model files, each with its size, its SHA-256, its licence and
 * the revision that it comes from. It is a file of the source, collections.json, that is part of the program: no
 * request, picture or server can name another address.
 *
 *     collections.h            what there is
 *     origin.h                 which addresses may be asked for it
 *     answer.h pieces.h        what servers say; which parts of a file are there
 *     partial.h keeper.h       the unfinished file on the disk; hashing and syncing beside the network
 *     fetch.h                  one file, from its address to its name
 *
 * Everything here blocks and belongs into a thread of its own. */
#ifndef KN_CATALOG_COLLECTIONS_H
#define KN_CATALOG_COLLECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    KN_COLLECTIONS_BYTES = 1 << 20,
    KN_COLLECTIONS_MAX = 64,
    KN_ARTIFACTS_MAX = 256,
    KN_LICENCES_MAX = 32,
    KN_DOMAINS_MAX = 8,
    KN_COLLECTION_PARTS_MAX = 16,
    KN_ARTIFACT_ID_BYTES = 81,
    KN_COLLECTION_ID_BYTES = 61, /* it becomes the name of a profile, perhaps with a number behind it */
    KN_SHA256_HEX = 65,
};

/* What the longest file may have; far beyond any model. */
#define KN_ARTIFACT_BYTES_MAX ((uint64_t)1 << 44)

typedef struct kn_licence {
    char *id, *title, *page;
} kn_licence;

typedef struct kn_artifact {
    char *id, *title, *role;
    const kn_licence *licence;
    char *repository, *revision, *path; /* where it comes from, below the base address */
    char *folder;                       /* where it goes, below the folder of models */
    const char *name;                   /* the last part of the path */
    uint64_t bytes;
    char sha256[KN_SHA256_HEX];
} kn_artifact;

struct kn_architecture; /* pipelines/registry.h */
struct kn_variant;

/* The files of one model, or upscalers, which need no other files. */
typedef struct kn_collection {
    char *id, *title;
    const struct kn_architecture *model; /* NULL: upscalers */
    const struct kn_variant *variant;
    size_t count;
    const kn_artifact *artifacts[KN_COLLECTION_PARTS_MAX];
} kn_collection;

typedef struct kn_collections {
    char *base;                    /* https://… */
    char *domains[KN_DOMAINS_MAX]; /* where redirects may lead, with all names below them */
    kn_licence licences[KN_LICENCES_MAX];
    kn_artifact artifacts[KN_ARTIFACTS_MAX];
    kn_collection collections[KN_COLLECTIONS_MAX];
    size_t domain_count, licence_count, artifact_count, collection_count;
} kn_collections;

/* The catalogue of this program. To be freed. */
bool kn_collections_load(kn_collections **ret, kn_error *err);

/* The same of any text: nothing in it may be missing, unknown or named twice. */
bool kn_collections_read(const char *text, size_t len, kn_collections **ret, kn_error *err);
void kn_collections_free(kn_collections *c); /* NULL is fine */

/* NULL: there is none. */
const kn_collection *kn_collection_named(const kn_collections *c, const char *id);
const kn_artifact *kn_artifact_named(const kn_collections *c, const char *id);

uint64_t kn_collection_bytes(const kn_collection *c);
bool kn_collection_has(const kn_collection *c, const kn_artifact *a);

/* Where people find the file with a browser: the repository at that revision. The caller frees it. */
bool kn_artifact_page(const kn_collections *c, const kn_artifact *a, char **ret, kn_error *err);

#endif
