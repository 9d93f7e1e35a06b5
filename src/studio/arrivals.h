/* What becomes of complete downloads: a collection of which every file is in the directory becomes a profile of the
 * studio's own, by the collection's name. Nothing is replaced and nothing is activated: a profile of exactly these
 * files, whoever wrote it, is as good as a new one, and if another has the name, a number goes behind it.
 *
 * Each download is looked at once, after its end or, if the service was killed there, at the next start. So a profile
 * that somebody removes does not come back by itself. Internal to the room. */
#ifndef KN_STUDIO_ARRIVALS_H
#define KN_STUDIO_ARRIVALS_H

#include "studio/downloads.h"

/* Looks at all that have arrived. models_toml: see profiles.h. made: gets the names of the profiles that are new. What
 * an error leaves is looked at by the next call. */
bool kn_arrivals_settle(kn_store *s, const kn_collections *all, const char *models_toml, json_t *made, kn_error *err);

#endif
