/* What the files of the gateway share. Internal to the room. */
#ifndef KN_GATEWAY_INTERNAL_H
#define KN_GATEWAY_INTERNAL_H

#include "gateway/gateway.h"
#include "gateway/lease.h"
#include "gateway/meter.h"
#include "gateway/observer.h"
#include "gateway/presence.h"
#include "gateway/resources.h"
#include "http/guard.h"
#include "http/server.h"
#include "workers/painter.h"

typedef struct kn_pause_wait kn_pause_wait;
typedef struct kn_managed kn_managed;
typedef struct kn_images kn_images;

struct kn_gateway {
    const kn_config *config;
    kn_loop *loop;
    void (*log_line)(void *ctx, const char *line);
    void *log_ctx;

    kn_http *http;
    kn_state *state;
    kn_disk *disk;
    kn_upstream *upstream;
    kn_meter *meter;
    kn_lease *lease;
    kn_observer observer; /* of the one request that holds the lease */
    kn_watcher *watcher;
    kn_managed *managed; /* NULL: there are no workers */
    kn_easel *easel;
    kn_painter *painter; /* of whoever has its turn at the easel */
    kn_images *images;
    kn_server *public, *private;  /* clients of Ollama, and the owner */
    kn_guard guard, public_guard; /* of routes of our own */

    kn_boot_id boot;
    int64_t started_s;
    kn_presence presence; /* of the upstream */

    kn_pause_wait *pauses; /* owners who wait for the lease to be free */
    kn_timer stop_timer;
    bool stopping, uncertain; /* uncertain: the log has what to do about it */
    void (*ready)(void *ctx);
    void (*failed)(void *ctx, const kn_error *err);
    void (*stopped)(void *ctx);
    void *stop_ctx;
};

void kn_gateway_log(kn_gateway *g, const char *fmt, ...) KN_PRINTF(2, 3);

/* Ends the gateway if it is to stop and nobody is left to wait for. */
void kn_gateway_settle(kn_gateway *g);

/* proxy.c, control.c: the services of the two listeners; the listener's ctx is the gateway. */
extern const kn_service kn_proxy_service, kn_control_service;

/* control.c: the lease has been given back. */
void kn_control_lease_changed(kn_gateway *g);

#endif
