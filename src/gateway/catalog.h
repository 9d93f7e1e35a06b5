/* What models there are: the names that the upstream lists (/api/tags) with the digests of their artifacts.
 *
 * A name is only a label that can be moved or copied; a digest is what a model is. So everything that is counted or
 * placed is known here by its digest, and a name that the upstream does not list is nobody's. */
#ifndef KN_GATEWAY_CATALOG_H
#define KN_GATEWAY_CATALOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    KN_CATALOG_BYTES = 16 << 20, /* of the upstream's answer */
    KN_CATALOG_MODELS = 16384,
    KN_CATALOG_FRESH_MS = 60 * 1000,
};

/* SHA-256 of a model's manifest. */
typedef struct kn_digest {
    char text[65]; /* 64 hexadecimal digits in lower case */
} kn_digest;

bool kn_digest_parse(const char *text, size_t len, kn_digest *ret);

typedef struct kn_model {
    char *name; /* as the upstream shows it */
    char *key;  /* by which it is found */
    kn_digest digest;
    uint64_t bytes; /* of all its layers */
    bool remote;    /* a stub of something that runs elsewhere */
} kn_model;

typedef struct kn_catalog {
    kn_model *models; /* by key */
    size_t count;
    uint64_t read_at_ms;
    bool read; /* false: nothing is known, or what was known is no longer true */
} kn_catalog;

/* Reads an answer of /api/tags. Entries without a good digest are left out. */
bool kn_catalog_read(const char *json, size_t len, uint64_t now_ms, kn_catalog *ret, kn_error *err);
void kn_catalog_free(kn_catalog *c);

/* The models may have changed: what is known must be read again before it is used. */
void kn_catalog_invalidate(kn_catalog *c);
bool kn_catalog_is_fresh(const kn_catalog *c, uint64_t now_ms);

/* By any form of a name: without ":latest", with the host and library that are meant anyway, in any case. */
const kn_model *kn_catalog_find(const kn_catalog *c, const char *name, size_t len);

/* The next model of this digest after `after` (NULL: the first one); NULL: there is none. */
const kn_model *kn_catalog_of_digest(const kn_catalog *c, const kn_digest *digest, const kn_model *after);

#endif
