#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/command.h"
#include "cli/generate.h"
#include "cli/help.h"

struct given {
    bool loud, quick;
    kn_given_integer steps;
    kn_given_real cfg;
    kn_given_reals sigmas;
    kn_given_seed seed;
    kn_given_size size;
    const char *colour, *prompt, *output;
    kn_given_paths files;
};

static const kn_name colours[] = { { "red", { "crimson", "scarlet" }, "" }, { "green", { NULL }, "" } };

#define AT(member) offsetof(struct given, member)

static const kn_option rows[] = {
    KN_OPT_GROUP("All kinds"),
    KN_OPT(TEXT, 0, NULL, "PROMPT", AT(prompt), "operand"),
    KN_OPT(TEXT, 'p', "prompt", "TEXT", AT(prompt), "text"),
    KN_OPT(FLAG, 'l', "loud", NULL, AT(loud), "flag"),
    KN_OPT(FLAG, 'q', "quick", NULL, AT(quick), "flag"),
    KN_OPT_RANGE(INTEGER, 't', "steps", "N", AT(steps), 1, 1000, "integer"),
    KN_OPT_RANGE(REAL, 0, "cfg", "X", AT(cfg), 0, 100, "real"),
    KN_OPT_RANGE(REALS, 0, "sigmas", "LIST", AT(sigmas), 0, 1, "reals"),
    KN_OPT(SEED, 0, "seed", "N", AT(seed), "seed"),
    KN_OPT_RANGE(SIZE, 0, "size", "WxH", AT(size), 16, 16384, "size"),
    KN_OPT_CHOICE(0, "colour", AT(colour), colours, "choice"),
    KN_OPT(PATH, 'o', "output", "FILE", AT(output), "path"),
    KN_OPT(PATHS, 0, "file", "FILE", AT(files), "paths"),
    KN_OPT_HELP,
};

enum { ARGS_MAX = 8 };

/* args ends with NULL. */
static kn_parsed parse(const char *const *args, struct given *ret, kn_error *err) {
    size_t n = 0;
    while (args[n])
        n++;
    *ret = (struct given){ 0 };
    *err = (kn_error){ 0 };
    return kn_options_parse(rows, KN_COUNT(rows), args, n, ret, err);
}

static void all_spellings_mean_the_same(void **state) {
    (void)state;
    static const char *const spellings[][ARGS_MAX + 1] = {
        { "boat", "--steps", "8", "--output", "x.png", "--loud", "--quick" },
        { "boat", "--steps=8", "--output=x.png", "--loud", "--quick" },
        { "-t", "8", "-o", "x.png", "-l", "-q", "boat" },
        { "-t8", "-ox.png", "boat", "-lq" },
        { "-lqt8", "-pboat", "-o", "x.png" },
        { "-qlt", "8", "--prompt=boat", "--output=x.png" },
        { "--loud", "--quick", "-t8", "-o", "x.png", "--", "boat" },
    };
    for (size_t i = 0; i < KN_COUNT(spellings); i++) {
        struct given g;
        kn_error err;
        if (parse(spellings[i], &g, &err) != KN_PARSED)
            fail_msg("row %zu: %s", i, err.text);
        assert_string_equal(g.prompt, "boat");
        assert_string_equal(g.output, "x.png");
        assert_true(g.loud && g.quick);
        assert_true(g.steps.set && g.steps.value == 8);
        assert_false(g.cfg.set || g.seed.set || g.size.set || g.sigmas.count || g.colour);
    }
}

static void nothing_given_is_nothing_set(void **state) {
    (void)state;
    struct given g, zero = { 0 };
    kn_error err;
    assert_int_equal(parse((const char *[]){ NULL }, &g, &err), KN_PARSED);
    assert_memory_equal(&g, &zero, sizeof g);
}

static void values_of_every_kind_arrive(void **state) {
    (void)state;
    struct given g;
    kn_error err;
    assert_int_equal(parse((const char *[]){ "--cfg=2.5", "--sigmas=1,0.5, 0.25", "--size=512x768", "--colour=Scarlet",
                                             "--file=a", "--file", "--b", NULL },
                           &g, &err),
                     KN_PARSED);
    assert_true(g.cfg.set && g.cfg.value == 2.5);
    assert_int_equal(g.sigmas.count, 3);
    assert_true(g.sigmas.values[0] == 1 && g.sigmas.values[1] == 0.5 && g.sigmas.values[2] == 0.25);
    assert_true(g.size.set && g.size.width == 512 && g.size.height == 768);
    assert_string_equal(g.colour, "red");
    assert_int_equal(g.files.count, 2);
    assert_string_equal(g.files.paths[0], "a");
    assert_string_equal(g.files.paths[1], "--b"); /* not an option of the table, so it may be a value */
}

static void texts_may_look_like_options(void **state) {
    (void)state;
    static const struct {
        const char *args[ARGS_MAX + 1], *prompt, *output;
    } table[] = {
        { { "--", "--loud" }, "--loud", NULL },
        { { "--prompt=--loud" }, "--loud", NULL },
        { { "-p", "-x" }, "-x", NULL },
        { { "--prompt", "" }, "", NULL },
        { { "" }, "", NULL },
        { { "-o", "-", "a=b" }, "a=b", "-" },
        { { "--prompt=a=b" }, "a=b", NULL },
        { { "-p=a" }, "=a", NULL },
        { { "-" }, "-", NULL },
        { { "--prompt", "--" }, "--", NULL },
    };
    for (size_t i = 0; i < KN_COUNT(table); i++) {
        struct given g;
        kn_error err;
        if (parse(table[i].args, &g, &err) != KN_PARSED)
            fail_msg("row %zu: %s", i, err.text);
        assert_string_equal(g.prompt, table[i].prompt);
        assert_true(table[i].output ? strcmp(g.output, table[i].output) == 0 : !g.output);
    }
}

static void wrong_usage_is_told_in_one_sentence(void **state) {
    (void)state;
    static const struct {
        const char *args[ARGS_MAX + 1], *says;
    } table[] = {
        { { "--steps=0" }, "--steps: 0 is outside 1 to 1000" },
        { { "--steps", "-5" }, "--steps: -5 is outside 1 to 1000" },
        { { "-t1001" }, "--steps: 1001 is outside 1 to 1000" },
        { { "--steps=99999999999999999999999" }, "--steps: 99999999999999999999999 is outside 1 to 1000" },
        { { "--steps=8.0" }, "--steps: '8.0' is not a whole number" },
        { { "--steps=0x8" }, "--steps: '0x8' is not a whole number" },
        { { "--steps= 8" }, "--steps: ' 8' is not a whole number" },
        { { "--steps=" }, "--steps: '' is not a whole number" },
        { { "--steps" }, "--steps: needs a value, N" },
        { { "boat", "-t" }, "--steps: needs a value, N" },
        { { "--output", "--loud" }, "--output: needs a value, FILE" },
        { { "--steps=1", "-t2" }, "--steps: is given twice" },
        { { "-ll" }, "--loud: is given twice" },
        { { "boat", "--prompt=ship" }, "PROMPT and --prompt say the same; give one of them" },
        { { "-pship", "boat" }, "--prompt and PROMPT say the same; give one of them" },
        { { "a", "b" }, "unexpected argument 'b'; a text of several words needs quotes around it" },
        { { "--loud=yes" }, "--loud: takes no value" },
        { { "--help=me" }, "--help: takes no value" },
        { { "--stepz=3" }, "unknown option '--stepz'; did you mean '--steps'?" },
        { { "--setps", "3" }, "unknown option '--setps'; did you mean '--steps'?" },
        { { "--step=3" }, "unknown option '--step'; did you mean '--steps'?" },
        { { "--lou" }, "unknown option '--lou'; did you mean '--loud'?" },
        { { "--completely-else" }, "unknown option '--completely-else'" },
        { { "--=x" }, "unknown option '--'" },
        { { "--\x1b[31m" }, "unknown option '--\\x1b[31m'" },
        { { "-x" }, "unknown option '-x'; put -- before what only looks like one" },
        { { "-lx" }, "unknown option '-lx'; put -- before what only looks like one" },
        { { "-5" }, "unknown option '-5'; put -- before what only looks like one" },
        { { "--cfg=100.01" }, "--cfg: 100.01 is outside 0 to 100" },
        { { "--cfg=-0.1" }, "--cfg: -0.1 is outside 0 to 100" },
        { { "--cfg=nan" }, "--cfg: 'nan' is not a number" },
        { { "--cfg=1e999" }, "--cfg: '1e999' is not a number" },
        { { "--cfg=1,5" }, "--cfg: '1,5' is not a number" },
        { { "--sigmas=1,,0" }, "--sigmas: '' is not a number" },
        { { "--sigmas=1,0.5," }, "--sigmas: '' is not a number" },
        { { "--sigmas=1,2" }, "--sigmas: 2 is outside 0 to 1" },
        { { "--colour=gren" }, "--colour: unknown colour 'gren'; known: red, green; did you mean 'green'?" },
        { { "--colour=" }, "--colour: unknown colour ''; known: red, green" },
        { { "--output=" }, "--output: is empty" },
        { { "--prompt=caf\xE9" }, "--prompt: is not UTF-8 text (byte 4)" },
    };
    for (size_t i = 0; i < KN_COUNT(table); i++) {
        struct given g;
        kn_error err;
        if (parse(table[i].args, &g, &err) != KN_PARSED_WRONG)
            fail_msg("'%s' is accepted", table[i].args[0]);
        assert_string_equal(err.text, table[i].says);
    }
}

static void seeds_keep_all_64_bits(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good, random;
        uint64_t value;
    } table[] = {
        { "--seed=0", true, false, 0 },
        { "--seed=9007199254740993", true, false, 9007199254740993 },
        { "--seed=9223372036854775808", true, false, 9223372036854775808u },
        { "--seed=18446744073709551615", true, false, UINT64_MAX },
        { "--seed=-1", true, true, 0 },
        { "--seed=18446744073709551616", false, false, 0 },
        { "--seed=-2", false, false, 0 },
        { "--seed=-01", false, false, 0 },
        { "--seed=1.5", false, false, 0 },
        { "--seed=1e3", false, false, 0 },
        { "--seed=+1", false, false, 0 },
        { "--seed=", false, false, 0 },
        { "--seed=1 ", false, false, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(table); i++) {
        struct given g;
        kn_error err;
        bool good = parse((const char *[]){ table[i].text, NULL }, &g, &err) == KN_PARSED;
        if (good != table[i].good)
            fail_msg("%s: %s", table[i].text, good ? "is accepted" : err.text);
        assert_int_equal(g.seed.set, good);
        assert_int_equal(g.seed.random, table[i].random);
        assert_true(g.seed.value == table[i].value);
    }
}

static void sizes_are_two_whole_sides_in_range(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t width, height; /* 0: refused */
    } table[] = {
        { "512x512", 512, 512 },
        { "512X768", 512, 768 }, /* either x */
        { "16x16384", 16, 16384 },
        { "0512x0512", 512, 512 },
        { "0x512", 0, 0 },
        { "-512x512", 0, 0 },
        { "15x512", 0, 0 },
        { "16x16385", 0, 0 },
        { "99999999x1", 0, 0 },
        { "4294967808x512", 0, 0 }, /* 2^32 + 512 */
        { "18446744073709552128x512", 0, 0 },
        { "99999999999999999999999999999999999999999999999999999999999999999999x16", 0, 0 },
        { "512", 0, 0 },
        { "512x", 0, 0 },
        { "x512", 0, 0 },
        { "512x512x3", 0, 0 },
        { "512x512 ", 0, 0 },
        { "512 x512", 0, 0 },
        { "512.0x512", 0, 0 },
        { "512*512", 0, 0 },
        { "", 0, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(table); i++) {
        struct given g;
        kn_error err;
        bool good = parse((const char *[]){ "--size", table[i].text, NULL }, &g, &err) == KN_PARSED;
        if (good != (table[i].width > 0))
            fail_msg("%s: %s", table[i].text, good ? "is accepted" : err.text);
        assert_int_equal(g.size.width, table[i].width);
        assert_int_equal(g.size.height, table[i].height);
    }
}

static void lists_have_an_end(void **state) {
    (void)state;
    char *list = malloc(2 * (KN_GIVEN_REALS_MAX + 1));
    assert_non_null(list);
    for (int i = 0; i <= KN_GIVEN_REALS_MAX; i++)
        memcpy(list + 2 * i, "0,", 2);
    list[2 * KN_GIVEN_REALS_MAX + 1] = 0;
    struct given g;
    kn_error err;
    assert_int_equal(parse((const char *[]){ "--sigmas", list, NULL }, &g, &err), KN_PARSED_WRONG);
    assert_string_equal(err.text, "--sigmas: has more than 1001 numbers");
    list[2 * KN_GIVEN_REALS_MAX - 1] = 0;
    assert_int_equal(parse((const char *[]){ "--sigmas", list, NULL }, &g, &err), KN_PARSED);
    assert_int_equal(g.sigmas.count, KN_GIVEN_REALS_MAX);
    free(list);

    const char *many[KN_GIVEN_PATHS_MAX + 1];
    for (size_t i = 0; i < KN_COUNT(many); i++)
        many[i] = "--file=x";
    err = (kn_error){ 0 };
    assert_int_equal(kn_options_parse(rows, KN_COUNT(rows), many, KN_COUNT(many), &(struct given){ 0 }, &err),
                     KN_PARSED_WRONG);
    assert_string_equal(err.text, "--file: is given more than 256 times");
}

static void help_wins_over_mistakes_after_it(void **state) {
    (void)state;
    struct given g;
    kn_error err;
    assert_int_equal(parse((const char *[]){ "--help", "--nonsense", NULL }, &g, &err), KN_PARSED_HELP);
    assert_int_equal(parse((const char *[]){ "-lh", NULL }, &g, &err), KN_PARSED_HELP);
    assert_int_equal(parse((const char *[]){ "--", "--help", NULL }, &g, &err), KN_PARSED);
}

/* ---- the tables of the program ---- */

static void tables_are_sound(void **state) {
    (void)state;
    for (size_t c = 0; c < KN_COMMAND_COUNT; c++) {
        const kn_command *command = kn_commands[c];
        assert_ptr_equal(kn_command_find(command->name), command);
        assert_in_range(command->option_count, 1, KN_OPTIONS_MAX);
        assert_int_equal(command->options[0].kind, KN_OPTION_GROUP);
        assert_string_equal(command->options[command->option_count - 1].name, "help");
        for (size_t i = 0; i < command->option_count; i++) {
            const kn_option *row = &command->options[i];
            bool group = row->kind == KN_OPTION_GROUP;
            bool value = !group && row->kind != KN_OPTION_FLAG && row->kind != KN_OPTION_HELP;
            bool ranged = row->kind == KN_OPTION_INTEGER || row->kind == KN_OPTION_REAL ||
                          row->kind == KN_OPTION_REALS || row->kind == KN_OPTION_SIZE;
            assert_non_null(row->help);
            assert_true(row->at < command->given_bytes || row->kind == KN_OPTION_HELP);
            assert_int_equal(!!row->arg, value);
            assert_int_equal(row->max > row->min, ranged);
            assert_int_equal(!!row->names, row->kind == KN_OPTION_CHOICE);
            for (size_t k = 0; k < i; k++) {
                const kn_option *other = &command->options[k];
                assert_true(!row->name || !other->name || strcmp(row->name, other->name) != 0);
                assert_true(!row->letter || row->letter != other->letter);
            }
        }
    }
}

static void help_fits_80_columns_and_names_every_option(void **state) {
    (void)state;
    for (size_t c = 0; c <= KN_COMMAND_COUNT; c++) {
        KN_AUTO_BUF text;
        kn_buf_init(&text, 1 << 16);
        assert_true(c < KN_COMMAND_COUNT ? kn_help_command(kn_commands[c], &text) : kn_help_program(&text));
        for (const char *line = text.data; *line; line += strcspn(line, "\n") + 1)
            assert_in_range(strcspn(line, "\n"), 0, KN_HELP_COLUMNS);
        for (size_t i = 0; c < KN_COMMAND_COUNT && i < kn_commands[c]->option_count; i++) {
            const kn_option *row = &kn_commands[c]->options[i];
            char name[64];
            snprintf(name, sizeof name, row->name ? "--%s" : "%s", row->name ? row->name : row->arg);
            assert_true(row->kind == KN_OPTION_GROUP || strstr(text.data, name));
        }
    }
}

static kn_parsed parse_generate(const char *const *args, kn_generate_options *ret, kn_error *err) {
    const kn_command *c = &kn_command_generate;
    size_t n = 0;
    while (args[n])
        n++;
    *ret = (kn_generate_options){ 0 };
    *err = (kn_error){ 0 };
    kn_parsed parsed = kn_options_parse(c->options, c->option_count, args, n, ret, err);
    return parsed != KN_PARSED || c->check(ret, err) ? parsed : KN_PARSED_WRONG;
}

static void generate_takes_what_it_offers(void **state) {
    (void)state;
    kn_generate_options o;
    kn_error err;
    assert_int_equal(
        parse_generate((const char *[]){ "a boat", "--sampler=euler", "--scheduler=SIMPLE", "--rng=cuda",
                                         "--precision=exact", "--device=cpu", "--count=3", "--opaque", NULL },
                       &o, &err),
        KN_PARSED);
    assert_string_equal(o.prompt, "a boat");
    assert_string_equal(o.sampler, "euler");
    assert_string_equal(o.scheduler, "simple");
    assert_string_equal(o.rng, "torch-cuda");
    assert_string_equal(o.precision, "exact");
    assert_string_equal(o.device, "cpu");
    assert_true(o.count.set && o.count.value == 3);
    assert_true(o.opaque && !o.json && !o.quiet && !o.no_metadata && !o.no_clobber);
}

static void generate_refuses_what_contradicts_itself(void **state) {
    (void)state;
    static const struct {
        const char *args[ARGS_MAX + 1], *says;
    } table[] = {
        { { "-q" }, "needs a prompt" },
        { { "x", "--json", "-o-" }, "--json and --output -" },
        { { "x", "--count=2", "-o-" }, "--count" },
        { { "x", "--count=2", "--init-noise=n.safetensors" }, "--init-noise" },
        { { "x", "--count=2", "--seed=18446744073709551615" }, "beyond 18446744073709551615" },
        { { "x", "--sigmas=1,0.5", "--steps=2" }, "--sigmas says what --steps would" },
        { { "x", "--sigmas=1,0.5", "--scheduler=simple" }, "--sigmas says what --scheduler would" },
    };
    kn_generate_options o;
    kn_error err;
    for (size_t i = 0; i < KN_COUNT(table); i++) {
        assert_int_equal(parse_generate(table[i].args, &o, &err), KN_PARSED_WRONG);
        assert_int_equal(err.code, KN_E_USAGE);
        if (!strstr(err.text, table[i].says))
            fail_msg("says '%s', not '%s'", err.text, table[i].says);
    }
    assert_int_equal(parse_generate((const char *[]){ "", "--count=2", "--seed=18446744073709551614", NULL }, &o, &err),
                     KN_PARSED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_spellings_mean_the_same),
        cmocka_unit_test(nothing_given_is_nothing_set),
        cmocka_unit_test(values_of_every_kind_arrive),
        cmocka_unit_test(texts_may_look_like_options),
        cmocka_unit_test(wrong_usage_is_told_in_one_sentence),
        cmocka_unit_test(seeds_keep_all_64_bits),
        cmocka_unit_test(sizes_are_two_whole_sides_in_range),
        cmocka_unit_test(lists_have_an_end),
        cmocka_unit_test(help_wins_over_mistakes_after_it),
        cmocka_unit_test(tables_are_sound),
        cmocka_unit_test(help_fits_80_columns_and_names_every_option),
        cmocka_unit_test(generate_takes_what_it_offers),
        cmocka_unit_test(generate_refuses_what_contradicts_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
