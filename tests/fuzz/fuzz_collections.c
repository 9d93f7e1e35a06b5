/* Any bytes as the catalogue of what can be downloaded: what is taken makes addresses that lead nowhere else, and its
 * collections are of models that there are. What does not begin as JSON is an address that a server leads to. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "catalog/origin.h"
#include "pipelines/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether a part of the path is "..", or hidden. */
static bool has_dots(const char *path) {
    return path[0] == '.' || strstr(path, "/.");
}

static void check_models(const kn_collections *c) {
    for (size_t i = 0; i < c->collection_count; i++) {
        const kn_collection *of = &c->collections[i];
        if (of->model ? kn_variant_find(of->model, of->variant->name) != of->variant
                      : !of->count || of->variant != NULL)
            abort();
        if (strlen(of->id) >= KN_COLLECTION_ID_BYTES)
            abort();
        for (size_t k = 0; k < of->count; k++)
            if (!kn_collection_has(of, of->artifacts[k]) ||
                (!of->model && strcmp(of->artifacts[k]->role, "upscaler") != 0))
                abort();
    }
}

static void check(const kn_collections *c) {
    kn_origin o;
    if (!kn_origin_open(c, NULL, &o, NULL))
        return;
    for (size_t i = 0; i < c->artifact_count; i++) {
        const kn_artifact *a = &c->artifacts[i];
        char *address;
        if (has_dots(a->path) || has_dots(a->repository) || strchr(a->folder, '/') || strchr(a->name, '/') ||
            !kn_artifact_named(c, a->id))
            abort();
        if (!kn_origin_address(&o, a, &address, NULL) || !kn_origin_allows(&o, address, NULL))
            abort();
        free(address);
    }
    kn_origin_close(&o);
}

/* Wherever it leads, nothing but https goes there; from a mirror of this machine, http may lead back to it. */
static void follow(const char *text, size_t len) {
    static char base[] = "https://models.example.org", domain[] = "example.net";
    static const kn_collections collections = { .base = base, .domains = { domain }, .domain_count = 1 };
    static const char *const mirrors[] = { NULL, "http://localhost:8080/mirror/" };
    char *address = strndup(text, len);
    for (size_t i = 0; address && i < KN_COUNT(mirrors); i++) {
        kn_origin o;
        if (!kn_origin_open(&collections, mirrors[i], &o, NULL))
            abort();
        if (kn_origin_allows(&o, address, NULL) && strncasecmp(address, "https:", 6) != 0 &&
            !(mirrors[i] && strncasecmp(address, "http:", 5) == 0))
            abort();
        kn_origin_close(&o);
    }
    free(address);
}

static void read_catalogue(const char *text, size_t len) {
    kn_error err = { 0 };
    kn_collections *c = NULL;
    if (kn_collections_read(text, len, &c, &err)) {
        check(c);
        check_models(c);
    } else if (err.code == KN_OK) {
        abort();
    }
    kn_collections_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bool is_json = !size || strchr("{ \t\r\n", data[0]);
    (is_json ? read_catalogue : follow)((const char *)data, size);
    return 0;
}
