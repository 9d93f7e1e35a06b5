/* Options of the command line: one table per command, from which arguments are parsed and help, man page and shell
 * completions are made.
 *
 * GNU habits: --name VALUE and --name=VALUE, single letters as -n VALUE and -nVALUE, options and operands in any order,
 * -- ends the options. Not so: names cannot be shortened, and an option given twice is an error, since one of the two
 * would be ignored. Every number is checked against the row's range; what is found goes to the row's place in a plain
 * struct that starts zeroed, and says there whether it was set: defaults are the business of whoever reads the struct.
 */
#ifndef KN_CLI_OPTIONS_H
#define KN_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sampling/names.h"

typedef enum kn_option_kind {
    KN_OPTION_GROUP,   /* not an option: a heading for the rows below it */
    KN_OPTION_HELP,    /* shows the help; has no place */
    KN_OPTION_FLAG,    /* bool */
    KN_OPTION_INTEGER, /* kn_given_integer */
    KN_OPTION_REAL,    /* kn_given_real */
    KN_OPTION_REALS,   /* kn_given_reals: a list with commas; the range is that of each */
    KN_OPTION_SEED,    /* kn_given_seed: 0 to 2^64-1, or -1 for a random one */
    KN_OPTION_SIZE,    /* kn_given_size: WIDTHxHEIGHT; the range is that of each side */
    KN_OPTION_CHOICE,  /* const char *: a name from a table, as the table spells it */
    KN_OPTION_TEXT,    /* const char *: UTF-8 */
    KN_OPTION_PATH,    /* const char *: any bytes, not empty */
    KN_OPTION_PATHS,   /* kn_given_paths; may be repeated */
} kn_option_kind;

typedef struct kn_given_integer {
    bool set;
    int64_t value;
} kn_given_integer;

typedef struct kn_given_real {
    bool set;
    double value;
} kn_given_real;

enum { KN_GIVEN_REALS_MAX = 1001, KN_GIVEN_PATHS_MAX = 256 };

typedef struct kn_given_reals {
    size_t count;
    double values[KN_GIVEN_REALS_MAX];
} kn_given_reals;

typedef struct kn_given_seed {
    bool set, random;
    uint64_t value;
} kn_given_seed;

typedef struct kn_given_size {
    bool set;
    uint32_t width, height;
} kn_given_size;

typedef struct kn_given_paths {
    size_t count;
    const char *paths[KN_GIVEN_PATHS_MAX];
} kn_given_paths;

typedef struct kn_option {
    kn_option_kind kind;
    char letter;      /* a second, short name, or 0 */
    const char *name; /* without its dashes; NULL: an operand, which is known by its place */
    const char *arg;  /* what help calls the value; DIR and FILE also tell completions what to offer */
    const char *help; /* no capital, no full stop */
    size_t at;        /* offset in the command's struct; rows that share it exclude each other */
    double min, max;
    const void *names; /* of a choice: rows that begin with a kn_name */
    size_t name_bytes, name_count;
} kn_option;

/* Rows of a table; kind is the last part of a kn_option_kind. The last row is KN_OPT_HELP. */
#define KN_OPT_GROUP(text)                                                                                             \
    { .kind = KN_OPTION_GROUP, .help = (text) }
#define KN_OPT(kind_, letter_, name_, arg_, at_, help_)                                                                \
    { .kind = KN_OPTION_##kind_, .letter = (letter_), .name = (name_), .arg = (arg_), .at = (at_), .help = (help_) }
#define KN_OPT_RANGE(kind_, letter_, name_, arg_, at_, min_, max_, help_)                                              \
    {                                                                                                                  \
        .kind = KN_OPTION_##kind_, .letter = (letter_), .name = (name_), .arg = (arg_), .at = (at_), .help = (help_),  \
        .min = (min_), .max = (max_)                                                                                   \
    }
#define KN_OPT_CHOICE(letter_, name_, at_, table_, help_)                                                              \
    {                                                                                                                  \
        .kind = KN_OPTION_CHOICE, .letter = (letter_), .name = (name_), .arg = "NAME", .at = (at_), .help = (help_),   \
        .names = (table_), .name_bytes = sizeof((table_)[0]), .name_count = KN_COUNT(table_)                           \
    }
#define KN_OPT_HELP                                                                                                    \
    { .kind = KN_OPTION_HELP, .letter = 'h', .name = "help", .help = "show this help and do nothing else" }

static inline const kn_name *kn_option_choice(const kn_option *row, size_t i) {
    return (const kn_name *)((const char *)row->names + i * row->name_bytes);
}

enum { KN_OPTIONS_MAX = 64 }; /* rows of one table */

typedef enum kn_parsed { KN_PARSED, KN_PARSED_HELP, KN_PARSED_WRONG } kn_parsed;

/* args: what follows the name of the command. `into` keeps pointers into args. Asking for help wins over mistakes that
 * follow it. Errors start with the option: "--steps: 0 is outside 1 to 1000". */
kn_parsed kn_options_parse(const kn_option *rows, size_t count, const char *const *args, size_t arg_count, void *into,
                           kn_error *err);

#endif
