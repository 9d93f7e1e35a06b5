/* The tables of the database. Internal to the room. */
#ifndef KN_STUDIO_SCHEMA_H
#define KN_STUDIO_SCHEMA_H

#include "studio/store.h"

/* Whether the database is the studio's, or has nothing in it yet. Another program's is KN_E_USAGE, one of a later
 * version KN_E_UNSUPPORTED: both are left alone. */
bool kn_schema_is_ours(kn_store *s, kn_error *err);

/* Makes what is missing in one that is. */
bool kn_schema_prepare(kn_store *s, kn_error *err);

/* Tells of the database's last error; false. */
bool kn_store_fail(kn_store *s, kn_error *err);

#endif
