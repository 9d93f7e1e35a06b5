#include "compute/cpu/kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* The system gives tiles to processes that ask for them, which has to be before they start threads. */
static bool has_amx(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, BF16_TILE_INT8 = 1 << 22 | 1 << 24 | 1 << 25 };
    unsigned a, b, c, d = 0;
    return has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16_TILE_INT8) == BF16_TILE_INT8 &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static bool has_neon(void) { /* every processor of this architecture has it */
    return true;
}

static bool has_neondot(void) {
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}

static bool has_neonbf16(void) {
    const unsigned long both = HWCAP2_BF16 | HWCAP2_I8MM;
    return has_neondot() && (getauxval(AT_HWCAP2) & both) == both;
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
    { "amx", has_amx, kn_kernels_init_amx },
#elif defined(__aarch64__)
    { "neon", has_neon, kn_kernels_init_neon },
    { "neondot", has_neondot, kn_kernels_init_neondot },
    { "neonbf16", has_neonbf16, kn_kernels_init_neonbf16 },
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

/* ---- the choice ---- */

/* Operands of a small product, as float32 or narrower: the same bytes. */
enum { ROWS = 48, WORDS = 64 };

typedef struct probe {
    KN_ALIGNED(64) float rows[ROWS * KN_STRIDE], panel[WORDS * KN_MAX_COLUMNS], sums[ROWS * KN_MAX_COLUMNS];
} probe;

/* What one of several such products takes when nothing disturbs it. */
static double least_time(probe *p, kn_product_fn *product, size_t k, size_t columns) {
    enum { BURSTS = 12 };
    double least = 1;
    for (int burst = 0; burst < BURSTS; burst++) {
        double start = kn_now();
        product(p->rows, ROWS, k, p->panel, p->sums, KN_MAX_COLUMNS, columns, NULL, false);
        least = KN_MIN(least, kn_now() - start);
    }
    return least;
}

/* Some processors have instructions for narrower elements that are slower than those for float32. per_word: such
 * elements. */
static bool pays(const kn_kernels *k, kn_product_fn *product, size_t per_word, size_t columns) {
    probe p = { 0 };
    double words = least_time(&p, k->product, WORDS, k->columns) / (double)k->columns;
    double narrower = least_time(&p, product, per_word * WORDS, columns) / (double)(per_word * columns);
    if (k->leave)
        k->leave();
    return 1.25 * narrower < words;
}

static bool narrow_pays(const kn_kernels *k) {
    return pays(k, k->product_bf16, 2, KN_BF16_COLUMNS);
}

static bool int8_pays(const kn_kernels *k) {
    return pays(k, k->product_int8, 4 / k->int8_bytes, k->int8_columns);
}

/* The tier that KUNO_CPU names; -1 without it. */
static bool read_asked(int *ret, kn_error *err) {
    const char *asked = getenv("KUNO_CPU");
    KN_AUTO_BUF known;
    kn_buf_init(&known, 80);
    *ret = -1;
    if (!asked || !*asked)
        return true;
    for (int t = 0; t < (int)KN_COUNT(tiers); t++) {
        if (strcmp(asked, tiers[t].name) == 0) {
            *ret = t;
            return true;
        }
        if (!kn_buf_printf(&known, "%s%s", t ? ", " : "", tiers[t].name))
            return kn_fail_nomem(err, known.limit);
    }
    return kn_fail(err, KN_E_USAGE, "KUNO_CPU is '%s'; known are %s", kn_quote_z(asked).text, known.data);
}

/* The best of the first `count` tiers that is here. */
static int best_tier(int count) {
    int best = count - 1;
    while (!tiers[best].is_here())
        best--;
    return best;
}

/* Probed once per process, so that everything in it computes alike, and pictures are resized without a probe each. */
static kn_kernels fastest;
static pthread_once_t fastest_is_known = PTHREAD_ONCE_INIT;

static void find_fastest(void) {
    int best = best_tier(KN_COUNT(tiers));
    kn_kernels_init(&fastest, best);
    while (fastest.narrow && !narrow_pays(&fastest))
        kn_kernels_init(&fastest, --best);
    if (fastest.int8)
        fastest.int8 = int8_pays(&fastest);
}

bool kn_kernels_choose(kn_kernels *ret, kn_error *err) {
    int asked = -1;
    if (!read_asked(&asked, err))
        return false;
    if (asked >= 0) {
        kn_kernels_init(ret, best_tier(asked + 1));
        return true;
    }
    pthread_once(&fastest_is_known, find_fastest);
    *ret = fastest;
    return true;
}
