/* Completions offer what can stand next: commands, options, names from tables, files, folders. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/docs.h"

enum what { NOTHING, NAMES, FILES, FOLDERS, WORDS };

/* What can be completed behind an option, or as an operand. */
static enum what values_of(const kn_option *row) {
    switch (row->kind) {
    case KN_OPTION_GROUP:
    case KN_OPTION_HELP:
    case KN_OPTION_FLAG: return NOTHING;
    case KN_OPTION_CHOICE: return NAMES;
    case KN_OPTION_PATH:
    case KN_OPTION_PATHS: return strcmp(row->arg, "DIR") == 0 ? FOLDERS : FILES;
    default: return WORDS;
    }
}

/* Text within quotes of a shell and what the shell reads there: each of `special` gets a backslash before it. */
static bool add_escaped(const char *text, const char *special, kn_buf *into) {
    bool ok = true;
    for (; *text && ok; text++) {
        if (*text == '\'') /* nothing helps a single quote within single quotes: end, quote, begin */
            ok = kn_buf_add_text(into, "'\\''");
        else
            ok = (!strchr(special, *text) || kn_buf_add_text(into, "\\")) && kn_buf_add(into, text, 1);
    }
    return ok;
}

/* The names of a choice with blanks between them. */
static bool add_names(const kn_option *row, kn_buf *into) {
    bool ok = true;
    for (size_t i = 0; i < row->name_count && ok; i++)
        ok = kn_buf_printf(into, "%s%s", i ? " " : "", kn_option_choice(row, i)->name);
    return ok;
}

static bool add_command_names(kn_buf *into) {
    bool ok = true;
    for (size_t i = 0; i < KN_COMMAND_COUNT && ok; i++)
        ok = kn_buf_printf(into, "%s%s", i ? " " : "", kn_commands[i]->name);
    return ok;
}

/* ---- bash ---- */

static bool bash_values(const kn_option *row, kn_buf *into) {
    bool ok = kn_buf_add_text(into, "        ");
    if (row->letter)
        ok = ok && kn_buf_printf(into, "-%c | ", row->letter);
    ok = ok && kn_buf_printf(into, "--%s) ", row->name);
    switch (values_of(row)) {
    case NAMES:
        ok = ok && kn_buf_add_text(into, "_kuno_words '") && add_names(row, into) && kn_buf_add_text(into, "'");
        break;
    case FILES: ok = ok && kn_buf_add_text(into, "_kuno_paths -f"); break;
    case FOLDERS: ok = ok && kn_buf_add_text(into, "_kuno_paths -d"); break;
    case NOTHING:
    case WORDS: ok = ok && kn_buf_add_text(into, ":"); break;
    }
    return ok && kn_buf_add_text(into, " ;;\n");
}

static bool bash_command(const kn_command *c, kn_buf *into) {
    bool has_files = false;
    const kn_option *names = NULL; /* an operand that is one of a few */
    bool ok = kn_buf_printf(into, "    %s)\n        case $prev in\n", c->name);
    for (size_t i = 0; i < c->option_count && ok; i++) {
        const kn_option *row = &c->options[i];
        if (row->name && values_of(row) != NOTHING)
            ok = bash_values(row, into);
        has_files |= !row->name && values_of(row) == FILES;
        if (!row->name && values_of(row) == NAMES)
            names = row;
    }
    ok =
        ok && kn_buf_add_text(into, "        *)\n            if [[ $cur == -* ]]; then\n                _kuno_words '");
    bool first = true;
    for (size_t i = 0; i < c->option_count && ok; i++) {
        const kn_option *row = &c->options[i];
        if (!row->name)
            continue;
        ok = kn_buf_printf(into, "%s--%s", first ? "" : " ", row->name);
        first = false;
    }
    ok = ok && kn_buf_printf(into, "'\n%s", has_files ? "            else\n                _kuno_paths -f\n" : "");
    if (names)
        ok = ok && kn_buf_add_text(into, "            else\n                _kuno_words '") && add_names(names, into) &&
             kn_buf_add_text(into, "'\n");
    return ok && kn_buf_add_text(into, "            fi ;;\n        esac ;;\n");
}

bool kn_docs_bash(kn_buf *into) {
    bool ok = kn_buf_add_text(into, "# bash completion of kuno\n\n"
                                    "_kuno_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n\n"
                                    "_kuno_paths() {\n"
                                    "    compopt -o filenames\n"
                                    "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
                                    "}\n\n"
                                    "_kuno() {\n"
                                    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                                    "    COMPREPLY=()\n"
                                    "    if ((COMP_CWORD == 1)); then\n"
                                    "        _kuno_words '") &&
              add_command_names(into) &&
              kn_buf_add_text(into, " help --help --version'\n"
                                    "        return\n"
                                    "    fi\n"
                                    "    # bash takes --name=value apart at the =\n"
                                    "    if [[ $cur == = ]]; then\n"
                                    "        cur=\n"
                                    "    elif [[ $prev == = ]]; then\n"
                                    "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                                    "    fi\n"
                                    "    case ${COMP_WORDS[1]} in\n"
                                    "    help) ((COMP_CWORD > 2)) || _kuno_words '") &&
              add_command_names(into) && kn_buf_add_text(into, "' ;;\n");
    for (size_t i = 0; i < KN_COMMAND_COUNT && ok; i++)
        ok = bash_command(kn_commands[i], into);
    return ok && kn_buf_add_text(into, "    esac\n}\n\ncomplete -F _kuno kuno\n");
}

/* ---- zsh ---- */

/* What follows the help of an option or an operand: ":NAME:(a b)". */
static bool zsh_values(const kn_option *row, kn_buf *into) {
    enum what what = values_of(row);
    bool ok = what == NOTHING || kn_buf_printf(into, ":%s:", row->arg);
    if (what == NAMES)
        ok = ok && kn_buf_add_text(into, "(") && add_names(row, into) && kn_buf_add_text(into, ")");
    else if (what == FILES || what == FOLDERS)
        ok = ok && kn_buf_add_text(into, what == FILES ? "_files" : "_files -/");
    return ok;
}

static bool zsh_option(const kn_option *row, kn_buf *into) {
    static const char special[] = "\\[]:";
    bool value = values_of(row) != NOTHING;
    bool ok = kn_buf_add_text(into, " \\\n            ");
    if (!row->name)
        return ok && kn_buf_printf(into, "'%s", row->kind == KN_OPTION_PATHS ? "*" : "") && zsh_values(row, into) &&
               kn_buf_add_text(into, "'");
    if (row->letter)
        ok = ok && kn_buf_printf(into, "'(-%c --%s)'{-%c%s,--%s%s}'[", row->letter, row->name, row->letter,
                                 value ? "+" : "", row->name, value ? "=" : "");
    else
        ok = ok && kn_buf_printf(into, "'--%s%s[", row->name, value ? "=" : "");
    return ok && add_escaped(row->help, special, into) && kn_buf_add_text(into, "]") && zsh_values(row, into) &&
           kn_buf_add_text(into, "'");
}

bool kn_docs_zsh(kn_buf *into) {
    bool ok = kn_buf_add_text(into, "#compdef kuno\n\n"
                                    "_kuno() {\n"
                                    "    local context state state_descr line\n"
                                    "    typeset -A opt_args\n"
                                    "    _arguments -C '(- *)'{-h,--help}'[show the help]' "
                                    "'(- *)--version[show the version]' \\\n"
                                    "        '1:command:->command' '*::argument:->argument'\n"
                                    "    case $state in\n"
                                    "    command)\n"
                                    "        local -a commands=(");
    for (size_t i = 0; i < KN_COMMAND_COUNT; i++)
        ok = ok && kn_buf_printf(into, "\n            '%s:", kn_commands[i]->name) &&
             add_escaped(kn_commands[i]->help, "\\:", into) && kn_buf_add_text(into, "'");
    ok = ok &&
         kn_buf_add_text(into, "\n            'help:Tell more about a command'\n"
                               "        )\n"
                               "        _describe command commands\n"
                               "        ;;\n"
                               "    argument)\n"
                               "        case $words[1] in\n"
                               "        help) _arguments '1:command:(") &&
         add_command_names(into) && kn_buf_add_text(into, ")' ;;\n");
    for (size_t c = 0; c < KN_COMMAND_COUNT; c++) {
        ok = ok && kn_buf_printf(into, "        %s)\n            _arguments -s -S", kn_commands[c]->name);
        for (size_t i = 0; i < kn_commands[c]->option_count && ok; i++)
            ok = kn_commands[c]->options[i].kind == KN_OPTION_GROUP || zsh_option(&kn_commands[c]->options[i], into);
        ok = ok && kn_buf_add_text(into, "\n            ;;\n");
    }
    return ok && kn_buf_add_text(into, "        esac\n"
                                       "        ;;\n"
                                       "    esac\n"
                                       "}\n\n"
                                       "_kuno \"$@\"\n");
}

/* ---- fish ---- */

static bool fish_option(const kn_command *c, const kn_option *row, kn_buf *into) {
    enum what what = values_of(row);
    bool ok = kn_buf_printf(into, "complete -c kuno -n '__fish_seen_subcommand_from %s'", c->name);
    if (row->letter)
        ok = ok && kn_buf_printf(into, " -s %c", row->letter);
    if (row->name)
        ok = ok && kn_buf_printf(into, " -l %s", row->name);
    switch (what) {
    case NAMES:
        ok = ok && kn_buf_add_text(into, " -x -a '") && add_names(row, into) && kn_buf_add_text(into, "'");
        break;
    case FILES: ok = ok && kn_buf_add_text(into, row->name ? " -r -F" : " -F"); break;
    case FOLDERS: ok = ok && kn_buf_add_text(into, " -x -a '(__fish_complete_directories)'"); break;
    case WORDS: ok = ok && kn_buf_add_text(into, " -x"); break;
    case NOTHING: break;
    }
    return ok && kn_buf_add_text(into, " -d '") && add_escaped(row->help, "\\", into) && kn_buf_add_text(into, "'\n");
}

bool kn_docs_fish(kn_buf *into) {
    bool ok = kn_buf_add_text(into, "# fish completion of kuno\n\n"
                                    "complete -c kuno -f\n"
                                    "complete -c kuno -n __fish_use_subcommand -s h -l help -d 'show the help'\n"
                                    "complete -c kuno -n __fish_use_subcommand -l version -d 'show the version'\n"
                                    "complete -c kuno -n __fish_use_subcommand -a help "
                                    "-d 'Tell more about a command'\n"
                                    "complete -c kuno -n '__fish_seen_subcommand_from help' -a '") &&
              add_command_names(into) && kn_buf_add_text(into, "'\n");
    for (size_t c = 0; c < KN_COMMAND_COUNT; c++) {
        ok = ok &&
             kn_buf_printf(into, "\ncomplete -c kuno -n __fish_use_subcommand -a %s -d '", kn_commands[c]->name) &&
             add_escaped(kn_commands[c]->help, "\\", into) && kn_buf_add_text(into, "'\n");
        for (size_t i = 0; i < kn_commands[c]->option_count && ok; i++) {
            const kn_option *row = &kn_commands[c]->options[i];
            if (row->name || values_of(row) == FILES || values_of(row) == NAMES)
                ok = fish_option(kn_commands[c], row, into);
        }
    }
    return ok;
}
