/* kuno resources: one look at what limits what can run. Nothing is loaded, unloaded or kept by looking. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/service.h"
#include "gateway/resources.h"

enum { TEXT_LIMIT = 1 << 20 };

typedef struct resources_options {
    const char *config;
    bool json;
} resources_options;

#define AT(member) offsetof(resources_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("Whose models to look at"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "of this config.json (default: " KN_CONFIG_PATH ", if it is there)"),

    KN_OPT_GROUP("Output"),
    KN_OPT(FLAG, 0, "json", NULL, AT(json), "answer with one JSON object"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

typedef struct sight {
    kn_look look;
    kn_loop *loop;
    json_t *report;
} sight;

static void seen(kn_look *l, json_t *report) {
    sight *s = KN_HOLDER(l, sight, look);
    s->report = report;
    kn_loop_stop(s->loop);
}

/* Whose models are looked at: the upstream's, and those of the workers that a running `kuno serve` may have. */
typedef struct ollamas {
    size_t count;
    kn_upstream *items[KN_WATCHED_MAX];
} ollamas;

static bool add_ollama(ollamas *o, kn_http *http, const kn_address *address, kn_error *err) {
    const kn_upstream_limits limits = kn_upstream_limits_default();
    if (!kn_upstream_new(http, address, &limits, &o->items[o->count], err))
        return false;
    o->count++;
    return true;
}

static bool watch_all(kn_watcher *w, kn_http *http, const kn_config *c, ollamas *o, kn_error *err) {
    if (!add_ollama(o, http, &c->upstream, err))
        return false;
    kn_watcher_set(w, o->items[0], NULL);
    for (size_t i = 0; i < c->worker_count; i++) {
        if (!add_ollama(o, http, &c->workers[i].address, err))
            return false;
        kn_watcher_add_worker(w, c->workers[i].id, o->items[i + 1]);
    }
    return true;
}

static bool look(const kn_config *c, json_t **ret, kn_error *err) {
    sight s = { .look.seen = seen };
    kn_http *http = NULL;
    kn_watcher *watcher = NULL;
    ollamas all = { .count = 0 };
    bool ok = kn_loop_new(NULL, NULL, &s.loop, err) && kn_http_new(s.loop, &http, err) &&
              kn_watcher_new(s.loop, "", &watcher, err) && watch_all(watcher, http, c, &all, err);
    if (ok) {
        kn_watcher_look(watcher, &s.look);
        ok = kn_loop_run(s.loop, err) && (s.report || kn_fail_nomem(err, TEXT_LIMIT));
    }
    kn_watcher_free(watcher);
    for (size_t i = 0; i < all.count; i++)
        kn_upstream_free(all.items[i]);
    kn_http_free(http);
    if (s.loop)
        kn_loop_free(s.loop);
    *ret = s.report;
    return ok;
}

static const char *text_at(json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

/* "total 12.88 GB", or nothing. */
static bool tell_bytes(json_t *o, const char *key, const char *words, kn_buf *out) {
    json_t *n = json_object_get(o, key);
    return !json_is_integer(n) || kn_buf_printf(out, ", %s %s", words, kn_bytes((uint64_t)json_integer_value(n)).text);
}

static bool tell_device(json_t *d, kn_buf *out) {
    json_t *memory = json_object_get(d, "memory");
    const char *name = text_at(d, "name"), *observation = text_at(d, "observation");
    return kn_buf_printf(out, "%s  %s%s%s (%s)", text_at(d, "pci_address"), text_at(d, "vendor"), *name ? " " : "",
                         name, text_at(d, "driver")) &&
           tell_bytes(memory, "total_bytes", "total", out) &&
           tell_bytes(memory, "used_bytes",
                      json_is_true(json_object_get(memory, "used_includes_reserved")) ? "used and reserved" : "used",
                      out) &&
           tell_bytes(memory, "reserved_bytes", "reserved", out) && tell_bytes(memory, "free_bytes", "free", out) &&
           kn_buf_printf(out, "%s%s\n", json_is_integer(json_object_get(memory, "used_bytes")) ? "" : ", unknown: ",
                         json_is_integer(json_object_get(memory, "used_bytes")) ? "" : observation);
}

static bool tell(json_t *report, kn_buf *out) {
    json_t *host = json_object_get(report, "host"), *one = NULL;
    size_t i = 0;
    bool ok = kn_buf_printf(out, "memory of the machine") && tell_bytes(host, "memory_total_bytes", "total", out) &&
              tell_bytes(host, "memory_available_bytes", "available", out) &&
              tell_bytes(host, "cgroup_limit_bytes", "limited to", out) && kn_buf_add_text(out, "\n");
    json_array_foreach(json_object_get(report, "devices"), i, one) ok = ok && tell_device(one, out);
    json_array_foreach(json_object_get(report, "residency"), i, one) {
        const char *worker = text_at(one, "worker");
        ok = ok &&
             kn_buf_printf(out, "loaded  %s (%s)%s%s", kn_quote_z(text_at(one, "model")).text, text_at(one, "class"),
                           *worker ? " by worker " : "", worker) &&
             tell_bytes(one, "size_bytes", "in all", out) && tell_bytes(one, "size_vram_bytes", "on cards", out) &&
             kn_buf_add_text(out, "\n");
    }
    json_array_foreach(json_object_get(report, "errors"), i, one) {
        const char *pci = text_at(one, "pci_address");
        ok = ok && kn_buf_printf(out, "problem  %s: %s%s%s\n", text_at(one, "probe"), text_at(one, "code"),
                                 *pci ? " at " : "", pci);
    }
    return ok;
}

static int run(const void *given) {
    const resources_options *o = given;
    kn_config c;
    const char *from = NULL;
    kn_error err = { 0 };
    json_t *report = NULL;
    KN_AUTO_BUF out;
    kn_buf_init(&out, TEXT_LIMIT);
    if (!kn_service_config(o->config, &c, &from, &err))
        return kn_report("config", &err);
    bool ok = look(&c, &report, &err);
    kn_config_free(&c);
    if (!ok)
        return kn_report("resources", &err);
    char *json = o->json ? json_dumps(report, JSON_INDENT(1)) : NULL;
    ok = (o->json ? json && kn_buf_printf(&out, "%s\n", json) : tell(report, &out)) || kn_fail_nomem(&err, TEXT_LIMIT);
    free(json);
    json_decref(report);
    return ok && kn_print(&out, &err) ? 0 : kn_report(NULL, &err);
}

const kn_command kn_command_resources = {
    .name = "resources",
    .help = "Tell the memory of the machine and its graphics cards, and what is loaded",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(resources_options),
    .run = run,
};
