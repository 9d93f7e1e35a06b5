/* What a finding does to a program of a build with a sanitizer, also where nobody tells it by the environment: image
 * workers are begun without one. It ends the program at once, by a status of its own: what only prints has proved
 * nothing, and what a worker prints nobody reads. The server tells its log how a worker has ended; tests/findings.py
 * looks for it there.
 *
 * TSAN_OPTIONS and its like (tests/meson.build) add to this. */
#define OPTIONS "halt_on_error=1:exitcode=66:allocator_may_return_null=1"
#define FOUND   __attribute__((visibility("default"))) /* by the sanitizer's library */

const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__ubsan_default_options(void);

FOUND const char *__asan_default_options(void) {
    return OPTIONS;
}

FOUND const char *__tsan_default_options(void) {
    return OPTIONS;
}

FOUND const char *__ubsan_default_options(void) {
    return OPTIONS ":print_stacktrace=1";
}
