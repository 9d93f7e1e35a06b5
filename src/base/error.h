/* Errors are values: a code for programs and one sentence for people.
 *
 * Functions that can fail return bool, take a kn_error last and write their outputs only on success. The first failure
 * wins. The text says what is wrong with the measured numbers inside, without capital and full stop; callers that know
 * more put it in front with kn_fail_within ("text encoder", a file name, …). Nothing here prints. */
#ifndef KN_BASE_ERROR_H
#define KN_BASE_ERROR_H

#include <stdbool.h>

#include "base/compiler.h"

typedef enum kn_code {
    KN_OK,
    KN_E_NOMEM,       /* memory could not be had */
    KN_E_IO,          /* the system refused an operation on a file that should work */
    KN_E_NOT_FOUND,   /* a file, profile, tensor or name that was asked for does not exist */
    KN_E_TRUNCATED,   /* input ends too early */
    KN_E_RANGE,       /* a number is outside what is allowed */
    KN_E_FORMAT,      /* input is not what it should be */
    KN_E_UNSUPPORTED, /* input is understood and not supported */
    KN_E_USAGE,       /* the request contradicts itself or the model */
    KN_E_OUTPUT,      /* the result cannot be written where it was wanted */
    KN_E_NUMERIC,     /* a computation gave NaN or infinity */
    KN_E_CANCELLED,   /* somebody asked to stop */
} kn_code;

typedef struct kn_error {
    kn_code code;
    char text[600];
} kn_error;

/* Records the failure if it is the first one; err may be NULL. Always returns false, so that `return kn_fail(…)` works.
 */
bool kn_fail(kn_error *err, kn_code code, const char *fmt, ...) KN_PRINTF(3, 4);

/* Puts "context: " in front of an error that is there already. Always returns false. */
bool kn_fail_within(kn_error *err, const char *fmt, ...) KN_PRINTF(2, 3);

/* What a program ends with after such an error: 0 done, 1 failed, 2 the input or request cannot be used, 130 cancelled.
 */
int kn_exit_code(kn_code code);

/* For a failed allocation of so many bytes. Always returns false. */
bool kn_fail_nomem(kn_error *err, unsigned long long bytes);

#endif
