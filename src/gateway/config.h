/* config.json: what `kuno serve` listens on, whom it serves, where it keeps its few files and how long it waits.
 *
 * Read strictly: a key that is unknown or comes twice, a number outside of its range, a text where a number belongs is
 * an error that begins with its place in the file ("managed.workers[1].address: …"). Rules between keys are checked
 * here, too; what the machine must have for it is needs.h's. Paths are absolute, without "." and "..", so that they can
 * be compared. docs/config-json.md tells people of it.
 *
 * No secrets are in here; the control token comes from elsewhere (token.h). */
#ifndef KN_GATEWAY_CONFIG_H
#define KN_GATEWAY_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "http/patience.h"
#include "workers/ollama_worker.h"

#define KN_CONFIG_PATH "/etc/kuno/config.json"

enum { KN_CONFIG_BYTES = 256 << 10, KN_WORKERS_MAX = 16 };

/* The image worker. Bit n of `workflows`: kn_workflows[n] (workers/recipe.h). */
typedef struct kn_image_config {
    bool enabled;         /* /kuno/v1/images/generate draws; the rest holds for the studio, too */
    char *models;         /* a models.toml or a folder with one, absolute; NULL: that of the user */
    kn_pci_address pci;   /* whose workers make room; empty: the processor's */
    uint32_t timeout_s;   /* of one picture */
    uint32_t keep_warm_s; /* how long an idle worker stays */
    bool isolated;        /* it must be locked in completely */
    unsigned workflows;
} kn_image_config;

typedef struct kn_config {
    kn_address listen, upstream, control;
    kn_address studio;    /* len 0: there is none */
    char *studio_models;  /* a models.toml, absolute; NULL: that of the user */
    bool studio_isolated; /* its worker must be locked in completely */
    char *mirror;         /* that models are downloaded from; NULL: where they are published */
    bool offline;         /* nothing is downloaded */
    kn_image_config image;
    char *state_dir; /* absolute */
    uint32_t queue_limit, max_connections;
    uint32_t max_connections_per_address; /* 0: not said; then those of loopback addresses are not counted */
    uint32_t queue_timeout_ms, connect_timeout_ms, header_timeout_ms, stream_idle_timeout_ms;
    kn_patience client;     /* with clients that send their request, or take their answer, slowly */
    uint64_t reserve_bytes; /* of each device, never given to models */
    size_t worker_count;    /* 0: everything goes to the upstream */
    kn_worker_config workers[KN_WORKERS_MAX];
} kn_config;

/* What is served where there is no file; state_dir is copied. */
bool kn_config_default(const char *state_dir, kn_config *ret, kn_error *err);

bool kn_config_read(const char *text, size_t len, kn_config *ret, kn_error *err);

/* Errors begin with the path. */
bool kn_config_load(const char *path, kn_config *ret, kn_error *err);

void kn_config_free(kn_config *c);

#endif
