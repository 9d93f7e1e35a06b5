/* Places on the PCI bus have one form, so that comparing texts is enough. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/pci.h"

static void places_on_the_bus_have_one_form(void **state) {
    (void)state;
    kn_pci_address a = { 0 }, b = { 0 };
    assert_true(kn_pci_parse("0000:04:00.0", 12, &a));
    assert_true(kn_pci_make(0, 4, 0, 0, &b));
    assert_true(kn_pci_equal(&a, &b));
    assert_true(kn_pci_parse("10000:e1:1f.7", 13, &a)); /* domains beyond 16 bits exist */
    assert_string_equal(a.text, "10000:e1:1f.7");
    assert_true(kn_pci_make(UINT32_MAX, 0xFF, 0x1F, 7, &a));
    assert_true(kn_pci_parse(a.text, strlen(a.text), &b));
    assert_false(kn_pci_make(0, 256, 0, 0, &a));
    assert_false(kn_pci_make(0, 0, 32, 0, &a));
    assert_false(kn_pci_make(0, 0, 0, 8, &a));
    static const char *const rows[] = {
        "",
        "04:00.0",
        "0000:04:00",
        "00000000:04:00.0",
        "0000:4:00.0",
        "0000:04:00.8",
        "0000:2D:00.0",
        "0000:04:20.0",
        "0000:04:00.0 ",
        "0000:04.00.0",
        "virtio0",
        "0000:04:00.",
        "00000:04:00.0",
        ":04:00.0",
        "100000000:04:00.0",
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (kn_pci_parse(rows[i], strlen(rows[i]), &a))
            fail_msg("'%s' was taken", rows[i]);
    assert_false(kn_pci_equal(&(kn_pci_address){ "" }, &(kn_pci_address){ "" })); /* no place is no place in common */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_on_the_bus_have_one_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
