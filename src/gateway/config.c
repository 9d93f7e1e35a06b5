#include "gateway/config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_form.h"
#include "base/text.h"
#include "workers/image_process.h"
#include "workers/recipe.h"

enum {
    MINUTE_MS = 60 * 1000,
    DAY_MS = 24 * 60 * MINUTE_MS,
    HOUR_S = 60 * 60,
    DAY_S = 24 * HOUR_S,
    ADDRESS_BYTES = 64,
    MIRROR_BYTES = 1000,
    WORKER_MODELS_MAX = 64,
    CONTEXT_MAX = 1 << 24, /* tokens; far beyond any model */
    DEVICE_INDEX_MAX = 255,
    STATE_DIR_BYTES = PATH_MAX / 2, /* the rest is for what lies in there */
    CLIENT_RATE_MAX = 1 << 30,
};

#define STUDIO_ADDRESS "127.0.0.1:39151"

static const char *const isolations[] = { "best-effort", "required" };

static void copy_address(kn_address *into, const char *text) {
    kn_address_parse(text, into, NULL);
}

/* Waiting is generous: a large model takes minutes to load from a slow disk. */
static void set_defaults(kn_config *c) {
    *c = (kn_config){
        .queue_limit = 64,
        .max_connections = 1024,
        .queue_timeout_ms = 10 * MINUTE_MS,
        .connect_timeout_ms = 5000,
        .header_timeout_ms = 10 * MINUTE_MS,
        .stream_idle_timeout_ms = 5 * MINUTE_MS,
        .client = { .grace_ms = MINUTE_MS / 2, .rate = 16 << 10, .most_ms = 10 * MINUTE_MS },
        .reserve_bytes = 1 << 30,
        .image = { .timeout_s = HOUR_S, .workflows = (1u << KN_WORKFLOWS) - 1 },
    };
    copy_address(&c->listen, "127.0.0.1:11433");
    copy_address(&c->upstream, "127.0.0.1:11434");
    copy_address(&c->control, "127.0.0.1:11432");
}

/* "127.0.0.1:11434": an IP address, and a port that people can know beforehand. */
static void read_address(kn_form *f, bool loopback, kn_address *ret) {
    char address[ADDRESS_BYTES + 1] = "";
    kn_json_text text;
    kn_error err = { 0 };
    if (!kn_form_text(f, 1, ADDRESS_BYTES, &text))
        return;
    memcpy(address, text.data, text.len);
    if (!kn_address_parse(address, ret, &err))
        kn_form_fail(f, err.code, "%s", err.text);
    else if (!kn_address_port(ret))
        kn_form_fail(f, KN_E_USAGE, "'%s' has no port, such as 127.0.0.1:11434", kn_quote_z(address).text);
    else if (loopback && !kn_address_is_loopback(ret))
        kn_form_fail(f, KN_E_USAGE, "%s is not a loopback address; use 127.0.0.1 or [::1]", address);
}

static void read_u32(kn_form *f, uint32_t min, uint32_t max, uint32_t *ret) {
    uint64_t v = 0;
    if (kn_form_u64(f, min, max, &v))
        *ret = (uint32_t)v;
}

/* Whether the path has a part "." or ".." in it: two such paths cannot be compared. */
static bool has_dots(const char *path) {
    for (const char *at = path; (at = strstr(at, "/.")); at++) {
        const char *rest = at + 2 + (at[2] == '.');
        if (!*rest || *rest == '/')
            return true;
    }
    return false;
}

/* "//a//b/" is /a/b. */
static void squeeze_slashes(char *path) {
    char *to = path;
    for (const char *from = path; *from; from++)
        if (*from != '/' || (from[1] && from[1] != '/'))
            *to++ = *from;
    if (to == path)
        *to++ = '/';
    *to = 0;
}

/* Where a relative path begins would depend on who starts the program. max: leaves room for what is put behind it. */
static void read_path(kn_form *f, size_t max, char **ret) {
    kn_json_text text;
    if (!kn_form_text(f, 1, max, &text))
        return;
    char *path = strndup(text.data, text.len);
    if (!path) {
        kn_form_fail(f, KN_E_NOMEM, "not enough memory for a path");
        return;
    }
    if (path[0] != '/')
        kn_form_fail(f, KN_E_USAGE, "'%s' is not an absolute path, which begins with '/'", kn_quote_path(path).text);
    else if (has_dots(path))
        kn_form_fail(f, KN_E_USAGE, "'%s' has a part '.' or '..'; write the whole path", kn_quote_path(path).text);
    if (f->j->failed) {
        free(path);
        return;
    }
    squeeze_slashes(path);
    *ret = path;
}

enum { DEVICE_BACKEND, DEVICE_UUID, DEVICE_INDEX, DEVICE_PCI };
static const char *const device_keys[] = {
    [DEVICE_BACKEND] = "backend",
    [DEVICE_UUID] = "uuid",
    [DEVICE_INDEX] = "index",
    [DEVICE_PCI] = "pci_address",
};

static void read_backend(kn_form *f, kn_worker_config *w) {
    kn_json_text text;
    if (!kn_form_text(f, 1, 16, &text))
        return;
    for (size_t i = 0; i < KN_BACKEND_COUNT; i++) {
        if (kn_json_is(text, kn_backend_names[i])) {
            w->backend = (kn_backend)i;
            return;
        }
    }
    kn_form_fail(f, KN_E_USAGE, "'%s' is not cuda, vulkan or cpu", kn_quote(text.data, text.len).text);
}

/* "GPU-" and a UUID, as NVIDIA's driver writes it. */
static bool is_gpu_uuid(kn_json_text text) {
    return kn_json_starts(text, "GPU-") && kn_text_is_uuid(text.data + 4, text.len - 4);
}

static void read_uuid(kn_form *f, kn_worker_config *w) {
    kn_json_text text;
    if (!kn_form_text(f, 1, 100, &text))
        return;
    if (!is_gpu_uuid(text)) {
        kn_form_fail(f, KN_E_FORMAT, "'%s' is not like GPU-11111111-2222-3333-4444-555555555555",
                     kn_quote(text.data, text.len).text);
        return;
    }
    memcpy(w->uuid, text.data, text.len);
}

static void read_pci(kn_form *f, kn_pci_address *ret) {
    kn_json_text text;
    if (kn_form_text(f, 1, 32, &text) && !kn_pci_parse(text.data, text.len, ret))
        kn_form_fail(f, KN_E_FORMAT, "'%s' is not like 0000:04:00.0 (lower case)", kn_quote(text.data, text.len).text);
}

static void read_device(const kn_form *outer, kn_worker_config *w) {
    static const bool takes[KN_BACKEND_COUNT][KN_COUNT(device_keys)] = {
        [KN_BACKEND_CUDA] = { [DEVICE_BACKEND] = true, [DEVICE_UUID] = true, [DEVICE_PCI] = true },
        [KN_BACKEND_VULKAN] = { [DEVICE_BACKEND] = true, [DEVICE_INDEX] = true, [DEVICE_PCI] = true },
        [KN_BACKEND_CPU] = { [DEVICE_BACKEND] = true },
    };
    kn_form f;
    kn_form_open(&f, outer->j, outer, device_keys, KN_COUNT(device_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case DEVICE_BACKEND: read_backend(&f, w); break;
        case DEVICE_UUID: read_uuid(&f, w); break;
        case DEVICE_INDEX: read_u32(&f, 0, DEVICE_INDEX_MAX, &w->index); break;
        case DEVICE_PCI: read_pci(&f, &w->pci); break;
        }
    }
    if (!kn_form_need(&f, DEVICE_BACKEND))
        return;
    for (int key = 0; key < (int)KN_COUNT(device_keys); key++) {
        if (takes[w->backend][key])
            kn_form_need(&f, key);
        else if (kn_form_has(&f, key))
            kn_form_fail(&f, KN_E_USAGE, "the backend %s has no '%s'", kn_backend_names[w->backend], device_keys[key]);
    }
}

/* "cuda-0000-04-00-0", "cpu-11501": the same however the workers are ordered. */
static void name_worker(kn_worker_config *w) {
    const char *backend = kn_backend_names[w->backend];
    kn_pci_address place = w->pci;
    for (char *p = place.text; *p; p++)
        if (*p == ':' || *p == '.')
            *p = '-';
    if (place.text[0])
        snprintf(w->id, sizeof w->id, "%s-%s", backend, place.text);
    else
        snprintf(w->id, sizeof w->id, "%s-%u", backend, kn_address_port(&w->address));
}

enum { WORKER_EXECUTABLE, WORKER_MODELS, WORKER_HOME, WORKER_ADDRESS, WORKER_MAX, WORKER_CONTEXT, WORKER_DEVICE };
static const char *const worker_keys[] = {
    [WORKER_EXECUTABLE] = "executable", [WORKER_MODELS] = "models",         [WORKER_HOME] = "home",
    [WORKER_ADDRESS] = "address",       [WORKER_MAX] = "max_loaded_models", [WORKER_CONTEXT] = "context_length",
    [WORKER_DEVICE] = "device",
};

static void read_worker(const kn_form *outer, kn_worker_config *w) {
    kn_form f;
    kn_form_open(&f, outer->j, outer, worker_keys, KN_COUNT(worker_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case WORKER_EXECUTABLE: read_path(&f, PATH_MAX - 1, &w->executable); break;
        case WORKER_MODELS: read_path(&f, PATH_MAX - 1, &w->models); break;
        case WORKER_HOME: read_path(&f, PATH_MAX - 1, &w->home); break;
        case WORKER_ADDRESS: read_address(&f, true, &w->address); break;
        case WORKER_MAX: read_u32(&f, 1, WORKER_MODELS_MAX, &w->max_loaded_models); break;
        case WORKER_CONTEXT: read_u32(&f, 1, CONTEXT_MAX, &w->context_length); break;
        case WORKER_DEVICE: read_device(&f, w); break;
        }
    }
    for (int key = 0; key < (int)KN_COUNT(worker_keys); key++)
        kn_form_need(&f, key);
    name_worker(w);
}

enum { MANAGED_RESERVE, MANAGED_WORKERS };
static const char *const managed_keys[] = { [MANAGED_RESERVE] = "reserve_bytes", [MANAGED_WORKERS] = "workers" };

static void read_managed(const kn_form *outer, kn_config *c) {
    kn_form f;
    kn_form_open(&f, outer->j, outer, managed_keys, KN_COUNT(managed_keys));
    for (int key; kn_form_next(&f, &key);) {
        if (key == MANAGED_RESERVE) {
            kn_form_u64(&f, 0, (uint64_t)1 << 50, &c->reserve_bytes);
            continue;
        }
        bool in = kn_form_items(&f);
        while (in && kn_form_item(&f)) {
            if (c->worker_count == KN_WORKERS_MAX)
                kn_form_fail(&f, KN_E_RANGE, "more than %d workers", KN_WORKERS_MAX);
            else
                read_worker(&f, &c->workers[c->worker_count++]);
        }
        if (in && !f.j->failed && !c->worker_count)
            kn_form_fail(&f, KN_E_USAGE, "there is no worker; leave 'managed' out to have none");
    }
    kn_form_need(&f, MANAGED_WORKERS);
}

/* Who takes or asks at a port of this machine, which nobody else then can. */
typedef struct port {
    char place[48];
    uint16_t number;
} port;

static size_t list_ports(const kn_config *c, port ret[4 + KN_WORKERS_MAX]) {
    size_t n = 0;
    ret[n++] = (port){ "upstream", kn_address_port(&c->upstream) };
    ret[n++] = (port){ "control", kn_address_port(&c->control) };
    ret[n++] = (port){ "listen", kn_address_port(&c->listen) };
    if (c->studio.len)
        ret[n++] = (port){ "studio.listen", kn_address_port(&c->studio) };
    for (size_t i = 0; i < c->worker_count; i++, n++) {
        ret[n].number = kn_address_port(&c->workers[i].address);
        snprintf(ret[n].place, sizeof ret[n].place, "managed.workers[%zu].address", i);
    }
    return n;
}

static bool check_ports(const kn_config *c, kn_error *err) {
    port ports[4 + KN_WORKERS_MAX];
    size_t count = list_ports(c, ports);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (ports[i].number == ports[k].number)
                return kn_fail(err, KN_E_USAGE, "%s: port %u is also that of %s; all ports must differ", ports[i].place,
                               ports[i].number, ports[k].place);
    return true;
}

/* A worker's home is its own: nobody else's, and nobody else's files in it. */
static bool check_home(const kn_config *c, size_t i, kn_error *err) {
    const char *home = c->workers[i].home;
    if (kn_path_is_within(c->state_dir, home))
        return kn_fail(err, KN_E_USAGE, "managed.workers[%zu].home: state_dir is in it; a folder in state_dir would do",
                       i);
    for (size_t k = 0; k < i; k++) {
        const char *other = c->workers[k].home;
        bool in = kn_path_is_within(home, other), around = kn_path_is_within(other, home);
        if (in || around)
            return kn_fail(err, KN_E_USAGE, "managed.workers[%zu].home: %s that of workers[%zu]", i,
                           in && around ? "is also"
                           : in         ? "lies in"
                                        : "holds",
                           k);
    }
    return true;
}

static bool check_workers(const kn_config *c, kn_error *err) {
    for (size_t i = 0; i < c->worker_count; i++) {
        if (!check_home(c, i, err))
            return false;
        for (size_t k = 0; k < i; k++) {
            const kn_worker_config *w = &c->workers[i], *other = &c->workers[k];
            const char *same = kn_pci_equal(&w->pci, &other->pci)                ? "pci_address"
                               : w->uuid[0] && strcmp(w->uuid, other->uuid) == 0 ? "uuid"
                                                                                 : NULL;
            if (same)
                return kn_fail(err, KN_E_USAGE, "managed.workers[%zu].device.%s: is also that of workers[%zu]", i, same,
                               k);
        }
    }
    return true;
}

enum { STUDIO_LISTEN, STUDIO_MODELS, STUDIO_ISOLATION, STUDIO_MIRROR, STUDIO_OFFLINE };
static const char *const studio_keys[] = {
    [STUDIO_LISTEN] = "listen", [STUDIO_MODELS] = "models",   [STUDIO_ISOLATION] = "isolation",
    [STUDIO_MIRROR] = "mirror", [STUDIO_OFFLINE] = "offline",
};

/* With a host; what else may be in it is looked at when something is asked of it. */
static bool is_web_address(kn_json_text text) {
    size_t host = kn_json_starts(text, "https://") ? 8 : kn_json_starts(text, "http://") ? 7 : text.len;
    return host < text.len && !strchr("/?#:@", text.data[host]);
}

static void read_mirror(kn_form *f, char **ret) {
    kn_json_text text;
    if (!kn_form_text(f, 1, MIRROR_BYTES, &text))
        return;
    if (!is_web_address(text))
        kn_form_fail(f, KN_E_FORMAT, "'%s' is not like https://models.example.org", kn_quote(text.data, text.len).text);
    else if (!(*ret = strndup(text.data, text.len)))
        kn_form_fail(f, KN_E_NOMEM, "not enough memory for an address");
}

static void read_studio(const kn_form *outer, kn_config *c) {
    kn_form f;
    size_t isolation = 0;
    copy_address(&c->studio, STUDIO_ADDRESS);
    kn_form_open(&f, outer->j, outer, studio_keys, KN_COUNT(studio_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case STUDIO_LISTEN: read_address(&f, true, &c->studio); break;
        case STUDIO_MODELS: read_path(&f, PATH_MAX - 1, &c->studio_models); break;
        case STUDIO_ISOLATION: kn_form_word(&f, isolations, KN_COUNT(isolations), &isolation); break;
        case STUDIO_MIRROR: read_mirror(&f, &c->mirror); break;
        case STUDIO_OFFLINE: kn_form_bool(&f, &c->offline); break;
        }
    }
    c->studio_isolated = isolation == 1;
}

enum { IMAGE_MODELS, IMAGE_PCI, IMAGE_TIMEOUT, IMAGE_COLLECTIONS, IMAGE_ISOLATION, IMAGE_KEEP_WARM };
static const char *const image_keys[] = {
    [IMAGE_MODELS] = "models",           [IMAGE_PCI] = "pci_address",     [IMAGE_TIMEOUT] = "timeout_seconds",
    [IMAGE_COLLECTIONS] = "collections", [IMAGE_ISOLATION] = "isolation", [IMAGE_KEEP_WARM] = "keep_warm_seconds",
};

/* Its workflows can be asked for, no others. */
static void read_collections(kn_form *f, unsigned *ret) {
    const char *names[KN_WORKFLOWS];
    for (size_t i = 0; i < KN_WORKFLOWS; i++)
        names[i] = kn_workflows[i].collection;
    *ret = 0;
    for (bool in = kn_form_items(f); in && kn_form_item(f);) {
        size_t which = 0;
        bool known = kn_form_word(f, names, KN_WORKFLOWS, &which);
        for (size_t i = 0; known && i < KN_WORKFLOWS; i++)
            if (strcmp(names[i], names[which]) == 0)
                *ret |= 1u << i;
    }
}

static void read_image(const kn_form *outer, kn_image_config *c, bool *ret_warm) {
    kn_form f;
    size_t isolation = 0;
    c->enabled = true;
    kn_form_open(&f, outer->j, outer, image_keys, KN_COUNT(image_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case IMAGE_MODELS: read_path(&f, PATH_MAX - 1, &c->models); break;
        case IMAGE_PCI: read_pci(&f, &c->pci); break;
        case IMAGE_TIMEOUT: read_u32(&f, 1, DAY_S, &c->timeout_s); break;
        case IMAGE_COLLECTIONS: read_collections(&f, &c->workflows); break;
        case IMAGE_ISOLATION: kn_form_word(&f, isolations, KN_COUNT(isolations), &isolation); break;
        case IMAGE_KEEP_WARM: read_u32(&f, 0, DAY_S, &c->keep_warm_s); break;
        }
    }
    c->isolated = isolation == 1;
    *ret_warm = kn_form_has(&f, IMAGE_KEEP_WARM);
}

/* An idle worker keeps its model, unless others need the memory. */
static void set_keep_warm(kn_config *c) {
    c->image.keep_warm_s = KN_IMAGE_KEEP_WARM_MS / 1000;
    for (size_t i = 0; i < c->worker_count; i++)
        if (strcmp(c->workers[i].pci.text, c->image.pci.text) == 0)
            c->image.keep_warm_s = 0;
}

enum {
    LISTEN,
    UPSTREAM,
    CONTROL,
    STATE_DIR,
    QUEUE_LIMIT,
    MAX_CONNECTIONS,
    MAX_PER_ADDRESS,
    QUEUE_TIMEOUT,
    CONNECT_TIMEOUT,
    HEADER_TIMEOUT,
    IDLE_TIMEOUT,
    CLIENT_WAIT,
    CLIENT_RATE,
    CLIENT_WAIT_MAX,
    MANAGED,
    STUDIO,
    IMAGE,
};
static const char *const config_keys[] = {
    [LISTEN] = "listen",
    [UPSTREAM] = "upstream",
    [CONTROL] = "control",
    [STATE_DIR] = "state_dir",
    [QUEUE_LIMIT] = "queue_limit",
    [MAX_CONNECTIONS] = "max_connections",
    [MAX_PER_ADDRESS] = "max_connections_per_address",
    [QUEUE_TIMEOUT] = "queue_timeout_ms",
    [CONNECT_TIMEOUT] = "connect_timeout_ms",
    [HEADER_TIMEOUT] = "header_timeout_ms",
    [IDLE_TIMEOUT] = "stream_idle_timeout_ms",
    [CLIENT_WAIT] = "client_wait_ms",
    [CLIENT_RATE] = "client_min_rate",
    [CLIENT_WAIT_MAX] = "client_wait_max_ms",
    [MANAGED] = "managed",
    [STUDIO] = "studio",
    [IMAGE] = "image",
};

static void read_config(kn_json_reader *j, kn_config *c) {
    kn_form f;
    bool warm = false;
    kn_form_open(&f, j, NULL, config_keys, KN_COUNT(config_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case LISTEN: read_address(&f, false, &c->listen); break;
        case UPSTREAM: read_address(&f, true, &c->upstream); break;
        case CONTROL: read_address(&f, true, &c->control); break;
        case STATE_DIR: read_path(&f, STATE_DIR_BYTES, &c->state_dir); break;
        case QUEUE_LIMIT: read_u32(&f, 0, 4096, &c->queue_limit); break;
        case MAX_CONNECTIONS: read_u32(&f, 8, 65536, &c->max_connections); break;
        case MAX_PER_ADDRESS: read_u32(&f, 8, 65536, &c->max_connections_per_address); break;
        case QUEUE_TIMEOUT: read_u32(&f, 1, DAY_MS, &c->queue_timeout_ms); break;
        case CONNECT_TIMEOUT: read_u32(&f, 1, 10 * MINUTE_MS, &c->connect_timeout_ms); break;
        case HEADER_TIMEOUT: read_u32(&f, 1, DAY_MS, &c->header_timeout_ms); break;
        case IDLE_TIMEOUT: read_u32(&f, 1, DAY_MS, &c->stream_idle_timeout_ms); break;
        case CLIENT_WAIT: kn_form_u64(&f, 1, DAY_MS, &c->client.grace_ms); break;
        case CLIENT_RATE: kn_form_u64(&f, 1, CLIENT_RATE_MAX, &c->client.rate); break;
        case CLIENT_WAIT_MAX: kn_form_u64(&f, 1, DAY_MS, &c->client.most_ms); break;
        case MANAGED: read_managed(&f, c); break;
        case STUDIO: read_studio(&f, c); break;
        case IMAGE: read_image(&f, &c->image, &warm); break;
        }
    }
    if (!warm)
        set_keep_warm(c);
    kn_form_need(&f, STATE_DIR);
}

bool kn_config_read(const char *text, size_t len, kn_config *ret, kn_error *err) {
    const kn_json_text file = { text, len };
    kn_config c;
    kn_json_reader j;
    kn_error failure = { 0 };
    set_defaults(&c);
    kn_json_begin(&j, file, file, &failure);
    read_config(&j, &c);
    bool ok = kn_json_finish(&j) && check_ports(&c, &failure) && check_workers(&c, &failure);
    kn_json_close(&j);
    if (!ok) {
        kn_config_free(&c);
        return kn_fail(err, failure.code, "%s", failure.text);
    }
    *ret = c;
    return true;
}

bool kn_config_load(const char *path, kn_config *ret, kn_error *err) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_CONFIG_BYTES);
    return (kn_file_read(path, KN_CONFIG_BYTES, &text, err) && kn_config_read(text.data, text.len, ret, err)) ||
           kn_fail_within(err, "'%s'", kn_quote_path(path).text);
}

bool kn_config_default(const char *state_dir, kn_config *ret, kn_error *err) {
    kn_config c;
    set_defaults(&c);
    copy_address(&c.studio, STUDIO_ADDRESS);
    c.image.enabled = true;
    set_keep_warm(&c);
    if (!(c.state_dir = strdup(state_dir)))
        return kn_fail_nomem(err, strlen(state_dir));
    *ret = c;
    return true;
}

void kn_config_free(kn_config *c) {
    for (size_t i = 0; i < c->worker_count; i++) {
        free(c->workers[i].executable);
        free(c->workers[i].models);
        free(c->workers[i].home);
    }
    free(c->state_dir);
    free(c->studio_models);
    free(c->mirror);
    free(c->image.models);
    *c = (kn_config){ 0 };
}
