#include "studio/runner.h"

const char *const kn_task_phases[KN_TASK_PHASES] = {
    "waiting", "loading", "encoding", "conditioning", "sampling", "decoding", "upscaling", "saving",
};
const char *const kn_task_failures[KN_TASK_FAILURES] = {
    "cancelled",     "out_of_memory",     "missing_model", "input_invalid",    "engine_lost",
    "engine_failed", "isolation_missing", "disk_full",     "storage_readonly", "internal",
};

bool kn_task_is_retryable(kn_task_failure why) {
    return why == KN_TASK_ENGINE_LOST || why == KN_TASK_DISK_FULL || why == KN_TASK_STORAGE_READONLY ||
           why == KN_TASK_OUT_OF_MEMORY;
}

kn_task_failure kn_task_unsaved(kn_code code, const char **ret_message) {
    switch (code) {
    case KN_E_FULL: *ret_message = "No space is left to save the picture"; return KN_TASK_DISK_FULL;
    case KN_E_READONLY:
        *ret_message = "The picture could not be saved. " KN_STORE_READONLY;
        return KN_TASK_STORAGE_READONLY;
    default: *ret_message = "The picture could not be saved"; return KN_TASK_INTERNAL;
    }
}
