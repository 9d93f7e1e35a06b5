#include "workers/codes.h"

#include <string.h>

enum { FAILED = 1, INVALID = 2, CANCELLED = 130 }; /* as base/error.h has them */

const kn_job_code_row kn_job_codes[KN_JOB_CODES] = {
    [KN_JOB_DONE] = { "done", 0 },
    [KN_JOB_INVALID] = { "image_request_invalid", INVALID },
    [KN_JOB_REFERENCE_INVALID] = { "image_reference_invalid", INVALID },
    [KN_JOB_REFERENCE_REQUIRED] = { "image_reference_required", INVALID },
    [KN_JOB_ATTENTION_UNSUPPORTED] = { "image_attention_unsupported", INVALID },
    [KN_JOB_MODEL_MISSING] = { "image_model_missing", INVALID },
    [KN_JOB_MODEL_MISMATCH] = { "image_model_mismatch", INVALID },
    [KN_JOB_OUT_OF_MEMORY] = { "image_out_of_memory", FAILED },
    [KN_JOB_CANCELLED] = { "image_cancelled", CANCELLED },
    [KN_JOB_DEADLINE] = { "image_deadline", FAILED },
    [KN_JOB_ISOLATION_MISSING] = { "image_isolation_missing", FAILED },
    [KN_JOB_FAILED] = { "image_worker_failed", FAILED },
};

kn_job_code kn_job_code_of_word(const char *word, size_t len) {
    size_t i = 0;
    while (i < KN_JOB_CODES && (strlen(kn_job_codes[i].word) != len || memcmp(kn_job_codes[i].word, word, len) != 0))
        i++;
    return (kn_job_code)i;
}

kn_job_code kn_job_code_of_error(const kn_error *err) {
    switch (err->code) {
    case KN_OK: return KN_JOB_DONE;
    case KN_E_NOMEM: return KN_JOB_OUT_OF_MEMORY;
    case KN_E_CANCELLED: return KN_JOB_CANCELLED;
    case KN_E_RANGE:
    case KN_E_UNSUPPORTED:
    case KN_E_USAGE: return KN_JOB_INVALID;
    default: return KN_JOB_FAILED;
    }
}
