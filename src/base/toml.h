/* TOML 1.0 documents, read strictly into a tree of tables, arrays and values.
 *
 * Everything that the specification calls invalid is refused with the line and the reason. Keys stay in the order of
 * the file; every key and value knows its line, so that whoever reads meaning into the tree can say where it is wrong.
 * Beyond the specification: nesting, the keys of one table and the size of the document have ceilings, and a byte order
 * mark is allowed in front. Nothing here knows any particular file. */
#ifndef KN_BASE_TOML_H
#define KN_BASE_TOML_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A value at the root of the document has depth 1; an element of an array or table lies one deeper than that. */
#define KN_TOML_DEPTH_MAX 64
#define KN_TOML_KEYS_MAX  1024

typedef enum kn_toml_kind {
    KN_TOML_BOOLEAN,
    KN_TOML_INTEGER,
    KN_TOML_FLOAT,
    KN_TOML_STRING,
    KN_TOML_OFFSET_DATE_TIME,
    KN_TOML_LOCAL_DATE_TIME,
    KN_TOML_LOCAL_DATE,
    KN_TOML_LOCAL_TIME,
    KN_TOML_ARRAY,
    KN_TOML_TABLE,
} kn_toml_kind;

/* Fields that a kind does not have are 0. */
typedef struct kn_toml_time {
    uint16_t year;
    uint8_t month, day;
    uint8_t hour, minute, second; /* second may be 60, a leap second */
    int16_t offset_minutes;       /* east of UTC */
    uint32_t nanosecond;          /* further digits are cut off */
} kn_toml_time;

typedef struct kn_toml kn_toml;
typedef struct kn_toml_entry kn_toml_entry;

struct kn_toml {
    uint8_t kind;  /* a kn_toml_kind */
    uint8_t depth; /* 0 for the document */
    uint8_t made;  /* for the reader: which syntax made this table or array, and so what may still be added */
    int line;      /* of its first character; for tables made by a header or a dotted key, of that */
    union {
        bool boolean;
        int64_t integer;
        double real;
        kn_toml_time time;
        struct {
            char *data; /* UTF-8, NUL-terminated; may hold NUL characters of its own */
            size_t len;
        } string;
        struct {
            kn_toml *items;
            size_t n, room;
        } array;
        struct {
            kn_toml_entry *entries;
            size_t n, room;
        } table;
    };
};

struct kn_toml_entry {
    char *key; /* UTF-8, NUL-terminated; may be empty, may hold NUL characters of its own */
    size_t key_len;
    int line;
    kn_toml value;
};

/* Reads a whole document of at most `limit` bytes; *ret becomes its table, to be freed by kn_toml_free. Memory is in
 * proportion to len. */
bool kn_toml_read(const char *text, size_t len, size_t limit, kn_toml *ret, kn_error *err);
void kn_toml_free(kn_toml *v);

/* The entry of that key, or NULL. */
kn_toml_entry *kn_toml_find(const kn_toml *table, const char *key, size_t key_len);

/* "a string", "an integer", … for messages. */
const char *kn_toml_kind_name(kn_toml_kind kind);

#endif
