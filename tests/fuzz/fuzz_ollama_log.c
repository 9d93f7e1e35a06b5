/* Any bytes as an Ollama's log, in pieces cut by the first byte: the same is understood as of all of it at once, and no
 * worker is taken that did not tell its place. */
#include <stdlib.h>
#include <string.h>

#include "workers/ollama_judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_in_pieces(kn_ollama_log *l, const char *text, size_t len, size_t piece) {
    kn_ollama_log_begin(l);
    for (size_t at = 0; at < len; at += piece)
        kn_ollama_log_feed(l, (kn_span){ text + at, KN_MIN(piece, len - at) });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kn_ollama_log whole, cut;
    if (!size)
        return 0;
    read_in_pieces(&whole, (const char *)data + 1, size - 1, size);
    read_in_pieces(&cut, (const char *)data + 1, size - 1, (size_t)data[0] + 1);
    if (whole.listens != cut.listens || whole.device_count != cut.device_count ||
        strcmp(whole.version, cut.version) != 0 || memcmp(whole.devices, cut.devices, sizeof whole.devices) != 0)
        abort();
    kn_worker_config c = { .backend = KN_BACKEND_CUDA };
    kn_address_parse("127.0.0.1:11501", &c.address, NULL);
    kn_pci_parse("0000:04:00.0", 12, &c.pci);
    if (!kn_ollama_judge(&whole, &c) &&
        (whole.device_count != 1 || strcmp(whole.devices[0].pci.text, "0000:04:00.0") != 0))
        abort();
    return 0;
}
