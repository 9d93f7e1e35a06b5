#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/docs.h"
#include "cli/help.h"

/* Adds text so that roff shows it as it is: no minus becomes a hyphen, nothing starts a request. */
static bool add_plain(const char *text, kn_buf *into) {
    bool ok = *text != '.' && *text != '\'' ? true : kn_buf_add_text(into, "\\&");
    for (; *text && ok; text++) {
        if (*text == '-')
            ok = kn_buf_add_text(into, "\\-");
        else if (*text == '\\')
            ok = kn_buf_add_text(into, "\\e");
        else if (*text == '^' || *text == '~')
            ok = kn_buf_add_text(into, *text == '^' ? "\\(ha" : "\\(ti");
        else
            ok = kn_buf_add(into, text, 1);
    }
    return ok;
}

static bool add_font(char font, const char *text, kn_buf *into) {
    return kn_buf_printf(into, "\\f%c", font) && add_plain(text, into) && kn_buf_add_text(into, "\\fR");
}

/* "-o, --output=FILE" with the names bold and the value in italics. */
static bool add_option_name(const kn_option *row, kn_buf *into) {
    const char letter[] = { '-', row->letter, 0 };
    bool ok = true;
    if (!row->name)
        return add_font('I', row->arg, into);
    if (row->letter)
        ok = add_font('B', letter, into) && kn_buf_add_text(into, ", ");
    ok = ok && add_font('B', "--", into) && add_font('B', row->name, into);
    return ok && (!row->arg || (kn_buf_add_text(into, "=") && add_font('I', row->arg, into)));
}

/* Help as a sentence. */
static bool add_sentence(char *help, kn_buf *into) {
    if (help[0] >= 'a' && help[0] <= 'z')
        help[0] = (char)(help[0] - 'a' + 'A');
    return add_plain(help, into) && kn_buf_add_text(into, ".\n");
}

static bool add_option(const kn_option *row, kn_buf *into) {
    KN_AUTO_BUF help;
    kn_buf_init(&help, 4096);
    return kn_buf_add_text(into, ".TP\n") && add_option_name(row, into) && kn_buf_add_text(into, "\n") &&
           kn_help_option(row, &help) && add_sentence(help.data, into);
}

static bool add_options(const kn_command *c, kn_buf *into) {
    bool ok = true;
    for (size_t i = 0; i < c->option_count && ok; i++) {
        const kn_option *row = &c->options[i];
        if (row->kind == KN_OPTION_GROUP)
            ok = kn_buf_add_text(into, ".SS ") && add_plain(row->help, into) && kn_buf_add_text(into, "\n");
        else
            ok = add_option(row, into);
    }
    return ok;
}

static bool add_synopsis(const kn_command *c, kn_buf *into) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 4096);
    return add_font('B', "kuno ", into) && add_font('B', c->name, into) && kn_buf_add_text(into, " ") &&
           kn_help_synopsis(c, &text) && add_plain(text.data, into) && kn_buf_add_text(into, "\n");
}

static bool add_commands(kn_buf *into) {
    bool ok = true;
    for (size_t i = 0; i < KN_COMMAND_COUNT && ok; i++)
        ok = kn_buf_add_text(into, ".TP\n.BR kuno\\-") && add_plain(kn_commands[i]->name, into) &&
             kn_buf_add_text(into, " (1)\n") && add_plain(kn_commands[i]->help, into) && kn_buf_add_text(into, ".\n");
    return ok;
}

static bool add_line(const char *line, size_t len, kn_buf *into) {
    static const char mark[] = "@VERSION@";
    const char *at = memmem(line, len, mark, strlen(mark));
    if (!at)
        return kn_buf_add(into, line, len) && kn_buf_add_text(into, "\n");
    size_t before = (size_t)(at - line), both = before + strlen(mark);
    return kn_buf_add(into, line, before) && kn_buf_add_text(into, KN_VERSION) &&
           add_line(line + both, len - both, into);
}

/* The command of a line like "@OPTIONS generate@", or NULL: another line. */
static const kn_command *command_in(const char *line, size_t len, const char *mark) {
    size_t mark_len = strlen(mark);
    if (len < mark_len + 1 || memcmp(line, mark, mark_len) != 0 || line[len - 1] != '@')
        return NULL;
    for (size_t i = 0; i < KN_COMMAND_COUNT; i++) {
        const char *name = kn_commands[i]->name;
        if (strlen(name) == len - mark_len - 1 && memcmp(name, line + mark_len, strlen(name)) == 0)
            return kn_commands[i];
    }
    return NULL;
}

bool kn_docs_man(const char *template, kn_buf *into, kn_error *err) {
    bool ok = true;
    for (const char *line = template; *line && ok;) {
        size_t len = strcspn(line, "\n");
        const kn_command *options = command_in(line, len, "@OPTIONS ");
        const kn_command *synopsis = command_in(line, len, "@SYNOPSIS ");
        if (options)
            ok = add_options(options, into);
        else if (synopsis)
            ok = add_synopsis(synopsis, into);
        else if (len == strlen("@COMMANDS@") && memcmp(line, "@COMMANDS@", len) == 0)
            ok = add_commands(into);
        else if (*line == '@')
            return kn_fail(err, KN_E_FORMAT, "'%s' is no mark that is known", kn_quote(line, len).text);
        else
            ok = add_line(line, len, into);
        line += len + (line[len] == '\n');
    }
    return ok || kn_fail(err, KN_E_RANGE, "is longer than %zu bytes", into->limit);
}
