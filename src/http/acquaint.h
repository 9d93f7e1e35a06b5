/* Whether it is our service that listens on its address: before a client of ours sends the token there. It is asked for
 * its health, which takes no token, and the system is asked whose socket it is: it has to be the client's own user,
 * root, or the user whose state directory it is. What another program of these users can do, it can do with the token's
 * file, too. */
#ifndef KN_HTTP_ACQUAINT_H
#define KN_HTTP_ACQUAINT_H

#include <sys/types.h>

#include "http/call.h"

/* The question. */
kn_call_request kn_acquaint_request(void);

/* Users other than ourselves and root whose service it may be. */
typedef struct kn_acquaint_user {
    bool is_known; /* false, and not `anyone`: there is no such user */
    bool anyone;   /* the system does not let us know */
    uid_t user;
} kn_acquaint_user;
kn_acquaint_user kn_acquaint_user_of(const char *state_dir);

/* What follows from the answer. False, and no token may go there: KN_E_NOT_FOUND: nobody listens; KN_E_IO: there is no
 * whole answer; KN_E_USAGE: it is somebody else. */
bool kn_acquaint_check(const kn_address *a, const kn_acquaint_user *other, const kn_call_result *answer, kn_error *err);

#endif
