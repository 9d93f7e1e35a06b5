/* How a client's picture was made, as far as its file says it. */
#ifndef KN_WORKERS_INSPECT_JOB_H
#define KN_WORKERS_INSPECT_JOB_H

#include "base/buf.h"
#include "workers/codes.h"

/* Adds the object of kn_import_json (image/import.h). If the file says something that cannot be taken over, that has
 * `source`, `imported_from` and `refused` alone, the last one a sentence. In both cases a file with a text of settings
 * (image/parameters.h) has `settings` besides: `text`, as it is, and `pairs` of it, "Prompt" and "Negative prompt"
 * among them; of a text that cannot be read there are none, and one longer than a prompt may be is not told. */
kn_job_code kn_inspect_job(const void *file, size_t len, kn_buf *json, kn_error *err);

#endif
