#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "catalog/download.h"

enum {
    BUFFER_BYTES = 512 << 10,
    HELD_BYTES = 256 << 10, /* are written at once: the library hands out 16 KiB at a time */
    HOPS_MAX = 5,
    RESTARTS_MAX = 3,
    IGNORED_MAX = 64 << 10,    /* of an error page */
    PROGRESS_BYTES = 64 << 10, /* a request that brought so much was no failure */
    FIRST_WAIT_MS = 500,
    WAIT_MAX_S = 30,
    SERVER_WAIT_MAX_S = 600,
    DAY_S = 24 * 60 * 60,
    MS_PER_S = 1000,
};

int kn_download_set_failed(kn_download *d, kn_fetch_problem problem, kn_code code, const char *fmt, ...) {
    char text[sizeof d->err->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (d->problem == KN_FETCH_FINE) {
        d->problem = problem;
        kn_error_set(d->err, code, "%s", text);
    }
    return 0;
}

int kn_download_set_failed_disk(kn_download *d) {
    if (d->problem == KN_FETCH_FINE)
        d->problem = kn_fetch_problem_of(d->err->code);
    return 0;
}

/* ---- work ---- */

void kn_connection_drop(kn_connection *c) {
    c->has_work = false;
    c->held_bytes = 0;
    c->is_stale = c->busy;
}

void kn_connection_give_back(kn_connection *c) {
    kn_download *d = c->download;
    if (!c->has_work)
        return;
    c->has_work = false;
    size_t piece = kn_piece_at(d->pieces, c->work.at);
    uint64_t from = c->work.at;
    for (unsigned i = 0; i < d->count; i++) {
        const kn_connection *other = &d->connections[i];
        if (other != c && other->has_work && kn_piece_at(d->pieces, other->work.at) == piece)
            from = kn_piece_end(d->pieces, piece);
    }
    if (from < c->work.end)
        kn_pieces_return(d->pieces, from, c->work.end);
}

static bool begin_journal(kn_download *d, const char *etag) {
    d->has_journal = true;
    snprintf(d->etag, sizeof d->etag, "%s", etag);
    return kn_keeper_restart(d->keeper, etag, d->err) || kn_download_fail_disk(d);
}

/* Nothing of the file is there any more, and nothing more is wanted of any request. */
static bool start_over(kn_download *d, const char *etag) {
    if (d->has_bytes && ++d->restarts > RESTARTS_MAX)
        return kn_download_fail(d, KN_FETCH_NETWORK, KN_E_IO,
                                "the server began anew %d times: it breaks off, or its file changes all the time",
                                RESTARTS_MAX);
    for (unsigned i = 0; i < d->count; i++)
        kn_connection_drop(&d->connections[i]);
    kn_pieces_clear(d->pieces);
    d->has_bytes = false;
    return begin_journal(d, etag);
}

/* The piece is whole: whoever fetches it, too, need not go on. */
static bool finish_piece(kn_connection *c, size_t piece) {
    kn_download *d = c->download;
    kn_piece_finish(d->pieces, piece);
    for (unsigned i = 0; i < d->count; i++) {
        kn_connection *other = &d->connections[i];
        if (other != c && other->has_work && kn_piece_at(d->pieces, other->work.at) == piece)
            kn_connection_drop(other);
    }
    return kn_keeper_piece(d->keeper, piece, d->err) || kn_download_fail_disk(d);
}

bool kn_connection_write(kn_connection *c) {
    kn_download *d = c->download;
    size_t piece = kn_piece_at(d->pieces, c->work.at), n = c->held_bytes;
    c->held_bytes = 0;
    if (!n)
        return true;
    if (!kn_partial_write(d->part, c->work.at, c->held, n, d->err))
        return kn_download_fail_disk(d);
    d->has_bytes = true;
    c->got += n;
    c->work.at += n;
    if (c->work.at == kn_piece_end(d->pieces, piece) && !finish_piece(c, piece))
        return false;
    if (c->work.at == c->work.end) {
        c->has_work = false;
        c->is_stale = c->asked_end > c->work.end; /* the rest is another connection's by now */
    }
    return true;
}

static bool take_bytes(kn_connection *c, const char *data, size_t len) {
    const kn_pieces *p = c->download->pieces;
    while (len) {
        uint64_t end = KN_MIN(kn_piece_end(p, kn_piece_at(p, c->work.at)), c->work.end);
        uint64_t room = KN_MIN((uint64_t)HELD_BYTES, end - c->work.at) - c->held_bytes;
        size_t n = (size_t)KN_MIN((uint64_t)len, room);
        memcpy(c->held + c->held_bytes, data, n);
        c->held_bytes += n;
        data += n;
        len -= n;
        if (n == room && !kn_connection_write(c))
            return false;
    }
    return true;
}

/* ---- what the body is ---- */

static long status_of(const kn_connection *c) {
    long status = 0;
    kn_curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static bool fail_size(kn_download *d, uint64_t bytes) {
    return kn_download_fail(d, KN_FETCH_MOVED, KN_E_FORMAT,
                            "the server's file has %llu bytes, that of the catalogue has %llu",
                            (unsigned long long)bytes, (unsigned long long)d->order->artifact->bytes);
}

/* The way there is known now; the next requests begin at its end. */
static void keep_address(const kn_connection *c) {
    kn_download *d = c->download;
    if (!c->hops)
        return;
    free(d->found);
    d->found = strdup(c->address); /* without memory the way is gone again */
}

/* A part of the file. False: it is not what was asked for, or there is another file by now. */
static bool judge_part(kn_connection *c) {
    kn_download *d = c->download;
    const kn_answer *a = &c->answer;
    if (a->is_nonsense || a->is_encoded || !a->has_range || a->first != c->asked_from || a->last >= c->asked_end) {
        snprintf(c->trouble, sizeof c->trouble, "the server sends other bytes than those that it was asked for");
        return false;
    }
    if (a->total != KN_SIZE_UNKNOWN && a->total != d->order->artifact->bytes)
        return fail_size(d, a->total);
    if (a->etag[0] && d->etag[0] && strcmp(a->etag, d->etag) != 0) {
        start_over(d, a->etag);
        return false;
    }
    d->knows_ranges = true;
    return d->has_journal || begin_journal(d, a->etag);
}

/* The whole file, asked for or not: it is taken from its beginning on, and by this connection alone. */
static bool judge_whole(kn_connection *c) {
    kn_download *d = c->download;
    const kn_answer *a = &c->answer;
    if (a->is_nonsense || a->is_encoded) {
        snprintf(c->trouble, sizeof c->trouble, "the server sends the file in a way that was not asked for");
        return false;
    }
    if (a->length != KN_SIZE_UNKNOWN && a->length != d->order->artifact->bytes)
        return fail_size(d, a->length);
    if (!start_over(d, a->etag))
        return false;
    d->single = true;
    c->is_stale = false;
    c->has_work = kn_pieces_take(d->pieces, d->pieces->count, &c->work);
    c->asked_end = c->work.end;
    return c->has_work;
}

static void judge(kn_connection *c) {
    long status = status_of(c);
    c->judged = true;
    c->takes = status == 206 ? judge_part(c) : status == 200 && judge_whole(c);
    if (c->takes)
        keep_address(c);
}

static size_t on_line(char *data, size_t size, size_t count, void *ctx) {
    kn_connection *c = ctx;
    kn_answer_line(&c->answer, data, size * count);
    return size * count;
}

/* Less than all of it ends the request. */
static size_t on_body(char *data, size_t size, size_t count, void *ctx) {
    kn_connection *c = ctx;
    kn_download *d = c->download;
    size_t len = size * count;
    if (!c->judged && !c->is_stale)
        judge(c);
    if (c->is_stale || d->problem)
        return 0;
    d->heard = kn_now();
    if (!c->takes) {
        c->ignored += len;
        return c->ignored <= IGNORED_MAX && !c->trouble[0] ? len : 0;
    }
    size_t n = c->has_work ? (size_t)KN_MIN((uint64_t)len, c->work.end - c->work.at - c->held_bytes) : 0;
    return take_bytes(c, data, n) ? n : 0;
}

/* ---- asking ---- */

#define SET(c, option, value) (kn_curl.easy_setopt((c)->easy, option, value) == CURLE_OK)

bool kn_connection_open(kn_download *d, kn_connection *c) {
    const kn_fetch *f = d->order;
    bool local = f->origin->local;
    long timeout_s = f->timeout_s ? f->timeout_s : KN_FETCH_TIMEOUT_S;
    *c = (kn_connection){ .download = d, .easy = kn_curl.easy_init(), .held = malloc(HELD_BYTES) };
    return (c->easy && c->held && SET(c, CURLOPT_PROTOCOLS_STR, local ? "http,https" : "https") &&
            SET(c, CURLOPT_NOSIGNAL, 1L) && SET(c, CURLOPT_USERAGENT, "kuno/" KN_VERSION) &&
            /* Each request is to have a connection of its own. */
            SET(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
            SET(c, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES) && SET(c, CURLOPT_CONNECTTIMEOUT, timeout_s) &&
            SET(c, CURLOPT_LOW_SPEED_LIMIT, 1L) && SET(c, CURLOPT_LOW_SPEED_TIME, timeout_s) &&
            (!local || SET(c, CURLOPT_NOPROXY, "*")) && SET(c, CURLOPT_HEADERFUNCTION, on_line) &&
            SET(c, CURLOPT_HEADERDATA, c) && SET(c, CURLOPT_WRITEFUNCTION, on_body) && SET(c, CURLOPT_WRITEDATA, c) &&
            SET(c, CURLOPT_ERRORBUFFER, c->library_says) && SET(c, CURLOPT_PRIVATE, c)) ||
           kn_download_fail(d, KN_FETCH_INTERNAL, KN_E_NOMEM, "a connection cannot be made");
}

void kn_connection_close(kn_connection *c) {
    if (c->busy)
        kn_curl.multi_remove_handle(c->download->multi, c->easy);
    kn_curl.easy_cleanup(c->easy);
    kn_curl.slist_free_all(c->lines);
    free(c->address);
    free(c->held);
    *c = (kn_connection){ 0 };
}

static bool add_line(kn_connection *c, const char *line) {
    struct curl_slist *more = kn_curl.slist_append(c->lines, line);
    if (more)
        c->lines = more;
    return more;
}

static bool set_lines(kn_connection *c) {
    const char *etag = c->download->etag;
    char line[KN_ETAG_BYTES + 16];
    kn_curl.slist_free_all(c->lines);
    c->lines = NULL;
    snprintf(line, sizeof line, "If-Range: %s", etag);
    return add_line(c, "Accept-Encoding: identity") && (!etag[0] || add_line(c, line)) &&
           SET(c, CURLOPT_HTTPHEADER, c->lines);
}

/* One request to c->address. */
static bool send_request(kn_connection *c) {
    kn_download *d = c->download;
    char range[64];
    c->asked = kn_now();
    c->asked_from = c->work.at;
    c->asked_end = c->work.end;
    c->judged = c->takes = c->is_stale = false;
    c->got = 0;
    c->ignored = 0;
    c->trouble[0] = c->library_says[0] = 0;
    kn_answer_begin(&c->answer);
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)c->asked_from, (unsigned long long)c->asked_end - 1);
    c->busy = c->address && set_lines(c) && SET(c, CURLOPT_URL, c->address) && SET(c, CURLOPT_RANGE, range) &&
              kn_curl.multi_add_handle(d->multi, c->easy) == CURLM_OK;
    return c->busy || kn_download_fail(d, KN_FETCH_INTERNAL, KN_E_NOMEM, "a request cannot be made");
}

bool kn_connection_ask(kn_connection *c) {
    const kn_download *d = c->download;
    free(c->address);
    c->address = strdup(d->found ? d->found : d->start);
    c->hops = 0;
    return send_request(c);
}

/* ---- what follows ---- */

static void fail_wait(kn_download *d, double server_wait_s) {
    if (server_wait_s <= DAY_S)
        kn_download_fail(d, KN_FETCH_DENIED, KN_E_IO, "the server asks to come again in %.0f minutes",
                         server_wait_s / 60);
    else
        kn_download_fail(d, KN_FETCH_DENIED, KN_E_IO, "the server asks not to come again for more than a day");
}

static void try_again(kn_connection *c, double server_wait_s) {
    kn_download *d = c->download;
    unsigned tries = d->order->tries ? d->order->tries : KN_FETCH_TRIES;
    c->failures = c->got >= PROGRESS_BYTES ? 1 : c->failures + 1;
    snprintf(d->trouble, sizeof d->trouble, "%s", c->trouble);
    if (server_wait_s > SERVER_WAIT_MAX_S) {
        fail_wait(d, server_wait_s);
    } else if (c->failures >= tries) {
        kn_connection_give_back(c);
        c->retired = true;
    } else {
        double wait_s = (double)FIRST_WAIT_MS / MS_PER_S * (double)(1u << KN_MIN(c->failures - 1, 16u));
        c->rests_until = kn_now() + KN_MAX(KN_MIN(wait_s, (double)WAIT_MAX_S), server_wait_s);
    }
}

/* The way that redirects led along may have been good for some time only. */
static bool forget_address(kn_connection *c) {
    kn_download *d = c->download;
    bool was_found = d->found && c->hops == 0;
    if (was_found) {
        free(d->found);
        d->found = NULL;
    }
    return was_found;
}

static void follow(kn_connection *c) {
    kn_download *d = c->download;
    char *to = NULL;
    kn_error why = { 0 };
    kn_curl.easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to) {
        snprintf(c->trouble, sizeof c->trouble, "the server leads to nowhere");
        try_again(c, 0);
    } else if (++c->hops > HOPS_MAX) {
        kn_download_fail(d, KN_FETCH_DENIED, KN_E_IO, "the server leads from one address to the next without an end");
    } else if (!kn_origin_allows(d->order->origin, to, &why)) {
        kn_download_fail(d, KN_FETCH_DENIED, KN_E_USAGE, "%s", why.text);
    } else {
        char *address = strdup(to);
        free(c->address);
        c->address = address;
        send_request(c);
    }
}

static void refused(kn_connection *c, long status) {
    kn_download *d = c->download;
    const kn_answer *a = &c->answer;
    curl_off_t wait_s = 0;
    bool is_gone = status == 404 || status == 410, is_denied = status == 401 || status == 403;
    snprintf(c->trouble, sizeof c->trouble, "the server answers %ld", status);
    if (status == 416 && a->total != KN_SIZE_UNKNOWN && a->total != d->order->artifact->bytes) {
        fail_size(d, a->total);
    } else if ((is_gone || is_denied) && !forget_address(c)) {
        kn_download_fail(d, is_gone ? KN_FETCH_MOVED : KN_FETCH_DENIED, KN_E_NOT_FOUND, "the server %s (%ld)",
                         is_gone ? "has no such file any more" : "does not give the file", status);
    } else {
        kn_curl.easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &wait_s);
        try_again(c, (double)wait_s);
    }
}

static bool is_final(CURLcode result) {
    return result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE ||
           result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_SSL_ISSUER_ERROR;
}

static void broke_off(kn_connection *c, CURLcode result) {
    const char *words = result == CURLE_OPERATION_TIMEDOUT ? "nothing came any more"
                        /* so the library calls a line beyond its limit, too */
                        : result == CURLE_OUT_OF_MEMORY
                            ? "a line of the server's answer is too long, or memory is short"
                        : c->library_says[0] ? c->library_says
                        : result == CURLE_OK ? "the server breaks off"
                                             : kn_curl.easy_strerror(result);
    snprintf(c->trouble, sizeof c->trouble, "%s", kn_quote_path(words).text);
    if (is_final(result))
        kn_download_fail(c->download, KN_FETCH_DENIED, KN_E_IO, "the server cannot be trusted: %s", c->trouble);
    else
        try_again(c, 0);
}

void kn_connection_ended(kn_connection *c, CURLcode result) {
    kn_download *d = c->download;
    kn_curl.multi_remove_handle(d->multi, c->easy);
    c->busy = false;
    if (!c->judged && !c->is_stale && result == CURLE_OK)
        judge(c);
    if (d->problem || !kn_connection_write(c))
        return;
    long status = status_of(c);
    if (c->is_stale || (result == CURLE_OK && c->takes && (!c->has_work || c->got))) {
        c->is_stale = false;
        c->failures = 0;
        c->rests_until = 0;
    } else if (c->trouble[0]) {
        try_again(c, 0);
    } else if (!c->judged || c->takes) {
        broke_off(c, result);
    } else if (status >= 300 && status < 400) {
        follow(c);
    } else {
        refused(c, status);
    }
}

void kn_connection_sweep(kn_connection *c) {
    if (!c->busy || !c->is_stale)
        return;
    kn_curl.multi_remove_handle(c->download->multi, c->easy);
    c->busy = c->is_stale = false;
}
