#include "gateway/trouble.h"

#include <stdio.h>

bool kn_trouble_note(kn_trouble *t, bool ok, const kn_error *why) {
    char line[sizeof((kn_error){ 0 }.text) + 100];
    if (atomic_exchange(&t->lasts, !ok) == !ok || !t->log)
        return ok;
    if (ok)
        snprintf(line, sizeof line, "disk: %s can be written again", t->what);
    else
        snprintf(line, sizeof line, "disk: %s cannot be written%s%s", t->what, why ? ": " : "", why ? why->text : "");
    t->log(t->ctx, line);
    return ok;
}
