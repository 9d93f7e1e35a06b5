/* A JSON document as a tree, for documents of strangers that must be walked in an order of their own. As strict as the
 * reader below it (json_reader.h), and more: a key that comes twice in an object is an error. Numbers stay as they are
 * written, so that none loses a digit. */
#ifndef KN_BASE_JSON_TREE_H
#define KN_BASE_JSON_TREE_H

#include "base/json_reader.h"

typedef enum kn_json_kind {
    KN_JSON_NULL,
    KN_JSON_FALSE,
    KN_JSON_TRUE,
    KN_JSON_NUMBER,
    KN_JSON_STRING,
    KN_JSON_ARRAY,
    KN_JSON_OBJECT,
} kn_json_kind;

typedef struct kn_json_value kn_json_value;
struct kn_json_value {
    kn_json_kind kind;
    uint32_t count;    /* of what is inside */
    kn_json_text key;  /* in an object */
    kn_json_text text; /* a string without its escapes, a number as it is written */
    kn_json_value *first, *next;
};

typedef struct kn_json_tree {
    const kn_json_value *root;
    struct kn_json_block *blocks; /* where all values are */
    char *decoded;                /* strings that had escapes */
} kn_json_tree;

/* The text must stay as long as the tree. most: of values; each takes less than 100 bytes. `what` calls the text in
 * errors: "the workflow is broken at byte 12: …". */
bool kn_json_tree_read(kn_json_text text, const char *what, size_t most, kn_json_tree *ret, kn_error *err);
void kn_json_tree_free(kn_json_tree *t);

/* A member of an object, an item of an array. NULL: there is none, or v is NULL or something else. */
const kn_json_value *kn_json_member(const kn_json_value *v, const char *key);
const kn_json_value *kn_json_at(const kn_json_value *v, size_t index);

/* What a value says; false if it says something else. A whole number may be written as 25.0. */
bool kn_json_value_text(const kn_json_value *v, kn_json_text *ret);
bool kn_json_value_u64(const kn_json_value *v, uint64_t *ret);
bool kn_json_value_real(const kn_json_value *v, double *ret);

#endif
