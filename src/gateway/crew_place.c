/* The way of a job: see crew.h. Each step begins something and names the step that follows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "gateway/crew_internal.h"

enum { ANSWER_BYTES = 64 << 10, EVICT_MS = 60 * 1000, GONE_LOOK_MS = 50, GONE_LOOKS = 200, LOOK_AGAIN_MS = 200 };

/* ---- the two ends ---- */

/* The loads that the job has failed with are not tried alone any more. */
static void leave_failure(kn_crew *p) {
    if (p->failure && p->failure->retry == KN_RETRY_UNDER_WAY)
        p->failure->retry = KN_RETRY_FAILED;
    p->failure = NULL;
}

void kn_crew_refuse(kn_crew *p, kn_job_refusal why) {
    kn_crew_job *j = p->job;
    leave_failure(p);
    p->job = NULL;
    p->member = NULL;
    j->refused(j, why);
}

static void note_use(kn_crew *p, kn_member *m) {
    size_t i = 0;
    while (i < m->used_count && strcmp(m->used[i].weights.text, p->weights.text) != 0)
        i++;
    if (i == KN_PLACE_LOADS)
        return;
    if (i == m->used_count)
        m->used[m->used_count++].weights = p->weights;
    m->used[i].at = ++p->turns;
}

void kn_crew_give(kn_crew *p) {
    kn_crew_job *j = p->job;
    leave_failure(p);
    note_use(p, p->member);
    j->placed(j, kn_worker_upstream(p->member->worker));
}

/* What the worker holds has been seen to be what it should be. */
static void give_verified(kn_crew *p) {
    kn_crew_note_verified(p, &p->job->digest);
    kn_crew_give(p);
}

static void member_is_reserved(kn_crew *p) {
    if (!p->marker_done)
        kn_crew_refuse(p, KN_JOB_STATE);
    else if (p->plan.kind == KN_PLACE_REUSE)
        give_verified(p);
    else
        kn_crew_load(p);
}

static void reserve(kn_crew *p, kn_member *m) {
    p->member = m;
    kn_crew_write_marker(p, m, true, member_is_reserved);
}

/* ---- evict ---- */

static void evict_next(kn_crew *p);
static void look_whether_gone(kn_crew *p);

static const kn_resident *victim_of(const kn_crew *p, kn_member **ret_member) {
    *ret_member = &p->members[p->plan.victims[p->victim].worker];
    const char *digest =
        p->scene.workers[p->plan.victims[p->victim].worker].loads[p->plan.victims[p->victim].load].what.digest;
    kn_digest d;
    memcpy(d.text, digest, sizeof d.text);
    return kn_member_find(*ret_member, &d);
}

static void listed_after_eviction(kn_crew *p) {
    kn_member *m = NULL;
    bool there = victim_of(p, &m) != NULL;
    if (there && p->looks++ < GONE_LOOKS) {
        kn_crew_after(p, GONE_LOOK_MS, look_whether_gone);
        return;
    }
    if (there) { /* it does not go by being asked to */
        kn_worker_fail(m->worker, "load_stays");
        p->victim = p->plan.victim_count;
    } else {
        p->victim++;
    }
    evict_next(p);
}

static void look_whether_gone(kn_crew *p) {
    kn_crew_list(p, listed_after_eviction);
}

static void eviction_answered(void *ctx, const kn_call_result *r) {
    kn_crew *p = ctx;
    (void)r; /* what counts is what is listed afterwards */
    p->load = NULL;
    look_whether_gone(p);
}

/* Whoever has made room is measured again before anything is put there. */
static void evict_next(kn_crew *p) {
    kn_member *m = NULL;
    while (p->victim < p->plan.victim_count) {
        const kn_resident *r = victim_of(p, &m);
        p->looks = 0;
        if (r && kn_resident_unload(r, kn_worker_upstream(m->worker), EVICT_MS, eviction_answered, p, &p->load))
            return;
        if (r)
            kn_worker_fail(m->worker, "load_stays");
        p->victim++;
    }
    kn_crew_settle(p, kn_crew_try);
}

/* ---- plan ---- */

static kn_job_refusal refusal_of(const kn_crew *p) {
    switch (p->plan.reason) {
    case KN_PLACE_UNKNOWN: return KN_JOB_UNKNOWN_MEMORY;
    case KN_PLACE_TOO_LARGE: return KN_JOB_TOO_LARGE;
    case KN_PLACE_TAKEN: return KN_JOB_MEMORY_TAKEN;
    default: return KN_JOB_NO_WORKER;
    }
}

static bool expires_soon(const kn_resident *r) {
    return r->expires_s && r->expires_s < kn_date_now() + KN_CREW_EXPIRES_S;
}

static bool somebody_comes_back(const kn_crew *p) {
    for (size_t i = 0; i < p->count; i++) {
        kn_worker_state state = kn_worker_state_of(p->members[i].worker);
        if ((state == KN_WORKER_RESTING || state == KN_WORKER_STARTING) && !p->members[i].excluded)
            return true;
    }
    return false;
}

/* There is no room even alone: another worker may have it. */
static void give_up_alone(kn_crew *p) {
    leave_failure(p);
    p->alone = false;
    p->member->excluded = true;
    kn_crew_try(p);
}

static void follow_plan(kn_crew *p) {
    bool waits =
        p->plan.reason == KN_PLACE_NO_WORKER && somebody_comes_back(p) && kn_loop_now_ms(p->loop) < p->wait_until_ms;
    switch (p->plan.kind) {
    case KN_PLACE_REUSE: {
        kn_member *m = &p->members[p->plan.worker];
        const kn_resident *r = kn_member_find(m, &p->weights);
        if (r && expires_soon(r))
            p->plan.kind = KN_PLACE_LOAD; /* which only has it stay */
        reserve(p, m);
        break;
    }
    case KN_PLACE_LOAD: reserve(p, &p->members[p->plan.worker]); break;
    case KN_PLACE_EVICT:
        if (p->rounds++ == KN_CREW_ROUNDS_MAX) {
            kn_crew_refuse(p, KN_JOB_MEMORY_TAKEN);
            break;
        }
        p->victim = 0;
        evict_next(p);
        break;
    case KN_PLACE_NOWHERE:
        if (waits)
            kn_crew_after(p, LOOK_AGAIN_MS, kn_crew_try);
        else if (p->alone)
            give_up_alone(p);
        else
            kn_crew_refuse(p, p->failed ? KN_JOB_LOAD_FAILED : refusal_of(p));
        break;
    }
}

static void plan_with_memory(kn_crew *p) {
    kn_crew_plan(p);
    follow_plan(p);
}

/* A load that is there is found without a look at the cards, which may take long. */
static void listed(kn_crew *p) {
    kn_crew_plan(p);
    if (p->plan.kind == KN_PLACE_REUSE)
        follow_plan(p);
    else
        kn_crew_measure(p, plan_with_memory);
}

static void list(kn_crew *p) {
    p->measured = false;
    kn_crew_list(p, listed);
}

void kn_crew_try(kn_crew *p) {
    for (size_t i = 0; i < p->count; i++) {
        kn_member *m = &p->members[i];
        if (kn_worker_state_of(m->worker) == KN_WORKER_STOPPED && !m->left_reserved && !m->excluded)
            kn_worker_start(m->worker);
    }
    kn_crew_settle(p, list);
}

void kn_crew_place(kn_crew *p, kn_crew_job *j) {
    kn_crew_note_weights(p, &j->digest, &j->facts.weights);
    p->job = j;
    p->weights = *kn_crew_weights(p, &j->digest);
    p->member = NULL;
    p->rounds = 0;
    p->alone = p->retried = p->failed = false;
    p->failure = NULL;
    p->wait_until_ms = kn_loop_now_ms(p->loop) + KN_CREW_WAIT_MS;
    for (size_t i = 0; i < p->count; i++)
        p->members[i].excluded = false;
    kn_crew_settle(p, kn_crew_try);
}

static void listed_for_holder(kn_crew *p) {
    for (size_t i = 0; i < p->count; i++) {
        if (!kn_crew_upstream(p, i) || !kn_member_find(&p->members[i], &p->weights))
            continue;
        reserve(p, &p->members[i]);
        return;
    }
    kn_crew_job *j = p->job;
    p->job = NULL;
    j->not_held(j);
}

static void list_for_holder(kn_crew *p) {
    kn_crew_list(p, listed_for_holder);
}

void kn_crew_place_at_holder(kn_crew *p, kn_crew_job *j) {
    p->job = j;
    p->weights = *kn_crew_weights(p, &j->digest);
    p->member = NULL;
    p->failure = NULL;
    p->plan = (kn_place_plan){ .kind = KN_PLACE_REUSE };
    kn_crew_settle(p, list_for_holder);
}

/* ---- load ---- */

static void measured_after_load(kn_crew *p) {
    kn_member *m = p->member;
    const kn_resident *r = kn_member_find(m, &p->weights);
    kn_footprint f = kn_member_footprint(p, m);
    const kn_gpu_bytes now = p->used[m->device];
    f.bytes = r ? r->vram_bytes : 0;
    if (now.known && p->used_before && now.bytes > p->used_before)
        f.bytes = KN_MAX(f.bytes, now.bytes - p->used_before);
    kn_learning_saw_load(&m->learning, &f);
    give_verified(p);
}

/* What is listed must be what was asked for, as it was asked for, wholly on the device. */
static void listed_after_load(kn_crew *p) {
    kn_member *m = p->member;
    const kn_resident *r = kn_member_find(m, &p->weights);
    kn_footprint f = kn_member_footprint(p, m);
    if (!m->listed) {
        kn_crew_load_failed(p, KN_FAILED_RUNTIME);
    } else if (!r || r->context_length != f.context_length || r->residency == KN_RESIDENT_UNKNOWN) {
        kn_crew_load_failed(p, KN_FAILED_VERIFICATION);
    } else if (!kn_member_holds_well(m, r)) {
        f.bytes = r->bytes;
        kn_learning_saw_load(&m->learning, &f);
        kn_crew_load_failed(p, m->config->backend == KN_BACKEND_CPU ? KN_FAILED_VERIFICATION : KN_FAILED_ESTIMATE);
    } else {
        if (p->failure && p->failure->retry == KN_RETRY_UNDER_WAY)
            p->failure->retry = KN_RETRY_SUCCEEDED;
        f.bytes = r->bytes;
        if (m->config->backend != KN_BACKEND_CPU && p->plan.alone) {
            kn_crew_measure(p, measured_after_load);
            return;
        }
        kn_learning_saw_load(&m->learning, &f);
        give_verified(p);
    }
}

static bool contains(kn_span text, const char *word) {
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= text.len; i++)
        if (kn_span_is_like((kn_span){ text.data + i, len }, word))
            return true;
    return false;
}

/* In the words of Ollama and of what it runs; the text itself is kept nowhere. */
static bool tells_of_memory(kn_span answer) {
    static const char *const words[] = { "out of memory",      "outofdevicememory",   "more system memory",
                                         "unable to allocate", "insufficient memory", "cudamalloc" };
    for (size_t i = 0; i < KN_COUNT(words); i++)
        if (contains(answer, words[i]))
            return true;
    return false;
}

static void load_answered(void *ctx, const kn_call_result *r) {
    kn_crew *p = ctx;
    p->load = NULL;
    p->measured = false;
    if (r->end == KN_CALL_ANSWERED && r->status == 200)
        kn_crew_list(p, listed_after_load);
    else if (r->end == KN_CALL_ANSWERED && r->status / 100 == 4)
        kn_crew_give(p); /* it will say to the client why it does not load this */
    else
        kn_crew_load_failed(p, r->end == KN_CALL_ANSWERED && tells_of_memory(r->body) ? KN_FAILED_CAPACITY
                                                                                      : KN_FAILED_RUNTIME);
}

/* As the request itself will have it loaded, but without a word of it. */
static char *load_body(const kn_crew *p) {
    const kn_wish *w = p->job->wish;
    json_t *body = json_pack("{s:s}", "model", w->model);
    if (body && w->context_length)
        json_object_set_new(body, "options", json_pack("{s:I}", "num_ctx", (json_int_t)w->context_length));
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

static void note_companions(kn_crew *p) {
    const kn_member *m = p->member;
    const kn_resident *same = kn_member_find(m, &p->weights);
    p->companion_count = 0;
    for (size_t i = 0; m->listed && i < m->residents.count && p->companion_count < KN_COMPANIONS_MAX; i++) {
        const kn_resident *r = &m->residents.items[i];
        if (r != same)
            p->companions[p->companion_count++] = (kn_companion){ r->digest, r->context_length };
    }
}

void kn_crew_load(kn_crew *p) {
    kn_member *m = p->member;
    note_companions(p);
    char *text = load_body(p);
    const kn_call_request request = { .method = "POST",
                                      .target = p->job->preload,
                                      .json = text,
                                      .answer_limit = ANSWER_BYTES,
                                      .within_ms = p->config->header_timeout_ms };
    p->used_before = p->measured && p->used[m->device].known ? p->used[m->device].bytes : 0;
    bool ok = text && kn_call_start(kn_worker_upstream(m->worker), &request, load_answered, p, &p->load, NULL);
    free(text);
    if (!ok)
        kn_crew_load_failed(p, KN_FAILED_RUNTIME);
}
