/* Texts for users that are made from the tables while the program is built: man pages and shell completions. */
#ifndef KN_CLI_DOCS_H
#define KN_CLI_DOCS_H

#include "base/buf.h"

/* A man page: the template's lines, with these replaced:
 *
 *     @VERSION@             anywhere in a line
 *     @COMMANDS@            the list of commands
 *     @SYNOPSIS COMMAND@    what follows the name of that command
 *     @OPTIONS COMMAND@     its options, under their headings */
bool kn_docs_man(const char *template, kn_buf *into, kn_error *err);

/* False when the buffer is full. */
bool kn_docs_bash(kn_buf *into) KN_MUST_USE;
bool kn_docs_zsh(kn_buf *into) KN_MUST_USE;
bool kn_docs_fish(kn_buf *into) KN_MUST_USE;

#endif
