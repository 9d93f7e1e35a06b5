#include "gateway/route.h"

#include <string.h>

static bool is(kn_span a, kn_span b) {
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* `path` is `start` and one more part that needs no decoding. */
static bool is_below(kn_span path, kn_span start) {
    if (path.len <= start.len || memcmp(path.data, start.data, start.len) != 0)
        return false;
    for (size_t i = start.len; i < path.len; i++) {
        char c = path.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '_' || c == '.' || c == ':';
        if (!plain)
            return false;
    }
    /* "." and ".." are other paths than they seem */
    return path.data[start.len] != '.';
}

/* Methods and paths of the upstream (Ollama 0.17 to 0.34). What is not here waits its turn like the rest; what is
 * exempt must do nothing to a model in any of these. */
static const struct row {
    kn_span method, path;
    bool below; /* the path goes on with one more part */
    kn_route_kind kind;
} rows[] = {
#define TEXT(text)                                                                                                     \
    { (text), sizeof(text) - 1 }
#define EXEMPT                                                                                                         \
    { .class = KN_ROUTE_EXEMPT }
#define CATALOG                                                                                                        \
    { .class = KN_ROUTE_CATALOG }
#define INFERENCE(under)                                                                                               \
    { .class = KN_ROUTE_INFERENCE, .observed = true, .input = (under) }
#define PLACED(under, is_native, by)                                                                                   \
    { .class = KN_ROUTE_INFERENCE, .observed = true, .input = (under), .native = (is_native), .load = (by) }
    { TEXT("GET"), TEXT("/"), false, EXEMPT },
    { TEXT("HEAD"), TEXT("/"), false, EXEMPT },
    { TEXT("GET"), TEXT("/api/version"), false, EXEMPT },
    { TEXT("HEAD"), TEXT("/api/version"), false, EXEMPT },
    { TEXT("GET"), TEXT("/api/tags"), false, EXEMPT },
    { TEXT("HEAD"), TEXT("/api/tags"), false, EXEMPT },
    { TEXT("GET"), TEXT("/api/status"), false, EXEMPT },
    { TEXT("GET"), TEXT("/api/ps"), false, EXEMPT },
    { TEXT("POST"), TEXT("/api/show"), false, EXEMPT },
    { TEXT("HEAD"), TEXT("/api/blobs/"), true, EXEMPT },
    { TEXT("GET"), TEXT("/v1/models"), false, EXEMPT },
    { TEXT("GET"), TEXT("/v1/models/"), true, EXEMPT },
    { TEXT("POST"), TEXT("/api/generate"), false, PLACED(KN_INPUT_PROMPT, true, "/api/generate") },
    { TEXT("POST"), TEXT("/api/chat"), false, PLACED(KN_INPUT_MESSAGES, true, "/api/chat") },
    { TEXT("POST"), TEXT("/api/embed"), false, PLACED(KN_INPUT_INPUT, true, "/api/embed") },
    { TEXT("POST"), TEXT("/api/embeddings"), false, PLACED(KN_INPUT_PROMPT, true, "/api/embed") },
    { TEXT("POST"), TEXT("/v1/chat/completions"), false, PLACED(KN_INPUT_MESSAGES, false, "/api/chat") },
    { TEXT("POST"), TEXT("/v1/completions"), false, PLACED(KN_INPUT_PROMPT, false, "/api/generate") },
    { TEXT("POST"), TEXT("/v1/embeddings"), false, PLACED(KN_INPUT_INPUT, false, "/api/embed") },
    { TEXT("POST"), TEXT("/v1/responses"), false, INFERENCE(KN_INPUT_INPUT) },
    { TEXT("POST"), TEXT("/v1/messages"), false, INFERENCE(KN_INPUT_MESSAGES) },
    { TEXT("POST"), TEXT("/v1/audio/transcriptions"), false, { .class = KN_ROUTE_INFERENCE } }, /* multipart */
    { TEXT("POST"), TEXT("/api/create"), false, CATALOG },
    { TEXT("POST"), TEXT("/api/copy"), false, CATALOG },
    { TEXT("POST"), TEXT("/api/pull"), false, CATALOG },
    { TEXT("POST"), TEXT("/api/blobs/"), true, { .class = KN_ROUTE_CATALOG, .file = true } },
    { TEXT("DELETE"), TEXT("/api/delete"), false, CATALOG },
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
        if ((r->below ? is_below(path, r->path) : is(path, r->path)) && is(method, r->method))
            kind = r->kind;
    }
    kind.dialect = dialect_of(path);
    return kind;
}
