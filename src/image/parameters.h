/* The recipe of a picture as one text, in the form that AUTOMATIC1111's web UI made common and many programs read:
 *
 *     a red boat on a quiet lake
 *     Negative prompt: blurry
 *     Steps: 8, Sampler: euler, CFG scale: 1, Seed: 42, Size: 128x128, Model: "demo, small", Version: kuno 0.1.0
 *
 * It is stored in a PNG file under the key `parameters`. The form has one weakness, which it shares with all its
 * readers: a line of the prompt itself that starts with "Negative prompt:" is taken for the negative prompt. */
#ifndef KN_IMAGE_PARAMETERS_H
#define KN_IMAGE_PARAMETERS_H

#include "base/buf.h"

#define KN_PARAMETERS_KEY "parameters"

enum {
    KN_PARAMETERS_MIN = 3,             /* a last line with fewer pairs is part of the prompt, by the form's rule */
    KN_PARAMETERS_MAX = 64,            /* pairs read from one text */
    KN_PARAMETERS_BYTES_MAX = 1 << 20, /* length of a text that is read */
};

typedef struct kn_parameter {
    const char *key, *value;
} kn_parameter;

/* Adds the text to `into`. The pairs, at least three, are written in their order; which there are is the caller's
 * business. Values are quoted as JSON strings where they need it. The negative prompt may be NULL. */
bool kn_parameters_write(const char *prompt, const char *negative, const kn_parameter *list, size_t count, kn_buf *into,
                         kn_error *err);

typedef struct kn_parameters {
    const char *prompt, *negative; /* empty if there is none */
    size_t count;                  /* 0 if the text has no settings */
    kn_parameter list[KN_PARAMETERS_MAX];
    char *text; /* what all of these point into */
} kn_parameters;

bool kn_parameters_read(const char *text, kn_parameters *ret, kn_error *err);
void kn_parameters_free(kn_parameters *p);

/* The first value of that key, or NULL. */
const char *kn_parameters_find(const kn_parameters *p, const char *key);

#endif
