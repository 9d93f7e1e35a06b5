/* Any bytes as Ollama's list of loaded models: what is taken is classified by its own numbers. */
#include <stdlib.h>

#include "gateway/residency.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_residents r;
    kn_error err = { 0 };
    if (!kn_residents_read((const char *)data, size, &r, &err)) {
        if (err.code == KN_OK)
            abort();
        return 0;
    }
    for (size_t i = 0; i < r.count; i++) {
        const kn_resident *m = &r.items[i];
        bool all = m->has_bytes && m->has_vram_bytes && m->bytes && m->bytes == m->vram_bytes;
        if ((m->residency == KN_RESIDENT_GPU) != all || !m->name[0])
            abort();
    }
    kn_residents_free(&r);
    return 0;
}
