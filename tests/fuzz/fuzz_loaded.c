/* Any bytes as a list of loaded models that is joined with others: the whole is JSON whatever the parts are. */
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "gateway/loaded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    KN_AUTO_BUF models, list;
    kn_buf_init(&models, 1 << 20);
    kn_buf_init(&list, 3 << 20);
    if (!kn_loaded_add(&models, (const char *)data, size) || !models.len)
        return 0;
    if (!kn_buf_printf(&list, "{\"models\":[%.*s,%.*s]}", (int)models.len, models.data, (int)models.len, models.data))
        return 0;
    const kn_json_text text = { list.data, list.len };
    kn_json_reader j;
    kn_error err = { 0 };
    kn_json_begin(&j, text, text, &err);
    kn_json_skip(&j, NULL);
    if (!kn_json_finish(&j) && err.code != KN_E_NOMEM)
        abort();
    kn_json_close(&j);
    return 0;
}
