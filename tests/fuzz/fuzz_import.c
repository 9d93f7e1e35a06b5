/* Any bytes as what a picture says about how it was made: the first one tells as which text, or that they are a whole
 * file. Whatever is taken over must be complete, and can be told. */
#include <stdlib.h>
#include <string.h>

#include "image/import.h"
#include "image/import_comfy.h"
#include "image/png.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void tell(kn_import *found) {
    if (found->source != KN_IMPORT_NONE && (!found->prompt || !found->negative_prompt))
        abort();
    json_t *all = kn_import_json(found);
    if (!all)
        abort();
    json_decref(all);
    kn_import_free(found);
}

static void read_file(const uint8_t *data, size_t size) {
    static const kn_image_limits limits = { .bytes = 1 << 20, .side = 2048, .pixels = 1 << 16 };
    kn_import found;
    kn_error err = { 0 };
    if (kn_import_read(data, size, &limits, &found, &err))
        tell(&found);
    else if (err.code == KN_OK || found.prompt)
        abort();
}

/* Without a file around it, whose checksums would keep all changes out. */
static void read_graph(kn_json_text text, bool edited) {
    kn_graph g = { 0 };
    kn_error err = { 0 };
    kn_import found = { .source = KN_IMPORT_COMFYUI };
    if (!(edited ? kn_graph_read_edited : kn_graph_read_executed)(text, &g, &err)) {
        if (err.code == KN_OK)
            abort();
        return;
    }
    if (kn_import_follow(&g, &found, &err)) {
        if (!found.workflow || !found.seed || !found.steps || !found.has_cfg)
            abort();
        if (!found.negative_prompt)
            found.negative_prompt = calloc(1, 1);
        tell(&found);
    } else {
        if (err.code == KN_OK)
            abort();
        kn_import_free(&found);
    }
    kn_graph_free(&g);
}

/* A text of settings needs a file, with the right sums. */
static void read_parameters(const uint8_t *data, size_t size) {
    uint8_t pixel[3] = { 0 };
    const kn_image image = { .width = 1, .height = 1, .channels = 3, .pixels = pixel };
    char *text = strndup((const char *)data, size);
    const kn_png_text entry = { KN_PARAMETERS_KEY, text };
    KN_AUTO_BUF file;
    kn_buf_init(&file, 1 << 20);
    if (text && kn_png_write(&image, &entry, 1, &file, NULL))
        read_file((const uint8_t *)file.data, file.len);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    const kn_json_text rest = { (const char *)data + 1, size - 1 };
    switch (data[0]) {
    case 'p': read_graph(rest, false); break;
    case 'w': read_graph(rest, true); break;
    case 'a': read_parameters(data + 1, size - 1); break;
    default: read_file(data, size); break;
    }
    return 0;
}
