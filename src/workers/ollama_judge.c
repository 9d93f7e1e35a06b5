#include "workers/ollama_judge.h"

#include <string.h>

#include "http/head.h"

static bool is_library(const kn_ollama_device *d, kn_backend backend) {
    return kn_span_is_like(kn_span_of(d->library), kn_backend_names[backend]);
}

const char *kn_ollama_judge(const kn_ollama_log *l, const kn_worker_config *c) {
    const kn_ollama_device *d = &l->devices[0];
    if (!l->listens || !kn_address_is_same_host(&l->address, &c->address) ||
        kn_address_port(&l->address) != kn_address_port(&c->address))
        return "wrong_address";
    if (l->device_count == 0)
        return "no_device_told";
    if (l->device_count > 1)
        return "several_devices";
    if (!is_library(d, c->backend))
        return "wrong_backend";
    if (c->backend == KN_BACKEND_CPU)
        return NULL;
    if (!d->has_pci)
        return "no_place_told";
    if (!kn_pci_equal(&d->pci, &c->pci))
        return "wrong_device";
    bool tells_uuid = strncmp(d->id, "GPU-", 4) == 0;
    return c->uuid[0] && tells_uuid && strcmp(d->id, c->uuid) != 0 ? "wrong_uuid" : NULL;
}

/* FNV-1a, with the end of each text in it. */
static uint64_t mix(uint64_t sum, const char *text) {
    const char *p = text;
    do {
        sum = (sum ^ (unsigned char)*p) * 0x100000001b3;
    } while (*p++);
    return sum;
}

uint64_t kn_ollama_settings(const kn_ollama_log *l, const kn_worker_config *c) {
    uint64_t sum = 0xcbf29ce484222325;
    sum = mix(sum, kn_backend_names[c->backend]);
    sum = mix(sum, c->pci.text);
    sum = mix(sum, l->version);
    return mix(sum, l->devices[0].driver);
}
