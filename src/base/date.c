#include "base/date.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

kn_date kn_date_of(int64_t seconds) {
    kn_date d = { "" };
    struct tm t;
    time_t at = (time_t)seconds;
    char rest[20]; /* without the year, which strftime does not fill up */
    if (gmtime_r(&at, &t) && t.tm_year >= -1900 && t.tm_year <= 9999 - 1900 &&
        strftime(rest, sizeof rest, "-%m-%dT%H:%M:%SZ", &t))
        snprintf(d.text, sizeof d.text, "%04d%s", t.tm_year + 1900, rest);
    return d;
}

kn_date kn_date_of_ms(int64_t ms) {
    return kn_date_of(ms / 1000 - (ms % 1000 < 0));
}

int64_t kn_date_now(void) {
    return (int64_t)time(NULL);
}

/* Exactly so many digits at *at, which moves behind them; the number must be in the range. */
static bool digits(const char **at, const char *end, int count, int min, int max, int *ret) {
    int v = 0;
    if (end - *at < count)
        return false;
    for (int i = 0; i < count; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return false;
        v = v * 10 + (**at - '0');
    }
    *ret = v;
    return v >= min && v <= max;
}

static bool sign(const char **at, const char *end, char c) {
    if (*at == end || **at != c)
        return false;
    ++*at;
    return true;
}

/* "Z", or "+02:00" in seconds. */
static bool offset(const char **at, const char *end, int *ret) {
    int hours = 0, minutes = 0;
    *ret = 0;
    if (sign(at, end, 'Z'))
        return true;
    bool east = sign(at, end, '+');
    if ((!east && !sign(at, end, '-')) || !digits(at, end, 2, 0, 23, &hours) || !sign(at, end, ':') ||
        !digits(at, end, 2, 0, 59, &minutes))
        return false;
    *ret = (east ? 1 : -1) * (hours * 60 + minutes) * 60;
    return true;
}

bool kn_date_parse(const char *text, size_t len, int64_t *ret) {
    const char *at = text, *end = text + len;
    struct tm t = { 0 };
    int year = 0, month = 0, from_utc = 0;
    if (!digits(&at, end, 4, 0, 9999, &year) || !sign(&at, end, '-') || !digits(&at, end, 2, 1, 12, &month) ||
        !sign(&at, end, '-') || !digits(&at, end, 2, 1, 31, &t.tm_mday) || !sign(&at, end, 'T') ||
        !digits(&at, end, 2, 0, 23, &t.tm_hour) || !sign(&at, end, ':') || !digits(&at, end, 2, 0, 59, &t.tm_min) ||
        !sign(&at, end, ':') || !digits(&at, end, 2, 0, 60, &t.tm_sec))
        return false;
    if (sign(&at, end, '.')) {
        const char *from = at;
        while (at < end && *at >= '0' && *at <= '9')
            at++;
        if (at == from)
            return false;
    }
    if (!offset(&at, end, &from_utc) || at != end)
        return false;
    t.tm_year = year - 1900;
    t.tm_mon = month - 1;
    int64_t seconds = (int64_t)timegm(&t) - from_utc;
    if (!kn_date_of(seconds).text[0]) /* in UTC it is in another year, which cannot be written */
        return false;
    *ret = seconds;
    return true;
}
