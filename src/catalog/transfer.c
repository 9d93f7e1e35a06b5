/* Who fetches what: hands out work to connections, waits for them, tells how it goes. */
#include <string.h>

#include "base/clock.h"
#include "catalog/download.h"

enum {
    PIECES_AT_ONCE = 8, /* in one request, as long as there are many */
    PARALLEL_FROM_BYTES = 16 << 20,
    WAIT_MS = 100,
    STALLED_S = 5,
};

static const double sample_s = 0.25, tell_s = 0.1;
static const double slow_s = 2; /* a request that takes so long may be overtaken by another one for the same */
static const double note_s = 1; /* so often parts of pieces are noted */

/* ---- work ---- */

/* Fewer at once towards the end, so that all connections end together. */
static size_t pieces_at_once(const kn_download *d) {
    return KN_MAX((size_t)1, KN_MIN((size_t)PIECES_AT_ONCE, d->pieces->free / (2 * (size_t)d->count)));
}

static bool is_doubled(const kn_download *d, const kn_connection *c) {
    for (unsigned i = 0; i < d->count; i++) {
        const kn_connection *other = &d->connections[i];
        if (other != c && other->has_work &&
            kn_piece_at(d->pieces, other->work.at) == kn_piece_at(d->pieces, c->work.at))
            return true;
    }
    return false;
}

static bool is_in_last_piece(const kn_download *d, const kn_connection *c) {
    return kn_piece_end(d->pieces, kn_piece_at(d->pieces, c->work.at)) >= c->work.end;
}

/* Of the connection that has most before it: the second half, or its last piece, which both fetch then. */
static bool take_from_others(kn_download *d, kn_connection *c) {
    kn_connection *most = NULL;
    double now = kn_now();
    for (unsigned i = 0; i < d->count; i++) {
        kn_connection *other = &d->connections[i];
        if (other != c && other->has_work && !is_doubled(d, other) &&
            (!is_in_last_piece(d, other) || now - other->asked >= slow_s) &&
            (!most || other->work.end - other->work.at > most->work.end - most->work.at))
            most = other;
    }
    if (!most)
        return false;
    size_t first = kn_piece_at(d->pieces, most->work.at), last = kn_piece_at(d->pieces, most->work.end - 1);
    c->work = most->work;
    if (first < last) {
        c->work.at = kn_piece_start(d->pieces, last - (last - first - 1) / 2);
        most->work.end = c->work.at;
    }
    c->has_work = true;
    return true;
}

static bool others_work(const kn_download *d, const kn_connection *c) {
    for (unsigned i = 0; i < d->count; i++)
        if (&d->connections[i] != c && d->connections[i].has_work)
            return true;
    return false;
}

static void give_work(kn_download *d, kn_connection *c) {
    bool alone = d->single || !d->knows_ranges || d->count == 1;
    if (c->has_work || (alone && others_work(d, c)))
        return;
    c->has_work = kn_pieces_take(d->pieces, d->count == 1 ? d->pieces->count : pieces_at_once(d), &c->work);
    if (!c->has_work && !alone)
        take_from_others(d, c);
}

static bool keep_busy(kn_download *d) {
    double now = kn_now();
    bool any = false;
    for (unsigned i = 0; i < d->count && !d->problem; i++) {
        kn_connection *c = &d->connections[i];
        kn_connection_sweep(c);
        any |= !c->retired;
        if (c->retired || c->busy || c->rests_until > now)
            continue;
        give_work(d, c);
        if (c->has_work)
            kn_connection_ask(c);
    }
    return any || kn_download_fail(d, KN_FETCH_NETWORK, KN_E_IO, "%s, again and again; %stry again later", d->trouble,
                                   d->has_bytes ? "what has come is kept, so " : "");
}

/* ---- how it goes ---- */

/* Whole pieces, and parts of those that are on their way; of two that fetch the same the one that is further. */
static uint64_t bytes_done(const kn_download *d) {
    uint64_t sum = 0;
    for (size_t i = 0; i < d->pieces->count; i++)
        if (d->pieces->state[i] == KN_PIECE_DONE)
            sum += kn_piece_end(d->pieces, i) - kn_piece_start(d->pieces, i);
        else if (d->pieces->state[i] == KN_PIECE_FREE)
            sum += d->pieces->part[i];
    for (unsigned i = 0; i < d->count; i++) {
        const kn_connection *c = &d->connections[i];
        if (!c->has_work)
            continue;
        size_t piece = kn_piece_at(d->pieces, c->work.at);
        uint64_t most = c->work.at + c->held_bytes;
        for (unsigned k = 0; k < d->count; k++) {
            const kn_connection *other = &d->connections[k];
            if (k == i || !other->has_work || kn_piece_at(d->pieces, other->work.at) != piece)
                continue;
            most = k < i ? 0 : KN_MAX(most, other->work.at + other->held_bytes); /* counted with the first of the two */
        }
        if (most)
            sum += most - kn_piece_start(d->pieces, piece);
    }
    return sum;
}

static double speed(kn_rate *r, double now, uint64_t bytes) {
    if (!r->count || now - r->samples[r->count - 1].at >= sample_s) {
        if (r->count == KN_RATE_SAMPLES)
            memmove(r->samples, r->samples + 1, --r->count * sizeof r->samples[0]);
        r->samples[r->count].at = now;
        r->samples[r->count++].bytes = bytes;
    }
    double seconds = now - r->samples[0].at;
    return seconds >= sample_s && bytes > r->samples[0].bytes ? (double)(bytes - r->samples[0].bytes) / seconds : 0;
}

static void tell(kn_download *d, kn_fetch_state state) {
    const kn_fetch *f = d->order;
    double now = kn_now();
    if (!f->progress)
        return;
    kn_fetch_progress p = { .state = state, .bytes_done = bytes_done(d), .bytes_total = d->pieces->bytes };
    for (unsigned i = 0; i < d->count; i++)
        p.connections += d->connections[i].busy && d->connections[i].takes;
    if (state == KN_FETCH_RUNNING && now - d->heard > STALLED_S)
        p.state = d->has_bytes || d->trouble[0] ? KN_FETCH_STALLED : KN_FETCH_CONNECTING;
    p.bytes_per_second = speed(&d->rate, now, p.bytes_done);
    f->progress(f->ctx, &p);
}

static bool is_stopped(kn_download *d) {
    const kn_fetch *f = d->order;
    return f->stops && f->stops(f->ctx) && !kn_download_fail(d, KN_FETCH_STOPPED, KN_E_CANCELLED, "stopped");
}

/* How far pieces are that are on their way. */
static bool note_parts(kn_download *d) {
    for (unsigned i = 0; i < d->count; i++) {
        kn_connection *c = &d->connections[i];
        if (!kn_connection_write(c))
            return false;
        size_t piece = c->has_work ? kn_piece_at(d->pieces, c->work.at) : 0;
        uint64_t bytes = c->has_work ? c->work.at - kn_piece_start(d->pieces, piece) : 0;
        if (bytes && d->has_journal && !kn_keeper_part(d->keeper, piece, (uint32_t)bytes, d->err))
            return kn_download_fail_disk(d);
    }
    return true;
}

/* ---- the whole ---- */

static void look_at_ends(kn_download *d) {
    int left;
    for (const CURLMsg *m; !d->problem && (m = kn_curl.multi_info_read(d->multi, &left));) {
        kn_connection *c = NULL;
        if (m->msg == CURLMSG_DONE && kn_curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c) == CURLE_OK && c)
            kn_connection_ended(c, m->data.result);
    }
}

static bool fetch_pieces(kn_download *d) {
    double told = 0, noted = kn_now();
    int running;
    d->heard = kn_now();
    while (d->pieces->done < d->pieces->count && !d->problem && !is_stopped(d) && keep_busy(d)) {
        if (kn_curl.multi_perform(d->multi, &running) != CURLM_OK ||
            kn_curl.multi_poll(d->multi, NULL, 0, WAIT_MS, NULL) != CURLM_OK)
            return kn_download_fail(d, KN_FETCH_INTERNAL, KN_E_IO, "the network cannot be used");
        look_at_ends(d);
        if (kn_now() - told >= tell_s) {
            tell(d, KN_FETCH_RUNNING);
            told = kn_now();
        }
        if (kn_now() - noted >= note_s) {
            note_parts(d);
            noted = kn_now();
        }
    }
    if (d->problem && d->problem != KN_FETCH_INTERNAL)
        note_parts(d);
    return !d->problem;
}

static bool wait_for_hash(kn_download *d, char hash[KN_SHA256_HEX]) {
    for (bool done = false; !done && !is_stopped(d);) {
        tell(d, KN_FETCH_VERIFYING);
        if (!kn_keeper_finish(d->keeper, WAIT_MS, &done, hash, d->err))
            return kn_download_fail_disk(d);
    }
    return !d->problem;
}

bool kn_download_run(kn_download *d, char hash[KN_SHA256_HEX]) {
    d->count = d->pieces->bytes >= PARALLEL_FROM_BYTES ? KN_CONNECTIONS : 1;
    d->multi = kn_curl.multi_init();
    bool ok = d->multi || kn_download_fail(d, KN_FETCH_INTERNAL, KN_E_NOMEM, "the network cannot be used");
    for (unsigned i = 0; ok && i < d->count; i++)
        ok = kn_connection_open(d, &d->connections[i]);
    ok = ok && fetch_pieces(d);
    for (unsigned i = 0; i < d->count; i++)
        kn_connection_close(&d->connections[i]);
    if (d->multi)
        kn_curl.multi_cleanup(d->multi);
    return ok && wait_for_hash(d, hash);
}
