/* The gateway: one door in front of Ollama. Clients of Ollama pass through it unchanged; what may use a model waits its
 * turn; its owner sees and steers it by another door.
 *
 *     config.h token.h      what was asked for
 *     route.h observer.h    what a request is
 *     admission.h lease.h   whose turn it is; state.h what must survive a crash; disk.h where that is waited for
 *     meter.h usage.h catalog.h    what was really used
 *     needs.h presence.h trouble.h what must be there: on the machine, behind us, on the disk
 *     proxy.c               clients ──► upstream
 *     crew.h managed.h wish.h learning.h    clients ──► workers of our own (src/workers), where they are configured
 *     easel.h images.h      clients ──► pictures, drawn by an image worker (src/workers)
 *     control.c             the owner: status, resources, usage, pause, resume
 *     refusal.h             errors of our own, in the language of the path
 *
 * Everything runs in one thread, the event loop's, but for what may block: the disk's thread and the GPU probe's. What
 * people write passes through and is neither kept nor told of; log lines are fixed words and numbers. */
#ifndef KN_GATEWAY_GATEWAY_H
#define KN_GATEWAY_GATEWAY_H

#include "gateway/config.h"
#include "gateway/token.h"
#include "http/loop.h"

enum { KN_DRAIN_MS = 30 * 1000 };

typedef struct kn_gateway kn_gateway;
typedef struct kn_easel kn_easel;
typedef struct kn_painter kn_painter;

typedef struct kn_gateway_setup {
    const kn_config *config; /* must outlive the gateway */
    const char *token;       /* of the control listener; copied */
    kn_loop *loop;
    void (*ready)(void *ctx);
    void (*failed)(void *ctx, const kn_error *err);
    void (*log)(void *ctx, const char *line); /* without its end; from any thread */
    void *ctx;
} kn_gateway_setup;

/* Locks the state directory, reads what is in it, and listens: at once, or where there are workers when each of them is
 * known to be what it should be. Then calls `ready`; or `failed`, and it never listens. */
bool kn_gateway_new(const kn_gateway_setup *setup, kn_gateway **ret, kn_error *err);

/* For others in this process who draw pictures: whose turn it is (easel.h), and who draws (workers/painter.h). */
kn_easel *kn_gateway_easel(kn_gateway *g);
kn_painter *kn_gateway_painter(kn_gateway *g);

/* Cuts what is left; work that was cut leaves its marker. */
void kn_gateway_free(kn_gateway *g);

/* Nothing new is admitted, and workers of our own are ended; calls `stopped` when everything has come to its end, or
 * after KN_DRAIN_MS. Again: at once.
 */
void kn_gateway_stop(kn_gateway *g, void (*stopped)(void *ctx), void *ctx);

#endif
