#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { INDENT = 2, HELP_COLUMN = 30 };

/* Adds words with a line break before each that would go beyond the last column. `column` is where the line stands,
 * `left` where the next ones start. */
static bool add_wrapped(const char *text, size_t column, size_t left, kn_buf *into) {
    bool ok = true;
    for (const char *word = text; *word && ok;) {
        size_t len = strcspn(word, " ");
        bool first = word == text;
        if (!first && column + 1 + len > KN_HELP_COLUMNS) {
            ok = kn_buf_printf(into, "\n%*s", (int)left, "");
            column = left;
        } else if (!first) {
            ok = kn_buf_add_text(into, " ");
            column++;
        }
        ok = ok && kn_buf_add(into, word, len);
        column += len;
        word += len;
        word += strspn(word, " ");
    }
    return ok && kn_buf_add_text(into, "\n");
}

/* A name in the left column and its help in the right one, below if the name is too long. */
static bool add_row(const char *name, const char *help, kn_buf *into) {
    size_t width = INDENT + strlen(name);
    bool fits = width + 2 <= HELP_COLUMN;
    return kn_buf_printf(into, "%*s%s", INDENT, "", name) &&
           (fits ? kn_buf_printf(into, "%*s", (int)(HELP_COLUMN - width), "")
                 : kn_buf_printf(into, "\n%*s", HELP_COLUMN, "")) &&
           add_wrapped(help, HELP_COLUMN, HELP_COLUMN, into);
}

bool kn_help_option(const kn_option *row, kn_buf *into) {
    bool ok = kn_buf_add_text(into, row->help);
    switch (row->kind) {
    case KN_OPTION_INTEGER:
    case KN_OPTION_REAL: return ok && kn_buf_printf(into, "; %.10g to %.10g", row->min, row->max);
    case KN_OPTION_REALS: return ok && kn_buf_printf(into, "; each %.10g to %.10g", row->min, row->max);
    case KN_OPTION_CHOICE:
        for (size_t i = 0; i < row->name_count; i++)
            ok = ok && kn_buf_printf(into, "%s%s", i ? ", " : ": ", kn_option_choice(row, i)->name);
        return ok;
    default: return ok;
    }
}

static bool add_option(const kn_option *row, kn_buf *into) {
    char name[120];
    if (row->name)
        snprintf(name, sizeof name, "%c%c%c --%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
                 row->letter ? ',' : ' ', row->name, row->arg ? "=" : "", row->arg ? row->arg : "");
    else
        snprintf(name, sizeof name, "%s", row->arg);
    KN_AUTO_BUF help;
    kn_buf_init(&help, 4096);
    return kn_help_option(row, &help) && add_row(name, help.data, into);
}

bool kn_help_synopsis(const kn_command *c, kn_buf *into) {
    bool ok = kn_buf_add_text(into, "[OPTION]...");
    for (size_t i = 0; i < c->option_count && ok; i++) {
        const kn_option *row = &c->options[i];
        if (!row->name && row->kind != KN_OPTION_GROUP)
            ok = kn_buf_printf(into, " [%s]%s", row->arg, row->kind == KN_OPTION_PATHS ? "..." : "");
    }
    return ok;
}

bool kn_help_command(const kn_command *c, kn_buf *into) {
    bool ok = kn_buf_printf(into, "Usage: kuno %s ", c->name) && kn_help_synopsis(c, into) &&
              kn_buf_printf(into, "\n%s.\n", c->help);
    for (size_t i = 0; i < c->option_count && ok; i++) {
        const kn_option *row = &c->options[i];
        ok = row->kind == KN_OPTION_GROUP ? kn_buf_printf(into, "\n%s:\n", row->help) : add_option(row, into);
    }
    return ok && kn_buf_printf(into, "\nExamples and details: man kuno-%s\n", c->name);
}

bool kn_help_program(kn_buf *into) {
    bool ok = kn_buf_add_text(into, "Usage: kuno COMMAND [OPTION]...\n"
                                    "Private pictures from text on your own machine; nothing leaves it.\n"
                                    "\nCommands:\n");
    for (size_t i = 0; i < KN_COMMAND_COUNT; i++)
        ok = ok && add_row(kn_commands[i]->name, kn_commands[i]->help, into);
    return ok && add_row("help [COMMAND]", "Tell more about a command", into) &&
           kn_buf_add_text(into, "\nOptions:\n") && add_row("-h, --help", "show this help", into) &&
           add_row("    --version", "show the version", into) &&
           kn_buf_add_text(into, "\nAll options of a command: kuno COMMAND --help\n");
}
