#include "base/json_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { BLOCK_VALUES = 512, NUMBER_BYTES = 64 };

typedef struct kn_json_block {
    struct kn_json_block *before;
    size_t used;
    kn_json_value values[BLOCK_VALUES];
} kn_json_block;

/* A document being read. */
struct builder {
    kn_json_reader reader;
    kn_json_tree tree;
    size_t left; /* of values */
    char *decoded_end;
    const char *what;
    const kn_json_value **sorted; /* the keys of an object */
    size_t sorted_room;
};

static bool refuse(struct builder *b, kn_code code, const char *why) {
    b->reader.failed = true;
    return kn_fail(b->reader.err, code, "%s %s", b->what, why);
}

static bool out_of_memory(struct builder *b, size_t bytes) {
    b->reader.failed = true;
    return kn_fail_nomem(b->reader.err, bytes);
}

static kn_json_value *new_value(struct builder *b) {
    kn_json_block *block = b->tree.blocks;
    if (!b->left--) {
        refuse(b, KN_E_RANGE, "has too many values");
        return NULL;
    }
    if (!block || block->used == BLOCK_VALUES) {
        block = malloc(sizeof *block);
        if (!block) {
            out_of_memory(b, sizeof *block);
            return NULL;
        }
        block->before = b->tree.blocks;
        block->used = 0;
        b->tree.blocks = block;
    }
    kn_json_value *v = &block->values[block->used++];
    *v = (kn_json_value){ .kind = KN_JSON_NULL };
    return v;
}

/* A string without escapes stays where it is, in the document; others would go with the reader. No string is longer
 * than it is written, so that there is room for all of them. */
static bool keep(struct builder *b, kn_json_text text, kn_json_text *ret) {
    *ret = text;
    if (text.data != b->reader.decoded.data)
        return true;
    if (!b->tree.decoded) {
        size_t room = (size_t)(b->reader.end - b->reader.start);
        b->tree.decoded = b->decoded_end = malloc(room);
        if (!b->tree.decoded)
            return out_of_memory(b, room);
    }
    memcpy(b->decoded_end, text.data, text.len);
    ret->data = b->decoded_end;
    b->decoded_end += text.len;
    return true;
}

static int compare_keys(const void *a, const void *b) {
    const kn_json_value *const *x = a, *const *y = b;
    size_t x_len = (*x)->key.len, y_len = (*y)->key.len;
    return x_len != y_len ? (x_len > y_len ? 1 : -1) : memcmp((*x)->key.data, (*y)->key.data, x_len);
}

static bool check_keys(struct builder *b, const kn_json_value *object) {
    size_t n = 0;
    if (object->count > b->sorted_room) {
        const kn_json_value **larger = realloc(b->sorted, object->count * sizeof(*larger));
        if (!larger)
            return out_of_memory(b, object->count * sizeof(*larger));
        b->sorted = larger;
        b->sorted_room = object->count;
    }
    for (const kn_json_value *v = object->first; v; v = v->next)
        b->sorted[n++] = v;
    if (n > 1)
        qsort(b->sorted, n, sizeof(*b->sorted), compare_keys);
    for (size_t i = 1; i < n; i++) {
        kn_json_text key = b->sorted[i]->key;
        if (compare_keys(&b->sorted[i - 1], &b->sorted[i]) != 0)
            continue;
        b->reader.failed = true;
        return kn_fail(b->reader.err, KN_E_FORMAT, "%s has the key '%s' twice in one object", b->what,
                       kn_quote(key.data, key.len).text);
    }
    return true;
}

static bool read_value(struct builder *b, kn_json_value *v);

/* What is inside of an array or object that has been entered. */
static bool read_inside(struct builder *b, kn_json_value *v) {
    kn_json_value **at = &v->first;
    kn_json_text key = { "", 0 };
    while (v->kind == KN_JSON_OBJECT ? kn_json_key(&b->reader, &key) : kn_json_item(&b->reader)) {
        kn_json_value *inner = new_value(b);
        if (!inner || !keep(b, key, &inner->key) || !read_value(b, inner))
            return false;
        *at = inner;
        at = &inner->next;
        v->count++;
    }
    return !b->reader.failed && (v->kind != KN_JSON_OBJECT || check_keys(b, v));
}

/* Its depth is the reader's to limit. */
static bool read_value(struct builder *b, kn_json_value *v) {
    kn_json_reader *j = &b->reader;
    kn_json_text text;
    switch (kn_json_peek(j)) {
    case '{': v->kind = KN_JSON_OBJECT; return kn_json_object(j) && read_inside(b, v);
    case '[': v->kind = KN_JSON_ARRAY; return kn_json_array(j) && read_inside(b, v);
    case '"': v->kind = KN_JSON_STRING; return kn_json_string(j, &text) && keep(b, text, &v->text);
    case 'n': v->kind = KN_JSON_NULL; break;
    case 'f': v->kind = KN_JSON_FALSE; break;
    case 't': v->kind = KN_JSON_TRUE; break;
    default: v->kind = KN_JSON_NUMBER; break;
    }
    return kn_json_skip(j, &v->text);
}

bool kn_json_tree_read(kn_json_text text, const char *what, size_t most, kn_json_tree *ret, kn_error *err) {
    struct builder b = { .left = most, .what = what };
    kn_json_begin_inside(&b.reader, text, what, err);
    kn_json_value *root = new_value(&b);
    bool ok = root && read_value(&b, root) && kn_json_finish(&b.reader);
    kn_json_close(&b.reader);
    free(b.sorted);
    b.tree.root = root;
    if (ok)
        *ret = b.tree;
    else
        kn_json_tree_free(&b.tree);
    return ok;
}

void kn_json_tree_free(kn_json_tree *t) {
    for (kn_json_block *block = t->blocks; block;) {
        kn_json_block *before = block->before;
        free(block);
        block = before;
    }
    free(t->decoded);
    *t = (kn_json_tree){ 0 };
}

const kn_json_value *kn_json_member(const kn_json_value *v, const char *key) {
    if (!v || v->kind != KN_JSON_OBJECT)
        return NULL;
    for (v = v->first; v && !kn_json_is(v->key, key); v = v->next) {
    }
    return v;
}

const kn_json_value *kn_json_at(const kn_json_value *v, size_t index) {
    if (!v || v->kind != KN_JSON_ARRAY)
        return NULL;
    for (v = v->first; v && index; v = v->next)
        index--;
    return v;
}

bool kn_json_value_text(const kn_json_value *v, kn_json_text *ret) {
    if (!v || v->kind != KN_JSON_STRING)
        return false;
    *ret = v->text;
    return true;
}

/* As a C string; longer ones are no numbers that anybody means. */
static bool number_text(const kn_json_value *v, char ret[NUMBER_BYTES]) {
    if (!v || v->kind != KN_JSON_NUMBER || v->text.len >= NUMBER_BYTES)
        return false;
    memcpy(ret, v->text.data, v->text.len);
    ret[v->text.len] = 0;
    return true;
}

bool kn_json_value_real(const kn_json_value *v, double *ret) {
    char text[NUMBER_BYTES];
    return number_text(v, text) && kn_parse_double(text, ret);
}

bool kn_json_value_u64(const kn_json_value *v, uint64_t *ret) {
    static const double exact = 9007199254740992.0; /* 2^53: beyond it a double has no single whole numbers */
    char text[NUMBER_BYTES];
    double real = 0;
    if (!number_text(v, text))
        return false;
    if (kn_parse_u64(text, ret))
        return true;
    if (!strpbrk(text, ".eE") || !kn_parse_double(text, &real) || !(real >= 0 && real <= exact) || real != floor(real))
        return false;
    *ret = (uint64_t)real;
    return true;
}
