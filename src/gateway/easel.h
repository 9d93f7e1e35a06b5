/* Whose turn it is to draw a picture: the one lease (lease.h), and then the device with nothing of Ollama on it.
 *
 *     enter ─► the lease ─► workers of ours on the device are ended ─► the upstream unloads its models ─► ready …
 * finish
 *
 * The route for pictures and the studio take turns here, and then draw by the same worker (workers/painter.h). An
 * upstream that does
 * not unload in time, or cannot be reached, does not stop anybody: the image worker looks at what memory there is
 * before it loads a model. */
#ifndef KN_GATEWAY_EASEL_H
#define KN_GATEWAY_EASEL_H

#include "gateway/gateway.h"
#include "gateway/lease.h"

/* Lives in whoever waits. Exactly one of the first two is called, refused maybe at once, unless the turn leaves before.
 * Who has `waits` is patient (admission.h): it is refused only by a service that stops. */
typedef struct kn_turn kn_turn;
struct kn_turn {
    void (*ready)(kn_turn *t);
    void (*refused)(kn_turn *t, kn_refusal why);
    void (*waits)(kn_turn *t, kn_wait what_for);
    kn_easel *easel;
    kn_entry entry;
    enum { KN_TURN_NONE, KN_TURN_WAITS, KN_TURN_CLEARS, KN_TURN_READY } state;
};

bool kn_easel_new(kn_gateway *g, kn_easel **ret, kn_error *err);

/* Before the upstream goes. NULL is fine. */
void kn_easel_free(kn_easel *e);

/* What a patient one would wait for that came now, whoever else waits. */
kn_wait kn_easel_waits_for(const kn_easel *e);

void kn_easel_enter(kn_easel *e, kn_turn *t);

/* True: it waits no more. False: the device is already being cleared for it, or it is ready: it must finish. */
bool kn_easel_leave(kn_turn *t);

/* The picture is drawn, and what drew it is gone or idle; certain: nothing of it is running any more. */
void kn_easel_finish(kn_turn *t, bool certain);

/* The service ends: whatever the turn is at, it is over. */
void kn_easel_drop(kn_turn *t);

#endif
