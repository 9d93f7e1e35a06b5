#include "workers/inspect_job.h"

#include <stdlib.h>

#include "image/import.h"
#include "image/write.h"

/* What is no picture file is wrong; a picture with odd texts is a picture, of which there is something to say. */
static bool is_picture(const void *file, size_t len, kn_error *err) {
    kn_image_kind kind = KN_IMAGE_UNKNOWN;
    return kn_image_check_file(file, len, &KN_IMAGE_LIMITS, &kind, err) &&
           (kind == KN_IMAGE_PNG || kind == KN_IMAGE_JPEG || kind == KN_IMAGE_WEBP ||
            kn_fail(err, KN_E_UNSUPPORTED, "is a %s file; PNG, JPEG and WebP can be read", kn_image_kind_name(kind)));
}

/* The first of each key, as kn_parameters_find has it. */
static json_t *pairs_of(const char *text) {
    kn_parameters p;
    json_t *pairs = json_object();
    if (!kn_parameters_read(text, &p, NULL))
        return pairs;
    json_object_set_new(pairs, "Prompt", json_string(p.prompt));
    json_object_set_new(pairs, "Negative prompt", json_string(p.negative));
    for (size_t i = 0; i < p.count; i++)
        if (!json_object_get(pairs, p.list[i].key))
            json_object_set_new(pairs, p.list[i].key, json_string(p.list[i].value));
    kn_parameters_free(&p);
    return pairs;
}

/* NULL: the file has none that can be told. */
static json_t *settings_of(const void *file, size_t len) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_IMPORT_PROMPT_BYTES);
    return kn_image_parameters(file, len, &text)
               ? json_pack("{s:s, s:o}", "text", text.data, "pairs", pairs_of(text.data))
               : NULL;
}

kn_job_code kn_inspect_job(const void *file, size_t len, kn_buf *json, kn_error *err) {
    kn_import found;
    kn_error why = { 0 };
    if (!is_picture(file, len, err))
        return KN_JOB_REFERENCE_INVALID;
    bool ok = kn_import_read(file, len, &KN_IMAGE_LIMITS, &found, &why);
    json_t *told = ok ? kn_import_json(&found)
                      : json_pack("{s:s, s:s?, s:s}", "source", kn_import_sources[found.source], "imported_from",
                                  found.key, "refused", why.text);
    json_t *settings = told ? settings_of(file, len) : NULL;
    if (settings)
        json_object_set_new(told, "settings", settings);
    char *text = told && why.code != KN_E_NOMEM ? json_dumps(told, JSON_COMPACT) : NULL;
    bool is_told = text && kn_buf_add_text(json, text);
    free(text);
    json_decref(told);
    if (ok)
        kn_import_free(&found);
    if (is_told)
        return KN_JOB_DONE;
    kn_fail_nomem(err, json->limit);
    return KN_JOB_OUT_OF_MEMORY;
}
