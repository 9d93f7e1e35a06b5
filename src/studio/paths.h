/* Rules for paths and names that clients give, and the names that pictures get. */
#ifndef KN_STUDIO_PATHS_H
#define KN_STUDIO_PATHS_H

#include "base/buf.h"

enum { KN_PATH_BYTES = 4096, KN_SLUG_BYTES = 60 };

/* An absolute path of an existing folder, written plainly: no "..", no ".", no doubled slash, no control characters,
 * nothing in /proc, /sys or /dev. Errors tell the rule, never the path. */
bool kn_path_check_folder(const char *path, kn_error *err);

/* What the service keeps for itself. */
typedef struct kn_own_folders {
    const char *state;  /* NULL: only the studio's is known */
    const char *studio; /* mostly within it */
    char *models;       /* where models go if nobody says anything; not to be kept from anyone */
} kn_own_folders;

/* kn_path_check_folder for one that is written to: it is not the service's own, nor within it, whatever links lead
 * there; but in `models` it may be. own NULL: anywhere. */
bool kn_path_check_target(const char *path, const kn_own_folders *own, kn_error *err);

/* kn_path_check_folder without looking whether it is there, and for files, too. */
bool kn_path_check(const char *path, kn_error *err);

/* A file's name in a folder: no separators, no control characters, not "." or "..", at most 200 characters that fit
 * into 255 bytes. */
bool kn_path_check_name(const char *name, kn_error *err);

/* A part of a file name made from what people wrote: letters of any script and digits, in between single hyphens; at
 * most KN_SLUG_BYTES, cut at a character. May be empty. */
typedef struct kn_slug {
    char text[KN_SLUG_BYTES + 1];
} kn_slug;
kn_slug kn_slug_of(const char *text);

#endif
