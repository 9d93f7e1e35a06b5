/* Which addresses a download may go to: those that the catalogue's base makes, or a mirror's in its place, and
 * redirects from there within the catalogue's domains and the mirror's own host. Always by https; only a mirror on this
 * machine itself (localhost, 127.0.0.1, [::1]) may do without, and redirect to another port of this machine. */
#ifndef KN_CATALOG_ORIGIN_H
#define KN_CATALOG_ORIGIN_H

#include "catalog/collections.h"

enum { KN_ADDRESS_BYTES = 8192 };

typedef struct kn_origin {
    const kn_collections *collections;
    char *base; /* without a slash at its end */
    char *host;
    bool local; /* the base is on this machine */
} kn_origin;

/* Whether such an address can be a mirror's. */
bool kn_mirror_is_good(const char *address, kn_error *err);

/* mirror: NULL: the catalogue's base. */
bool kn_origin_open(const kn_collections *c, const char *mirror, kn_origin *ret, kn_error *err);
void kn_origin_close(kn_origin *o);

/* Where the file is asked for first. The caller frees it. */
bool kn_origin_address(const kn_origin *o, const kn_artifact *a, char **ret, kn_error *err);

/* Whether a redirect may lead there. Errors name no more than the host. */
bool kn_origin_allows(const kn_origin *o, const char *address, kn_error *err);

#endif
