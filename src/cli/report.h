/* What a command says: results on standard output, one sentence on standard error, and the exit status (kn_exit_code).
 * No colour is used anywhere, so that NO_COLOR is honoured as it is. */
#ifndef KN_CLI_REPORT_H
#define KN_CLI_REPORT_H

#include "base/buf.h"

/* Prints "kuno: component: what is wrong"; the component may be NULL. Returns the exit status of the error. */
int kn_report(const char *component, const kn_error *err);

/* Prints "kuno: warning: …": the command goes on. */
void kn_warn(const char *fmt, ...) KN_PRINTF(1, 2);

/* Writes all of it to standard output. */
bool kn_print(const kn_buf *text, kn_error *err);

#endif
