#include "gateway/learning.h"

#include <string.h>

#include "base/date.h"

const char *const kn_failure_class_names[KN_FAILED_COUNT] = {
    [KN_FAILED_CAPACITY] = "capacity",
    [KN_FAILED_ESTIMATE] = "estimate",
    [KN_FAILED_RUNTIME] = "runtime",
    [KN_FAILED_VERIFICATION] = "verification",
    [KN_FAILED_PRESSURE] = "external_pressure",
    [KN_FAILED_INCONCLUSIVE] = "inconclusive",
};

void kn_learning_saw_unloaded(kn_learning *l, kn_gpu_bytes used) {
    if (used.known && (!l->baseline.known || used.bytes < l->baseline.bytes))
        l->baseline = used;
}

/* ---- loads ---- */

static bool is_same(const kn_footprint *a, const kn_footprint *b) {
    return a->context_length == b->context_length && a->settings == b->settings &&
           strcmp(a->digest.text, b->digest.text) == 0;
}

static size_t find(const kn_learning *l, const kn_footprint *f) {
    size_t i = 0;
    while (i < l->footprint_count && !is_same(&l->footprints[i], f))
        i++;
    return i;
}

void kn_learning_saw_load(kn_learning *l, const kn_footprint *f) {
    size_t i = find(l, f);
    kn_footprint seen = *f;
    if (i < l->footprint_count)
        seen.bytes = KN_MAX(seen.bytes, l->footprints[i].bytes);
    else if (l->footprint_count < KN_FOOTPRINTS_MAX)
        l->footprint_count++;
    else
        i = KN_FOOTPRINTS_MAX - 1; /* the one that was used longest ago goes */
    memmove(&l->footprints[1], &l->footprints[0], i * sizeof l->footprints[0]);
    l->footprints[0] = seen;
}

uint64_t kn_learning_footprint(const kn_learning *l, const kn_footprint *f) {
    size_t i = find(l, f);
    return i < l->footprint_count ? l->footprints[i].bytes : 0;
}

/* ---- failures ---- */

kn_failure *kn_learning_add_failure(kn_learning *l) {
    if (l->failure_count == KN_FAILURES_MAX)
        memmove(&l->failures[0], &l->failures[1], --l->failure_count * sizeof l->failures[0]);
    kn_failure *f = &l->failures[l->failure_count++];
    *f = (kn_failure){ .at_s = kn_date_now() };
    return f;
}

bool kn_readings_add(kn_readings *r, kn_gpu_bytes used) {
    if (!used.known) {
        r->count = 0;
        return false;
    }
    uint64_t low = r->count ? KN_MIN(r->low, used.bytes) : used.bytes;
    uint64_t high = r->count ? KN_MAX(r->high, used.bytes) : used.bytes;
    bool rests = high - low <= KN_MEMORY_NOISE;
    r->count = rests ? r->count + 1 : 1;
    r->low = rests ? low : used.bytes;
    r->high = rests ? high : used.bytes;
    return r->count >= KN_STABLE_READINGS;
}

kn_failure_class kn_failure_judge(kn_gpu_bytes baseline, kn_failure_class suspected, kn_gpu_bytes after) {
    if (suspected != KN_FAILED_CAPACITY && suspected != KN_FAILED_ESTIMATE)
        return suspected;
    if (!after.known || !baseline.known)
        return KN_FAILED_INCONCLUSIVE;
    bool explained = after.bytes <= baseline.bytes || after.bytes - baseline.bytes <= KN_MEMORY_NOISE;
    return explained ? suspected : KN_FAILED_PRESSURE;
}

bool kn_failure_deserves_retry(const kn_failure *f) {
    return f->companion_count && (f->class == KN_FAILED_CAPACITY || f->class == KN_FAILED_ESTIMATE);
}

/* ---- as a document ---- */

static json_t *bytes_json(kn_gpu_bytes b) {
    return b.known ? json_integer((json_int_t)b.bytes) : json_null();
}

static json_t *failure_json(const kn_failure *f) {
    json_t *companions = json_array();
    for (size_t i = 0; i < f->companion_count; i++)
        json_array_append_new(companions, json_pack("{s:s, s:I}", "digest", f->companions[i].digest.text,
                                                    "context_length", (json_int_t)f->companions[i].context_length));
    bool decided = f->retry == KN_RETRY_FAILED || f->retry == KN_RETRY_SUCCEEDED;
    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:s, s:b, s:o}", "at", kn_date_of(f->at_s).text, "digest",
                     f->digest.text, "context_length", (json_int_t)f->context_length, "co_resident", companions,
                     "before_cleanup_bytes", bytes_json(f->before), "after_cleanup_bytes", bytes_json(f->after),
                     "class", kn_failure_class_names[f->class], "retried", f->retry != KN_RETRY_NONE, "retry_succeeded",
                     decided ? json_boolean(f->retry == KN_RETRY_SUCCEEDED) : json_null());
}

json_t *kn_learning_json(const kn_learning *l, const char *worker) {
    json_t *failures = json_array();
    for (size_t i = 0; i < l->failure_count; i++)
        json_array_append_new(failures, failure_json(&l->failures[i]));
    return json_pack("{s:s, s:o, s:b, s:o}", "worker", worker, "unloaded_baseline_bytes", bytes_json(l->baseline),
                     "baseline_provisional", true, "failures", failures);
}
