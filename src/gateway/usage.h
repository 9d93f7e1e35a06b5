/* How often each model has really been used, and when last: aggregate numbers by digest, nothing about who or what.
 *
 * At most KN_USAGE_MODELS identities are kept; the one that was used longest ago makes room for a new one. Calls whose
 * model is not certain are counted together, without a name. The history is one file, replaced as a whole; one that
 * cannot be understood stops the start instead of being overwritten. */
#ifndef KN_GATEWAY_USAGE_H
#define KN_GATEWAY_USAGE_H

#include "base/buf.h"
#include "gateway/catalog.h"

enum {
    KN_USAGE_MODELS = 4096,
    KN_USAGE_BYTES = 1 << 20, /* of the file */
    KN_USAGE_ELIGIBLE_S = 7 * 24 * 60 * 60,
};

typedef struct kn_use {
    kn_digest digest;
    uint64_t calls;
    int64_t first_s, last_s; /* Unix time */
    uint64_t turn;           /* larger for a later use; also where a list that is read in pages goes on */
} kn_use;

typedef struct kn_usage {
    kn_use *uses; /* used last first */
    size_t count;
    uint64_t unattributed, turns;
} kn_usage;

bool kn_usage_new(kn_usage *ret, kn_error *err);
void kn_usage_free(kn_usage *u);

/* digest NULL: of no model that is certain. Never fails: all its memory is there from the start. */
void kn_usage_record(kn_usage *u, const kn_digest *digest, int64_t now_s);

/* Used within seven days, and what it was used as is still there. */
bool kn_usage_is_eligible(const kn_use *use, const kn_catalog *catalog, int64_t now_s);

/* Reads into an empty history; strict. */
bool kn_usage_read(kn_usage *u, const char *json, size_t len, kn_error *err);
bool kn_usage_write(const kn_usage *u, kn_buf *into) KN_MUST_USE;

/* The file of it. No file is an empty history. */
bool kn_usage_load(kn_usage *u, const char *path, kn_error *err);
bool kn_usage_save(const char *path, const kn_buf *json, kn_error *err);

#endif
