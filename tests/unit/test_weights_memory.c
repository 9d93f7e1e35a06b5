/* Fails every allocation in turn. The linker sends malloc and its kin here (--wrap, see meson.build). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "weights/weights.h"

#include "safetensors_maker.h"

static bool counting;
static long allocations, failing, alive;

static bool refuses(void) {
    return counting && ++allocations == failing;
}

static void *counted(void *p) {
    alive += counting && p;
    return p;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *text);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *text);
void __wrap_free(void *p);

void *__wrap_malloc(size_t n) {
    return refuses() ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size) {
    return refuses() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n) {
    if (refuses())
        return NULL;
    alive -= counting && p;
    return counted(__real_realloc(p, n));
}

char *__wrap_strdup(const char *text) {
    return refuses() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *p) {
    alive -= counting && p;
    __real_free(p);
}

/* A file with all that allocates: metadata, the three markings of FP8, vectors and a convolution to convert. */
static void make_everything(kn_buf *file) {
    static const float half = 0.5f;
    static const char record[] = "{\"format\":\"float8_e4m3fn\"}";
    maker m;
    make_begin(&m);
    make_metadata(&m, "{\"_quantization_metadata\":\"{\\\"format_version\\\":\\\"1.0\\\",\\\"layers\\\":"
                      "{\\\"a\\\":{\\\"format\\\":\\\"float8_e4m3fn\\\"}}}\"}");
    make_zeros(&m, "net.a.weight", "F8_E4M3", "2, 2", 4);
    make_tensor(&m, "net.a.weight_scale", "F32", "", &half, 4);
    make_zeros(&m, "net.a.bias", "BF16", "2", 4);
    make_zeros(&m, "net.b.weight", "F8_E4M3", "2, 2", 4);
    make_tensor(&m, "net.b.scale_weight", "F32", "", &half, 4);
    make_tensor(&m, "net.b.comfy_quant", "U8", "26", record, sizeof record - 1);
    make_zeros(&m, "net.scaled_fp8", "F8_E4M3", "0", 0);
    make_zeros(&m, "net.c.weight", "F16", "2, 2, 3, 3", 72);
    make_zeros(&m, "net.norm", "F32", "4", 16);
    make_end(&m, file);
}

/* One whole life of a component. */
static bool load(const char *path, kn_error *err) {
    kn_weights *w = NULL;
    kn_binder *b = NULL;
    bool ok = kn_weights_open(path, &w, err) && kn_binder_new(w, "net.", false, &b, err);
    if (ok) {
        kn_take_matrix(b, 2, 2, "a");
        kn_take_matrix(b, 2, 2, "b");
        kn_take_conv(b, 2, 2, 3, 3, "c");
        kn_take_vector(b, 4, 1, "norm");
        ok = kn_binder_finish(b, err);
    }
    kn_binder_free(b);
    kn_weights_close(w);
    return ok;
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    KN_AUTO_BUF file;
    make_everything(&file);
    char path[TEMP_PATH];
    int fd = make_temp(&file, path);
    bool loaded = false;
    long n = 0;
    while (!loaded && n < 10000) {
        kn_error err = { 0 };
        failing = ++n;
        allocations = alive = 0;
        counting = true;
        loaded = load(path, &err);
        counting = false;
        assert_int_equal(alive, 0);
        if (loaded ? allocations >= n : err.code != KN_E_NOMEM || !strstr(err.text, "out of memory"))
            fail_msg("allocation %ld: code %d, '%s'", n, (int)err.code, err.text);
    }
    assert_true(loaded);
    assert_true(n > 12); /* the wrapping works */
    print_message("failed each of %ld allocations\n", n - 1);
    assert_int_equal(unlink(path), 0);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
