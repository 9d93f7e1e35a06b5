/* What the commands of the server have in common: which config.json is meant, and what to do without one. */
#ifndef KN_CLI_SERVICE_H
#define KN_CLI_SERVICE_H

#include <limits.h>

#include "gateway/needs.h"
#include "gateway/token.h"

/* given: --config, or NULL: the installed one if there is one, else built-in settings with a state directory in the
 * user's home. *ret_from: which of them, NULL for the built-in ones. */
bool kn_service_config(const char *given, kn_config *ret, const char **ret_from, kn_error *err);

/* Before anything private is read, for a process that prompts or the token pass through: they must not lie in a file
 * after a crash, nor be read by another process of the user. What it starts leaves no memory in a core dump either. */
void kn_service_keep_private(void);

/* What keeps `kuno serve` from starting with it, on this machine and as this user. */
void kn_service_look(const kn_config *c, kn_needs *ret);

/* What will not work, although `kuno serve` starts. */
void kn_service_warn(const kn_config *c, kn_needs *ret);

/* How clients of the service on this machine come by its token: from the environment, as the service itself (token.h),
 * or from a file that is read whenever it is needed, since the service may make it later. */
typedef struct kn_service_key {
    kn_token token; /* of the environment; empty: in the file */
    char file[PATH_MAX];
} kn_service_key;

/* given: --token-file, or NULL: the environment, or the file in the state directory. */
bool kn_service_key_find(const char *given, const kn_config *c, kn_service_key *ret, kn_error *err);
bool kn_service_key_read(const kn_service_key *k, kn_token *ret, kn_error *err);

/* The service's own token, which it takes from the environment. Where there is none and no configuration either, it is
 * that of the state directory; if that is missing, it is made (makes), or the token stays empty. */
typedef struct kn_service_token {
    kn_token token;
    char from[PATH_MAX]; /* where it is from, for people */
} kn_service_token;
bool kn_service_find_token(const kn_config *c, bool configured, bool makes, kn_service_token *ret, kn_error *err);

#endif
