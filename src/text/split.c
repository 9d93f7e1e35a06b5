#include "text/split.h"

#include "base/text.h"
#include "text/unicode.h"

/* One character and what the rules ask about it. At the end of the text it is of no kind at all. */
struct character {
    uint32_t c;
    int kind; /* a kn_char_kind, or NOTHING */
    const char *behind;
};

enum { NOTHING = -1 };

static struct character look(const char *at, const char *end) {
    struct character ch = { .kind = NOTHING, .behind = at };
    if (kn_utf8_next(&ch.behind, end, &ch.c))
        ch.kind = (int)kn_char_kind_of(ch.c);
    return ch;
}

static bool ends_line(struct character ch) {
    return ch.kind == KN_CHAR_SPACE && (ch.c == '\r' || ch.c == '\n');
}

static const char *run_of(int kind, const char *at, const char *end) {
    for (struct character ch; (ch = look(at, end)).kind == kind;)
        at = ch.behind;
    return at;
}

/* 's 't 're 've 'm 'll 'd in either case; the long s (U+017F) is an s too. NULL: it is none of them. */
static const char *contraction(struct character quote, const char *end) {
    if (quote.c != '\'')
        return NULL;
    struct character one = look(quote.behind, end), two = look(one.behind, end);
    uint32_t a = one.c < 0x80 ? one.c | 32 : one.c, b = two.c < 0x80 ? two.c | 32 : two.c;
    if (a == 's' || a == 't' || a == 'm' || a == 'd' || a == 0x17F)
        return one.behind;
    bool long_one = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return long_one ? two.behind : NULL;
}

/* Neither white space, letter nor number, as many as there are, and the line ends directly behind. */
static const char *others(const char *at, const char *end) {
    at = run_of(KN_CHAR_OTHER, at, end);
    for (struct character ch; ends_line(ch = look(at, end));)
        at = ch.behind;
    return at;
}

/* A run of white space goes up to its last line end; without one it leaves its last character to what follows it. */
static const char *white_space(const char *at, const char *end) {
    const char *line_end = NULL, *last = at, *behind = at;
    for (struct character ch; (ch = look(behind, end)).kind == KN_CHAR_SPACE;) {
        last = behind;
        behind = ch.behind;
        if (ends_line(ch))
            line_end = behind;
    }
    if (line_end)
        return line_end;
    return behind == end || last == at ? behind : last;
}

const char *kn_split_next(const char *at, const char *end) {
    struct character first = look(at, end), second = look(first.behind, end);
    const char *short_form = contraction(first, end);
    if (short_form)
        return short_form;
    if (first.kind == KN_CHAR_LETTER)
        return run_of(KN_CHAR_LETTER, first.behind, end);
    if (first.kind == KN_CHAR_NUMBER)
        return first.behind;
    if (second.kind == KN_CHAR_LETTER && !ends_line(first))
        return run_of(KN_CHAR_LETTER, second.behind, end);
    if (first.kind == KN_CHAR_OTHER)
        return others(first.behind, end);
    if (first.c == ' ' && second.kind == KN_CHAR_OTHER)
        return others(second.behind, end);
    return white_space(at, end);
}
