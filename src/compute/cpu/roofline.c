#include "compute/cpu/roofline.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compute/cpu/device.h"
#include "compute/cpu/roofline_burst.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum {
    BURSTS = 4,                /* of which the best that nothing disturbed counts */
    MEMORY_BYTES = 256 << 20,  /* of all threads together */
    MEMORY_ALIGNMENT = 2 << 20 /* the largest page */
};

struct kn_roofline {
    kn_device *device;
    uint64_t *memory;
    double *best; /* of each thread's part, of the unit that is measured */
};

static bool always(void) {
    return true;
}

#if defined(__x86_64__)

CHAINS_OF(fma_avx2, KN_TARGET("avx2,fma") static, __m256, _mm256_setzero_ps(), 2 * 8,
          _mm256_fmadd_ps(x, _mm256_set1_ps(0.5f), _mm256_set1_ps(1)))
CHAINS_OF(fma_avx512, KN_TARGET("avx512f") static, __m512, _mm512_setzero_ps(), 2 * 16,
          _mm512_fmadd_ps(x, _mm512_set1_ps(0.5f), _mm512_set1_ps(1)))
CHAINS_OF(int8_avx2, KN_TARGET("avx2") static, __m256i, _mm256_setzero_si256(), 2 * 16,
          _mm256_add_epi32(_mm256_madd_epi16(x, _mm256_set1_epi16(3)), _mm256_set1_epi16(-3)))
CHAINS_OF(bf16_avx512, KN_TARGET("avx512f,avx512bf16") static, __m512, _mm512_setzero_ps(), 2 * 32,
          _mm512_dpbf16_ps(x, _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(-1)),
                           _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1))))
CHAINS_OF(int8_avx512, KN_TARGET("avx512f,avx512vnni") static, __m512i, _mm512_setzero_si512(), 2 * 64,
          _mm512_dpbusd_epi32(x, _mm512_set1_epi8(3), _mm512_set1_epi8(-3)))

/* Eight whole tiles: palette, then bytes per row at 16, rows at 48. As a static object, since gcc 12 does not see that
 * more than its first bytes are read. */
static const KN_ALIGNED(64) uint8_t tile_config[64] = {
    [0] = 1,   [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64, [26] = 64, [28] = 64, [30] = 64,
    [48] = 16, [49] = 16, [50] = 16, [51] = 16, [52] = 16, [53] = 16, [54] = 16, [55] = 16,
};

/* Of a product of 8-bit tiles; one of bfloat16 has half as many. */
enum { TILE_TURNS = TURNS / 4, TILE_OPERATIONS = 2 * 16 * 16 * 64 };

KN_TARGET("amx-tile") static void clear_tiles(void) {
    KN_USE_MEMORY(tile_config);
    _tile_loadconfig(tile_config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
}

KN_TARGET("amx-tile,amx-bf16") static double amx_bf16(uint64_t *slice, size_t n) {
    (void)slice, (void)n;
    clear_tiles();
    for (int turn = 0; turn < TILE_TURNS; turn++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return TILE_OPERATIONS / 2.0 * 4 * TILE_TURNS;
}

KN_TARGET("amx-tile,amx-int8") static double amx_int8(uint64_t *slice, size_t n) {
    (void)slice, (void)n;
    clear_tiles();
    for (int turn = 0; turn < TILE_TURNS; turn++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_release();
    return TILE_OPERATIONS * 4.0 * TILE_TURNS;
}

static bool has_bf16(void) {
    return __builtin_cpu_supports("avx512bf16");
}

static bool has_int8(void) {
    return __builtin_cpu_supports("avx512vnni");
}

/* The system gives tiles to processes that ask for them. */
static bool has_tiles(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, BF16_TILE_INT8 = 1 << 22 | 1 << 24 | 1 << 25 };
    unsigned a, b, c, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16_TILE_INT8) == BF16_TILE_INT8 &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

#elif defined(__aarch64__)

CHAINS_OF(fma_neon, static, float32x4_t, vdupq_n_f32(0), 2 * 4, vfmaq_f32(vdupq_n_f32(1), x, vdupq_n_f32(0.5f)))

#endif

static double read_memory(uint64_t *slice, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += slice[i];
    KN_USE_MEMORY(&sum);
    return 8.0 * (double)n;
}

static double update_memory(uint64_t *slice, size_t n) {
    for (size_t i = 0; i < n; i++)
        slice[i] += i;
    KN_USE_MEMORY(slice);
    return 16.0 * (double)n;
}

/* A later row takes the place of an earlier one of the same unit. */
static const struct source {
    kn_unit unit;
    const char *tier; /* the first one that has it */
    bool (*is_here)(void);
    kn_burst_fn *burst;
} sources[] = {
#if defined(__x86_64__)
    { KN_UNIT_FMA, "avx2", always, fma_avx2 },
    { KN_UNIT_INT8, "avx2", always, int8_avx2 },
    { KN_UNIT_FMA, "avx512", always, fma_avx512 },
    { KN_UNIT_BF16, "avx512bf16", has_bf16, bf16_avx512 },
    { KN_UNIT_INT8, "avx512vnni", has_int8, int8_avx512 },
    { KN_UNIT_AMX_BF16, "amx", has_tiles, amx_bf16 },
    { KN_UNIT_AMX_INT8, "amx", has_tiles, amx_int8 },
#elif defined(__aarch64__)
    { KN_UNIT_FMA, "neon", always, fma_neon },
    { KN_UNIT_INT8, "neondot", always, kn_burst_sdot },
    { KN_UNIT_BF16, "neonbf16", always, kn_burst_bfmmla },
    { KN_UNIT_INT8, "neonbf16", always, kn_burst_smmla },
#endif
    { KN_UNIT_READ, "reference", always, read_memory },
    { KN_UNIT_UPDATE, "reference", always, update_memory },
};

const char *kn_unit_name(kn_unit u) {
    static const char *const names[KN_UNIT_COUNT] = { "fma", "bf16", "int8", "amx_bf16", "amx_int8", "read", "update" };
    return names[u];
}

bool kn_unit_is_memory(kn_unit u) {
    return u == KN_UNIT_READ || u == KN_UNIT_UPDATE;
}

/* Its place among the tiers; unknown ones come after all others. */
static int tier_number(const char *name) {
    for (int t = 0; kn_tier_name(t); t++)
        if (strcmp(kn_tier_name(t), name) == 0)
            return t;
    return INT_MAX;
}

bool kn_roofline_open(kn_device *d, kn_roofline **ret, kn_error *err) {
    kn_roofline *l = calloc(1, sizeof *l);
    if (!l)
        return kn_fail_nomem(err, sizeof *l);
    l->device = d;
    l->best = calloc(kn_device_threads(d), sizeof *l->best);
    l->memory = aligned_alloc(MEMORY_ALIGNMENT, MEMORY_BYTES);
    if (!l->best || !l->memory) {
        kn_roofline_close(l);
        return kn_fail_nomem(err, MEMORY_BYTES);
    }
    memset(l->memory, 1, MEMORY_BYTES); /* pages that were never written are all the same one */
    *ret = l;
    return true;
}

void kn_roofline_close(kn_roofline *l) {
    if (!l)
        return;
    free(l->memory);
    free(l->best);
    free(l);
}

/* Where the processor was taken away within a burst, by others or by a host that runs this machine, nobody knows
 * exactly for how long: processor time then comes out too short as well as too long. */
double kn_burst_best(const kn_burst *bursts, size_t count) {
    const double undisturbed = 0.98; /* of the time by the clock; the rest is that of looking at clocks */
    double best = 0, best_undisturbed = 0;
    for (size_t i = 0; i < count; i++) {
        const kn_burst *b = &bursts[i];
        double rate = b->cpu_seconds > 0 ? b->done / b->cpu_seconds : 0;
        best = KN_MAX(best, rate);
        if (b->cpu_seconds >= undisturbed * b->seconds)
            best_undisturbed = KN_MAX(best_undisturbed, rate);
    }
    return best_undisturbed > 0 ? best_undisturbed : best;
}

struct burst {
    const kn_roofline *roofline;
    kn_burst_fn *make;
    size_t n; /* elements of each thread's slice */
};

static void measure_part(void *ctx, size_t part, unsigned thread) {
    (void)thread;
    const struct burst *b = ctx;
    kn_burst bursts[BURSTS];
    for (int i = 0; i < BURSTS; i++) {
        double start = kn_now(), cpu_start = kn_now_thread();
        bursts[i].done = b->make(b->roofline->memory + part * b->n, b->n);
        bursts[i].cpu_seconds = kn_now_thread() - cpu_start;
        bursts[i].seconds = kn_now() - start;
    }
    b->roofline->best[part] = kn_burst_best(bursts, BURSTS);
}

void kn_roofline_measure(kn_roofline *l, double per_second[KN_UNIT_COUNT]) {
    unsigned threads = kn_device_threads(l->device);
    double at_once = (double)KN_MIN(threads, kn_threads_available()) / threads; /* of the threads */
    int tier = tier_number(kn_device_kernels(l->device));
    for (int u = 0; u < KN_UNIT_COUNT; u++)
        per_second[u] = 0;
    for (size_t i = 0; i < KN_COUNT(sources); i++) {
        const struct source *s = &sources[i];
        if (tier < tier_number(s->tier) || !s->is_here() ||
            (s->unit == KN_UNIT_INT8 && !l->device->kernels.int8)) /* though an earlier tier uses it */
            continue;
        struct burst b = { l, s->burst, MEMORY_BYTES / sizeof *l->memory / threads };
        memset(l->best, 0, threads * sizeof *l->best);
        kn_pool_for(l->device->pool, threads, measure_part, &b);
        per_second[s->unit] = 0;
        for (unsigned t = 0; t < threads; t++)
            per_second[s->unit] += l->best[t] * at_once;
    }
}

void kn_roofline_measure_again(kn_roofline *l, double per_second[KN_UNIT_COUNT]) {
    double now[KN_UNIT_COUNT];
    kn_roofline_measure(l, now);
    for (int u = 0; u < KN_UNIT_COUNT; u++)
        per_second[u] = KN_MAX(per_second[u], now[u]);
}
