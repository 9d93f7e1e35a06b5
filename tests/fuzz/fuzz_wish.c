/* Any bytes as a request, and as the description of a model: what is taken stays within its limits, and the model is
 * the one that the observer sees. */
#include <stdlib.h>
#include <string.h>

#include "gateway/wish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the observer reads of the same body. */
static bool is_observed_so(kn_span body, kn_input input, const char *model) {
    kn_observer o;
    kn_observer_begin(&o, input);
    kn_observer_feed(&o, body.data, body.len);
    return kn_observer_naming(&o) == KN_NAMING_MODEL && strcmp(o.name, model) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const kn_span body = { (const char *)data, size };
    kn_wish w;
    for (int i = 0; i < 6; i++) {
        if (!kn_wish_read(body, (kn_input)(i % 3), i < 3, &w))
            continue;
        if (!is_observed_so(body, (kn_input)(i % 3), w.model) || (i >= 3 && (w.at_once || w.context_length)))
            abort();
        kn_name_is_cloud(w.model);
        kn_name_is_local(w.model);
        kn_name_is_well_formed(w.model);
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
