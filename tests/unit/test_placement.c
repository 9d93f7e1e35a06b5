/* Where a model is to run, from what is known alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/placement.h"

/* Scenes are written as text, in gigabytes:
 *
 *     d TOTAL FREE            a device; FREE "?": not known
 *     w DEVICE MAX [off]      a worker
 *     l WORKER NAME CONTEXT USED_AT BYTES[+BYTES] [busy] [odd]
 *                             a load; +BYTES: a share on the next device; odd: not verified
 *     n NAME CONTEXT ESTIMATE WORKSPACE [SEEN…]      what is needed; SEEN for each worker, 0: never
 *
 * and plans as "reuse W L", "load W [alone]", "evict W.L… touching DEVICES WORKERS" (bits), or a reason. */
enum { GB = 1 };

static void set_digest(char digest[65], const char *name) {
    snprintf(digest, 65, "%s", name);
}

static void read_load(kn_place_scene *s, const char *line) {
    char name[16], bytes[32], words[32] = "";
    unsigned w = 0;
    unsigned long long context = 0, used_at = 0, first = 0, second = 0;
    assert_true(sscanf(line, "l %u %15s %llu %llu %31s %31[a-z ]", &w, name, &context, &used_at, bytes, words) >= 5);
    kn_place_worker *worker = &s->workers[w];
    kn_place_load *load = &worker->loads[worker->load_count++];
    int shares = sscanf(bytes, "%llu+%llu", &first, &second);
    *load = (kn_place_load){ .what = { .context_length = context, .settings = worker->settings },
                             .verified = !strstr(words, "odd"),
                             .busy = strstr(words, "busy"),
                             .used_at = used_at,
                             .share_count = (size_t)shares };
    set_digest(load->what.digest, name);
    load->shares[0].device = worker->device;
    load->shares[0].bytes = first;
    load->shares[1].device = worker->device + 1;
    load->shares[1].bytes = second;
}

static void read_line(kn_place_scene *s, kn_place_need *need, const char *line) {
    char name[16], free[16], word[16] = "";
    unsigned long long total = 0, max = 0, context = 0, estimate = 0, workspace = 0, seen[4] = { 0 };
    unsigned device = 0;
    switch (line[0]) {
    case 'd':
        assert_int_equal(sscanf(line, "d %llu %15s", &total, free), 2);
        kn_place_device *d = &s->devices[s->device_count++];
        *d = (kn_place_device){ .known = free[0] != '?', .total = total };
        if (d->known)
            assert_int_equal(sscanf(free, "%llu", (unsigned long long *)&d->free), 1);
        break;
    case 'w':
        assert_true(sscanf(line, "w %u %llu %15s", &device, &max, word) >= 2);
        s->workers[s->worker_count++] =
            (kn_place_worker){ .available = !word[0], .device = device, .settings = 7, .max_loads = max };
        break;
    case 'l': read_load(s, line); break;
    case 'n':
        assert_true(sscanf(line, "n %15s %llu %llu %llu %llu %llu %llu", name, &context, &estimate, &workspace,
                           &seen[0], &seen[1], &seen[2]) >= 4);
        set_digest(need->digest, name);
        need->context_length = context;
        need->estimate = estimate;
        need->workspace = workspace;
        for (size_t i = 0; i < 3; i++)
            need->seen[i] = seen[i];
        break;
    default: fail_msg("'%s'", line);
    }
}

static void write_plan(const kn_place_plan *p, char *text, size_t room) {
    size_t len = 0;
    switch (p->kind) {
    case KN_PLACE_NOWHERE: snprintf(text, room, "%s", kn_place_reason_names[p->reason]); break;
    case KN_PLACE_REUSE: snprintf(text, room, "reuse %u %u", p->worker, p->load); break;
    case KN_PLACE_LOAD: snprintf(text, room, "load %u%s", p->worker, p->alone ? " alone" : ""); break;
    case KN_PLACE_EVICT:
        len = (size_t)snprintf(text, room, "evict");
        for (size_t i = 0; i < p->victim_count; i++)
            len += (size_t)snprintf(text + len, room - len, " %u.%u", p->victims[i].worker, p->victims[i].load);
        snprintf(text + len, room - len, " touching %x %x", p->devices, p->workers);
        break;
    }
}

typedef struct row {
    const char *what, *lines, *plan;
} row;

static void try_rows(const row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        kn_place_scene s = { .reserve = 1 * GB };
        kn_place_need need = { 0 };
        char lines[800], plan[400];
        snprintf(lines, sizeof lines, "%s", rows[i].lines);
        char *rest = lines;
        for (char *line; (line = strsep(&rest, ";"));)
            read_line(&s, &need, line + strspn(line, " "));
        kn_place_plan p = kn_place(&s, &need);
        write_plan(&p, plan, sizeof plan);
        if (strcmp(plan, rows[i].plan) != 0)
            fail_msg("%s:\n  %s\n  gives '%s', not '%s'", rows[i].what, rows[i].lines, plan, rows[i].plan);
    }
}

static void what_is_loaded_is_used_again(void **state) {
    (void)state;
    static const row rows[] = {
        { "the same", "d 12 2; w 0 8; l 0 a 4096 1 5; n a 4096 5 1 5", "reuse 0 0" },
        { "even where memory is not known", "d 12 ?; w 0 8; l 0 a 4096 1 5; n a 4096 5 1 5", "reuse 0 0" },
        { "the one used last", "d 12 2; d 12 2; w 0 8; w 1 8; l 0 a 4096 1 5; l 1 a 4096 2 5; n a 4096 5 1",
          "reuse 1 0" },
        { "not one of a worker that is off", "d 12 6; d 12 11; w 0 8 off; w 1 8; l 0 a 4096 9 5; n a 4096 5 1",
          "load 1 alone" },
        { "not with another context", "d 24 18; w 0 8; l 0 a 2048 1 5; n a 4096 6 1 6", "evict 0.0 touching 1 1" },
        { "not one that is not verified", "d 12 6; d 12 11; w 0 8; w 1 8; l 0 a 4096 9 5 odd; n a 4096 5 1",
          "load 1 alone" },
    };
    try_rows(rows, KN_COUNT(rows));
}

static void an_empty_card_comes_before_a_shared_one(void **state) {
    (void)state;
    static const row rows[] = {
        { "the only one", "d 12 11; w 0 8; n a 4096 5 1", "load 0 alone" },
        { "the empty one", "d 24 18; d 12 11; w 0 8; w 1 8; l 0 b 4096 1 5; n a 4096 5 1 5 5", "load 1" },
        { "the shared one where the empty one is too small",
          "d 24 18; d 6 5; w 0 8; w 1 8; l 0 b 4096 1 5; n a 4096 9 1 9 9", "load 0" },
        { "of two empty ones the freer", "d 12 10; d 12 11; w 0 8; w 1 8; n a 4096 5 1", "load 1 alone" },
        { "never seen: not beside another", "d 48 42; w 0 8; l 0 b 4096 1 5; n a 4096 5 1", "evict 0.0 touching 1 1" },
        { "seen: beside another", "d 48 42; w 0 8; l 0 b 4096 1 5; n a 4096 5 1 5", "load 0" },
        { "seen on one worker only", "d 48 42; d 48 42; w 0 8; w 1 8; l 0 b 4096 1 5; l 1 c 4096 1 5; n a 4096 5 1 0 5",
          "load 1" },
    };
    try_rows(rows, KN_COUNT(rows));
}

static void room_is_what_is_free_beyond_reserve_and_workspace(void **state) {
    (void)state;
    static const row rows[] = {
        { "just enough: 5 and 1 and the reserve of 1", "d 12 7; w 0 8; n a 4096 5 1", "load 0 alone" },
        { "not enough", "d 12 6; w 0 8; n a 4096 5 1", "memory_taken" },
        { "what was seen counts, not the estimate", "d 12 6; w 0 8; n a 4096 5 1 4", "load 0" },
        { "memory of strangers", "d 12 3; w 0 8; n a 4096 5 1", "memory_taken" },
        { "larger than the card", "d 12 11; w 0 8; n a 4096 11 1", "too_large" },
        { "unknown is no room", "d 12 ?; w 0 8; n a 4096 5 1", "unknown_memory" },
        { "nobody", "d 12 11; w 0 8 off; n a 4096 5 1", "no_worker" },
        { "sums that overflow", "d 12 11; w 0 8; n a 4096 18446744073709551615 1", "too_large" },
        { "another card of which more is known", "d 12 ?; d 12 11; w 0 8; w 1 8; n a 4096 5 1", "load 1 alone" },
    };
    try_rows(rows, KN_COUNT(rows));
}

static void idle_loads_make_room_the_oldest_first(void **state) {
    (void)state;
    static const row rows[] = {
        { "one is enough", "d 12 1; w 0 8; l 0 b 1 5 5; l 0 c 1 4 6; n a 1 4 1 4", "evict 0.1 touching 1 1" },
        { "two are needed", "d 12 1; w 0 8; l 0 b 1 5 5; l 0 c 1 4 4; n a 1 7 1 7", "evict 0.1 0.0 touching 1 1" },
        { "never seen: all must go", "d 12 1; w 0 8; l 0 b 1 5 5; l 0 c 1 4 4; n a 1 2 1",
          "evict 0.1 0.0 touching 1 1" },
        { "busy ones stay", "d 12 1; w 0 8; l 0 b 1 5 5; l 0 c 1 4 6 busy; n a 1 3 1 3", "evict 0.0 touching 1 1" },
        { "not enough without the busy one", "d 12 1; w 0 8; l 0 b 1 5 3; l 0 c 1 4 6 busy; n a 1 5 1 5",
          "memory_taken" },
        { "never seen beside a busy one", "d 24 13; w 0 8; l 0 b 1 5 10 busy; n a 1 5 1", "memory_taken" },
        { "unverified ones stay", "d 12 1; w 0 8; l 0 b 1 1 9 odd; n a 1 5 1 5", "memory_taken" },
        { "too many of them", "d 48 30; w 0 2; l 0 b 1 5 5; l 0 c 1 4 5; n a 1 5 1 5", "evict 0.1 touching 1 1" },
        { "the card whose youngest victim is the oldest",
          "d 12 1; d 12 1; w 0 8; w 1 8; l 0 b 1 9 10; l 1 c 1 3 10; n a 1 5 1 5 5", "evict 1.0 touching 2 2" },
        { "rather one old than two younger",
          "d 12 1; d 12 1; w 0 8; w 1 8; l 0 b 1 4 5; l 0 d 1 5 5; l 1 c 1 5 10; n a 1 8 1 8 8",
          "evict 1.0 touching 2 2" },
        { "no eviction where the card is too small",
          "d 4 0; d 12 0; w 0 8; w 1 8; l 0 b 1 1 4; l 1 c 1 9 11; n a 1 5 1 5 5", "evict 1.0 touching 2 2" },
        { "no eviction of what cannot help", "d 12 1; w 0 8; l 0 b 1 5 1; n a 1 9 1 9", "memory_taken" },
    };
    try_rows(rows, KN_COUNT(rows));
}

static void a_split_load_touches_all_its_cards(void **state) {
    (void)state;
    static const row rows[] = {
        { "its eviction touches both cards and both workers",
          "d 12 1; d 12 1; w 0 8; w 1 8; l 0 b 1 1 10+10; l 1 c 1 5 1; n a 1 8 1 8 8", "evict 0.0 touching 3 3" },
        { "it gives room on the other card, too",
          "d 12 0; d 12 1; w 0 8 off; w 1 8; w 0 8; l 2 b 1 1 4+10; n a 1 8 1 8 8", "evict 2.0 touching 3 7" },
        { "a busy one keeps both", "d 12 1; d 12 1; w 0 8; w 1 8; l 0 b 1 1 10+10 busy; n a 1 8 1 8 8",
          "memory_taken" },
        { "a card with a share of it is not empty", "d 12 6; d 12 6; w 0 8; w 1 8; l 0 b 1 1 5+5; n a 1 4 1",
          "evict 0.0 touching 3 3" },
    };
    try_rows(rows, KN_COUNT(rows));
}

static unsigned below(uint64_t *random, unsigned n) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (unsigned)((*random >> 20) % n);
}

/* Random scenes: whatever the plan, it keeps the promises that it makes. */
static void no_plan_breaks_its_promises(void **state) {
    (void)state;
    uint64_t random = 0x2545F4914F6CDD1D;
    size_t kinds[4] = { 0 };
    for (int round = 0; round < 20000; round++) {
#define BELOW(n) below(&random, n)
        kn_place_scene s = { .device_count = 3, .worker_count = 3, .reserve = 1 };
        kn_place_need need = { .context_length = 1 + BELOW(2), .estimate = 1 + BELOW(12), .workspace = BELOW(3) };
        set_digest(need.digest, "a");
        for (unsigned i = 0; i < 3; i++) {
            uint64_t total = 8 + BELOW(20);
            s.devices[i] = (kn_place_device){ .known = BELOW(6) != 0, .total = total, .free = BELOW((unsigned)total) };
            s.workers[i] = (kn_place_worker){ .available = BELOW(6) != 0, .device = i, .max_loads = 1 + BELOW(3) };
            need.seen[i] = BELOW(2) ? 1 + BELOW(10) : 0;
            for (unsigned k = BELOW(4); k > 0; k--) {
                kn_place_load *l = &s.workers[i].loads[s.workers[i].load_count++];
                char name[2] = { (char)('a' + BELOW(4)), 0 };
                *l = (kn_place_load){ .what.context_length = 1 + BELOW(2),
                                      .verified = BELOW(5) != 0,
                                      .busy = BELOW(5) == 0,
                                      .used_at = BELOW(100),
                                      .share_count = 1 };
                l->shares[0].device = i;
                l->shares[0].bytes = BELOW(9);
                set_digest(l->what.digest, name);
            }
        }
        kn_place_plan p = kn_place(&s, &need);
        const kn_place_worker *w = &s.workers[p.worker];
        const kn_place_device *d = &s.devices[w->device];
        uint64_t needed = (need.seen[p.worker] ? need.seen[p.worker] : need.estimate) + need.workspace + s.reserve;
        kinds[p.kind]++;
        if (p.kind != KN_PLACE_NOWHERE)
            assert_true(w->available);
        if (p.kind == KN_PLACE_LOAD) {
            assert_true(d->known && d->free >= needed && w->load_count < w->max_loads);
            assert_true(!p.alone || !w->load_count);
            for (size_t i = 0; i < w->load_count; i++)
                assert_string_not_equal(w->loads[i].what.digest, need.digest);
        }
        uint64_t freed = 0;
        for (size_t i = 0; i < p.victim_count; i++) {
            const kn_place_load *l = &s.workers[p.victims[i].worker].loads[p.victims[i].load];
            assert_true(l->verified && !l->busy && p.kind == KN_PLACE_EVICT);
            assert_true(p.devices >> l->shares[0].device & 1 && p.workers >> p.victims[i].worker & 1);
            freed += l->shares[0].bytes;
            for (size_t k = 0; k < i; k++)
                assert_false(p.victims[k].worker == p.victims[i].worker && p.victims[k].load == p.victims[i].load);
        }
        if (p.kind == KN_PLACE_EVICT)
            assert_true(p.victim_count && d->known && d->free + freed >= needed);
    }
    for (size_t i = 0; i < KN_COUNT(kinds); i++)
        assert_true(kinds[i] > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_loaded_is_used_again),
        cmocka_unit_test(an_empty_card_comes_before_a_shared_one),
        cmocka_unit_test(room_is_what_is_free_beyond_reserve_and_workspace),
        cmocka_unit_test(idle_loads_make_room_the_oldest_first),
        cmocka_unit_test(a_split_load_touches_all_its_cards),
        cmocka_unit_test(no_plan_breaks_its_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
