#include "http/patience.h"

#include "base/compiler.h"

void kn_waiting_note(kn_waiting *w, const kn_patience *p, uint64_t now_ms, bool on, uint64_t moved) {
    if (w->on) {
        uint64_t ms = KN_MIN(now_ms - w->since_ms, KN_PATIENCE_MAX_MS);
        w->owed += ms * p->rate;
        w->waited_ms += ms;
    }
    if (moved > w->moved) {
        uint64_t paid = KN_MIN(moved - w->moved, UINT64_MAX / 1000) * 1000;
        w->owed -= KN_MIN(w->owed, paid);
        w->moved = moved;
    }
    w->since_ms = now_ms;
    w->on = on;
}

/* How much of a limit is left. */
static uint64_t left(uint64_t limit, uint64_t used) {
    return limit > used ? limit - used : 0;
}

uint64_t kn_waiting_due_ms(const kn_waiting *w, const kn_patience *p) {
    if (!w->on || !p->grace_ms)
        return UINT64_MAX;
    uint64_t ms = left(p->grace_ms * p->rate, w->owed) / p->rate;
    if (p->most_ms)
        ms = KN_MIN(ms, left(p->most_ms, w->waited_ms));
    return w->since_ms + ms;
}
