/* What graphics cards a test pretends to have: a file that $KUNO_FAKE_GPU names, read again at every call, so that the
 * world can change while a program runs. One line each:
 *
 *     nvml uuid=GPU-… pci=0000:04:00.0 name=NAME total=B used=B reserved=B
 *     drm node=renderD128 driver=xe pci=0000:2d:00.0 vram=B used=B
 *     fail CALL CODE     an error code of NVML, or an error number for drm-version and xe-query
 *     hang CALL [MS]     so long, or for ever
 *
 * CALL is a function of NVML without "nvml", or drm-version or xe-query. */
#ifndef KN_TESTS_SCENARIO_H
#define KN_TESTS_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct scenario_row {
    char text[512];
} scenario_row;

/* The index-th line of this kind. */
bool scenario_find(const char *kind, unsigned index, scenario_row *ret);
unsigned scenario_count(const char *kind);

bool scenario_field(const scenario_row *row, const char *key, char *out, size_t room);
uint64_t scenario_number(const scenario_row *row, const char *key);

/* Waits if the call is to hang; returns the code it is to fail with, or 0. */
int scenario_gate(const char *call);

#endif
