#include "cli/fetch_progress.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

enum { LINES_A_FILE = 10 };

static const double redraw_seconds = 0.2; /* on a terminal */
static const double alive_seconds = 30;   /* elsewhere a line comes after a tenth of the file, or after so much time */

void kn_fetch_show_begin(kn_fetch_show *s, const char *name, bool quiet) {
    const char *kind = getenv("TERM");
    *s = (kn_fetch_show){
        .out = quiet ? NULL : stderr,
        .terminal = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0,
        .name = name,
        .state = KN_FETCH_CONNECTING,
        .shown = kn_now(),
    };
}

static void tell(kn_fetch_show *s, const kn_fetch_progress *p) {
    static const char *const words[] = { [KN_FETCH_CHECKING] = "checking",
                                         [KN_FETCH_CONNECTING] = "connecting",
                                         [KN_FETCH_RUNNING] = "fetching",
                                         [KN_FETCH_STALLED] = "stalled",
                                         [KN_FETCH_VERIFYING] = "checking" };
    fprintf(s->out, "%s: %s, %s of %s", s->name, words[p->state], kn_bytes(p->bytes_done).text,
            kn_bytes(p->bytes_total).text);
    if (p->state == KN_FETCH_RUNNING && p->bytes_per_second > 0)
        fprintf(s->out, ", %s/s, about %s left", kn_bytes((uint64_t)p->bytes_per_second).text,
                kn_duration_of((double)(p->bytes_total - p->bytes_done) / p->bytes_per_second).text);
}

void kn_fetch_show_progress(kn_fetch_show *s, const kn_fetch_progress *p) {
    if (!s->out)
        return;
    double since = kn_now() - s->shown;
    bool news = p->state != s->state && (p->state == KN_FETCH_STALLED || s->terminal);
    bool a_part = p->bytes_done >= s->shown_bytes + p->bytes_total / LINES_A_FILE;
    if (!news && since < (s->terminal ? redraw_seconds : alive_seconds) && (s->terminal || !a_part))
        return;
    fputs(s->terminal ? "\r\x1b[K" : "kuno: ", s->out);
    tell(s, p);
    fputs(s->terminal ? "" : "\n", s->out);
    fflush(s->out);
    s->state = p->state;
    s->shown = kn_now();
    s->shown_bytes = p->bytes_done;
}

void kn_fetch_show_end(kn_fetch_show *s) {
    if (s->out && s->terminal) {
        fputs("\r\x1b[K", s->out);
        fflush(s->out);
    }
}
