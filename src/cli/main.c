/* The program: finds the command, fills the struct of its options, runs it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/report.h"

/* A help text is as long as its table; this is far beyond any. */
enum { HELP_BYTES = 1 << 20 };

static int fail_usage(const char *component, const kn_error *err) {
    int status = kn_report(component, err);
    fprintf(stderr, "Try 'kuno%s%s --help'.\n", component ? " " : "", component ? component : "");
    return status;
}

static int show_help(const kn_command *c) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, HELP_BYTES);
    kn_error err = { 0 };
    bool made = c ? kn_help_command(c, &text) : kn_help_program(&text);
    if ((made || kn_fail_nomem(&err, HELP_BYTES)) && kn_print(&text, &err))
        return 0;
    return kn_report(NULL, &err);
}

static int show_version(void) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 100);
    kn_error err = { 0 };
    bool made = kn_buf_add_text(&text, "kuno " KN_VERSION "\n") || kn_fail_nomem(&err, 100);
    return made && kn_print(&text, &err) ? 0 : kn_report(NULL, &err);
}

static int fail_unknown(const char *word) {
    kn_error err = { 0 };
    if (*word == '-') {
        kn_fail(&err, KN_E_USAGE, "unknown option '%s'; options of a command follow its name", kn_quote_z(word).text);
        return fail_usage(NULL, &err);
    }
    const char *names[KN_COMMAND_COUNT + 1] = { "help" };
    for (size_t i = 0; i < KN_COMMAND_COUNT; i++)
        names[i + 1] = kn_commands[i]->name;
    kn_fail(&err, KN_E_USAGE, "unknown command '%s'%s", kn_quote_z(word).text,
            kn_suggest_choice(word, names, KN_COUNT(names)).text);
    return fail_usage(NULL, &err);
}

/* args: what follows "help". */
static int help(const char *const *args, size_t count) {
    if (!count)
        return show_help(NULL);
    const kn_command *c = kn_command_find(args[0]);
    if (!c)
        return fail_unknown(args[0]);
    kn_error err = { 0 };
    if (count == 1)
        return show_help(c);
    kn_fail(&err, KN_E_USAGE, "unexpected argument '%s'", kn_quote_z(args[1]).text);
    return fail_usage(NULL, &err);
}

static int run(const kn_command *c, const char *const *args, size_t count) {
    kn_error err = { 0 };
    void *given = calloc(1, c->given_bytes);
    if (!given) {
        kn_fail_nomem(&err, c->given_bytes);
        return kn_report(c->name, &err);
    }
    int status = 1;
    switch (kn_options_parse(c->options, c->option_count, args, count, given, &err)) {
    case KN_PARSED: status = !c->check || c->check(given, &err) ? c->run(given) : fail_usage(c->name, &err); break;
    case KN_PARSED_HELP: status = show_help(c); break;
    case KN_PARSED_WRONG: status = fail_usage(c->name, &err); break;
    }
    free(given);
    return status;
}

/* A file that is opened while a standard stream is closed would take its number, and messages would end up in there.
 * What takes its place here refuses to be used, as the closed stream did. */
static bool fill_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) != fd) /* the lowest free number is this one */
            return false;
    }
    return true;
}

int main(int argc, char **argv) {
    if (!fill_standard_streams())
        return 1;
    const char *const *args = (const char *const *)argv + 1;
    size_t count = argc > 1 ? (size_t)argc - 1 : 0;
    if (!count || strcmp(args[0], "--help") == 0 || strcmp(args[0], "-h") == 0)
        return show_help(NULL);
    if (strcmp(args[0], "--version") == 0)
        return show_version();
    if (strcmp(args[0], "help") == 0)
        return help(args + 1, count - 1);
    const kn_command *c = kn_command_find(args[0]);
    return c ? run(c, args + 1, count - 1) : fail_unknown(args[0]);
}
