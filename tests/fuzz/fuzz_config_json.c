/* Any bytes as a config.json: what is read stays within its lists, what is not has a reason. */
#include <stdlib.h>

#include "pipelines/config_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_error err = { 0 };
    kn_vl_config c;
    bool ok = kn_vl_config_read((const char *)data, size, &c, &err);
    if (ok != (err.code == KN_OK))
        abort();
    if (ok && (c.vision.deepstack_count < 0 || c.vision.deepstack_count > KN_VISION_MAX_DEEPSTACK))
        abort();
    return 0;
}
