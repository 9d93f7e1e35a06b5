/* What a configuration needs of the machine: the folders, files and programs that it names, as this user finds them.
 *
 * It is only looked at; nothing is made, changed or started. `kuno serve` begins with this look and `kuno check` ends
 * with it, so that both say the same of a folder that is missing. What only keeps a part of the service from working,
 * or works again without anybody's doing, does not keep `kuno serve` from starting: that is a warning. */
#ifndef KN_GATEWAY_NEEDS_H
#define KN_GATEWAY_NEEDS_H

#include "gateway/config.h"

enum { KN_NEEDS_MAX = 64 };

typedef struct kn_needs {
    size_t count;
    kn_error items[KN_NEEDS_MAX]; /* each begins with its place: "managed.workers[1].home: …" */
} kn_needs;

/* What is not as it must be; at most KN_NEEDS_MAX of it. */
void kn_needs_look(const kn_config *c, kn_needs *ret);

/* What will not work, although `kuno serve` starts. */
void kn_needs_warn(const kn_config *c, kn_needs *ret);

/* Adds what others have found wrong at that place of the configuration, or with the path that is there, if anything. */
void kn_needs_add(kn_needs *n, const char *where, const kn_error *why);
void kn_needs_note(kn_needs *n, const char *where, const char *path, const kn_error *why);

/* Adds addresses that cannot be listened on. *ret_busy: what somebody else uses at present, be it an address or the
 * state directory; maybe the very service whose configuration this is. */
void kn_needs_try(const kn_config *c, kn_needs *ret, kn_needs *ret_busy);

#endif
