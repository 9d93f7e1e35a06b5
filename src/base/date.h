/* Dates as programs exchange them: RFC 3339 in UTC, "2026-11-29T19:05:39Z". */
#ifndef KN_BASE_DATE_H
#define KN_BASE_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kn_date {
    char text[32]; /* empty for a time that has no such date: the years are 0 to 9999 */
} kn_date;

#define KN_DATE_FIRST_S INT64_C(-62167219200)

/* Seconds since 1970, and milliseconds; before it they are negative. */
kn_date kn_date_of(int64_t seconds);
kn_date kn_date_of_ms(int64_t ms);
int64_t kn_date_now(void);

/* With any offset and any fraction of a second, which is dropped. */
bool kn_date_parse(const char *text, size_t len, int64_t *ret);

#endif
