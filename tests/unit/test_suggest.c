#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/suggest.h"

static void suggests_a_slip_of_the_hand_and_nothing_farther(void **state) {
    (void)state;
    static const char *const names[] = { "vae", "vision", "tokenizer", "text_encoder", "diffusion_model" };
    static const struct {
        const char *word, *meant;
    } rows[] = {
        { "vea", "vae" },
        { "va", NULL },
        { "vision", "vision" },
        { "tokeniser", "tokenizer" },
        { "text-encoder", "text_encoder" },
        { "difusion_modell", "diffusion_model" },
        { "unet", NULL },
        { "", NULL },
        { "tokenizer_path_of_it", NULL },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const char *meant = kn_suggest(rows[i].word, names, KN_COUNT(names));
        if (rows[i].meant)
            assert_string_equal(meant, rows[i].meant);
        else
            assert_null(meant);
    }
    char endless[1000] = "";
    memset(endless, 'v', sizeof endless - 1);
    assert_null(kn_suggest(endless, names, KN_COUNT(names)));
}

static void lists_the_choice_and_cuts_a_long_list(void **state) {
    (void)state;
    static const char *const two[] = { "raw", "turbo" };
    assert_string_equal(kn_suggest_choice("distilled", two, 2).text, "; known: raw, turbo");
    assert_string_equal(kn_suggest_choice("trubo", two, 2).text, "; known: raw, turbo (did you mean 'turbo'?)");
    assert_string_equal(kn_suggest_choice("x", two, 0).text, "");

    char many[200][64];
    const char *names[200];
    for (int i = 0; i < 200; i++) {
        snprintf(many[i], sizeof many[i], "a-profile-with-a-rather-long-name-\x1b-%d", i);
        names[i] = many[i];
    }
    kn_choice c = kn_suggest_choice("a-profile-with-a-rather-long-name-\x1b-199", names, 200);
    assert_non_null(strstr(c.text, "-0, a-profile"));
    assert_non_null(strstr(c.text, ", … (did you mean 'a-profile-with-a-rather-long-name-\\x1b-199'?)"));
    assert_null(strchr(c.text, '\x1b'));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suggests_a_slip_of_the_hand_and_nothing_farther),
        cmocka_unit_test(lists_the_choice_and_cuts_a_long_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
