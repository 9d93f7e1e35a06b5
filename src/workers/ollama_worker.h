/* Workers: `ollama serve` processes that are ours, each on one device.
 *
 *     process.h marked.h    a program and all that it starts
 *     ollama_log.h          what an Ollama tells while it starts
 *     ollama_worker.h       one worker, from its start to its end
 *
 * A worker has one state, and tells whenever that changes:
 *
 *     stopped ──start──► starting ──it is what it should be──► ready ──stop──► stopping ──► stopped
 *                            │                                  │                 │
 *                            └── wrong device, crash, too late ─┴─► stopping ──► resting ──after a while──► starting
 *                                                                                 └─► lost: it cannot be ended
 *
 * Its environment is made from nothing. It gets exactly its device, is asked nothing before its own log has told that
 * it has found that device and no other, and is then trusted with nothing but its port. What it writes afterwards is
 * thrown away unread. After a failure it rests before it is started again, twice as long each time. */
#ifndef KN_WORKERS_OLLAMA_WORKER_H
#define KN_WORKERS_OLLAMA_WORKER_H

#include "gpu/pci.h"
#include "http/address.h"
#include "http/upstream.h"

enum { KN_WORKER_ID_BYTES = 64, KN_GPU_UUID_BYTES = 41 };

typedef enum kn_backend { KN_BACKEND_CUDA, KN_BACKEND_VULKAN, KN_BACKEND_CPU, KN_BACKEND_COUNT } kn_backend;
extern const char *const kn_backend_names[KN_BACKEND_COUNT];

typedef struct kn_worker_config {
    char id[KN_WORKER_ID_BYTES];      /* made from backend and PCI address, or the port where there is none */
    char *executable, *models, *home; /* absolute paths */
    kn_address address;
    uint32_t max_loaded_models, context_length;
    kn_backend backend;
    char uuid[KN_GPU_UUID_BYTES]; /* CUDA only */
    uint32_t index;               /* Vulkan only */
    kn_pci_address pci;           /* empty for the CPU */
} kn_worker_config;

typedef enum kn_worker_state {
    KN_WORKER_STOPPED,
    KN_WORKER_STARTING,
    KN_WORKER_READY,
    KN_WORKER_STOPPING,
    KN_WORKER_RESTING,
    KN_WORKER_LOST,
    KN_WORKER_STATE_COUNT,
} kn_worker_state;

typedef struct kn_worker kn_worker;

typedef struct kn_worker_setup {
    const kn_worker_config *config; /* must outlive the worker */
    kn_http *http;
    const kn_upstream_limits *limits;
    const char *mark;           /* what the marks of all our workers begin with: "KUNO_WORKER=/var/lib/kuno#" */
    uint64_t start_ms, rest_ms; /* how long a start may take; how long the first rest is */
    void (*changed)(void *ctx, kn_worker *w);
    void *ctx;
} kn_worker_setup;

bool kn_worker_new(const kn_worker_setup *setup, kn_worker **ret, kn_error *err);

/* Kills what runs and waits for it. */
void kn_worker_free(kn_worker *w);

/* From stopped or resting: begins. `changed` may come before this returns. */
void kn_worker_start(kn_worker *w);

/* From starting, ready or resting: ends it. From others: nothing. */
void kn_worker_stop(kn_worker *w);

/* Something is wrong with it: ends it and lets it rest. reason: a fixed word. */
void kn_worker_fail(kn_worker *w, const char *reason);

/* Kills it and waits. True: nothing is left of it. */
bool kn_worker_end_now(kn_worker *w);

const kn_worker_config *kn_worker_config_of(const kn_worker *w);
kn_worker_state kn_worker_state_of(const kn_worker *w);

/* A fixed word for why it failed last; NULL: it has not, or works again. */
const char *kn_worker_reason(const kn_worker *w);

/* Of a worker that is ready: by what loads of the same model may differ, apart from their context. */
uint64_t kn_worker_settings(const kn_worker *w);

/* Where it takes requests while it is ready. */
kn_upstream *kn_worker_upstream(kn_worker *w);

#endif
