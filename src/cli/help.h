/* Help texts, made from the tables of commands and options, at most 80 columns wide. */
#ifndef KN_CLI_HELP_H
#define KN_CLI_HELP_H

#include "base/buf.h"
#include "cli/command.h"

enum { KN_HELP_COLUMNS = 80 };

/* All return false when the buffer is full. */
bool kn_help_program(kn_buf *into) KN_MUST_USE;
bool kn_help_command(const kn_command *c, kn_buf *into) KN_MUST_USE;

/* "[OPTION]... [PROMPT]": what follows the name of the command. */
bool kn_help_synopsis(const kn_command *c, kn_buf *into) KN_MUST_USE;

/* The row's help with what its kind tells: the range, the names to choose from. */
bool kn_help_option(const kn_option *row, kn_buf *into) KN_MUST_USE;

#endif
