#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"

enum { BAR_COLUMNS = 20, LINE_COLUMNS = 70 };

static const double redraw_seconds = 0.05; /* on a terminal */
static const double line_seconds = 1;   /* elsewhere: the least between two lines, which also are a tenth apart … */
static const double alive_seconds = 30; /* … unless so much time has passed */

void kn_progress_init(kn_progress *p, bool quiet) {
    const char *kind = getenv("TERM");
    *p = (kn_progress){
        .out = quiet ? NULL : stderr,
        .terminal = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0,
        .now = kn_now,
    };
}

kn_duration kn_duration_of(double seconds) {
    kn_duration d;
    unsigned long whole = (unsigned long)seconds;
    if (seconds < 60)
        snprintf(d.text, sizeof d.text, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(d.text, sizeof d.text, "%lu min %02lu s", whole / 60, whole % 60);
    else
        snprintf(d.text, sizeof d.text, "%lu h %02lu min", whole / 3600, whole / 60 % 60);
    return d;
}

/* " 3/8, 1.2 s, about 2.0 s left": what is left is known from the steps of this run, or not said. */
static void tell_steps(const kn_progress *p, double elapsed) {
    if (p->steps)
        fprintf(p->out, " %u/%u", p->done, p->steps);
    fprintf(p->out, "%s %s", p->steps ? "," : "", kn_duration_of(elapsed).text);
    if (p->done && p->done < p->steps)
        fprintf(p->out, ", about %s left", kn_duration_of(elapsed / p->done * (p->steps - p->done)).text);
}

static bool has_room_for_bar(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= LINE_COLUMNS;
}

static void redraw(kn_progress *p, double now) {
    fprintf(p->out, "\r\x1b[K%s", p->phase->name);
    if (p->steps && has_room_for_bar()) {
        unsigned full = (unsigned)((unsigned long)BAR_COLUMNS * p->done / p->steps);
        fputs(" [", p->out);
        for (unsigned i = 0; i < BAR_COLUMNS; i++)
            fputc(i < full ? '#' : ' ', p->out);
        fputc(']', p->out);
    }
    tell_steps(p, now - p->began);
    fflush(p->out);
    p->drawn = now;
}

static void end_phase(kn_progress *p) {
    if (!p->phase)
        return;
    double elapsed = p->now() - p->began;
    p->phase->seconds += elapsed;
    p->phase->steps += p->done;
    if (!p->terminal) {
        fprintf(p->out, "kuno: %s:", p->phase->name);
        if (p->done)
            fprintf(p->out, " %u step%s,", p->done, p->done == 1 ? "" : "s");
        fprintf(p->out, " %s\n", kn_duration_of(elapsed).text);
    }
    p->phase = NULL;
}

static kn_progress_phase *phase_of_name(kn_progress *p, const char *name) {
    for (size_t i = 0; i < p->phase_count; i++) {
        if (strcmp(p->phases[i].name, name) == 0)
            return &p->phases[i];
    }
    if (p->phase_count == KN_PROGRESS_PHASES)
        return &p->phases[KN_PROGRESS_PHASES - 1];
    p->phases[p->phase_count].name = name;
    return &p->phases[p->phase_count++];
}

void kn_progress_begin(kn_progress *p, const char *phase, unsigned steps) {
    if (!p->out)
        return;
    end_phase(p);
    p->phase = phase_of_name(p, phase);
    p->steps = steps;
    p->done = p->shown = 0;
    p->began = p->drawn = p->now();
    if (p->terminal)
        redraw(p, p->began);
}

void kn_progress_step(kn_progress *p, unsigned done) {
    if (!p->out || !p->phase || done <= p->done)
        return;
    p->done = KN_MIN(done, p->steps);
    double now = p->now(), since = now - p->drawn;
    if (p->terminal) {
        if (since >= redraw_seconds || p->done == p->steps)
            redraw(p, now);
        return;
    }
    bool a_tenth = (p->done - p->shown) * 10ul >= p->steps;
    if (p->done < p->steps && ((since >= line_seconds && a_tenth) || since >= alive_seconds)) {
        fprintf(p->out, "kuno: %s:", p->phase->name);
        tell_steps(p, now - p->began);
        fputc('\n', p->out);
        p->drawn = now;
        p->shown = p->done;
    }
}

void kn_progress_end(kn_progress *p) {
    if (!p->out)
        return;
    end_phase(p);
    kn_progress_clear(p);
    if (!p->terminal || !p->phase_count)
        return;
    for (size_t i = 0; i < p->phase_count; i++) {
        const kn_progress_phase *done = &p->phases[i];
        fprintf(p->out, "%s%s %s", i ? ", " : "", done->name, kn_duration_of(done->seconds).text);
    }
    fputc('\n', p->out);
}

void kn_progress_clear(kn_progress *p) {
    if (p->out && p->terminal) {
        fputs("\r\x1b[K", p->out);
        fflush(p->out);
    }
}
