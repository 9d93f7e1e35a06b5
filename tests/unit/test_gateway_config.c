/* config.json: what is served, and what is refused with its place in the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "gateway/config.h"
#include "gateway/room.h"

static bool read_text(const char *text, kn_config *ret, kn_error *err) {
    *err = (kn_error){ 0 };
    return kn_config_read(text, strlen(text), ret, err);
}

#define UUID "GPU-11111111-2222-3333-4444-555555555555"
#define CUDA                                                                                                           \
    "{\"executable\": \"/usr/bin/ollama\", \"models\": \"/m\", \"home\": \"/h0\", \"address\": \"127.0.0.1:11501\", "  \
    "\"max_loaded_models\": 8, \"context_length\": 4096, \"device\": {\"backend\": \"cuda\", \"uuid\": \"" UUID        \
    "\", \"pci_address\": \"0000:04:00.0\"}}"
#define VULKAN                                                                                                         \
    "{\"executable\": \"/usr/bin/ollama\", \"models\": \"/m\", \"home\": \"/h1\", \"address\": \"127.0.0.1:11502\", "  \
    "\"max_loaded_models\": 2, \"context_length\": 2048, \"device\": {\"backend\": \"vulkan\", \"index\": 1, "         \
    "\"pci_address\": \"0000:2d:00.0\"}}"
#define CPU                                                                                                            \
    "{\"executable\": \"/usr/bin/ollama\", \"models\": \"/m\", \"home\": \"/h2\", \"address\": \"[::1]:11503\", "      \
    "\"max_loaded_models\": 1, \"context_length\": 512, \"device\": {\"backend\": \"cpu\"}}"
#define MANAGED(workers) "{\"state_dir\": \"/s\", \"managed\": {\"workers\": [" workers "]}}"

static void a_state_directory_is_all_that_must_be_said(void **state) {
    (void)state;
    kn_config c;
    kn_error err;
    assert_true(read_text("{\"state_dir\": \"/var/lib/kuno\"}", &c, &err));
    assert_string_equal(kn_address_print(&c.listen).text, "127.0.0.1:11433");
    assert_string_equal(kn_address_print(&c.upstream).text, "127.0.0.1:11434");
    assert_string_equal(kn_address_print(&c.control).text, "127.0.0.1:11432");
    assert_string_equal(c.state_dir, "/var/lib/kuno");
    assert_int_equal(c.worker_count, 0);
    assert_int_equal(c.connect_timeout_ms, 5000);
    assert_int_equal(c.header_timeout_ms, 600000);
    assert_int_equal(c.stream_idle_timeout_ms, 300000);
    assert_int_equal(c.client.grace_ms, 30000);
    assert_int_equal(c.client.rate, 16384);
    assert_int_equal(c.client.most_ms, 600000);
    kn_config_free(&c);

    assert_true(kn_config_default("/somewhere", &c, &err));
    assert_string_equal(kn_address_print(&c.listen).text, "127.0.0.1:11433");
    assert_string_equal(c.state_dir, "/somewhere");
    kn_config_free(&c);
}

static void every_key_is_read(void **state) {
    (void)state;
    kn_config c;
    kn_error err;
    if (!read_text("{\"listen\": \"[::]:11434\", \"upstream\": \"127.0.0.1:20001\", \"control\": \"[::1]:20002\", "
                   "\"state_dir\": \"/s\", \"queue_limit\": 3, \"max_connections\": 100, \"queue_timeout_ms\": 4, "
                   "\"max_connections_per_address\": 11, "
                   "\"connect_timeout_ms\": 5, \"header_timeout_ms\": 6, \"stream_idle_timeout_ms\": 7, "
                   "\"client_wait_ms\": 8, \"client_min_rate\": 9, \"client_wait_max_ms\": 10, "
                   "\"managed\": {\"reserve_bytes\": 1073741825, \"workers\": [" CUDA ", " VULKAN ", " CPU "]}}",
                   &c, &err))
        fail_msg("%s", err.text);
    assert_string_equal(kn_address_print(&c.listen).text, "[::]:11434");
    assert_string_equal(kn_address_print(&c.control).text, "[::1]:20002");
    const uint64_t numbers[] = { c.queue_limit,       c.max_connections,
                                 c.queue_timeout_ms,  c.connect_timeout_ms,
                                 c.header_timeout_ms, c.stream_idle_timeout_ms,
                                 c.client.grace_ms,   c.client.rate,
                                 c.client.most_ms,    c.max_connections_per_address };
    static const uint64_t expected[] = { 3, 100, 4, 5, 6, 7, 8, 9, 10, 11 };
    assert_memory_equal(numbers, expected, sizeof expected);
    assert_true(c.reserve_bytes == 1073741825);
    assert_int_equal(c.worker_count, 3);
    const kn_worker_config *w = c.workers;
    assert_string_equal(w[0].id, "cuda-0000-04-00-0");
    assert_string_equal(w[0].uuid, UUID);
    assert_string_equal(w[0].pci.text, "0000:04:00.0");
    assert_string_equal(w[0].executable, "/usr/bin/ollama");
    assert_string_equal(w[0].models, "/m");
    assert_string_equal(w[0].home, "/h0");
    assert_int_equal(w[0].max_loaded_models, 8);
    assert_int_equal(w[0].context_length, 4096);
    assert_string_equal(w[1].id, "vulkan-0000-2d-00-0");
    assert_int_equal(w[1].index, 1);
    assert_string_equal(w[2].id, "cpu-11503");
    assert_string_equal(kn_address_print(&w[2].address).text, "[::1]:11503");
    kn_config_free(&c);
}

static void slashes_are_counted_once(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "/s", "/s" }, { "/s/", "/s" },      { "//a///b//", "/a/b" },
        { "/", "/" },   { "/a/.b", "/a/.b" }, { "/a..", "/a.." },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char text[100];
        kn_config c;
        kn_error err;
        snprintf(text, sizeof text, "{\"state_dir\": \"%s\"}", rows[i][0]);
        assert_true(read_text(text, &c, &err));
        assert_string_equal(c.state_dir, rows[i][1]);
        kn_config_free(&c);
    }
}

static void mistakes_are_refused_with_their_place(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "", "an object is expected" },
        { "[]", "an object is expected" },
        { "{}", "the key 'state_dir' is missing" },
        { "{\"state_dir\": \"/s\"", "the file ends" },
        { "{\"state_dir\": \"/s\"} {}", "nothing more is expected" },
        { "{\"state_dir\": \"/s\", \"state_dir\": \"/s\"}", "the key 'state_dir' comes twice" },
        { "{\"state_dir\": \"/s\", \"lisen\": \"127.0.0.1:1\"}", "did you mean 'listen'?" },
        { "{\"state_dir\": \"\"}", "state_dir: a text of 1 to" },
        { "{\"state_dir\": null}", "state_dir: a text in quotes is expected" },
        { "{\"state_dir\": \"s\"}", "state_dir: 's' is not an absolute path, which begins with '/'" },
        { "{\"state_dir\": \"./s\"}", "state_dir: './s' is not an absolute path" },
        { "{\"state_dir\": \"~/s\"}", "state_dir: '~/s' is not an absolute path" },
        { "{\"state_dir\": \"/a/../s\"}", "state_dir: '/a/../s' has a part '.' or '..'; write the whole path" },
        { "{\"state_dir\": \"/s/..\"}", "state_dir: '/s/..' has a part '.' or '..'" },
        { "{\"state_dir\": \"/s/./t\"}", "state_dir: '/s/./t' has a part '.' or '..'" },
        { "{\"state_dir\": \"/s/.\"}", "state_dir: '/s/.' has a part '.' or '..'" },
        { "{\"state_dir\": \"/s\\u0000/t\"}", "state_dir: line 1, column 24: a text holds a NUL character" },
        { "{\"state_dir\": \"/s\xC3\"}", "state_dir: line 1, column 18: the bytes are not UTF-8" },
        { "{\"queue_limit\": 1.5}", "queue_limit: a whole number from 0 to 4096 is expected" },
        { "{\"queue_limit\": 1e2}", "queue_limit: a whole number from 0 to 4096 is expected" },
        { "{\"queue_limit\": -1}", "queue_limit: a whole number from 0 to 4096 is expected" },
        { "{\"queue_limit\": 99999999999999999999}", "queue_limit: 99999999999999999999 is outside 0 to 4096" },
        { "{\"queue_limit\": 0x10}", "queue_limit: line 1, column" },
        { "{\"image\": {\"collections\": [\"\\ud800\"]}}", "image.collections[0]: line 1, column" },
        { "{\"listen\": \"localhost:11434\"}", "listen: 'localhost:11434' is not the number of an address" },
        { "{\"upstream\": \"192.168.1.2:11434\"}", "upstream: 192.168.1.2:11434 is not a loopback address" },
        { "{\"upstream\": \"0.0.0.0:11434\"}", "upstream: 0.0.0.0:11434 is not a loopback address" },
        { "{\"control\": \"[::]:11432\"}", "control: [::]:11432 is not a loopback address" },
        { "{\"upstream\": \"http://127.0.0.1:11434\"}", "upstream: 'http://127.0.0.1:11434' is not" },
        { "{\"listen\": \"127.0.0.1:0\"}", "listen: '127.0.0.1:0' has no port" },
        { "{\"listen\": \"unix:/run/kuno\"}", "listen: 'unix:/run/kuno' has no port" },
        { "{\"state_dir\": \"/s\", \"listen\": \"127.0.0.1:11434\"}", "listen: port 11434 is also that of upstream" },
        { "{\"state_dir\": \"/s\", \"listen\": \"127.0.0.9:11432\"}", "listen: port 11432 is also that of control" },
        { "{\"state_dir\": \"/s\", \"control\": \"[::1]:11434\"}", "control: port 11434 is also that of upstream" },
        { "{\"queue_limit\": 4097}", "queue_limit: 4097 is outside 0 to 4096" },
        { "{\"queue_timeout_ms\": 0}", "queue_timeout_ms: 0 is outside 1 to 86400000" },
        { "{\"header_timeout_ms\": \"10s\"}", "header_timeout_ms: a number from 1 to 86400000 is expected" },
        { "{\"max_connections\": 7}", "max_connections: 7 is outside 8 to 65536" },
        { "{\"max_connections_per_address\": 7}", "max_connections_per_address: 7 is outside 8 to 65536" },
        { "{\"managed\": []}", "managed: an object is expected" },
        { "{\"managed\": {}}", "managed: the key 'workers' is missing" },
        { "{\"managed\": {\"workers\": []}}", "managed.workers: there is no worker" },
        { "{\"managed\": {\"reserve\": 1, \"workers\": []}}", "managed: unknown key 'reserve'" },
        { MANAGED("{\"device\": {}}"), "managed.workers[0].device: the key 'backend' is missing" },
        { MANAGED("{\"device\": {\"backend\": \"metal\"}}"),
          "managed.workers[0].device.backend: 'metal' is not cuda, vulkan or cpu" },
        { MANAGED("{\"device\": {\"backend\": \"cuda\", \"pci_address\": \"0000:04:00.0\"}}"),
          "managed.workers[0].device: the key 'uuid' is missing" },
        { MANAGED("{\"device\": {\"backend\": \"cpu\", \"index\": 0}}"),
          "managed.workers[0].device: the backend cpu has no 'index'" },
        { MANAGED("{\"device\": {\"uuid\": \"GPU-1\"}}"), "managed.workers[0].device.uuid: 'GPU-1' is not like" },
        { MANAGED("{\"device\": {\"pci_address\": \"04:00.0\"}}"), "device.pci_address: '04:00.0' is not like" },
        { MANAGED("{\"home\": \"h\"}"), "managed.workers[0].home: 'h' is not an absolute path" },
        { MANAGED("{\"models\": \"../m\"}"), "managed.workers[0].models: '../m' is not an absolute path" },
        { MANAGED("{\"executable\": \"ollama\"}"), "managed.workers[0].executable: 'ollama' is not an absolute path" },
        { MANAGED("{\"context_length\": 1.5}"),
          "managed.workers[0].context_length: a whole number from 1 to 16777216" },
        { MANAGED("{\"home\": \"/h\\u0000\"}"), "managed.workers[0].home: line 1, column" },
        { MANAGED("{\"device\": {\"backend\": \"c\xFFu\"}}"), "managed.workers[0].device.backend: line 1, column" },
        { MANAGED("{\"device\": {\"index\": 0.5}}"),
          "managed.workers[0].device.index: a whole number from 0 to 255 is expected" },
        { MANAGED("{\"address\": \"10.0.0.1:1\"}"), "managed.workers[0].address: 10.0.0.1:1 is not a loopback" },
        { MANAGED("{\"max_loaded_models\": 0}"), "max_loaded_models: 0 is outside 1 to 64" },
        { MANAGED(CUDA ", " CUDA),
          "managed.workers[1].address: port 11501 is also that of managed.workers[0].address" },
        { MANAGED(CPU ", {}"), "managed.workers[1]: the key 'executable' is missing" },
        { "{\"state_dir\": \"/s\", \"control\": \"127.0.0.1:11503\", \"managed\": {\"workers\": [" CPU "]}}",
          "managed.workers[0].address: port 11503 is also that of control" },
        { "{\"state_dir\": \"/s\", \"studio\": {\"listen\": \"127.0.0.1:11503\"}, \"managed\": {\"workers\": [" CPU
          "]}}",
          "managed.workers[0].address: port 11503 is also that of studio.listen" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_config c;
        kn_error err;
        if (read_text(rows[i][0], &c, &err))
            fail_msg("%s\n  was taken", rows[i][0]);
        if (!strstr(err.text, rows[i][1]))
            fail_msg("%s\n  says '%s', not '%s'", rows[i][0], err.text, rows[i][1]);
    }
}

/* `text` with `from` replaced once. */
static char *edited(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    assert_non_null(at);
    KN_AUTO_BUF made;
    kn_buf_init(&made, 1 << 16);
    assert_true(kn_buf_add(&made, text, (size_t)(at - text)) && kn_buf_add_text(&made, to) &&
                kn_buf_add_text(&made, at + strlen(from)));
    return strdup(made.data);
}

static void workers_share_neither_home_nor_card(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        { "\"/h1\"", "\"/h0\"", "managed.workers[1].home: is also that of workers[0]" },
        { "\"/h1\"", "\"//h0/\"", "managed.workers[1].home: is also that of workers[0]" },
        { "\"/h1\"", "\"/h0/1\"", "managed.workers[1].home: lies in that of workers[0]" },
        { "\"/h0\"", "\"/h1/.o/0\"", "managed.workers[1].home: holds that of workers[0]" },
        { "\"/h1\"", "\"/\"", "managed.workers[1].home: state_dir is in it; a folder in state_dir would do" },
        { "\"/h0\"", "\"/s\"", "managed.workers[0].home: state_dir is in it; a folder in state_dir would do" },
        { "0000:2d:00.0", "0000:04:00.0", "managed.workers[1].device.pci_address: is also that of workers[0]" },
        { "127.0.0.1:11502", "127.0.0.2:11501",
          "managed.workers[1].address: port 11501 is also that of managed.workers[0].address; all ports must differ" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char *text = edited(MANAGED(CUDA ", " VULKAN), rows[i][0], rows[i][1]);
        kn_config c;
        kn_error err;
        assert_false(read_text(text, &c, &err));
        assert_string_equal(err.text, rows[i][2]);
        free(text);
    }
}

static void there_are_at_most_sixteen_workers(void **state) {
    (void)state;
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1 << 16);
    assert_true(kn_buf_add_text(&text, "{\"state_dir\": \"/s\", \"managed\": {\"workers\": ["));
    for (int i = 0; i < 17; i++) {
        char port[16], home[16];
        snprintf(port, sizeof port, "]:%d", 20000 + i);
        snprintf(home, sizeof home, "/home%d", i);
        char *a = edited(CPU, "]:11503", port), *b = edited(a, "/h2", home);
        assert_true(kn_buf_printf(&text, "%s%s", i ? ", " : "", b));
        free(a);
        free(b);
    }
    assert_true(kn_buf_add_text(&text, "]}}"));
    kn_config c;
    kn_error err;
    assert_false(read_text(text.data, &c, &err));
    assert_string_equal(err.text, "managed.workers[16]: more than 16 workers");
}

static void the_studio_is_there_if_asked_for_or_without_a_file(void **state) {
    (void)state;
    kn_config c;
    kn_error err = { 0 };
    assert_true(kn_config_default("/somewhere", &c, &err));
    assert_string_equal(kn_address_print(&c.studio).text, "127.0.0.1:39151");
    assert_false(c.studio_isolated);
    kn_config_free(&c);
    assert_true(read_text("{\"state_dir\": \"/s\"}", &c, &err));
    assert_int_equal(c.studio.len, 0);
    kn_config_free(&c);
    assert_true(
        read_text("{\"state_dir\": \"/s\", \"studio\": {\"listen\": \"[::1]:4000\", \"models\": \"/m.toml\", "
                  "\"isolation\": \"required\", \"mirror\": \"https://models.example.org\", \"offline\": true}}",
                  &c, &err));
    assert_string_equal(c.mirror, "https://models.example.org");
    assert_true(c.offline);
    assert_string_equal(kn_address_print(&c.studio).text, "[::1]:4000");
    assert_string_equal(c.studio_models, "/m.toml");
    assert_true(c.studio_isolated);
    kn_config_free(&c);
    static const char *const wrong[][2] = {
        { "{\"studio\": {\"listen\": \"0.0.0.0:4000\"}}",
          "studio.listen: 0.0.0.0:4000 is not a loopback address; use 127.0.0.1 or [::1]" },
        { "{\"state_dir\": \"/s\", \"studio\": {\"listen\": \"127.0.0.1:11432\"}}",
          "studio.listen: port 11432 is also that of control; all ports must differ" },
        { "{\"studio\": {\"models\": \"m.toml\"}}",
          "studio.models: 'm.toml' is not an absolute path, which begins with '/'" },
        { "{\"studio\": {\"mirror\": \"ftp://models.example.org\"}}",
          "studio.mirror: 'ftp://models.example.org' is not like https://models.example.org" },
        { "{\"studio\": {\"mirror\": \"https://\"}}",
          "studio.mirror: 'https://' is not like https://models.example.org" },
        { "{\"studio\": {\"mirror\": \"http://:80/x\"}}",
          "studio.mirror: 'http://:80/x' is not like https://models.example.org" },
        { "{\"studio\": {\"isolation\": \"none\"}}",
          "studio.isolation: 'none' is not known; known: best-effort, required" },
    };
    for (size_t i = 0; i < KN_COUNT(wrong); i++) {
        assert_false(read_text(wrong[i][0], &c, &err));
        assert_string_equal(err.text, wrong[i][1]);
    }
}

static void pictures_are_drawn_as_said(void **state) {
    (void)state;
    kn_config c;
    kn_error err;
    if (!read_text("{\"state_dir\": \"/s\", \"image\": {\"models\": \"/models\", \"pci_address\": \"0000:2d:00.0\", "
                   "\"timeout_seconds\": 60, \"collections\": [\"qwen-image-2.1-int8\"], \"isolation\": \"required\", "
                   "\"keep_warm_seconds\": 5}}",
                   &c, &err))
        fail_msg("%s", err.text);
    assert_true(c.image.enabled && c.image.isolated);
    assert_string_equal(c.image.models, "/models");
    assert_string_equal(c.image.pci.text, "0000:2d:00.0");
    assert_int_equal(c.image.timeout_s, 60);
    assert_int_equal(c.image.keep_warm_s, 5);
    assert_int_equal(c.image.workflows, 6);
    kn_config_free(&c);

    assert_true(read_text("{\"state_dir\": \"/s\", \"image\": {}}", &c, &err));
    assert_true(c.image.enabled && !c.image.isolated && !c.image.models && !c.image.pci.text[0]);
    assert_int_equal(c.image.timeout_s, 3600);
    assert_int_equal(c.image.keep_warm_s, 300);
    assert_int_equal(c.image.workflows, 7);
    kn_config_free(&c);

    assert_true(read_text("{\"state_dir\": \"/s\"}", &c, &err));
    assert_false(c.image.enabled);
    kn_config_free(&c);
    assert_true(kn_config_default("/s", &c, &err));
    assert_true(c.image.enabled);
    kn_config_free(&c);
}

static void an_image_worker_rests_at_once_where_others_need_the_device(void **state) {
    (void)state;
    static const struct {
        const char *image, *workers;
        uint32_t seconds;
    } rows[] = {
        { "{}", VULKAN, 300 },
        { "{}", (VULKAN ", " CPU), 0 },
        { "{\"pci_address\": \"0000:2d:00.0\"}", VULKAN, 0 },
        { "{\"pci_address\": \"0000:2d:00.0\"}", CPU, 300 },
        { "{\"keep_warm_seconds\": 7}", CPU, 7 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_config c;
        kn_error err;
        char text[1000];
        snprintf(text, sizeof text, "{\"state_dir\": \"/s\", \"image\": %s, \"managed\": {\"workers\": [%s]}}",
                 rows[i].image, rows[i].workers);
        if (!read_text(text, &c, &err))
            fail_msg("%s", err.text);
        assert_int_equal(c.image.keep_warm_s, rows[i].seconds);
        kn_config_free(&c);
    }
}

static void a_file_is_named_in_its_errors(void **state) {
    (void)state;
    char path[] = "/tmp/kuno-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{\"state_dir\": 1}", 16), 16);
    close(fd);
    kn_config c;
    kn_error err = { 0 };
    assert_false(kn_config_load(path, &c, &err));
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "': state_dir: a text in quotes is expected"));
    unlink(path);
    err = (kn_error){ 0 };
    assert_false(kn_config_load(path, &c, &err));
    assert_int_equal(err.code, KN_E_NOT_FOUND);
}

static void connections_leave_descriptors_for_the_owner_and_the_marker(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t descriptors;
        unsigned public, control, studio;
    } rows[] = {
        { "{\"state_dir\": \"/s\"}", 1 << 20, 1024, 128, 0 },
        { "{\"state_dir\": \"/s\"}", UINT64_MAX, 1024, 128, 0 },
        { "{\"state_dir\": \"/s\", \"max_connections\": 65536}", 200000, 65536, 128, 0 },
        { "{\"state_dir\": \"/s\", \"studio\": {}}", 8192, 1024, 128, 1024 },
        { "{\"state_dir\": \"/s\"}", 1024, 416, 64, 0 },
        { "{\"state_dir\": \"/s\", \"studio\": {}}", 1024, 312, 64, 208 },
        { "{\"state_dir\": \"/s\", \"max_connections\": 100}", 1024, 100, 64, 0 },
        { "{\"state_dir\": \"/s\"}", 256, 80, 16, 0 },
        { "{\"state_dir\": \"/s\"}", 20, 8, 8, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_config c;
        kn_error err;
        assert_true(read_text(rows[i].text, &c, &err));
        kn_room r = kn_room_within(&c, rows[i].descriptors);
        assert_int_equal(r.public, rows[i].public);
        assert_int_equal(r.control, rows[i].control);
        assert_int_equal(r.studio, rows[i].studio);
        assert_int_equal(kn_room_is_short(&c, &r, &err), r.public < c.max_connections);
        kn_config_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_directory_is_all_that_must_be_said),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(slashes_are_counted_once),
        cmocka_unit_test(mistakes_are_refused_with_their_place),
        cmocka_unit_test(workers_share_neither_home_nor_card),
        cmocka_unit_test(there_are_at_most_sixteen_workers),
        cmocka_unit_test(the_studio_is_there_if_asked_for_or_without_a_file),
        cmocka_unit_test(pictures_are_drawn_as_said),
        cmocka_unit_test(an_image_worker_rests_at_once_where_others_need_the_device),
        cmocka_unit_test(a_file_is_named_in_its_errors),
        cmocka_unit_test(connections_leave_descriptors_for_the_owner_and_the_marker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
