#include "cli/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int kn_report(const char *component, const kn_error *err) {
    fprintf(stderr, "kuno: %s%s%s\n", component ? component : "", component ? ": " : "", err->text);
    return kn_exit_code(err->code);
}

void kn_warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("kuno: warning: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputs("\n", stderr);
    va_end(ap);
}

bool kn_print(const kn_buf *text, kn_error *err) {
    return (fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0) ||
           kn_fail(err, KN_E_OUTPUT, "cannot write to standard output: %s", strerror(errno));
}
