#include "compute/scratch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"

#if KN_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

enum { ALIGN = 64, GAP = KN_ASAN ? 64 : 0 };
static const uint64_t STEP = 16 << 20, UNBACKED_LIMIT = (uint64_t)1 << 40;

/* Where no system maps anything: addresses have up to 52 bits, or 57 if asked for, and ARM ignores the highest byte. */
static const uint64_t NOWHERE = (uint64_t)1 << 54;

typedef struct block {
    uint64_t at, bytes;
    int depth; /* of the scope that it belongs to; HOLE when nobody's */
} block;

enum { HOLE = -1 };

struct kn_scratch {
    uint8_t *base;
    uint64_t limit;  /* bytes from `base` */
    uint64_t usable; /* bytes from the start that may be touched */
    uint64_t peak;
    bool unbacked;
    int depth;
    block *blocks; /* by address, without gaps; the last one is never a hole */
    size_t count, room;
};

static uint64_t round_up(uint64_t n, uint64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static void close_memory(const kn_scratch *s, const void *at, uint64_t bytes) {
    if (!s->unbacked)
        ASAN_POISON_MEMORY_REGION(at, bytes);
}

static void open_memory(const kn_scratch *s, const void *at, uint64_t bytes) {
    if (!s->unbacked)
        ASAN_UNPOISON_MEMORY_REGION(at, bytes);
}

static void *reserve(uint64_t bytes) {
    return mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

bool kn_scratch_new(uint64_t limit_bytes, kn_scratch **ret, kn_error *err) {
    uint64_t limit = limit_bytes ? limit_bytes : (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (limit > UINT64_MAX / 2)
        return kn_fail_nomem(err, limit);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    limit = round_up(limit, page);
    kn_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return kn_fail_nomem(err, sizeof *s);
    void *base = reserve(limit);
    while (base == MAP_FAILED && limit > 2 * STEP) { /* a limit on the address space leaves less than there is memory */
        limit = round_up(limit / 2, page);
        base = reserve(limit);
    }
    if (base == MAP_FAILED) {
        free(s);
        return kn_fail(err, KN_E_NOMEM, "%llu bytes of scratch memory cannot be reserved: %s",
                       (unsigned long long)limit, strerror(errno));
    }
    madvise(base, limit, MADV_HUGEPAGE); /* a wish: large tensors then cost fewer page faults */
    s->base = base;
    s->limit = limit;
    *ret = s;
    return true;
}

bool kn_scratch_new_unbacked(kn_scratch **ret, kn_error *err) {
    kn_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return kn_fail_nomem(err, sizeof *s);
    s->base = (uint8_t *)(uintptr_t)NOWHERE;
    s->limit = UNBACKED_LIMIT;
    s->unbacked = true;
    *ret = s;
    return true;
}

void kn_scratch_free(kn_scratch *s) {
    if (!s)
        return;
    open_memory(s, s->base, s->usable);
    if (!s->unbacked)
        munmap(s->base, s->limit);
    free(s->blocks);
    free(s);
}

static uint64_t top(const kn_scratch *s) {
    return s->count ? s->blocks[s->count - 1].at + s->blocks[s->count - 1].bytes : 0;
}

static void remove_blocks(kn_scratch *s, size_t first, size_t n) {
    memmove(s->blocks + first, s->blocks + first + n, (s->count - first - n) * sizeof *s->blocks);
    s->count -= n;
}

static bool insert_block(kn_scratch *s, size_t i, block b, kn_error *err) {
    block *all = kn_array_grow(s->blocks, s->count, &s->room, sizeof *all, err);
    if (!all)
        return false;
    s->blocks = all;
    memmove(s->blocks + i + 1, s->blocks + i, (s->count - i) * sizeof *s->blocks);
    s->blocks[i] = b;
    s->count++;
    return true;
}

static size_t find_smallest_hole(const kn_scratch *s, uint64_t bytes) {
    size_t best = s->count;
    for (size_t i = 0; i < s->count; i++) {
        const block *b = &s->blocks[i];
        if (b->depth == HOLE && b->bytes >= bytes && (best == s->count || b->bytes < s->blocks[best].bytes))
            best = i;
    }
    return best;
}

static bool make_usable(kn_scratch *s, uint64_t end, kn_error *err) {
    if (end <= s->usable || s->unbacked)
        return true;
    uint64_t usable = KN_MIN(round_up(end, STEP), s->limit);
    if (mprotect(s->base + s->usable, usable - s->usable, PROT_READ | PROT_WRITE))
        return kn_fail(err, KN_E_NOMEM, "the system has no %llu more bytes of scratch memory: %s",
                       (unsigned long long)(usable - s->usable), strerror(errno));
    close_memory(s, s->base + s->usable, usable - s->usable);
    s->usable = usable;
    return true;
}

static bool append(kn_scratch *s, uint64_t bytes, kn_error *err) {
    uint64_t at = top(s);
    if (bytes > s->limit - at)
        return kn_fail(err, KN_E_NOMEM, "scratch memory: %llu bytes are needed, %llu of %llu are left",
                       (unsigned long long)bytes, (unsigned long long)(s->limit - at), (unsigned long long)s->limit);
    return make_usable(s, at + bytes, err) && insert_block(s, s->count, (block){ at, bytes, s->depth }, err);
}

void *kn_scratch_take(kn_scratch *s, uint64_t bytes, kn_error *err) {
    if (bytes > s->limit) {
        kn_fail(err, KN_E_NOMEM, "scratch memory: %llu bytes are needed, the limit is %llu", (unsigned long long)bytes,
                (unsigned long long)s->limit);
        return NULL;
    }
    uint64_t whole = round_up(KN_MAX(bytes, 1), ALIGN) + GAP;
    size_t i = find_smallest_hole(s, whole);
    if (i < s->count) {
        block hole = s->blocks[i];
        if (hole.bytes > whole && !insert_block(s, i + 1, (block){ hole.at + whole, hole.bytes - whole, HOLE }, err))
            return NULL;
        s->blocks[i] = (block){ hole.at, whole, s->depth };
    } else if (!append(s, whole, err)) {
        return NULL;
    }
    s->peak = KN_MAX(s->peak, top(s));
    uint8_t *at = s->base + s->blocks[i].at;
    open_memory(s, at, bytes);
    return at;
}

/* Index of the block that holds an address; count if none does. */
static size_t find_block(const kn_scratch *s, const void *address) {
    uint64_t at = (uint64_t)((uintptr_t)address - (uintptr_t)s->base);
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (s->blocks[mid].at + s->blocks[mid].bytes <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->count && s->blocks[low].at <= at && s->blocks[low].depth != HOLE ? low : s->count;
}

static void make_hole(kn_scratch *s, size_t i) {
    block *b = &s->blocks[i];
    close_memory(s, s->base + b->at, b->bytes);
    b->depth = HOLE;
    if (i + 1 < s->count && b[1].depth == HOLE) {
        b->bytes += b[1].bytes;
        remove_blocks(s, i + 1, 1);
    }
    if (i > 0 && s->blocks[i - 1].depth == HOLE) {
        s->blocks[i - 1].bytes += s->blocks[i].bytes;
        remove_blocks(s, i--, 1);
    }
    if (i + 1 == s->count)
        s->count--;
}

void kn_scratch_give(kn_scratch *s, const void *address) {
    size_t i = find_block(s, address);
    assert(i < s->count && s->base + s->blocks[i].at == address);
    make_hole(s, i);
}

int kn_scratch_open_scope(kn_scratch *s) {
    return ++s->depth;
}

void kn_scratch_close_scope(kn_scratch *s, int depth, const void *keep) {
    assert(depth > 0 && depth <= s->depth);
    size_t kept = keep ? find_block(s, keep) : s->count;
    if (kept < s->count)
        s->blocks[kept].depth = KN_MIN(s->blocks[kept].depth, depth - 1);
    for (size_t i = s->count; i-- > 0;)
        if (i < s->count && s->blocks[i].depth >= depth)
            make_hole(s, i);
    s->depth = depth - 1;
}

uint64_t kn_scratch_peak(kn_scratch *s) {
    uint64_t peak = s->peak;
    s->peak = top(s);
    return peak;
}
