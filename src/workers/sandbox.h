/* The image worker's cage: what a program may still do that is about to read what strangers made.
 *
 * After kn_sandbox_enter the process and all threads that it will have
 *   - can open no file for writing, and make, remove, rename or cut none (Landlock); exceptions are the nodes of
 *     graphics cards, /dev/null, and the names of its own threads;
 *   - can read files, since drivers load theirs from many places, but nothing of other processes in /proc (Landlock);
 *   - can run no other program, reach no network, send no signals, and change no attributes of files (seccomp: a list
 * of what is allowed; what no driver ever calls ends the process);
 *   - can never gain privileges, leaves no core dump, and cannot be looked into by others;
 *   - has no memory that is written to swap: where swap is on, it says so, which nothing in here can change.
 *
 * Entered before there is any other thread and before anything foreign is read. Only descriptors 0 to 2 survive. */
#ifndef KN_WORKERS_SANDBOX_H
#define KN_WORKERS_SANDBOX_H

#include <jansson.h>

#include "sampling/names.h"

typedef enum kn_isolation {
    KN_ISOLATION_REQUIRED,    /* all of it, or the process refuses to work */
    KN_ISOLATION_BEST_EFFORT, /* what this machine offers */
    KN_ISOLATION_COUNT,
} kn_isolation;
extern const kn_name kn_isolation_names[KN_ISOLATION_COUNT];

/* The parts that a machine may not offer, as bits and words. */
enum { KN_CAGE_FILES, KN_CAGE_CALLS, KN_CAGE_SWAP, KN_CAGE_PARTS };
extern const char *const kn_cage_words[KN_CAGE_PARTS];
extern const char *const kn_cage_remedies[KN_CAGE_PARTS]; /* what to do about it, for people */

/* Which of them a process does without, told and read as words with spaces between. */
typedef struct kn_cage_gaps {
    bool known;
    unsigned parts; /* a bit (1 << KN_CAGE_…) each */
} kn_cage_gaps;
bool kn_cage_gaps_read(const char *words, size_t len, kn_cage_gaps *ret); /* false: there is another word */

/* For people: "files, swap", and what to do about the first of them (NULL: nothing is missing). */
typedef struct kn_cage_list {
    char text[40];
} kn_cage_list;
kn_cage_list kn_cage_list_of(unsigned parts);
const char *kn_cage_remedy(unsigned parts);
json_t *kn_cage_json(kn_cage_gaps gaps); /* an array of the words; null: they are not known */

/* *ret_missing: a bit (1 << KN_CAGE_…) for each part that could not be had. False: one is missing and required, or the
 * process could not even be prepared. The error says why. */
bool kn_sandbox_enter(kn_isolation isolation, unsigned *ret_missing, kn_error *err);

/* What a process would have to do without that entered now: found out by one that does, and ends. For programs that
 * have no other thread. */
bool kn_sandbox_try(unsigned *ret_missing, kn_error *err);

/* The parts, for those who want one alone. Each is for ever. */
bool kn_sandbox_files(kn_error *err);
bool kn_sandbox_calls(kn_error *err);
bool kn_sandbox_swap(kn_error *err);

#endif
