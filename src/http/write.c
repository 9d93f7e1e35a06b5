#include "http/write.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/date.h"

void kn_write(kn_writer *w, const void *p, size_t n) {
    if (n > w->room - w->len) {
        w->full = true;
        return;
    }
    if (n)
        memcpy(w->data + w->len, p, n);
    w->len += n;
}

void kn_write_text(kn_writer *w, const char *text) {
    kn_write(w, text, strlen(text));
}

void kn_write_number(kn_writer *w, uint64_t n) {
    char digits[20]; /* of 2^64 - 1 */
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    kn_write(w, digits + at, sizeof digits - at);
}

void kn_write_host(kn_writer *w, const kn_address *a) {
    kn_write_text(w, a->storage.ss_family == AF_UNIX ? "localhost" : kn_address_print(a).text);
}

static bool is_passed_on(const kn_head *h, const kn_field *f, const kn_rewrite *how) {
    if (f->id == KN_FIELD_HOST)
        return !how->host;
    if (f->id == KN_FIELD_ORIGIN && how->drop_origin)
        return false;
    if (f->id == KN_FIELD_EXPECT)
        return !how->drop_expect;
    return !kn_field_is_hop_by_hop(h, f);
}

/* The lines that are passed on, as they came: neighbours in one piece. */
static void write_fields(kn_writer *w, const kn_head *h, const kn_rewrite *how) {
    uint32_t start = 0, end = 0;
    for (unsigned i = 0; i < h->field_count; i++) {
        const kn_field *f = &h->fields[i];
        if (!is_passed_on(h, f, how))
            continue;
        if (f->name != end) {
            kn_write(w, h->data + start, end - start);
            start = f->name;
        }
        end = i + 1 < h->field_count ? h->fields[i + 1].name : (uint32_t)h->len - 2;
    }
    kn_write(w, h->data + start, end - start);
    if (how->more_fields)
        kn_write_text(w, how->more_fields);
    if (how->chunked)
        kn_write_text(w, "Transfer-Encoding: chunked\r\n");
    if (how->close)
        kn_write_text(w, "Connection: close\r\n");
    else if (how->keep_alive)
        kn_write_text(w, "Connection: keep-alive\r\n");
    kn_write_text(w, "\r\n");
}

void kn_write_request(kn_writer *w, const kn_head *h, const kn_rewrite *how) {
    kn_write(w, h->method.data, h->method.len);
    kn_write_text(w, " ");
    kn_write(w, h->target.data, h->target.len);
    kn_write_text(w, " HTTP/1.1\r\n");
    if (how->host) {
        kn_write_text(w, "Host: ");
        kn_write_host(w, how->host);
        kn_write_text(w, "\r\n");
    }
    write_fields(w, h, how);
}

void kn_write_response(kn_writer *w, const kn_head *h, const kn_rewrite *how) {
    kn_write_text(w, "HTTP/1.1 ");
    kn_write_number(w, h->status);
    kn_write_text(w, " ");
    kn_write(w, h->reason.data, h->reason.len);
    kn_write_text(w, "\r\n");
    write_fields(w, h, how);
}

const char *kn_http_date(kn_http *h) {
    static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[][4] = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
    };
    uint64_t now = kn_loop_now_ms(h->loop);
    if (h->date[0] && now - h->date_ms < 1000)
        return h->date;
    time_t seconds = (time_t)kn_date_now();
    struct tm t;
    gmtime_r(&seconds, &t);
    snprintf(h->date, sizeof h->date, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[t.tm_wday], t.tm_mday,
             months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    h->date_ms = now;
    return h->date;
}
