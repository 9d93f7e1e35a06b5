/* What somebody may have meant: the nearest of the known names, and lists of names for messages. */
#ifndef KN_BASE_SUGGEST_H
#define KN_BASE_SUGGEST_H

#include <stddef.h>

#include "base/buf.h"

/* The one of n names that differs from `word` by the fewest edits (a letter added, lost, changed, or two neighbours
 * swapped), if it is close enough to be a slip of the hand; else NULL. */
const char *kn_suggest(const char *word, const char *const *names, size_t n);

/* Tells the choice in a message: "; known: a, b (did you mean 'b'?)". A long list ends in "…". */
typedef struct kn_choice {
    char text[512];
} kn_choice;
kn_choice kn_suggest_choice(const char *word, const char *const *names, size_t n);

#endif
