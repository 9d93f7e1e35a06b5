/* How a job of the image worker can end: fixed words for programs, which say nothing of what was in the job. The first
 * ones are also words of the server's answers to its clients. */
#ifndef KN_WORKERS_CODES_H
#define KN_WORKERS_CODES_H

#include <stddef.h>

#include "base/error.h"

typedef enum kn_job_code {
    KN_JOB_DONE,
    KN_JOB_INVALID,               /* the recipe is not one, or asks for what cannot be */
    KN_JOB_REFERENCE_INVALID,     /* a given picture cannot be read or used */
    KN_JOB_REFERENCE_REQUIRED,    /* an edit without pictures */
    KN_JOB_ATTENTION_UNSUPPORTED, /* fast attention, where there is none */
    KN_JOB_MODEL_MISSING,
    KN_JOB_MODEL_MISMATCH, /* its files are not what the recipe or each other need */
    KN_JOB_OUT_OF_MEMORY,
    KN_JOB_CANCELLED,
    KN_JOB_DEADLINE,
    KN_JOB_ISOLATION_MISSING, /* the worker could not be locked in */
    KN_JOB_FAILED,            /* all else; also a worker that died */
    KN_JOB_CODES,
} kn_job_code;

typedef struct kn_job_code_row {
    const char *word;
    int exit_status; /* of a worker with this one job */
} kn_job_code_row;
extern const kn_job_code_row kn_job_codes[KN_JOB_CODES];

/* KN_JOB_CODES: no such word. */
kn_job_code kn_job_code_of_word(const char *word, size_t len);

/* What a failure while drawing means for the job. */
kn_job_code kn_job_code_of_error(const kn_error *err);

#endif
