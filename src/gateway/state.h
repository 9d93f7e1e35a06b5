/* The state directory: the few files that must tell the truth after a crash.
 *
 *     instance.lock        empty; locked as long as a process uses the directory
 *     upstream-in-flight   empty; there while the upstream may be working for us
 *     reserved-WORKER      empty; there while that worker of ours may be working
 *     boot-id              which boot of the machine wrote the markers
 *     usage.json           usage.h's
 *     control-token        token.h's, only where none was given
 *
 * The marker is on the disk, with its entry in the directory, before a request is sent, and goes when it is certain
 * that the upstream has finished. So a process that finds it after a crash knows that the upstream may still be at
 * work, and admits nothing that would run beside it. Only two things end that: another boot of the machine, which no
 * work of a local upstream survives, and a person who removes the marker after stopping the upstream. */
#ifndef KN_GATEWAY_STATE_H
#define KN_GATEWAY_STATE_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"

/* A UUID of the kernel's, new with each boot; empty: unknown. */
typedef struct kn_boot_id {
    char text[37];
} kn_boot_id;

#define KN_BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
kn_boot_id kn_boot_id_read(const char *path);

#define KN_STATE_RECOVERY                                                                                              \
    "to recover, stop kuno and the Ollama behind it, remove 'upstream-in-flight' and 'reserved-*' from the state "     \
    "directory, and start both again; or reboot; until then no request may use a model"

typedef struct kn_state kn_state;

/* Makes the directory if there is none, and locks it: one process at a time. Removes a marker of an earlier boot. */
bool kn_state_open(const char *path, kn_boot_id boot, kn_state **ret, kn_error *err);
void kn_state_close(kn_state *s);

typedef struct kn_state_sight {
    bool in_use;    /* by another process */
    bool uncertain; /* as kn_state_is_uncertain would say */
} kn_state_sight;

/* What kn_state_open would find in a directory that is there; nothing is made, changed or kept. False: it would fail,
 * not counting that another process uses the directory. */
bool kn_state_look(const char *path, kn_boot_id boot, kn_state_sight *ret, kn_error *err);

/* Whether a file of that name in the directory is ours. */
bool kn_state_has(const char *name, size_t len);

/* Nobody else can put anything there. */
bool kn_state_folder_is_own(const struct stat *st, kn_error *err);

/* Makes it and the folders above it, if they are missing, with mode 0700. */
bool kn_state_make_folder(const char *path, kn_error *err);

/* At kn_state_open: a marker or reservation was found, and nothing proves that what it stands for is over. */
bool kn_state_is_uncertain(const kn_state *s);

/* A marker was found and removed, since the machine has been booted since. */
bool kn_state_was_cleared(const kn_state *s);

/* What the log is told when the disk refuses markers, and when it takes them again: from the thread that writes them.
 */
void kn_state_tell_trouble(kn_state *s, void (*log)(void *ctx, const char *line), void *ctx);

/* Both return when the disk has it, so they may take long; in another thread than the event loop's, one at a time. */
bool kn_state_mark(kn_state *s, kn_error *err);
bool kn_state_clear(kn_state *s, kn_error *err);

/* The same for a worker. To release what is not reserved is no error. */
bool kn_state_reserve(kn_state *s, const char *worker, kn_error *err);
bool kn_state_release(kn_state *s, const char *worker, kn_error *err);

/* A reservation of it was found at kn_state_open, and stays. */
bool kn_state_was_reserved(const kn_state *s, const char *worker);

#endif
