#include "studio/speed.h"

#include <math.h>

/* So many samples weigh the same; older ones fade. */
enum { SAMPLES_WEIGHED = 8 };

kn_speed kn_speed_after(kn_speed before, double units, double seconds) {
    if (!(units > 0) || !(seconds > 0) || !isfinite(units) || !isfinite(seconds))
        return before;
    double weight = (double)KN_MIN(before.samples, (int64_t)SAMPLES_WEIGHED - 1);
    return (kn_speed){ .ratio = (before.ratio * weight + seconds / units) / (weight + 1),
                       .samples = before.samples + 1 };
}

bool kn_speed_find(kn_store *s, const kn_speed_key *key, kn_speed *ret, kn_error *err) {
    *ret = (kn_speed){ 0 };
    kn_query r =
        kn_query_open(s, err, "SELECT ratio, samples FROM speed WHERE engine = ? AND device = ? AND memory_mode = ?",
                      "ttt", key->engine, key->device, key->memory_mode);
    if (kn_query_next(&r))
        *ret = (kn_speed){ .ratio = kn_query_real(&r, 0), .samples = kn_query_int(&r, 1) };
    return kn_query_close(&r);
}

bool kn_speed_learn(kn_store *s, const kn_speed_key *key, double units, double seconds, kn_error *err) {
    kn_speed before;
    if (!kn_speed_find(s, key, &before, err))
        return false;
    kn_speed after = kn_speed_after(before, units, seconds);
    return after.samples == before.samples ||
           kn_store_do(s, err, NULL, "INSERT OR REPLACE INTO speed VALUES (?, ?, ?, ?, ?)", "tttdi", key->engine,
                       key->device, key->memory_mode, after.ratio, after.samples);
}

bool kn_speed_list(kn_store *s, json_t *into, kn_error *err) {
    kn_query r =
        kn_query_open(s, err, "SELECT engine, device, memory_mode, ratio, samples FROM speed ORDER BY 1, 2, 3", "");
    while (kn_query_next(&r))
        json_array_append_new(into, json_pack("{s:s, s:s, s:s, s:f, s:I}", "engine", kn_query_text(&r, 0), "device",
                                              kn_query_text(&r, 1), "memory_mode", kn_query_text(&r, 2), "ratio",
                                              kn_query_real(&r, 3), "samples", (json_int_t)kn_query_int(&r, 4)));
    return kn_query_close(&r);
}
