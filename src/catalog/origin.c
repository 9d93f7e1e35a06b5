#include "catalog/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "catalog/library.h"

/* An address as the library that will follow it understands it, so that no two readings of it can differ. */
typedef struct parts {
    char *scheme, *host, *user, *password, *query, *fragment;
} parts;

static void parts_free(parts *p) {
    kn_curl.free(p->scheme);
    kn_curl.free(p->host);
    kn_curl.free(p->user);
    kn_curl.free(p->password);
    kn_curl.free(p->query);
    kn_curl.free(p->fragment);
}

static bool parts_of(const char *address, parts *ret, kn_error *err) {
    *ret = (parts){ 0 };
    if (strlen(address) >= KN_ADDRESS_BYTES)
        return kn_fail(err, KN_E_RANGE, "an address of %zu bytes is too long", strlen(address));
    if (!kn_curl_load(err))
        return false;
    CURLU *u = kn_curl.url();
    if (!u)
        return kn_fail_nomem(err, KN_ADDRESS_BYTES);
    bool ok = kn_curl.url_set(u, CURLUPART_URL, address, 0) == CURLUE_OK &&
              kn_curl.url_get(u, CURLUPART_SCHEME, &ret->scheme, 0) == CURLUE_OK &&
              kn_curl.url_get(u, CURLUPART_HOST, &ret->host, 0) == CURLUE_OK && ret->host[0];
    if (ok) {
        kn_curl.url_get(u, CURLUPART_USER, &ret->user, 0);
        kn_curl.url_get(u, CURLUPART_PASSWORD, &ret->password, 0);
        kn_curl.url_get(u, CURLUPART_QUERY, &ret->query, 0);
        kn_curl.url_get(u, CURLUPART_FRAGMENT, &ret->fragment, 0);
    }
    kn_curl.url_cleanup(u);
    return ok ||
           kn_fail(err, KN_E_USAGE, "'%s' is no address like https://models.example.org", kn_quote_z(address).text);
}

static bool is_local(const char *host) {
    static const char loopback[] = "127.";
    return !strcasecmp(host, "localhost") || !strcmp(host, "[::1]") ||
           (!strncmp(host, loopback, sizeof loopback - 1) && strspn(host, "0123456789.") == strlen(host));
}

/* The domain itself or a name below it. */
static bool is_in_domain(const char *host, const char *domain) {
    size_t len = strlen(host), n = strlen(domain);
    return len >= n && !strcasecmp(host + len - n, domain) && (len == n || host[len - n - 1] == '.');
}

/* What holds for every address: the scheme, and no name and password in it. */
static bool is_safe(const parts *p, bool may_be_plain, kn_error *err) {
    if (p->user || p->password)
        return kn_fail(err, KN_E_USAGE, "an address with a user's name in it is not followed");
    if (!strcasecmp(p->scheme, "https") || (!strcasecmp(p->scheme, "http") && may_be_plain && is_local(p->host)))
        return true;
    return kn_fail(err, KN_E_USAGE, "'%s://%s' is not followed: it must be https", kn_quote_z(p->scheme).text,
                   kn_quote_z(p->host).text);
}

static bool take_base(const char *address, kn_origin *o, kn_error *err) {
    parts p;
    bool ok = parts_of(address, &p, err) && is_safe(&p, true, err);
    if (ok && (p.query || p.fragment))
        ok = kn_fail(err, KN_E_USAGE, "the address of a mirror has no '?' and no '#'");
    if (ok) {
        size_t len = strlen(address);
        while (len && address[len - 1] == '/')
            len--;
        o->local = is_local(p.host);
        ok = ((o->base = strndup(address, len)) && (o->host = strdup(p.host))) || kn_fail_nomem(err, len);
    }
    parts_free(&p);
    return ok;
}

bool kn_mirror_is_good(const char *address, kn_error *err) {
    kn_origin o = { 0 };
    bool ok = take_base(address, &o, err);
    kn_origin_close(&o);
    return ok;
}

bool kn_origin_open(const kn_collections *c, const char *mirror, kn_origin *ret, kn_error *err) {
    kn_origin o = { .collections = c };
    if (!take_base(mirror ? mirror : c->base, &o, err)) {
        kn_origin_close(&o);
        return kn_fail_within(err, "mirror");
    }
    *ret = o;
    return true;
}

void kn_origin_close(kn_origin *o) {
    free(o->base);
    free(o->host);
    *o = (kn_origin){ 0 };
}

bool kn_origin_address(const kn_origin *o, const kn_artifact *a, char **ret, kn_error *err) {
    if (asprintf(ret, "%s/%s/resolve/%s/%s", o->base, a->repository, a->revision, a->path) >= 0)
        return true;
    *ret = NULL;
    return kn_fail_nomem(err, KN_ADDRESS_BYTES);
}

bool kn_origin_allows(const kn_origin *o, const char *address, kn_error *err) {
    parts p;
    bool ok = parts_of(address, &p, err) && is_safe(&p, o->local, err);
    if (ok) {
        bool known = !strcasecmp(p.host, o->host) || (o->local && is_local(p.host));
        for (size_t i = 0; !known && i < o->collections->domain_count; i++)
            known = is_in_domain(p.host, o->collections->domains[i]);
        ok = known || kn_fail(err, KN_E_USAGE, "the server leads to '%s', which is none of those that may be asked",
                              kn_quote_z(p.host).text);
    }
    parts_free(&p);
    return ok;
}
