/* The place of a device on the PCI bus, "0000:04:00.0": what a graphics card is known by here, since every other name
 * (an index, a node, a driver's handle) depends on who counts. */
#ifndef KN_GPU_PCI_H
#define KN_GPU_PCI_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Always in its one form: lower case, four digits of domain (more only for one beyond 16 bits). Empty: none. */
typedef struct kn_pci_address {
    char text[20];
} kn_pci_address;

/* Only the one form is accepted. */
bool kn_pci_parse(const char *text, size_t len, kn_pci_address *ret);

/* False if a number is beyond what the bus has. */
bool kn_pci_make(uint32_t domain, uint32_t bus, uint32_t device, uint32_t function, kn_pci_address *ret);

bool kn_pci_equal(const kn_pci_address *a, const kn_pci_address *b);

#endif
