/* Tables that people choose from by name: samplers, schedules, noise generators. A row begins with a kn_name, so that
 * help texts, completions and messages all come from the table itself. Names compare without case, ASCII only. */
#ifndef KN_SAMPLING_NAMES_H
#define KN_SAMPLING_NAMES_H

#include <stddef.h>

#include "base/error.h"

typedef struct kn_name {
    const char *name;       /* as help and metadata spell it */
    const char *aliases[3]; /* other spellings that are understood; the rest is NULL */
    const char *help;
} kn_name;

/* Finds the row of that name or alias; rows are row_bytes apart. The error lists what there is:
 * "unknown sampler 'eulr'; known: euler, heun, …". */
bool kn_name_find(const char *what, const void *rows, size_t row_bytes, size_t count, const char *text, size_t *ret,
                  kn_error *err);

#define KN_NAME_FIND(what, table, text, ret, err)                                                                      \
    kn_name_find(what, table, sizeof((table)[0]), KN_COUNT(table), text, ret, err)

#endif
