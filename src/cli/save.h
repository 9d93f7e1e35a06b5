/* Results of commands: a file that appears whole or not at all, or standard output when the name is "-". */
#ifndef KN_CLI_SAVE_H
#define KN_CLI_SAVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/image.h"

/* The kind of picture that a name's ending asks for, .jpg, .jpeg or .webp; all others are PNG files. */
kn_image_kind kn_save_kind(const char *path);

/* Whether the picture could be written, asked before hours of work: nothing is left behind. */
bool kn_save_check(const char *path, bool clobber, kn_error *err);

/* A second stopping signal waits for it. Without clobber an existing file is an error. */
bool kn_save(const char *path, bool clobber, const void *data, size_t len, kn_error *err);

/* The name of one of several results: the path itself if there is only one, else with a number, counted from 1, before
 * the ending: "boat.png" becomes "boat-1.png". */
bool kn_save_name(const char *path, uint64_t index, uint64_t count, kn_buf *ret, kn_error *err);

#endif
