#include "studio/runner.h"

const char *const kn_task_phases[KN_TASK_PHASES] = {
    "waiting", "loading", "encoding", "conditioning", "sampling", "decoding", "upscaling", "saving",
};
const char *const kn_task_failures[KN_TASK_FAILURES] = {
    "cancelled",     "out_of_memory",     "missing_model", "input_invalid", "engine_lost",
    "engine_failed", "isolation_missing", "disk_full",     "internal",
};
