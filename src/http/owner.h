/* Who listens on an address of this machine: for messages to somebody who wanted to, and before something is confided
 * to whoever does. */
#ifndef KN_HTTP_OWNER_H
#define KN_HTTP_OWNER_H

#include <sys/types.h>

#include "http/address.h"

typedef struct kn_owner_text {
    char text[250];
} kn_owner_text;

/* "'ollama' (process 812)"; "another program" where the system does not tell this user. */
kn_owner_text kn_address_owner(const kn_address *a);

/* The user whose socket it is. False: the system does not tell, or it is no address of TCP. */
bool kn_address_user(const kn_address *a, uid_t *ret);

#endif
