/* What is told of graphics cards, by fakes of the drivers under the real code. Run thrice: with NVIDIA's library as it
 * is ("v2"), as it was before driver 510 ("v1"), and without it ("none"). */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "gpu/gpu.h"
#include "gpu/host.h"
#include "tree.h"

#define UUID "GPU-11111111-2222-3333-4444-555555555555"
#define NVML                                                                                                           \
    "nvml uuid=" UUID " pci=0000:04:00.0 name=Fake-RTX-3060 total=12884901888 used=1073741824 reserved=314572800\n"
#define XE     "drm node=renderD128 driver=xe pci=0000:2d:00.0 vram=34359738368 used=2147483648\n"
#define AMD    "drm node=renderD129 driver=amdgpu pci=0000:41:00.0 vram=17163091968 used=536870912\n"
#define VIRTIO "drm node=renderD130 driver=virtio_gpu pci=0000:00:02.0\n"
#define VGEM   "drm node=renderD131 driver=vgem pci=vgem bus=platform\n"

static char root[32], scenario_path[64];

static void set_scenario(const char *text) {
    FILE *f = fopen(scenario_path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/kuno-gpu-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(scenario_path, sizeof scenario_path, "%s/scenario", root);
    return setenv("KUNO_FAKE_GPU", scenario_path, 1);
}

static int remove_root(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", root, (char *)NULL);
        _exit(1);
    }
    return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static void observe(kn_gpu_report *r) {
    kn_gpu_probe *p = NULL;
    kn_error err = { 0 };
    assert_true(kn_gpu_probe_new(root, &p, &err));
    assert_int_equal(kn_gpu_probe_start(p, NULL, NULL), KN_GPU_STARTED);
    assert_true(kn_gpu_probe_wait(p, 10000));
    kn_gpu_probe_read(p, r);
    kn_gpu_probe_free(p);
}

static void observe_scenario(const char *text, kn_gpu_report *r) {
    set_scenario(text);
    tree_make(root);
    observe(r);
}

/* "0000:04:00.0 nvidia nvidia nvml_v2 ok total used free reserved", each number or "-". */
static void describe(const kn_gpu_device *d, kn_buf *into) {
    const kn_gpu_bytes numbers[] = { d->total, d->used, d->free, d->reserved };
    kn_buf_clear(into);
    assert_true(kn_buf_printf(into, "%s %s %s %s %s", d->pci.text, kn_gpu_vendor_names[d->vendor], d->driver,
                              kn_gpu_source_names[d->source], kn_gpu_observation_names[d->observation]));
    for (size_t i = 0; i < KN_COUNT(numbers); i++)
        assert_true(numbers[i].known ? kn_buf_printf(into, " %" PRIu64, numbers[i].bytes)
                                     : kn_buf_add_text(into, " -"));
}

static void expect_device(const kn_gpu_report *r, size_t i, const char *expected) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1000);
    assert_true(i < r->count);
    describe(&r->devices[i], &text);
    assert_string_equal(text.data, expected);
}

static void expect_problem(const kn_gpu_report *r, const char *probe, const char *code, const char *pci) {
    for (size_t i = 0; i < r->problem_count; i++) {
        const kn_gpu_problem *p = &r->problems[i];
        if (strcmp(p->probe, probe) == 0 && strcmp(p->code, code) == 0 && strcmp(p->pci.text, pci) == 0)
            return;
    }
    fail_msg("no problem %s %s '%s' among %zu", probe, code, pci, r->problem_count);
}

static void cards_are_listed_by_their_place(void **state) {
    (void)state;
    static kn_gpu_report r;
    observe_scenario(AMD XE VGEM VIRTIO, &r);
    assert_int_equal(r.count, 3); /* what is on no bus is no card */
    expect_device(&r, 0, "0000:00:02.0 other virtio_gpu none unsupported - - - -");
    expect_device(&r, 1, "0000:2d:00.0 intel xe drm_xe ok 34359738368 2147483648 32212254720 -");
    expect_device(&r, 2, "0000:41:00.0 amd amdgpu amdgpu_sysfs ok 17163091968 536870912 16626221056 -");
    expect_problem(&r, "drm", "unsupported_driver", "0000:00:02.0");
    assert_int_equal(r.problem_count, 1);
}

static void no_cards_are_no_problem(void **state) {
    (void)state;
    static kn_gpu_report r;
    set_scenario("");
    observe(&r);
    assert_int_equal(r.count, 0);
    assert_int_equal(r.problem_count, 0);
}

static void zero_used_is_not_free(void **state) {
    (void)state;
    static kn_gpu_report r;
    observe_scenario("drm node=renderD128 driver=xe pci=0000:2d:00.0 vram=34359738368 used=0\n", &r);
    expect_device(&r, 0, "0000:2d:00.0 intel xe drm_xe ambiguous_zero 34359738368 - - -");
    expect_problem(&r, "drm-xe", "restricted_counter", "0000:2d:00.0");
}

static void a_card_that_shares_memory_has_none_of_its_own(void **state) {
    (void)state;
    static kn_gpu_report r;
    observe_scenario("drm node=renderD128 driver=xe pci=0000:00:02.0\n", &r);
    expect_device(&r, 0, "0000:00:02.0 intel xe none unavailable - - - -");
    expect_problem(&r, "drm-xe", "shared_memory", "0000:00:02.0");
}

static void failures_have_a_reason_and_leave_others_alone(void **state) {
    (void)state;
    static const struct {
        int number;
        const char *code, *observation;
    } rows[] = {
        { EACCES, "permission_denied", "permission_denied" },
        { EPERM, "device_policy", "permission_denied" },
        { EINVAL, "unsupported_query", "unsupported" },
        { EIO, "device_wedged", "unavailable" },
        { ENODEV, "device_unplugged", "unavailable" },
        { ENXIO, "gone", "unavailable" },
        { ENOTTY, "failed", "unavailable" },
    };
    static kn_gpu_report r;
    set_scenario(XE AMD);
    tree_make(root);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char text[600], expected[200];
        snprintf(text, sizeof text, XE AMD "fail %s %d\n", i % 2 ? "drm-version" : "xe-query", rows[i].number);
        set_scenario(text);
        observe(&r);
        snprintf(expected, sizeof expected, "0000:2d:00.0 intel xe none %s - - - -", rows[i].observation);
        expect_device(&r, 0, expected);
        expect_problem(&r, "drm-xe", rows[i].code, "0000:2d:00.0");
        expect_device(&r, 1, "0000:41:00.0 amd amdgpu amdgpu_sysfs ok 17163091968 536870912 16626221056 -");
    }
}

static void answers_that_contradict_themselves_are_not_taken(void **state) {
    (void)state;
    static const char *const announced[] = { "7", "97", "66000", "8", "272" };
    static kn_gpu_report r;
    set_scenario(XE);
    tree_make(root);
    for (size_t i = 0; i < KN_COUNT(announced); i++) {
        char text[300];
        snprintf(text, sizeof text, "%.*s announced=%s\n", (int)strlen(XE) - 1, XE, announced[i]);
        set_scenario(text);
        observe(&r);
        assert_false(r.devices[0].total.known);
        assert_int_not_equal(r.devices[0].observation, KN_GPU_OK);
    }
    set_scenario("drm node=renderD128 driver=xe pci=0000:2d:00.0 vram=100 used=101\n");
    observe(&r);
    expect_problem(&r, "drm-xe", "inconsistent_answer", "0000:2d:00.0");
}

static void only_clean_numbers_are_numbers(void **state) {
    (void)state;
    static const struct {
        const char *total, *used, *code;
    } rows[] = {
        { "100\n", "101\n", "inconsistent_numbers" },
        { "0\n", "0\n", "inconsistent_numbers" },
        { "100\n", "", "unreadable" },
        { "100\n", "-1\n", "unreadable" },
        { "100\n", "0x10\n", "unreadable" },
        { "100\n", "10\n10\n", "unreadable" },
        { "100 \n", "10\n", "unreadable" },
        { "99999999999999999999\n", "10\n", "unreadable" },
    };
    static kn_gpu_report r;
    set_scenario(AMD);
    tree_make(root);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        tree_write(root, "sys/devices/bus0/0000:41:00.0/mem_info_vram_total", rows[i].total);
        tree_write(root, "sys/devices/bus0/0000:41:00.0/mem_info_vram_used", rows[i].used);
        observe(&r);
        expect_device(&r, 0, "0000:41:00.0 amd amdgpu none unavailable - - - -");
        expect_problem(&r, "amdgpu-sysfs", rows[i].code, "0000:41:00.0");
    }
    tree_write(root, "sys/devices/bus0/0000:41:00.0/mem_info_vram_total", "100\n");
    tree_write(root, "sys/devices/bus0/0000:41:00.0/mem_info_vram_used", "0\n");
    observe(&r);
    expect_device(&r, 0, "0000:41:00.0 amd amdgpu amdgpu_sysfs ok 100 0 100 -"); /* this driver's zero is one */
}

static void a_card_of_nvidias_without_its_library_is_named(void **state) {
    (void)state;
    static kn_gpu_report r;
    observe_scenario("drm node=renderD128 driver=nvidia pci=0000:04:00.0\n", &r);
    expect_device(&r, 0, "0000:04:00.0 nvidia nvidia none unavailable - - - -");
    expect_problem(&r, "nvml", "not_available", "0000:04:00.0");
}

/* Looks until that many problems are left: by then whoever does not hang has answered. */
static void read_until(kn_gpu_probe *p, kn_gpu_report *r, size_t problems) {
    kn_gpu_probe_read(p, r);
    for (int i = 0; i < 1000 && r->problem_count != problems; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        kn_gpu_probe_read(p, r);
    }
}

static void a_hanging_driver_costs_only_its_own_numbers(void **state) {
    (void)state;
    static kn_gpu_report r;
    kn_gpu_probe *p = NULL;
    kn_error err = { 0 };
    set_scenario(AMD "drm node=renderD140 driver=xe pci=0000:51:00.0 vram=100 used=1\nhang xe-query 3000\n");
    tree_make(root);
    assert_true(kn_gpu_probe_new(root, &p, &err));
    assert_int_equal(kn_gpu_probe_start(p, NULL, NULL), KN_GPU_STARTED);
    assert_false(kn_gpu_probe_wait(p, 150));
    double before = kn_now();
    assert_int_equal(kn_gpu_probe_start(p, NULL, NULL), KN_GPU_STARTED); /* the others, and nobody waits for it */
    assert_true(kn_gpu_probe_wait(p, 10000));
    kn_gpu_probe_read(p, &r);
    assert_true(kn_now() - before < 1);
    expect_device(&r, 0, "0000:41:00.0 amd amdgpu amdgpu_sysfs ok 17163091968 536870912 16626221056 -");
    expect_device(&r, 1, "0000:51:00.0 intel xe none timeout - - - -");
    expect_problem(&r, "drm-xe", "timeout", "");
    read_until(p, &r, 0);                                                /* it has come back */
    assert_int_equal(kn_gpu_probe_start(p, NULL, NULL), KN_GPU_STARTED); /* the slot is free again */
    assert_true(kn_gpu_probe_wait(p, 10000));
    kn_gpu_probe_free(p);
}

static void count_done(void *ctx) {
    ++*(int *)ctx;
}

static void nobody_waits_for_a_thread_that_hangs(void **state) {
    (void)state;
    static int done;
    kn_gpu_probe *p = NULL;
    kn_error err = { 0 };
    set_scenario(XE);
    tree_make(root);
    assert_true(kn_gpu_probe_new(root, &p, &err));
    assert_int_equal(kn_gpu_probe_start(p, count_done, &done), KN_GPU_STARTED);
    assert_true(kn_gpu_probe_wait(p, 10000));
    set_scenario(XE "hang drm-version 3000\n");
    assert_int_equal(kn_gpu_probe_start(p, count_done, &done), KN_GPU_STARTED);
    double before = kn_now();
    kn_gpu_probe_free(p);
    assert_true(kn_now() - before < 1);
    struct timespec longer = { 4, 0 };
    nanosleep(&longer, NULL);  /* the thread comes back, and frees what was left to it */
    assert_int_equal(done, 1); /* and calls nobody */
}

static void cards_come_and_go_between_probes(void **state) {
    (void)state;
    static kn_gpu_report r;
    observe_scenario(XE, &r);
    assert_int_equal(r.devices[0].observation, KN_GPU_OK);
    set_scenario("");
    observe(&r);
    assert_int_not_equal(r.devices[0].observation, KN_GPU_OK);
    char path[100];
    snprintf(path, sizeof path, "%s/sys/class/drm/renderD128", root);
    unlink(path);
    observe(&r);
    assert_int_equal(r.count, 0);
}

static void nvidia_v2_tells_reservations_apart(void **state) {
    (void)state;
    static kn_gpu_report r;
    observe_scenario(NVML XE, &r);
    expect_device(&r, 0, "0000:04:00.0 nvidia nvidia nvml_v2 ok 12884901888 1073741824 11496587264 314572800");
    assert_string_equal(r.devices[0].uuid, UUID);
    assert_string_equal(r.devices[0].name, "Fake-RTX-3060");
    assert_false(r.devices[0].used_includes_reserved);
    expect_device(&r, 1, "0000:2d:00.0 intel xe drm_xe ok 34359738368 2147483648 32212254720 -");
    assert_int_equal(r.problem_count, 0);
}

static void nvidia_v1_says_that_it_does_not(void **state) {
    (void)state;
    static kn_gpu_report r;
    observe_scenario(NVML, &r);
    expect_device(&r, 0, "0000:04:00.0 nvidia nvidia nvml_v1 ok 12884901888 1388314624 11496587264 -");
    assert_true(r.devices[0].used_includes_reserved);
}

static void nvidia_is_asked_again_only_where_that_helps(void **state) {
    (void)state;
    static const struct {
        int code;
        bool v1;
    } rows[] = { { 3, true }, { 13, true }, { 25, true }, { 15, false }, { 999, false }, { 1, false }, { 4, false } };
    static kn_gpu_report r;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char text[400];
        snprintf(text, sizeof text, NVML "fail DeviceGetMemoryInfo_v2 %d\n", rows[i].code);
        set_scenario(text);
        observe(&r);
        assert_int_equal(r.devices[0].source, rows[i].v1 ? KN_GPU_SOURCE_NVML_V1 : KN_GPU_SOURCE_NONE);
        assert_int_equal(r.devices[0].total.known, rows[i].v1);
        assert_string_equal(r.devices[0].uuid, UUID); /* a lost card keeps its identity */
    }
    set_scenario(NVML "fail DeviceGetMemoryInfo_v2 15\n");
    observe(&r);
    expect_problem(&r, "nvml", "gpu_is_lost", "0000:04:00.0");
    set_scenario(NVML "fail DeviceGetMemoryInfo_v2 3\nfail DeviceGetMemoryInfo 3\n");
    observe(&r);
    expect_device(&r, 0, "0000:04:00.0 nvidia nvidia none unavailable - - - -");
    expect_problem(&r, "nvml", "not_supported", "0000:04:00.0");
}

static void nvidia_may_be_out_of_order(void **state) {
    (void)state;
    static const struct {
        const char *call, *code;
        int number;
    } rows[] = {
        { "Init_v2", "driver_not_loaded", 9 },        { "Init_v2", "blocked_by_system", 17 },
        { "Init_v2", "library_mismatch", 18 },        { "DeviceGetCount_v2", "unknown_error", 999 },
        { "DeviceGetPciInfo_v3", "gpu_is_lost", 15 }, { "DeviceGetHandleByIndex_v2", "no_permission", 4 },
    };
    static kn_gpu_report r;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char text[400];
        snprintf(text, sizeof text, NVML "fail %s %d\n", rows[i].call, rows[i].number);
        set_scenario(text);
        observe(&r);
        assert_int_equal(r.count, 0);
        expect_problem(&r, "nvml", rows[i].code, "");
    }
    set_scenario("nvml uuid=" UUID " pci=0000:04:00.0 total=100 used=90 reserved=20\n");
    observe(&r);
    expect_problem(&r, "nvml", "inconsistent_numbers", "0000:04:00.0");
    assert_false(r.devices[0].total.known);
}

static void one_card_that_two_drivers_know_is_one(void **state) {
    (void)state;
    static kn_gpu_report r;
    observe_scenario(NVML "drm node=renderD128 driver=nvidia pci=0000:04:00.0\n", &r);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.devices[0].node, "renderD128");
    expect_device(&r, 0, "0000:04:00.0 nvidia nvidia nvml_v2 ok 12884901888 1073741824 11496587264 314572800");
    set_scenario(NVML "fail Init_v2 9\n");
    observe(&r);
    expect_device(&r, 0, "0000:04:00.0 nvidia nvidia none unavailable - - - -");
}

static void a_hang_in_the_library_leaves_what_came_before(void **state) {
    (void)state;
    static kn_gpu_report r;
    kn_gpu_probe *p = NULL;
    kn_error err = { 0 };
    set_scenario(NVML XE "hang DeviceGetMemoryInfo_v2 700\n");
    tree_make(root);
    assert_true(kn_gpu_probe_new(root, &p, &err));
    assert_int_equal(kn_gpu_probe_start(p, NULL, NULL), KN_GPU_STARTED);
    assert_false(kn_gpu_probe_wait(p, 200));
    kn_gpu_probe_read(p, &r);
    expect_problem(&r, "nvml", "timeout", "");
    expect_device(&r, 0, "0000:2d:00.0 intel xe drm_xe ok 34359738368 2147483648 32212254720 -");
    assert_true(kn_gpu_probe_wait(p, 10000));
    kn_gpu_probe_free(p);
}

static void a_hang_in_the_kernel_leaves_what_the_library_knows(void **state) {
    (void)state;
    static kn_gpu_report r;
    kn_gpu_probe *p = NULL;
    kn_error err = { 0 };
    set_scenario(NVML XE AMD "hang xe-query 4000\n");
    tree_make(root);
    assert_true(kn_gpu_probe_new(root, &p, &err));
    assert_int_equal(kn_gpu_probe_start(p, NULL, NULL), KN_GPU_STARTED);
    read_until(p, &r, 1);
    expect_problem(&r, "drm-xe", "timeout", "");
    expect_device(&r, 0, "0000:04:00.0 nvidia nvidia nvml_v2 ok 12884901888 1073741824 11496587264 314572800");
    expect_device(&r, 1, "0000:2d:00.0 intel xe none timeout - - - -");
    expect_device(&r, 2, "0000:41:00.0 amd amdgpu amdgpu_sysfs ok 17163091968 536870912 16626221056 -");

    set_scenario("nvml uuid=" UUID " pci=0000:04:00.0 total=1000 used=300 reserved=1\n" XE AMD);
    assert_int_equal(kn_gpu_probe_start(p, NULL, NULL), KN_GPU_STARTED); /* who has answered is asked again */
    assert_true(kn_gpu_probe_wait(p, 10000));                            /* and the other one not waited for */
    kn_gpu_probe_read(p, &r);
    expect_problem(&r, "drm-xe", "timeout", "");
    expect_device(&r, 0, "0000:04:00.0 nvidia nvidia nvml_v2 ok 1000 300 699 1");
    expect_device(&r, 1, "0000:2d:00.0 intel xe none timeout - - - -");

    read_until(p, &r, 0); /* it has come back */
    assert_int_equal(kn_gpu_probe_start(p, NULL, NULL), KN_GPU_STARTED);
    assert_true(kn_gpu_probe_wait(p, 10000));
    kn_gpu_probe_free(p);
}

static void the_machines_own_memory(void **state) {
    (void)state;
    kn_host_memory m = kn_host_memory_read(root);
    assert_true(m.total == 0 && m.available == 0 && m.limit == UINT64_MAX && m.swap); /* nothing is known: assume it */
    tree_write(root, "proc/meminfo",
               "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\nSwapTotal: 8 kB\n");
    m = kn_host_memory_read(root);
    assert_true(m.total == 1000 << 10 && m.available == 600 << 10 && m.limit == UINT64_MAX && m.swap);
    tree_write(root, "proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/kuno.service\n");
    tree_write(root, "sys/fs/cgroup/system.slice/kuno.service/memory.max", "max\n");
    tree_write(root, "sys/fs/cgroup/system.slice/memory.max", "4096\n");
    tree_write(root, "sys/fs/cgroup/system.slice/kuno.service/memory.swap.max", "0\n");
    m = kn_host_memory_read(root);
    assert_true(m.limit == 4096 && !m.swap);
    tree_write(root, "sys/fs/cgroup/system.slice/kuno.service/memory.max", "2048\n");
    tree_write(root, "sys/fs/cgroup/system.slice/kuno.service/memory.swap.max", "max\n");
    m = kn_host_memory_read(root);
    assert_true(m.limit == 2048 && m.swap);
    tree_write(root, "proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    600 kB\nSwapTotal: 0 kB\n");
    assert_false(kn_host_memory_read(root).swap);
}

int main(int argc, char **argv) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
    const struct CMUnitTest none[] = {
        TEST(cards_are_listed_by_their_place),
        TEST(no_cards_are_no_problem),
        TEST(zero_used_is_not_free),
        TEST(a_card_that_shares_memory_has_none_of_its_own),
        TEST(failures_have_a_reason_and_leave_others_alone),
        TEST(answers_that_contradict_themselves_are_not_taken),
        TEST(only_clean_numbers_are_numbers),
        TEST(a_card_of_nvidias_without_its_library_is_named),
        TEST(a_hanging_driver_costs_only_its_own_numbers),
        TEST(nobody_waits_for_a_thread_that_hangs),
        TEST(cards_come_and_go_between_probes),
        TEST(the_machines_own_memory),
    };
    const struct CMUnitTest v1[] = {
        TEST(nvidia_v1_says_that_it_does_not),
        TEST(nvidia_may_be_out_of_order),
    };
    const struct CMUnitTest v2[] = {
        TEST(nvidia_v2_tells_reservations_apart),
        TEST(nvidia_is_asked_again_only_where_that_helps),
        TEST(nvidia_may_be_out_of_order),
        TEST(one_card_that_two_drivers_know_is_one),
        TEST(a_hang_in_the_library_leaves_what_came_before),
        TEST(a_hang_in_the_kernel_leaves_what_the_library_knows),
    };
    const char *library = argc > 1 ? argv[1] : "none";
    if (strcmp(library, "v1") == 0)
        return cmocka_run_group_tests(v1, NULL, NULL);
    if (strcmp(library, "v2") == 0)
        return cmocka_run_group_tests(v2, NULL, NULL);
    return cmocka_run_group_tests(none, NULL, NULL);
}
