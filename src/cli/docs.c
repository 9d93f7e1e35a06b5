/* Runs while the program is built: kuno-docs bash | zsh | fish | man TEMPLATE writes that text to standard output. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/docs.h"
#include "cli/report.h"

enum { DOCS_BYTES = 1 << 20 };

static bool make(const char *what, const char *template, kn_buf *into, kn_error *err) {
    bool ok = false;
    if (template && strcmp(what, "man") == 0) {
        KN_AUTO_BUF text;
        kn_buf_init(&text, DOCS_BYTES);
        return (kn_file_read(template, DOCS_BYTES, &text, err) && kn_docs_man(text.data, into, err)) ||
               kn_fail_within(err, "%s", template);
    }
    if (strcmp(what, "bash") == 0)
        ok = kn_docs_bash(into);
    else if (strcmp(what, "zsh") == 0)
        ok = kn_docs_zsh(into);
    else if (strcmp(what, "fish") == 0)
        ok = kn_docs_fish(into);
    else
        return kn_fail(err, KN_E_USAGE, "'%s' is not one of bash, zsh, fish, man TEMPLATE", kn_quote_z(what).text);
    return ok || kn_fail(err, KN_E_RANGE, "is longer than %d bytes", DOCS_BYTES);
}

int main(int argc, char **argv) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, DOCS_BYTES);
    kn_error err = { 0 };
    bool ok = make(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : NULL, &text, &err) && kn_print(&text, &err);
    return ok ? 0 : kn_report("docs", &err);
}
