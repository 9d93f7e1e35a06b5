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
    KN_E_FULL,        /* there is no room left for what is to be written */
    KN_E_READONLY,    /* nothing may be written there: by the file system, or by its rights */
    KN_E_NUMERIC,     /* a computation gave NaN or infinity */
    KN_E_CANCELLED,   /* somebody asked to stop */
} kn_code;

typedef struct kn_error {
    kn_code code;
    char text[600];
} kn_error;

/* The three below are always false, so that `return kn_fail(…)` works; as macros they are so visibly, to compilers and
 * analysers too. */

/* kn_fail(err, code, format, …): records the failure if it is the first one; err may be NULL. */
#define kn_fail(...) kn_failed(kn_error_set(__VA_ARGS__))

/* kn_fail_within(err, format, …): puts "context: " in front of an error that is there already. Where somebody asked to
 * stop says nothing, so such an error stays as it is. */
#define kn_fail_within(...) kn_failed(kn_error_set_within(__VA_ARGS__))

/* kn_fail_nomem(err, bytes): for a failed allocation of so many bytes. */
#define kn_fail_nomem(err, bytes) kn_failed(kn_error_set_nomem(err, bytes))

int kn_error_set(kn_error *err, kn_code code, const char *fmt, ...) KN_PRINTF(3, 4);
int kn_error_set_within(kn_error *err, const char *fmt, ...) KN_PRINTF(2, 3);
int kn_error_set_nomem(kn_error *err, unsigned long long bytes);
static inline bool kn_failed(int was_set) {
    (void)was_set;
    return false;
}

/* What a program ends with after such an error: 0 done, 1 failed, 2 the input or request cannot be used, 130 cancelled.
 */
int kn_exit_code(kn_code code);

#endif
