/* What the commands of the server have in common: which config.json is meant, and what to do without one. */
#ifndef KN_CLI_SERVICE_H
#define KN_CLI_SERVICE_H

#include "gateway/config.h"

/* given: --config, or NULL: the installed one if there is one, else built-in settings with a state directory in the
 * user's home. *ret_from: which of them, NULL for the built-in ones. */
bool kn_service_config(const char *given, kn_config *ret, const char **ret_from, kn_error *err);

#endif
