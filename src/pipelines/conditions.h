/* What a picture is drawn from, in the form that encoders made of it: of prompts, of reference pictures, and of a
 * picture to start from. A pipeline keeps them for the next picture that is drawn from the same, so that encoders run
 * once per prompt and not once per picture. What is given is compared to the byte, not by a digest. */
#ifndef KN_PIPELINES_CONDITIONS_H
#define KN_PIPELINES_CONDITIONS_H

#include "compute/ops.h"
#include "image/image.h"
#include "text/tokenizer.h"

/* A tensor's values in host memory, owned. */
typedef struct kn_values {
    float *at; /* NULL: none */
    int rank;
    int64_t dim[KN_MAX_RANK];
} kn_values;
size_t kn_values_count(const kn_values *v);
/* In a run that follows shapes only, values are made but not filled. Failures of the run come out here, too. */
bool kn_values_take(kn_run *r, kn_tensor t, kn_values *ret, kn_error *err);
kn_tensor kn_values_upload(kn_run *r, const kn_values *v);

enum { KN_MAX_REFERENCES = 10 };

typedef struct kn_condition {
    /* What is given: a text and the pictures it is about, or a picture of the size that the model sees. */
    char *text;
    uint64_t about[KN_MAX_REFERENCES]; /* serial numbers of theirs; 0: none */
    kn_image picture;

    /* What was made of it: of a prompt the rows that condition, of a picture its latent [channels][h][w], or nothing if
     * only the vision encoder sees it. */
    kn_tokens tokens; /* of a prompt in its template */
    int64_t skip;     /* so many of them come before what the diffusion model is to know */
    int dropped;      /* tokens of the prompt that were too many */
    kn_values values;
    bool is_made; /* nothing is left to do about it */

    uint64_t serial; /* no other one of the pipeline's has it */
} kn_condition;

typedef struct kn_conditions kn_conditions;
kn_conditions *kn_conditions_new(void); /* NULL: out of memory */
void kn_conditions_free(kn_conditions *c);

/* The condition of what is given, new if nobody asked for it before. It stays where it is until conditions are trimmed.
 * about: its pictures' conditions. picture: taken over, whatever comes out. NULL: out of memory. */
kn_condition *kn_conditions_of_text(kn_conditions *c, const char *text, kn_condition *const *about, int count);
kn_condition *kn_conditions_of_picture(kn_conditions *c, kn_image *picture);

/* Drops the tokens of a prompt beyond the first `most`. */
void kn_condition_cut(kn_condition *c, size_t most);

/* Forgets what was never made, and the oldest beyond a few and beyond KN_CONDITIONS_BYTES. */
enum { KN_CONDITIONS_COUNT = 2 * (KN_MAX_REFERENCES + 1) };
#define KN_CONDITIONS_BYTES ((size_t)256 << 20)
void kn_conditions_trim(kn_conditions *c);

#endif
