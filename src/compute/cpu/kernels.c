#include "compute/cpu/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_avx2(void) {
    unsigned a, b, c = 0, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           (c & bit_F16C);
}

/* __builtin_cpu_supports also asks whether the system saves the wide registers. */
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512vnni(void) {
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

static bool has_avx512bf16(void) {
    unsigned a, b, c, d;
    return has_avx512vnni() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 5); /* AVX512_BF16 */
}
#elif defined(__aarch64__)

static bool has_neon(void) { /* every processor of this architecture has it */
    return true;
}
#endif

static bool has_reference(void) {
    return true;
}

static const struct {
    const char *name;
    bool (*is_here)(void);
    void (*init)(kn_kernels *k);
} tiers[] = {
    { "reference", has_reference, kn_kernels_init_reference },
#if defined(__x86_64__)
    { "avx2", has_avx2, kn_kernels_init_avx2 },
    { "avx512", has_avx512, kn_kernels_init_avx512 },
    { "avx512vnni", has_avx512vnni, kn_kernels_init_avx512vnni },
    { "avx512bf16", has_avx512bf16, kn_kernels_init_avx512bf16 },
#elif defined(__aarch64__)
    { "neon", has_neon, kn_kernels_init_neon },
#endif
};

const char *kn_tier_name(int tier) {
    return tier < (int)KN_COUNT(tiers) ? tiers[tier].name : NULL;
}

bool kn_tier_is_here(int tier) {
    return tiers[tier].is_here();
}

void kn_kernels_init(kn_kernels *k, int tier) {
    for (int t = 0; t <= tier; t++)
        tiers[t].init(k);
}

/* The number of tiers that KUNO_CPU allows. */
static bool count_allowed(int *ret, kn_error *err) {
    const char *asked = getenv("KUNO_CPU");
    KN_AUTO_BUF known;
    kn_buf_init(&known, 80);
    *ret = (int)KN_COUNT(tiers);
    if (!asked || !*asked)
        return true;
    for (int t = 0; t < (int)KN_COUNT(tiers); t++) {
        if (strcmp(asked, tiers[t].name) == 0) {
            *ret = t + 1;
            return true;
        }
        if (!kn_buf_printf(&known, "%s%s", t ? ", " : "", tiers[t].name))
            return kn_fail_nomem(err, known.limit);
    }
    return kn_fail(err, KN_E_USAGE, "KUNO_CPU is '%s'; known are %s", kn_quote_z(asked).text, known.data);
}

bool kn_kernels_choose(kn_kernels *ret, kn_error *err) {
    int allowed = 0;
    if (!count_allowed(&allowed, err))
        return false;
    int best = allowed - 1;
    while (!tiers[best].is_here())
        best--;
    kn_kernels_init(ret, best);
    return true;
}
