/* What the commands of the server have in common: which config.json is meant, and what to do without one. */
#ifndef KN_CLI_SERVICE_H
#define KN_CLI_SERVICE_H

#include "gateway/config.h"
#include "gateway/token.h"

/* given: --config, or NULL: the installed one if there is one, else built-in settings with a state directory in the
 * user's home. *ret_from: which of them, NULL for the built-in ones. */
bool kn_service_config(const char *given, kn_config *ret, const char **ret_from, kn_error *err);

/* The control token of the environment. Where there is none and no configuration either, that of the state directory,
 * which is made if it is missing (makes) or not yet a token (ret is empty then). told: where it was found. */
typedef struct kn_service_token {
    kn_token token;
    char from[4200];
} kn_service_token;
bool kn_service_find_token(const kn_config *c, bool configured, bool makes, kn_service_token *ret, kn_error *err);

#endif
