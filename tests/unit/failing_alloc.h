/* Allocations that fail on request, for programs linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free. Included by one file of a program. */
#ifndef KN_TESTS_FAILING_ALLOC_H
#define KN_TESTS_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* The allocation after so many more fails; negative: none does. */
static long alloc_fails_after = -1;
static bool alloc_has_failed;
static long alloc_live;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static bool alloc_may_go_on(void) {
    if (alloc_fails_after < 0 || alloc_fails_after-- > 0)
        return true;
    alloc_has_failed = true;
    return false;
}

void *__wrap_malloc(size_t size) {
    void *p = alloc_may_go_on() ? __real_malloc(size) : NULL;
    alloc_live += p != NULL;
    return p;
}

void *__wrap_calloc(size_t n, size_t size) {
    void *p = alloc_may_go_on() ? __real_calloc(n, size) : NULL;
    alloc_live += p != NULL;
    return p;
}

void *__wrap_realloc(void *p, size_t size) {
    void *bigger = alloc_may_go_on() ? __real_realloc(p, size) : NULL;
    alloc_live += !p && bigger;
    return bigger;
}

void __wrap_free(void *p) {
    alloc_live -= p != NULL;
    __real_free(p);
}

#endif
