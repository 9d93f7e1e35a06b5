/* Any bytes as a config.json: one that is taken can be served. */
#include <stdlib.h>
#include <string.h>

#include "gateway/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_config c;
    kn_error err = { 0 };
    if (!kn_config_read((const char *)data, size, &c, &err)) {
        if (err.code == KN_OK)
            abort();
        return 0;
    }
    uint16_t listen = kn_address_port(&c.listen), upstream = kn_address_port(&c.upstream),
             control = kn_address_port(&c.control);
    if (!listen || !upstream || !control || listen == upstream || listen == control || upstream == control ||
        !kn_address_is_loopback(&c.upstream) || !kn_address_is_loopback(&c.control) || c.state_dir[0] != '/' ||
        c.worker_count > KN_WORKERS_MAX)
        abort();
    for (size_t i = 0; i < c.worker_count; i++)
        if (!kn_address_is_loopback(&c.workers[i].address) || c.workers[i].home[0] != '/' || !c.workers[i].id[0])
            abort();
    kn_config_free(&c);
    return 0;
}
