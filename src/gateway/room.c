#include "gateway/room.h"

#include <sys/resource.h>

enum {
    OWN = 64,        /* listeners, the log, files of the state directory, downloads, an image worker, … */
    PER_WORKER = 16, /* pipes, connections to it */
    CONTROL_MAX = 128,
    STUDIO_MAX = 1024,
    LEAST = 8,
    PER_CLIENT = 2, /* its connection, and one to an upstream */
};

static unsigned between(uint64_t n, unsigned least, unsigned most) {
    return (unsigned)KN_MIN(KN_MAX(n, (uint64_t)least), (uint64_t)most);
}

kn_room kn_room_within(const kn_config *c, uint64_t descriptors) {
    kn_room r = { .descriptors = descriptors, .control = between(descriptors / 16, LEAST, CONTROL_MAX) };
    uint64_t taken = OWN + PER_WORKER * c->worker_count + PER_CLIENT * (uint64_t)r.control;
    uint64_t left = descriptors > taken ? descriptors - taken : 0;
    if (c->studio.len)
        r.studio = between(left / 4, LEAST, STUDIO_MAX);
    left -= KN_MIN(left, (uint64_t)r.studio);
    r.public = between(left / PER_CLIENT, LEAST, c->max_connections);
    return r;
}

kn_room kn_room_find(const kn_config *c) {
    struct rlimit l;
    return kn_room_within(c, getrlimit(RLIMIT_NOFILE, &l) == 0 ? (uint64_t)l.rlim_max : 1024);
}

bool kn_room_is_short(const kn_config *c, const kn_room *r, kn_error *err) {
    if (r->public >= c->max_connections)
        return false;
    kn_fail(err, KN_E_USAGE,
            "of %u only %u can be had, since a process may have %llu descriptors here; raise that limit (ulimit -Hn, "
            "LimitNOFILE=)",
            c->max_connections, r->public, (unsigned long long)r->descriptors);
    return true;
}
