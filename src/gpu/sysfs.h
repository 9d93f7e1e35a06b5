/* Small files of /sys and /proc, which have no size and one short answer. */
#ifndef KN_GPU_SYSFS_H
#define KN_GPU_SYSFS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The file's text, cut at room - 1 bytes. */
bool kn_sysfs_text(const char *path, char *text, size_t room);

/* Nothing but digits and the end of one line. */
bool kn_sysfs_number(const char *path, uint64_t *ret);

/* The last part of where a link leads; false if it is no link or too long. */
bool kn_sysfs_link(const char *path, char *name, size_t room);

/* printf into a path that must fit. */
bool kn_sysfs_path(char *path, size_t room, const char *fmt, ...) KN_PRINTF(3, 4);

#endif
