/* One at a time, first come first served, and nobody while it is not certain that the last one has finished. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/admission.h"

enum { TIMEOUT = 1000 };

/* A gateway of nothing but admission. What happens is written down: "m" the marker is asked for, "c" its removal, "+n"
 * ticket n is granted, "-nX" it is refused for reason X, "~nX" it waits for X. */
typedef struct scene {
    kn_admission a;
    kn_ticket tickets[10];
    char log[512];
} scene;

static void log_text(scene *s, const char *text, const kn_ticket *t, const char *why) {
    size_t len = strlen(s->log);
    char number[8] = "";
    if (t)
        snprintf(number, sizeof number, "%d", (int)(t - s->tickets));
    snprintf(s->log + len, sizeof s->log - len, "%s%s%s ", text, number, why);
}

static void on_granted(void *ctx, kn_ticket *t) {
    log_text(ctx, "+", t, "");
}

static void on_refused(void *ctx, kn_ticket *t, kn_refusal why) {
    static const char *const names[KN_REFUSED_COUNT] = { "P", "S", "R", "F", "T", "M" };
    log_text(ctx, "-", t, names[why]);
}

static void on_waits(void *ctx, kn_ticket *t, kn_wait what_for) {
    static const char *const names[KN_WAITS] = { "T", "P", "R" };
    log_text(ctx, "~", t, names[what_for]);
}

static void on_mark(void *ctx) {
    log_text(ctx, "m", NULL, "");
}

static void on_clear(void *ctx) {
    log_text(ctx, "c", NULL, "");
}

static const kn_admission_hooks hooks = { on_granted, on_refused, on_waits, on_mark, on_clear };

/* What is done, one letter each, with a digit for the ticket or the hundreds of milliseconds:
 * e enter, E enter patiently, l leave, f finish, u finish uncertain, M marked, X not marked, C cleared, Y not cleared,
 * p pause, r resume, s stop, t the time is n * 100 */
static void play(const char *steps, size_t limit, const char *expected) {
    scene s = { 0 };
    uint64_t now = 0;
    kn_admission_init(&s.a, limit, TIMEOUT, &hooks, &s);
    for (const char *p = steps; *p; p++) {
        if (*p == ' ')
            continue;
        char what = *p;
        int n = strchr("eElfut", what) ? *++p - '0' : 0;
        kn_ticket *t = what == 't' ? NULL : &s.tickets[n];
        switch (what) {
        case 'e':
        case 'E':
            t->patient = what == 'E';
            kn_admission_enter(&s.a, t, KN_WORK_INFERENCE, now);
            break;
        case 'l': kn_admission_leave(&s.a, t); break;
        case 'f': kn_admission_finish(&s.a, t, true, now); break;
        case 'u': kn_admission_finish(&s.a, t, false, now); break;
        case 'M':
        case 'X': kn_admission_marked(&s.a, what == 'M', now); break;
        case 'C':
        case 'Y': kn_admission_cleared(&s.a, what == 'C', now); break;
        case 'p': kn_admission_pause(&s.a); break;
        case 'r': log_text(&s, kn_admission_resume(&s.a, now) ? "ok" : "no", NULL, ""); break;
        case 's': kn_admission_stop(&s.a); break;
        case 't':
            now = (uint64_t)n * 100;
            kn_admission_tick(&s.a, now);
            break;
        }
    }
    size_t len = strlen(s.log);
    if (len)
        s.log[len - 1] = 0;
    if (strcmp(s.log, expected) != 0)
        fail_msg("'%s'\n  gave '%s'\n  not  '%s'", steps, s.log, expected);
}

static void one_at_a_time_in_the_order_of_coming(void **state) {
    (void)state;
    play("e0 M e1 e2 f0 C M f1 C M f2 C", 9, "m +0 c m +1 c m +2 c");
    play("e0 e1 M e2 f0 e3 C M f1 C M f2 C M", 9, "m +0 c m +1 c m +2 c m +3");
}

static void nothing_is_sent_before_the_marker_is_there_or_while_it_goes(void **state) {
    (void)state;
    play("e0", 9, "m");
    play("e0 M", 9, "m +0");
    play("e0 M f0 e1", 9, "m +0 c");
    play("e0 M f0 e1 C", 9, "m +0 c m");
    play("e0 M f0 e1 C M", 9, "m +0 c m +1");
}

static void the_line_has_an_end(void **state) {
    (void)state;
    play("e0 e1 e2 e3", 2, "m -3F");
    play("e0 e1", 0, "m -1F");
    play("e0 e1 e2 l1 e3 e4", 2, "m -4F"); /* who leaves makes room */
}

static void waiting_has_an_end(void **state) {
    (void)state;
    play("e0 M t1 e1 t2 e2 t9 t:", 9, "m +0"); /* t: is 1000 ms */
    play("e0 M t1 e1 t2 e2 t: t; t<", 9, "m +0 -1T -2T");
    play("e0 M e1 t: f0 C", 9, "m +0 -1T c");
    scene s = { 0 };
    kn_admission_init(&s.a, 9, TIMEOUT, &hooks, &s);
    assert_true(kn_admission_next_ms(&s.a) == UINT64_MAX);
    kn_admission_enter(&s.a, &s.tickets[0], KN_WORK_IMAGE, 5);
    assert_true(kn_admission_next_ms(&s.a) == UINT64_MAX); /* who holds the lease waits no more */
    kn_admission_enter(&s.a, &s.tickets[1], KN_WORK_IMAGE, 7);
    assert_true(kn_admission_next_ms(&s.a) == 7 + TIMEOUT);
}

static void who_is_too_late_gets_no_turn(void **state) {
    (void)state;
    scene s = { 0 };
    kn_admission_init(&s.a, 9, TIMEOUT, &hooks, &s);
    for (int i = 0; i < 3; i++)
        kn_admission_enter(&s.a, &s.tickets[i], KN_WORK_INFERENCE, i == 2 ? 500 : 0);
    kn_admission_marked(&s.a, true, 1200);
    kn_admission_finish(&s.a, &s.tickets[0], true, 1200);
    kn_admission_cleared(&s.a, true, 1200); /* before any tick */
    assert_string_equal(s.log, "m +0 c -1T m ");
}

static void those_who_leave_are_forgotten(void **state) {
    (void)state;
    play("e0 M e1 e2 l1 f0 C M", 9, "m +0 c m +2");
    play("e0 M e1 e2 e3 l3 l1 f0 C M f2 C", 9, "m +0 c m +2 c");
    play("e0 l0 M C", 9, "m c"); /* while its marker was written: nothing was sent */
    play("e0 l0 e1 M C M", 9, "m c m +1");
    play("e0 l0 e1 X M", 9, "m m +1");
    play("e0 M l0 f0 C", 9, "m +0 c"); /* once granted it must finish */
}

static void what_is_not_certain_ends_everything(void **state) {
    (void)state;
    play("e0 M e1 e2 u0 e3 r", 9, "m +0 -1R -2R -3R no");
    play("e0 M p u0 r e1", 9, "m +0 no -1R");
    play("e0 M e1 f0 Y e2", 9, "m +0 c -1R -2R"); /* a marker that stays says the same */
}

static void a_marker_that_cannot_be_written_refuses_one(void **state) {
    (void)state;
    play("e0 e1 X M f1 C", 9, "m -0M m +1 c");
    play("e0 X e1 X", 9, "m -0M m -1M");
}

static void pausing_refuses_who_comes_and_lets_work_finish(void **state) {
    (void)state;
    play("e0 M p e1 f0 C e2 r e3 M", 9, "m +0 -1P c -2P ok m +3");
    play("e0 p M f0 C", 9, "m +0 c"); /* its turn had come */
    play("p p e0 r r e0 M", 9, "-0P ok ok m +0");
    play("s e0 p e1 r e2", 9, "-0S -1S ok -2S");
    play("e0 M e1 s e2 f0 C", 9, "m +0 -1S -2S c");
}

static void who_waits_keeps_the_place_through_a_pause(void **state) {
    (void)state;
    play("e0 M e1 e2 p e3 f0 C", 9, "m +0 -3P c"); /* nobody's turn comes */
    play("e0 M e1 e2 p e3 f0 C r M f1 C M", 9, "m +0 -3P c m ok +1 c m +2");
    play("e0 M e1 p r f0 C M", 9, "m +0 ok c m +1"); /* over before it mattered */
    play("e0 M e1 p l1 f0 C r", 9, "m +0 c ok");
    play("e0 M e1 p f0 C r r M", 9, "m +0 c m ok ok +1");
    play("e0 M e1 t5 e2 p t: f0 C t; r M", 9, "m +0 -1T c m ok +2"); /* waiting still has its end */
    play("e0 M e1 p s f0 C r", 9, "m +0 -1S c ok");
    play("e0 M e1 p u0 r", 9, "m +0 -1R no");
    play("e0 e1 p X r M", 9, "m -0M m ok +1");
}

static void a_patient_one_has_a_place_beside_those_of_the_line(void **state) {
    (void)state;
    play("e0 M e1 e2 E3 e4", 2, "m +0 ~3T -4F");
    play("e0 M E1 e2 e3 e4 f0 C M f1 C M f2 C M", 2, "m +0 ~1T -4F c m +1 c m +2 c m +3"); /* it takes nobody's */
    play("e0 M E1 e2", 0, "m +0 ~1T -2F");
    play("E0 M f0 C", 0, "m +0 c"); /* with nobody there it does not wait */
}

static void a_patient_one_has_its_turn_in_the_order_of_coming(void **state) {
    (void)state;
    play("e0 M e1 E2 e3 f0 C M f1 C M f2 C M", 9, "m +0 ~2T c m +1 c m +2 c m +3");
    /* Whoever comes as soon as there is room in a line that is full comes after it. */
    play("e0 M e1 E2 f0 C M e0 f1 C M f2 C M", 1, "m +0 ~2T c m +1 c m +2 c m +0");
    play("E0 M e1 f0 E0 C M f1 C M", 9, "m +0 c ~0T m +1 c m +0"); /* and the next picture after who waits by then */
}

static void a_patient_one_waits_for_as_long_as_it_takes(void **state) {
    (void)state;
    play("e0 M E1 e2 t: f0 C M", 9, "m +0 ~1T -2T c m +1");
    play("e0 M E1 t1 e2 t9 t: t; f0 C M", 9, "m +0 ~1T -2T c m +1");
    scene s = { 0 };
    kn_admission_init(&s.a, 9, TIMEOUT, &hooks, &s);
    s.tickets[1].patient = true;
    for (int i = 0; i < 3; i++)
        kn_admission_enter(&s.a, &s.tickets[i], KN_WORK_IMAGE, 5);
    assert_true(kn_admission_next_ms(&s.a) == 5 + TIMEOUT);
    kn_admission_leave(&s.a, &s.tickets[2]);
    assert_true(kn_admission_next_ms(&s.a) == UINT64_MAX);
    assert_int_equal(s.a.queued, 0);
    assert_int_equal(s.a.patient, 1);
    kn_admission_leave(&s.a, &s.tickets[1]);
    assert_int_equal(s.a.patient, 0);
}

static void a_patient_one_comes_and_stays_while_it_is_paused(void **state) {
    (void)state;
    play("p E0 e1 r M", 9, "~0P -1P ~0T m ok +0");
    play("e0 M E1 p p e2 f0 C r M", 9, "m +0 ~1T ~1P -2P c ~1T m ok +1");
    play("e0 M e1 E2 p f0 C r M f1 C M", 9, "m +0 ~2T ~2P c ~2T m ok +1 c m +2");
    play("p E0 l0 r e1 M", 9, "~0P ok m +1");
    play("p E0 s", 9, "~0P -0S");
    play("s E0", 9, "-0S");
    play("e0 M E1 s f0 C", 9, "m +0 ~1T -1S c");
}

static void a_patient_one_waits_while_recovery_is_required(void **state) {
    (void)state;
    play("e0 M E1 e2 u0 E3 e4 r", 9, "m +0 ~1T ~1R -2R ~3R -4R no");
    play("e0 M E1 f0 Y t: l1 s", 9, "m +0 ~1T c ~1R");
    play("e0 M p E1 u0 r s", 9, "m +0 ~1P ~1R no -1S");
}

static void activity_lasts_until_the_marker_is_gone(void **state) {
    (void)state;
    scene s = { 0 };
    kn_ticket *t = &s.tickets[0];
    kn_admission_init(&s.a, 9, TIMEOUT, &hooks, &s);
    assert_false(kn_admission_is_active(&s.a));
    kn_admission_enter(&s.a, t, KN_WORK_CATALOG, 42);
    assert_true(kn_admission_is_active(&s.a));
    assert_int_equal(s.a.work, KN_WORK_CATALOG);
    assert_int_equal(s.a.since_ms, 42);
    kn_admission_marked(&s.a, true, 43);
    kn_admission_finish(&s.a, t, true, 44);
    assert_true(kn_admission_is_active(&s.a));
    kn_admission_cleared(&s.a, true, 45);
    assert_false(kn_admission_is_active(&s.a));
    kn_admission_enter(&s.a, t, KN_WORK_CATALOG, 50);
    kn_admission_marked(&s.a, true, 51);
    kn_admission_finish(&s.a, t, false, 52);
    assert_false(kn_admission_is_active(&s.a)); /* nobody's, but the marker stays: see recovery_required */
    assert_true(s.a.recovery_required);
}

/* Two hundred clients that come and go as they like, a disk that is slow and sometimes fails, an owner who pauses. What
 * must hold is checked from outside, by what the hooks say and by the marker as the disk has it. */
enum { CLIENTS = 200, PATIENT = 2 };

typedef struct crowd {
    kn_admission a;
    kn_ticket tickets[CLIENTS]; /* the first ones are patient */
    enum { AWAY, WAITING, WORKING } where[CLIENTS];
    uint64_t turn[CLIENTS], turns, last_turn; /* in which order they came */
    int working;                              /* which one; -1: none */
    bool marker, mark_wanted, clear_wanted;
    unsigned granted, refused[KN_REFUSED_COUNT];
} crowd;

static uint64_t random_state;

static unsigned random_below(unsigned n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 33) % n);
}

static void crowd_granted(void *ctx, kn_ticket *t) {
    crowd *c = ctx;
    int i = (int)(t - c->tickets);
    assert_int_equal(c->working, -1); /* never two */
    assert_true(c->marker);
    assert_int_equal(c->where[i], WAITING);
    assert_true(c->turn[i] > c->last_turn); /* never before somebody who came earlier */
    c->last_turn = c->turn[i];
    c->where[i] = WORKING;
    c->working = i;
    c->granted++;
}

static void crowd_refused(void *ctx, kn_ticket *t, kn_refusal why) {
    crowd *c = ctx;
    int i = (int)(t - c->tickets);
    assert_int_equal(c->where[i], WAITING);
    assert_true(i >= PATIENT || why == KN_REFUSED_STATE);
    c->where[i] = AWAY;
    c->refused[why]++;
}

static void crowd_waits(void *ctx, kn_ticket *t, kn_wait what_for) {
    const crowd *c = ctx;
    int i = (int)(t - c->tickets);
    assert_true(i < PATIENT);
    assert_int_equal(c->where[i], WAITING);
    assert_int_equal(what_for, c->a.paused ? KN_WAITS_FOR_RESUME : KN_WAITS_FOR_TURN);
}

static void crowd_mark(void *ctx) {
    crowd *c = ctx;
    assert_false(c->mark_wanted || c->clear_wanted || c->marker);
    assert_false(c->a.paused);
    c->mark_wanted = true;
}

static void crowd_clear(void *ctx) {
    crowd *c = ctx;
    assert_false(c->mark_wanted || c->clear_wanted);
    assert_true(c->marker);
    assert_int_equal(c->working, -1);
    c->clear_wanted = true;
}

static const kn_admission_hooks crowd_hooks = { crowd_granted, crowd_refused, crowd_waits, crowd_mark, crowd_clear };

static void client_acts(crowd *c, int i, uint64_t now) {
    switch (c->where[i]) {
    case AWAY:
        c->where[i] = WAITING;
        c->turn[i] = ++c->turns;
        c->tickets[i].patient = i < PATIENT;
        kn_admission_enter(&c->a, &c->tickets[i], (kn_work)random_below(KN_WORK_COUNT), now);
        break;
    case WAITING:
        if (random_below(3))
            break;
        c->where[i] = AWAY;
        kn_admission_leave(&c->a, &c->tickets[i]);
        break;
    case WORKING:
        c->where[i] = AWAY;
        c->working = -1;
        kn_admission_finish(&c->a, &c->tickets[i], true, now);
        break;
    }
}

static void disk_acts(crowd *c, uint64_t now) {
    if (c->mark_wanted) {
        c->mark_wanted = false;
        c->marker = random_below(20) != 0;
        kn_admission_marked(&c->a, c->marker, now);
    } else if (c->clear_wanted) {
        c->clear_wanted = c->marker = false;
        kn_admission_cleared(&c->a, true, now);
    }
}

static void owner_acts(crowd *c, uint64_t now) {
    if (random_below(2))
        kn_admission_pause(&c->a);
    else
        assert_true(kn_admission_resume(&c->a, now));
}

static void a_crowd_never_has_two_at_work(void **state) {
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        crowd c = { .working = -1 };
        uint64_t now = 0;
        random_state = seed * 0x9E3779B97F4A7C15u;
        kn_admission_init(&c.a, 1 + seed * 10, 50 + seed, &crowd_hooks, &c);
        for (int step = 0; step < 50000; step++) {
            unsigned what = random_below(1000);
            if (what < 2)
                owner_acts(&c, now);
            else if (what < 400)
                disk_acts(&c, now);
            else if (what < 700 || c.working < 0)
                client_acts(&c, (int)random_below(CLIENTS), now);
            else
                client_acts(&c, c.working, now);
            now += random_below(3) == 0;
            kn_admission_tick(&c.a, now);
            size_t waiting = 0;
            for (int i = 0; i < CLIENTS; i++)
                waiting += c.where[i] == WAITING;
            size_t next = c.a.lease == KN_LEASE_MARKING && c.a.holder != NULL;
            assert_int_equal(waiting, c.a.queued + c.a.patient + next); /* nobody is lost */
            assert_true(c.a.queued <= c.a.queue_limit && c.a.patient <= PATIENT);
        }
        /* Everybody goes home, and so does the marker. */
        for (int i = 0; i < CLIENTS; i++) {
            if (c.where[i] == WAITING) {
                c.where[i] = AWAY;
                kn_admission_leave(&c.a, &c.tickets[i]);
            }
        }
        if (c.working >= 0)
            client_acts(&c, c.working, now);
        disk_acts(&c, now);
        disk_acts(&c, now);
        assert_false(c.marker || kn_admission_is_active(&c.a));
        assert_true(c.granted > 1000 && c.refused[KN_REFUSED_PAUSED] &&
                    c.refused[KN_REFUSED_QUEUE_FULL] + c.refused[KN_REFUSED_QUEUE_TIMEOUT]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time_in_the_order_of_coming),
        cmocka_unit_test(nothing_is_sent_before_the_marker_is_there_or_while_it_goes),
        cmocka_unit_test(the_line_has_an_end),
        cmocka_unit_test(waiting_has_an_end),
        cmocka_unit_test(who_is_too_late_gets_no_turn),
        cmocka_unit_test(those_who_leave_are_forgotten),
        cmocka_unit_test(what_is_not_certain_ends_everything),
        cmocka_unit_test(a_marker_that_cannot_be_written_refuses_one),
        cmocka_unit_test(pausing_refuses_who_comes_and_lets_work_finish),
        cmocka_unit_test(who_waits_keeps_the_place_through_a_pause),
        cmocka_unit_test(a_patient_one_has_a_place_beside_those_of_the_line),
        cmocka_unit_test(a_patient_one_has_its_turn_in_the_order_of_coming),
        cmocka_unit_test(a_patient_one_waits_for_as_long_as_it_takes),
        cmocka_unit_test(a_patient_one_comes_and_stays_while_it_is_paused),
        cmocka_unit_test(a_patient_one_waits_while_recovery_is_required),
        cmocka_unit_test(activity_lasts_until_the_marker_is_gone),
        cmocka_unit_test(a_crowd_never_has_two_at_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
