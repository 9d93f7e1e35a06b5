/* The values of TOML that are one bare word: booleans, numbers, dates and times. A part of the TOML reader. */
#ifndef KN_BASE_TOML_SCALAR_H
#define KN_BASE_TOML_SCALAR_H

#include "base/toml.h"

/* Sets the kind and the value of *ret. */
bool kn_toml_scalar_read(const char *word, size_t len, kn_toml *ret, kn_error *err);

#endif
