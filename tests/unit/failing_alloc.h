/* Allocations that fail on request, for programs in the list failing_alloc_tests of meson.build: the linker sends their
 * malloc and its kin here (--wrap). Included by one file of a program. */
#ifndef KN_TESTS_FAILING_ALLOC_H
#define KN_TESTS_FAILING_ALLOC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

/* The allocation after so many more fails; negative: none does. */
static long alloc_fails_after = -1;
static bool alloc_has_failed;
static long alloc_live;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
void __wrap_free(void *p);

static bool alloc_may_go_on(void) {
    if (alloc_fails_after < 0 || alloc_fails_after-- > 0)
        return true;
    alloc_has_failed = true;
    return false;
}

static void *alloc_counted(void *p) {
    alloc_live += p != NULL;
    return p;
}

void *__wrap_malloc(size_t size) {
    return alloc_may_go_on() ? alloc_counted(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t n, size_t size) {
    return alloc_may_go_on() ? alloc_counted(__real_calloc(n, size)) : NULL;
}

void *__wrap_realloc(void *p, size_t size) {
    void *bigger = alloc_may_go_on() ? __real_realloc(p, size) : NULL;
    alloc_live += !p && bigger;
    return bigger;
}

char *__wrap_strdup(const char *text) {
    return alloc_may_go_on() ? alloc_counted(__real_strdup(text)) : NULL;
}

char *__wrap_strndup(const char *text, size_t len) {
    return alloc_may_go_on() ? alloc_counted(__real_strndup(text, len)) : NULL;
}

void __wrap_free(void *p) {
    alloc_live -= p != NULL;
    __real_free(p);
}

/* Calls attempt, which frees what it has made, first with its first allocation failing, then with its second, and so on
 * until it comes to its end (true). Every failure must become its error and leave nothing behind. It must have made
 * `least` to `most` allocations, which shows that they came through here. */
static void alloc_fail_each(bool (*attempt)(void *ctx, kn_error *err), void *ctx, long least, long most) {
    long before = alloc_live;
    for (long n = 0;; n++) {
        kn_error err = { 0 };
        alloc_has_failed = false;
        alloc_fails_after = n;
        bool done = attempt(ctx, &err);
        alloc_fails_after = -1;
        bool right = alloc_has_failed ? !done && err.code == KN_E_NOMEM && strstr(err.text, "out of memory")
                                      : done && err.code == KN_OK;
        if (!right)
            fail_msg("allocation %ld %s; then code %d, '%s'", n + 1, alloc_has_failed ? "failed" : "was not reached",
                     (int)err.code, err.text);
        assert_int_equal(alloc_live, before);
        if (done) {
            assert_in_range(n, least, most);
            return;
        }
    }
}

#endif
