#include "gpu/pci.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BUS_MAX = 0xFF, DEVICE_MAX = 0x1F, FUNCTION_MAX = 7 };

bool kn_pci_make(uint32_t domain, uint32_t bus, uint32_t device, uint32_t function, kn_pci_address *ret) {
    if (bus > BUS_MAX || device > DEVICE_MAX || function > FUNCTION_MAX)
        return false;
    snprintf(ret->text, sizeof ret->text, "%04" PRIx32 ":%02" PRIx32 ":%02" PRIx32 ".%" PRIx32, domain, bus, device,
             function);
    return true;
}

/* One to eight hexadecimal digits up to `stop`; moves *at behind that. */
static bool hex_up_to(const char **at, const char *end, char stop, uint32_t *ret) {
    uint32_t v = 0;
    const char *from = *at, *p = from;
    for (; p < end && *p != stop; p++) {
        bool digit = *p >= '0' && *p <= '9';
        if (!digit && (*p < 'a' || *p > 'f'))
            return false;
        v = v << 4 | (uint32_t)(digit ? *p - '0' : *p - 'a' + 10);
    }
    if (p == from || p - from > 8 || (stop && p == end))
        return false;
    *at = p + (stop != 0);
    *ret = v;
    return true;
}

bool kn_pci_parse(const char *text, size_t len, kn_pci_address *ret) {
    const char *at = text, *end = text + len;
    uint32_t domain = 0, bus = 0, device = 0, function = 0;
    kn_pci_address made = { 0 };
    if (!hex_up_to(&at, end, ':', &domain) || !hex_up_to(&at, end, ':', &bus) || !hex_up_to(&at, end, '.', &device) ||
        !hex_up_to(&at, end, 0, &function) || !kn_pci_make(domain, bus, device, function, &made) ||
        strlen(made.text) != len || memcmp(made.text, text, len) != 0)
        return false;
    *ret = made;
    return true;
}

bool kn_pci_equal(const kn_pci_address *a, const kn_pci_address *b) {
    return a->text[0] && strcmp(a->text, b->text) == 0;
}
