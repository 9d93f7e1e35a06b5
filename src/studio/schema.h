/* The tables of the database. Internal to the room. */
#ifndef KN_STUDIO_SCHEMA_H
#define KN_STUDIO_SCHEMA_H

#include "studio/store.h"

/* Whether this program knows the tables of that version, 0 being none. */
bool kn_schema_knows(int64_t version, kn_error *err);

/* Makes what is missing. A database of a later version is refused and left alone. */
bool kn_schema_prepare(kn_store *s, kn_error *err);

/* Tells of the database's last error; false. */
bool kn_store_fail(kn_store *s, kn_error *err);

#endif
