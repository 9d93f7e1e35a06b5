/* The control token: who may see and steer the gateway. 32 to 256 letters, digits, "-", "_" or ".".
 *
 * It comes from KUNO_CONTROL_TOKEN, or from the file that KUNO_CONTROL_TOKEN_FILE names, or from the credential
 * "control-token" of the service manager ($CREDENTIALS_DIRECTORY); never from config.json, which anybody may read. Both
 * variables at once are an error, since one of them would be ignored. A file must be nobody else's to read or change.
 */
#ifndef KN_GATEWAY_TOKEN_H
#define KN_GATEWAY_TOKEN_H

#include <stddef.h>

#include "http/guard.h"

typedef struct kn_token {
    size_t len;
    char text[KN_TOKEN_MAX + 1];
} kn_token;

/* Takes it from the environment and removes it there, so that no child gets it. *ret_from says where it was found, for
 * people; NULL: nowhere, and then ret is empty. */
bool kn_token_take(kn_token *ret, const char **ret_from, kn_error *err);

/* One line: the token, and possibly a newline. */
bool kn_token_read_file(const char *path, kn_token *ret, kn_error *err);

/* Whether anything has that name, be it a link to nothing. */
bool kn_token_has_file(const char *path);

/* Reads the file, or makes it with a random token if there is none. */
bool kn_token_make_file(const char *path, kn_token *ret, kn_error *err);

#endif
