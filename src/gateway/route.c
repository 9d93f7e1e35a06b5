#include "gateway/route.h"

#include <string.h>

/* `path` is `start` and one more part that needs no decoding. */
static bool is_below(kn_span path, const char *start) {
    size_t len = strlen(start);
    if (path.len <= len || memcmp(path.data, start, len) != 0)
        return false;
    for (size_t i = len; i < path.len; i++) {
        char c = path.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '_' || c == '.' || c == ':';
        if (!plain)
            return false;
    }
    /* "." and ".." are other paths than they seem */
    return path.data[len] != '.';
}

/* Methods and paths of the upstream (Ollama 0.17 to 0.34). What is not here waits its turn like the rest; what is
 * exempt must do nothing to a model in any of these. */
static const struct row {
    const char *method, *path;
    bool below; /* the path goes on with one more part */
    kn_route_kind kind;
} rows[] = {
#define EXEMPT                                                                                                         \
    { .class = KN_ROUTE_EXEMPT }
#define CATALOG                                                                                                        \
    { .class = KN_ROUTE_CATALOG }
#define INFERENCE(under)                                                                                               \
    { .class = KN_ROUTE_INFERENCE, .observed = true, .input = (under) }
    { "GET", "/", false, EXEMPT },
    { "HEAD", "/", false, EXEMPT },
    { "GET", "/api/version", false, EXEMPT },
    { "HEAD", "/api/version", false, EXEMPT },
    { "GET", "/api/tags", false, EXEMPT },
    { "HEAD", "/api/tags", false, EXEMPT },
    { "GET", "/api/status", false, EXEMPT },
    { "GET", "/api/ps", false, EXEMPT },
    { "POST", "/api/show", false, EXEMPT },
    { "HEAD", "/api/blobs/", true, EXEMPT },
    { "GET", "/v1/models", false, EXEMPT },
    { "GET", "/v1/models/", true, EXEMPT },
    { "POST", "/api/generate", false, INFERENCE(KN_INPUT_PROMPT) },
    { "POST", "/api/chat", false, INFERENCE(KN_INPUT_MESSAGES) },
    { "POST", "/api/embed", false, INFERENCE(KN_INPUT_INPUT) },
    { "POST", "/api/embeddings", false, INFERENCE(KN_INPUT_PROMPT) },
    { "POST", "/v1/chat/completions", false, INFERENCE(KN_INPUT_MESSAGES) },
    { "POST", "/v1/completions", false, INFERENCE(KN_INPUT_PROMPT) },
    { "POST", "/v1/embeddings", false, INFERENCE(KN_INPUT_INPUT) },
    { "POST", "/v1/responses", false, INFERENCE(KN_INPUT_INPUT) },
    { "POST", "/v1/messages", false, INFERENCE(KN_INPUT_MESSAGES) },
    { "POST", "/v1/audio/transcriptions", false, { .class = KN_ROUTE_INFERENCE } }, /* multipart */
    { "POST", "/api/create", false, CATALOG },
    { "POST", "/api/copy", false, CATALOG },
    { "POST", "/api/pull", false, CATALOG },
    { "POST", "/api/blobs/", true, CATALOG },
    { "DELETE", "/api/delete", false, CATALOG },
};

static kn_dialect dialect_of(kn_span path) {
    if (kn_span_is(path, "/v1/messages"))
        return KN_DIALECT_ANTHROPIC;
    return path.len >= 4 && memcmp(path.data, "/v1/", 4) == 0 ? KN_DIALECT_OPENAI : KN_DIALECT_OLLAMA;
}

kn_route_kind kn_route_of(kn_span method, kn_span target) {
    const char *query = memchr(target.data, '?', target.len);
    const kn_span path = { target.data, query ? (size_t)(query - target.data) : target.len };
    /* A question about a path, which the upstream answers before it looks at it. */
    kn_route_kind kind = { .class = kn_span_is(method, "OPTIONS") ? KN_ROUTE_EXEMPT : KN_ROUTE_OPAQUE };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        if (kn_span_is(method, r->method) && (r->below ? is_below(path, r->path) : kn_span_is(path, r->path)))
            kind = r->kind;
    }
    kind.dialect = dialect_of(path);
    return kind;
}
