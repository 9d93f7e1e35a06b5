/* Any bytes as a request, and as the description of a model: what is taken stays within its limits. */
#include <stdlib.h>
#include <string.h>

#include "gateway/wish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const kn_span body = { (const char *)data, size };
    kn_wish w;
    for (int i = 0; i < 6; i++) {
        if (!kn_wish_read(body, (kn_input)(i % 3), i < 3, &w))
            continue;
        if (!w.model[0] || strlen(w.model) > KN_MODEL_NAME_MAX || (i >= 3 && (w.at_once || w.context_length)))
            abort();
        kn_name_is_cloud(w.model);
    }
    kn_model_facts f;
    kn_error err = { 0 };
    if (kn_model_facts_read(body.data, size, &f, &err)) {
        kn_digest again;
        if (f.weights.text[0] && !kn_digest_parse(f.weights.text, strlen(f.weights.text), &again))
            abort();
    } else if (err.code == KN_OK) {
        abort();
    }
    return 0;
}
