/* Who listens on an address of this machine, for messages to somebody who wanted to. */
#ifndef KN_HTTP_OWNER_H
#define KN_HTTP_OWNER_H

#include "http/address.h"

typedef struct kn_owner_text {
    char text[250];
} kn_owner_text;

/* "'ollama' (process 812)"; "another program" where the system does not tell this user. */
kn_owner_text kn_address_owner(const kn_address *a);

#endif
