#include "gateway/observer.h"

#include <string.h>

/* Where the next byte stands in the outermost object. */
enum {
    BEFORE_OBJECT,
    BEFORE_FIRST_KEY,
    BEFORE_KEY,
    IN_KEY,
    BEFORE_COLON,
    BEFORE_VALUE,
    IN_NAME,   /* the value of "model" */
    IN_WORD,   /* a number, true, false or null */
    IN_TEXT,   /* a string that is stepped over */
    IN_NESTED, /* an array or object that is stepped over */
    AFTER_VALUE,
    AFTER_OBJECT,
};

/* What the value after the present key is to us. */
enum { NOTHING, MODEL, INPUT };

/* Stands for every character that is in none of our keys and in no name. */
enum { OTHER = 1 };

void kn_observer_begin(kn_observer *o, kn_input input) {
    static const char *const keys[] = { "prompt", "messages", "input" };
    *o = (kn_observer){ .input_key = keys[input] };
}

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 32) : c;
}

static bool key_is(const kn_observer *o, const char *word) {
    size_t len = strlen(word);
    if (o->key_len != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (lower(o->key[i]) != word[i])
            return false;
    }
    return true;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

typedef enum piece { PIECE_NONE, PIECE_CHARACTER, PIECE_END, PIECE_BAD } piece;

/* One byte of a string that is kept: what it adds, if anything. */
static piece decode(kn_observer *o, char c, char *ret) {
    if (o->hex_left) {
        int digit = hex_value(c);
        if (digit < 0)
            return PIECE_BAD;
        o->escape = o->escape << 4 | (uint32_t)digit;
        if (--o->hex_left)
            return PIECE_NONE;
        *ret = o->escape > 0x20 && o->escape < 0x7F ? (char)o->escape : OTHER;
        return PIECE_CHARACTER;
    }
    if (o->escaped) {
        o->escaped = false;
        if (c == 'u') {
            o->hex_left = 4;
            o->escape = 0;
            return PIECE_NONE;
        }
        if (!strchr("\"\\/bfnrt", c) || !c)
            return PIECE_BAD;
        *ret = strchr("\"\\/", c) ? c : OTHER;
        return PIECE_CHARACTER;
    }
    if (c == '"')
        return PIECE_END;
    o->escaped = c == '\\';
    *ret = (unsigned char)c > 0x20 && (unsigned char)c < 0x7F ? c : OTHER;
    return (unsigned char)c < 0x20 ? PIECE_BAD : o->escaped ? PIECE_NONE : PIECE_CHARACTER;
}

static void in_key(kn_observer *o, char c) {
    char decoded = 0;
    switch (decode(o, c, &decoded)) {
    case PIECE_NONE: break;
    case PIECE_BAD: o->broken = true; break;
    case PIECE_CHARACTER:
        if (o->key_len < sizeof o->key)
            o->key[o->key_len] = decoded;
        if (o->key_len <= sizeof o->key) /* one too many is too many */
            o->key_len++;
        break;
    case PIECE_END:
        o->after = key_is(o, "model") ? MODEL : key_is(o, o->input_key) ? INPUT : NOTHING;
        o->state = BEFORE_COLON;
        break;
    }
}

static void in_name(kn_observer *o, char c) {
    char decoded = 0;
    switch (decode(o, c, &decoded)) {
    case PIECE_NONE: break;
    case PIECE_BAD: o->broken = true; break;
    case PIECE_CHARACTER:
        if (o->name_len < KN_MODEL_NAME_MAX)
            o->name[o->name_len++] = decoded;
        else
            o->too_long = true;
        break;
    case PIECE_END: o->state = AFTER_VALUE; break;
    }
}

/* An array is input if anything is in it, a string if it is not empty; null says nothing. */
static void begin_value(kn_observer *o, char c) {
    if (o->after == MODEL) {
        o->named_twice |= o->named;
        o->named = true;
    }
    if (o->after == MODEL && c != 'n') {
        o->broken |= c != '"';
        explicit_bzero(o->name, o->name_len);
        o->name_len = 0;
        o->too_long = false;
    }
    if (o->after == INPUT && c != 'n')
        o->has_input = c != '"' && c != '[';
    o->in_string = c == '"';
    o->depth = 1;
    if (c == '"') {
        o->state = o->after == MODEL ? IN_NAME : IN_TEXT;
    } else if (c == '[' || c == '{') {
        o->state = IN_NESTED;
    } else {
        o->state = IN_WORD;
        o->broken |= c != '-' && c != 't' && c != 'f' && c != 'n' && (c < '0' || c > '9');
    }
}

/* Steps to the end of a string, or over all of the bytes; returns how many bytes that were. */
static size_t skip_string(kn_observer *o, const char *data, size_t len) {
    const char *at = data + o->escaped, *end = data + len, *quote = NULL;
    o->escaped = false;
    while (at < end) {
        if (!quote || quote < at) {
            quote = memchr(at, '"', (size_t)(end - at));
            quote = quote ? quote : end;
        }
        const char *backslash = memchr(at, '\\', (size_t)(quote - at));
        if (!backslash) {
            at = quote;
            break;
        }
        if (backslash + 1 == end) {
            o->escaped = true;
            return len;
        }
        at = backslash + 2;
    }
    if (at == end)
        return len;
    o->in_string = false;
    return (size_t)(at - data) + 1;
}

/* Steps over a string that is a value; it is input if anything comes before its end. */
static size_t in_text(kn_observer *o, const char *data, size_t len) {
    o->has_input |= o->after == INPUT && data[0] != '"';
    size_t n = skip_string(o, data, len);
    if (!o->in_string)
        o->state = AFTER_VALUE;
    return n;
}

/* Steps over an array or object. Whether its brackets match is the upstream's business. */
static size_t in_nested(kn_observer *o, const char *data, size_t len) {
    for (size_t i = 0; i < len;) {
        if (o->in_string) {
            i += skip_string(o, data + i, len - i);
            continue;
        }
        char c = data[i++];
        bool opens = c == '[' || c == '{', closes = c == ']' || c == '}';
        o->has_input |= o->after == INPUT && !closes && !is_space(c);
        o->in_string = c == '"';
        o->depth += opens;
        o->depth -= closes;
        if (!o->depth) {
            o->state = AFTER_VALUE;
            return i;
        }
    }
    return len;
}

static void step(kn_observer *o, char c) {
    switch (o->state) {
    case IN_KEY: in_key(o, c); return;
    case IN_NAME: in_name(o, c); return;
    case IN_WORD:
        if (c != ',' && c != '}' && !is_space(c))
            return;
        o->state = AFTER_VALUE;
        break;
    default: break;
    }
    if (is_space(c))
        return;
    switch (o->state) {
    case BEFORE_OBJECT:
        o->broken |= c != '{';
        o->state = BEFORE_FIRST_KEY;
        break;
    case BEFORE_FIRST_KEY:
    case BEFORE_KEY:
        o->key_len = 0;
        o->broken |= c != '"' && (c != '}' || o->state == BEFORE_KEY);
        o->state = c == '"' ? IN_KEY : AFTER_OBJECT;
        break;
    case BEFORE_COLON:
        o->broken |= c != ':';
        o->state = BEFORE_VALUE;
        break;
    case BEFORE_VALUE: begin_value(o, c); break;
    case AFTER_VALUE:
        o->broken |= c != ',' && c != '}';
        o->state = c == ',' ? BEFORE_KEY : AFTER_OBJECT;
        break;
    default: break; /* behind the object nobody looks */
    }
}

void kn_observer_feed(kn_observer *o, const char *data, size_t len) {
    for (size_t i = 0; i < len && !o->broken && o->state != AFTER_OBJECT;) {
        if (o->state == IN_TEXT)
            i += in_text(o, data + i, len - i);
        else if (o->state == IN_NESTED)
            i += in_nested(o, data + i, len - i);
        else
            step(o, data[i++]);
    }
    if (o->broken || o->too_long)
        explicit_bzero(o->name, sizeof o->name);
}

bool kn_name_is_possible(const char *name) {
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/";
    size_t len = strlen(name);
    return len && strspn(name, inside) == len && !strchr("-.:/", name[0]) && !strchr(":/", name[len - 1]) &&
           !strstr(name, "://");
}

/* Some versions of the upstream take spaces away from the ends of a name, and all of them what stands before "://". */
static bool may_be_mended(const kn_observer *o) {
    return o->too_long || strchr(o->name, OTHER) || strstr(o->name, "://");
}

kn_naming kn_observer_naming(const kn_observer *o) {
    if (o->broken || o->state != AFTER_OBJECT)
        return KN_NAMING_NOTHING;
    return may_be_mended(o) ? KN_NAMING_UNKNOWN : kn_name_is_possible(o->name) ? KN_NAMING_MODEL : KN_NAMING_NOTHING;
}

kn_observed kn_observer_result(const kn_observer *o) {
    if (o->broken || o->state != AFTER_OBJECT)
        return KN_OBSERVED_UNCLEAR;
    if (!o->has_input)
        return KN_OBSERVED_NOTHING;
    return !o->named_twice && kn_observer_naming(o) == KN_NAMING_MODEL ? KN_OBSERVED_MODEL : KN_OBSERVED_UNCLEAR;
}
