/* What `ollama serve` tells of itself while it starts: where it listens, its version, and which devices it has found.
 *
 * Of its log only three kinds of lines are looked at, by their keys and never by their order; everything else, and
 * every line that is too long, is dropped as it comes. Nothing that people write can be in it before the first request.
 */
#ifndef KN_WORKERS_OLLAMA_LOG_H
#define KN_WORKERS_OLLAMA_LOG_H

#include "gpu/pci.h"
#include "http/address.h"
#include "http/head.h"

enum { KN_OLLAMA_LINE_MAX = 8 << 10, KN_OLLAMA_DEVICES_MAX = 16 };

typedef struct kn_ollama_device {
    char library[16], id[64], driver[32]; /* empty: not told, or too long to be one */
    bool has_pci;                         /* and it is one */
    kn_pci_address pci;
} kn_ollama_device;

typedef struct kn_ollama_log {
    char line[KN_OLLAMA_LINE_MAX];
    size_t len;
    bool too_long; /* the present line: dropped up to its end */

    bool listens;
    kn_address address;
    char version[32];
    size_t device_count; /* also of those beyond the room */
    kn_ollama_device devices[KN_OLLAMA_DEVICES_MAX];
} kn_ollama_log;

void kn_ollama_log_begin(kn_ollama_log *l);
void kn_ollama_log_feed(kn_ollama_log *l, kn_span text);

#endif
