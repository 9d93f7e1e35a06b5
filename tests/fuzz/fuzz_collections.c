/* Any bytes as the catalogue of what can be downloaded: what is taken makes addresses that lead nowhere else. */
#include <stdlib.h>
#include <string.h>

#include "catalog/origin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const kn_collections *c) {
    kn_origin o;
    if (!kn_origin_open(c, NULL, &o, NULL))
        return;
    for (size_t i = 0; i < c->artifact_count; i++) {
        const kn_artifact *a = &c->artifacts[i];
        char *address;
        if (strstr(a->path, "..") || strchr(a->folder, '/') || strchr(a->name, '/') || !kn_artifact_named(c, a->id))
            abort();
        if (!kn_origin_address(&o, a, &address, NULL) || !kn_origin_allows(&o, address, NULL))
            abort();
        free(address);
    }
    kn_origin_close(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_error err = { 0 };
    kn_collections *c = NULL;
    if (kn_collections_read((const char *)data, size, &c, &err))
        check(c);
    else if (err.code == KN_OK)
        abort();
    kn_collections_free(c);
    return 0;
}
