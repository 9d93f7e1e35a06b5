#include "base/toml_scalar.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

typedef struct word {
    const char *at, *end;
} word;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool take(word *w, const char *any_of) {
    if (w->at == w->end || !*w->at || !strchr(any_of, *w->at))
        return false;
    w->at++;
    return true;
}

static bool is(word w, const char *text) {
    return (size_t)(w.end - w.at) == strlen(text) && !memcmp(w.at, text, strlen(text));
}

/* Dates and times */

/* Exactly so many digits. */
static bool take_number(word *w, int digits, int least, int most, int *ret) {
    int v = 0;
    for (int i = 0; i < digits; i++) {
        if (w->at == w->end || !is_digit(*w->at))
            return false;
        v = v * 10 + (*w->at++ - '0');
    }
    *ret = v;
    return v >= least && v <= most;
}

static int days_in(int month, int year) {
    static const uint8_t days[13] = { 0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month] + (month == 2 && leap);
}

static bool take_date(word *w, kn_toml_time *t) {
    int year = 0, month = 0, day = 0;
    if (!take_number(w, 4, 0, 9999, &year) || !take(w, "-") || !take_number(w, 2, 1, 12, &month) || !take(w, "-") ||
        !take_number(w, 2, 1, days_in(month, year), &day))
        return false;
    t->year = (uint16_t)year;
    t->month = (uint8_t)month;
    t->day = (uint8_t)day;
    return true;
}

static bool take_time(word *w, kn_toml_time *t) {
    int hour = 0, minute = 0, second = 0;
    if (!take_number(w, 2, 0, 23, &hour) || !take(w, ":") || !take_number(w, 2, 0, 59, &minute) || !take(w, ":") ||
        !take_number(w, 2, 0, 60, &second))
        return false;
    t->hour = (uint8_t)hour;
    t->minute = (uint8_t)minute;
    t->second = (uint8_t)second;
    if (!take(w, "."))
        return true;
    const char *fraction = w->at;
    uint32_t unit = 100000000;
    for (; w->at < w->end && is_digit(*w->at); w->at++, unit /= 10)
        t->nanosecond += unit * (uint32_t)(*w->at - '0');
    return w->at > fraction;
}

static bool take_offset(word *w, kn_toml_time *t) {
    if (take(w, "Zz"))
        return true;
    bool west = w->at < w->end && *w->at == '-';
    int hours = 0, minutes = 0;
    if (!take(w, "+-") || !take_number(w, 2, 0, 23, &hours) || !take(w, ":") || !take_number(w, 2, 0, 59, &minutes))
        return false;
    t->offset_minutes = (int16_t)((hours * 60 + minutes) * (west ? -1 : 1));
    return true;
}

static bool date_time(word w, kn_toml *ret) {
    ret->time = (kn_toml_time){ 0 };
    bool has_date = w.end - w.at > 4 && w.at[4] == '-';
    if (has_date && !take_date(&w, &ret->time))
        return false;
    if (has_date && w.at == w.end) {
        ret->kind = KN_TOML_LOCAL_DATE;
        return true;
    }
    if ((has_date && !take(&w, "Tt ")) || !take_time(&w, &ret->time))
        return false;
    ret->kind = has_date ? KN_TOML_LOCAL_DATE_TIME : KN_TOML_LOCAL_TIME;
    if (!has_date || w.at == w.end)
        return w.at == w.end;
    ret->kind = KN_TOML_OFFSET_DATE_TIME;
    return take_offset(&w, &ret->time) && w.at == w.end;
}

/* Numbers */

static int digit_value(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* One or more digits, with single underscores between digits only. */
static bool take_digits(word *w, int base) {
    const char *from = w->at;
    bool after_digit = false;
    for (; w->at < w->end; w->at++) {
        if (digit_value(*w->at) < base)
            after_digit = true;
        else if (*w->at == '_' && after_digit)
            after_digit = false;
        else
            break;
    }
    return w->at > from && after_digit;
}

static bool take_decimal(word *w) {
    word all = *w;
    return take_digits(w, 10) && (*all.at != '0' || w->at - all.at == 1);
}

/* w holds digits and underscores only. */
static bool integer(word w, int base, bool negative, kn_toml *ret, kn_error *err) {
    const char *from = w.at;
    int64_t v = 0;
    for (; w.at < w.end; w.at++) {
        if (*w.at == '_')
            continue;
        int64_t digit = digit_value(*w.at);
        if (KN_MUL_OVERFLOWS(v, (int64_t)base, &v) || KN_ADD_OVERFLOWS(v, negative ? -digit : digit, &v))
            return kn_fail(err, KN_E_RANGE, "the integer '%s' does not fit in 64 bits",
                           kn_quote(from, (size_t)(w.end - from)).text);
    }
    ret->kind = KN_TOML_INTEGER;
    ret->integer = v;
    return true;
}

/* w holds a decimal number of correct form. */
static bool real(word w, kn_toml *ret, kn_error *err) {
    KN_AUTO_BUF plain;
    kn_buf_init(&plain, (size_t)(w.end - w.at));
    if (!kn_buf_reserve(&plain, plain.limit))
        return kn_fail_nomem(err, plain.limit);
    for (const char *c = w.at; c < w.end; c++) {
        if (*c != '_' && !kn_buf_add(&plain, c, 1))
            return kn_fail_nomem(err, 1);
    }
    if (!kn_parse_double(plain.data, &ret->real))
        return kn_fail(err, KN_E_RANGE, "the number '%s' is too large", kn_quote(w.at, (size_t)(w.end - w.at)).text);
    ret->kind = KN_TOML_FLOAT;
    return true;
}

static int radix(word w) {
    if (w.end - w.at < 2 || *w.at != '0')
        return 10;
    switch (w.at[1]) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 10;
    }
}

static bool number(word w, kn_toml *ret, kn_error *err) {
    const word all = w;
    bool negative = w.at < w.end && *w.at == '-', has_sign = take(&w, "+-");
    if (is(w, "inf") || is(w, "nan")) {
        double v = is(w, "inf") ? INFINITY : NAN;
        ret->kind = KN_TOML_FLOAT;
        ret->real = negative ? -v : v;
        return true;
    }
    int base = radix(w);
    if (base != 10) {
        w.at += 2;
        word digits = w;
        if (!has_sign && take_digits(&w, base) && w.at == w.end)
            return integer(digits, base, false, ret, err);
    } else if (take_decimal(&w)) {
        if (w.at == w.end)
            return integer((word){ all.at + has_sign, all.end }, 10, negative, ret, err);
        bool ok = !take(&w, ".") || take_digits(&w, 10);
        if (ok && take(&w, "eE")) {
            take(&w, "+-");
            ok = take_digits(&w, 10);
        }
        if (ok && w.at == w.end)
            return real(all, ret, err);
    }
    return kn_fail(err, KN_E_FORMAT, "'%s' is no value; text must be in quotes",
                   kn_quote(all.at, (size_t)(all.end - all.at)).text);
}

bool kn_toml_scalar_read(const char *text, size_t len, kn_toml *ret, kn_error *err) {
    word w = { text, text + len };
    if (is(w, "true") || is(w, "false")) {
        ret->kind = KN_TOML_BOOLEAN;
        ret->boolean = is(w, "true");
        return true;
    }
    bool four = len > 4 && is_digit(text[0]) && is_digit(text[1]) && is_digit(text[2]) && is_digit(text[3]);
    if ((four && text[4] == '-') || (len > 2 && is_digit(text[0]) && is_digit(text[1]) && text[2] == ':')) {
        if (date_time(w, ret))
            return true;
        return kn_fail(err, KN_E_FORMAT, "'%s' is no valid date or time", kn_quote(text, len).text);
    }
    return number(w, ret, err);
}
