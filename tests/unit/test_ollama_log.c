/* What is understood of an Ollama's log, and which Ollama passes for the worker that was configured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "workers/ollama_judge.h"

#define TIME   "time=2026-11-29T22:01:12.874Z level=INFO source=types.go:60 "
#define LISTEN TIME "msg=\"Listening on 127.0.0.1:11501 (version 0.17.4)\"\n"
#define CPU                                                                                                            \
    TIME "msg=\"inference compute\" id=cpu library=cpu compute=\"\" name=cpu description=cpu libdirs=ollama "          \
         "driver=\"\" pci_id=\"\" type=\"\" total=\"23.5 GiB\" available=\"20.0 GiB\"\n"
#define CUDA(id, pci)                                                                                                  \
    TIME "msg=\"inference compute\" id=" id " filter_id=\"\" library=CUDA compute=8.6 name=CUDA0 description=\"A "     \
         "\\\"card\\\" = 1\" libdirs=ollama,cuda_v13 driver=13.0 pci_id=" pci " type=discrete total=\"12.0 GiB\"\n"
#define VULKAN(pci) TIME "msg=\"inference compute\" id=0 library=Vulkan name=Vulkan0 driver=0.0 pci_id=" pci "\n"
#define UUID        "GPU-11111111-2222-3333-4444-555555555555"
#define OTHER       "GPU-99999999-2222-3333-4444-555555555555"

static kn_worker_config config_of(kn_backend backend) {
    kn_worker_config c = { .backend = backend };
    assert_true(kn_address_parse("127.0.0.1:11501", &c.address, NULL));
    if (backend != KN_BACKEND_CPU)
        assert_true(kn_pci_parse("0000:04:00.0", 12, &c.pci));
    if (backend == KN_BACKEND_CUDA)
        snprintf(c.uuid, sizeof c.uuid, "%s", UUID);
    return c;
}

/* In pieces of `size` bytes. */
static kn_ollama_log read_in_pieces(const char *text, size_t size) {
    static kn_ollama_log l;
    kn_ollama_log_begin(&l);
    for (size_t at = 0, len = strlen(text); at < len; at += size)
        kn_ollama_log_feed(&l, (kn_span){ text + at, size < len - at ? size : len - at });
    return l;
}

static const struct row {
    const char *name, *log;
    kn_backend backend;
    const char *verdict; /* NULL: it is the worker */
} rows[] = {
    { "the processor", LISTEN CPU, KN_BACKEND_CPU, NULL },
    { "among other lines", "Generating new private key.\n[GIN-debug] msg=\"inference compute\" x=y\n" LISTEN "\n\n" CPU,
      KN_BACKEND_CPU, NULL },
    { "a card by PCI address and UUID", LISTEN CUDA(UUID, "0000:04:00.0"), KN_BACKEND_CUDA, NULL },
    { "a card that goes by its number", LISTEN CUDA("0", "0000:04:00.0"), KN_BACKEND_CUDA, NULL },
    { "a card of Vulkan", LISTEN VULKAN("0000:04:00.0"), KN_BACKEND_VULKAN, NULL },
    { "in another order", CPU LISTEN, KN_BACKEND_CPU, NULL },
    { "nothing", "", KN_BACKEND_CPU, "wrong_address" },
    { "a line that does not end", LISTEN "time=1 msg=\"inference compute\" library=cpu", KN_BACKEND_CPU,
      "no_device_told" },
    { "another port", TIME "msg=\"Listening on 127.0.0.1:11502 (version 1)\"\n" CPU, KN_BACKEND_CPU, "wrong_address" },
    { "all addresses", TIME "msg=\"Listening on [::]:11501 (version 1)\"\n" CPU, KN_BACKEND_CPU, "wrong_address" },
    { "an address that is none", TIME "msg=\"Listening on nowhere (version 1)\"\n" CPU, KN_BACKEND_CPU,
      "wrong_address" },
    { "no device", LISTEN, KN_BACKEND_CUDA, "no_device_told" },
    { "a second device", LISTEN CUDA(UUID, "0000:04:00.0") VULKAN("0000:04:00.0"), KN_BACKEND_CUDA, "several_devices" },
    { "a card where there should be none", LISTEN CUDA(UUID, "0000:04:00.0"), KN_BACKEND_CPU, "wrong_backend" },
    { "the processor instead of a card", LISTEN CPU, KN_BACKEND_CUDA, "wrong_backend" },
    { "a card by the wrong library", LISTEN VULKAN("0000:04:00.0"), KN_BACKEND_CUDA, "wrong_backend" },
    { "a card whose place is not told", LISTEN VULKAN("\"\""), KN_BACKEND_VULKAN, "no_place_told" },
    { "a place that is none", LISTEN VULKAN("0000:04:00"), KN_BACKEND_VULKAN, "no_place_told" },
    { "another place", LISTEN VULKAN("0000:2d:00.0"), KN_BACKEND_VULKAN, "wrong_device" },
    { "another UUID at that place", LISTEN CUDA(OTHER, "0000:04:00.0"), KN_BACKEND_CUDA, "wrong_uuid" },
};

static void takes_only_the_worker_that_was_configured(void **state) {
    (void)state;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const kn_worker_config c = config_of(rows[i].backend);
        for (size_t size = 1; size < 700; size += 37) {
            const kn_ollama_log l = read_in_pieces(rows[i].log, size);
            const char *verdict = kn_ollama_judge(&l, &c);
            if (!verdict || !rows[i].verdict ? verdict != rows[i].verdict : strcmp(verdict, rows[i].verdict) != 0)
                fail_msg("%s: %s", rows[i].name, verdict ? verdict : "is taken");
        }
    }
}

static void drops_lines_that_are_too_long(void **state) {
    (void)state;
    static char text[3 * KN_OLLAMA_LINE_MAX];
    memset(text, 'x', sizeof text);
    memcpy(text, "time=1 msg=\"", 12);
    snprintf(text + KN_OLLAMA_LINE_MAX + 1, 1000, "\n%s%s", LISTEN, CPU);
    const kn_ollama_log l = read_in_pieces(text, 1000);
    assert_true(l.listens);
    assert_int_equal(l.device_count, 1);
}

static void counts_devices_beyond_its_room(void **state) {
    (void)state;
    static kn_ollama_log l;
    kn_ollama_log_begin(&l);
    for (int i = 0; i < 3 * KN_OLLAMA_DEVICES_MAX; i++)
        kn_ollama_log_feed(&l, kn_span_of(CPU));
    assert_int_equal(l.device_count, 3 * KN_OLLAMA_DEVICES_MAX);
}

static void loads_differ_by_version_driver_and_place(void **state) {
    (void)state;
    kn_worker_config c = config_of(KN_BACKEND_CUDA);
    const kn_ollama_log one = read_in_pieces(LISTEN CUDA(UUID, "0000:04:00.0"), 99);
    kn_ollama_log other = one;
    assert_string_equal(one.version, "0.17.4");
    assert_true(kn_ollama_settings(&one, &c) == kn_ollama_settings(&other, &c));
    other.version[0] = '1';
    assert_true(kn_ollama_settings(&one, &c) != kn_ollama_settings(&other, &c));
    other = one;
    other.devices[0].driver[0] = '2';
    assert_true(kn_ollama_settings(&one, &c) != kn_ollama_settings(&other, &c));
    kn_worker_config elsewhere = c;
    elsewhere.pci.text[6]++;
    assert_true(kn_ollama_settings(&one, &c) != kn_ollama_settings(&one, &elsewhere));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_only_the_worker_that_was_configured),
        cmocka_unit_test(drops_lines_that_are_too_long),
        cmocka_unit_test(counts_devices_beyond_its_room),
        cmocka_unit_test(loads_differ_by_version_driver_and_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
