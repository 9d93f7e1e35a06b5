/* Any bytes as the upstream's list of models: whatever is taken can be found by its own name. */
#include <stdlib.h>
#include <string.h>

#include "gateway/catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_catalog c;
    kn_error err = { 0 };
    if (!kn_catalog_read((const char *)data, size, 0, &c, &err)) {
        if (err.code == KN_OK)
            abort();
        return 0;
    }
    for (size_t i = 0; i < c.count; i++) {
        const kn_model *m = kn_catalog_find(&c, c.models[i].name, strlen(c.models[i].name));
        if (!m || strcmp(m->key, c.models[i].key) != 0 || !kn_catalog_of_digest(&c, &m->digest, NULL))
            abort();
    }
    kn_catalog_free(&c);
    return 0;
}
