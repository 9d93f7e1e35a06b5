#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t random_state = 1;

uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

float random_float(void) { /* in [-1, 1) */
    return (float)(int32_t)random_bits() * 0x1p-31f;
}

size_t random_below(size_t n) {
    return random_bits() % n;
}

/* Small and odd sizes often, the whole range sometimes. */
size_t random_size(size_t most) {
    size_t n = random_bits() % 3 ? random_below(70) : random_below(most + 1);
    return KN_MIN(n, most);
}

struct now now;

void *allocate(size_t bytes) {
    void *p = malloc(bytes + !bytes);
    if (!p)
        abort();
    return p;
}

void fill_pair(pair *p, float size) {
    for (size_t i = 0; i < KN_COUNT(p->want); i++)
        p->want[i] = p->got[i] = size * random_float();
    p->shift = random_below(4);
}

float *want_of(pair *p) {
    return p->want + GUARD / 2 + p->shift;
}

float *got_of(pair *p) {
    return p->got + GUARD / 2 + p->shift;
}

void report(size_t n, ptrdiff_t at, double want, double got) {
    if (!now.failed)
        printf("  %s: n = %zu: element %td is %.9g, not %.9g\n", now.kernel, n, at, got, want);
    now.failed = true;
}

void compare(size_t n, size_t at, double want, double got, double allowed) {
    if (isnan(want) || isnan(got) || want == got) {
        if (!(isnan(want) && isnan(got)) && want != got)
            report(n, (ptrdiff_t)at, want, got);
        return;
    }
    now.worst = fmax(now.worst, fabs(want - got) / allowed);
    if (!(fabs(want - got) <= allowed))
        report(n, (ptrdiff_t)at, want, got);
}

/* The first n elements may differ by relative * max(|want|, floor), all others must not. */
void compare_pair(pair *p, size_t n, double relative, double floor) {
    size_t start = GUARD / 2 + p->shift;
    for (size_t i = 0; i < KN_COUNT(p->want); i++) {
        if (i >= start && i < start + n)
            compare(n, i - start, p->want[i], p->got[i], relative * fmax(fabs(p->want[i]), floor));
        else if (memcmp(&p->want[i], &p->got[i], sizeof p->want[i]) != 0)
            report(n, (ptrdiff_t)i - (ptrdiff_t)start, p->want[i], p->got[i]);
    }
}

void zip_panel(const kn_kernels *tier, void *panel, size_t columns, size_t words) {
    enum { WORD = 4, ROW = KN_BF16_COLUMNS * WORD };
    for (size_t i = 0; tier->zipped && i < words; i += 2)
        for (size_t j = 0; j < columns; j += 4) {
            uint8_t *at = (uint8_t *)panel + i * ROW + j * WORD, both[2][4][WORD];
            memcpy(both[0], at, sizeof both[0]);
            memcpy(both[1], at + ROW, sizeof both[1]);
            for (size_t column = 0; column < 4; column++)
                for (size_t word = 0; word < 2; word++)
                    memcpy(at + column / 2 * ROW + (column % 2 * 2 + word) * WORD, both[word][column], WORD);
        }
}

float input_a[MOST + 8], input_b[MOST + 8], input_c[MOST + 8];

const float *random_input(float *room, float size) {
    for (size_t i = 0; i < MOST + 8; i++)
        room[i] = size * random_float();
    return room + random_below(4);
}

pair out;
