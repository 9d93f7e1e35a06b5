#include "workers/inspect_job.h"

#include <stdlib.h>

#include "image/import.h"

/* What is no picture file is wrong; a picture with odd texts is a picture, of which there is something to say. */
static bool is_picture(const void *file, size_t len, kn_error *err) {
    kn_image_kind kind = KN_IMAGE_UNKNOWN;
    return kn_image_check_file(file, len, &KN_IMAGE_LIMITS, &kind, err) &&
           (kind == KN_IMAGE_PNG || kind == KN_IMAGE_JPEG || kind == KN_IMAGE_WEBP ||
            kn_fail(err, KN_E_UNSUPPORTED, "is a %s file; PNG, JPEG and WebP can be read", kn_image_kind_name(kind)));
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
