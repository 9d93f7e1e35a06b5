/* kuno check: reads config.json as `kuno serve` would, and tells what it means. Nothing is started or opened. */
#include <jansson.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/report.h"
#include "cli/service.h"

enum { TEXT_LIMIT = 64 << 10 };

typedef struct check_options {
    const char *config;
    bool json;
} check_options;

#define AT(member) offsetof(check_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("What to check"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "this config.json (default: " KN_CONFIG_PATH ", if it is there)"),

    KN_OPT_GROUP("Output"),
    KN_OPT(FLAG, 0, "json", NULL, AT(json), "answer with one JSON object"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

static const char *place_of(const kn_image_config *c) {
    return c->pci.text[0] ? c->pci.text : "the processor";
}

static bool tell(const kn_config *c, const char *from, kn_buf *out) {
    bool ok = kn_buf_printf(out, "%s can be served\n", from ? from : "the built-in configuration") &&
              kn_buf_printf(out, "listen    %s\n", kn_address_print(&c->listen).text) &&
              kn_buf_printf(out, "upstream  %s\n", kn_address_print(&c->upstream).text) &&
              kn_buf_printf(out, "control   %s\n", kn_address_print(&c->control).text) &&
              kn_buf_printf(out, "state     %s\n", c->state_dir) &&
              (!c->studio.len || kn_buf_printf(out, "studio    %s\n", kn_address_print(&c->studio).text)) &&
              (!c->image.enabled || kn_buf_printf(out, "pictures  %s\n", place_of(&c->image)));
    for (size_t i = 0; ok && i < c->worker_count; i++)
        ok =
            kn_buf_printf(out, "worker    %s on %s\n", c->workers[i].id, kn_address_print(&c->workers[i].address).text);
    return ok;
}

static bool tell_json(const kn_config *c, const char *from, kn_buf *out) {
    json_t *workers = json_array();
    for (size_t i = 0; i < c->worker_count; i++)
        json_array_append_new(workers, json_pack("{s:s, s:s, s:s}", "id", c->workers[i].id, "backend",
                                                 kn_backend_names[c->workers[i].backend], "address",
                                                 kn_address_print(&c->workers[i].address).text));
    json_t *answer = json_pack("{s:s?, s:s, s:s, s:s, s:s, s:s*, s:o}", "config", from, "listen",
                               kn_address_print(&c->listen).text, "upstream", kn_address_print(&c->upstream).text,
                               "control", kn_address_print(&c->control).text, "state_dir", c->state_dir, "studio",
                               c->studio.len ? kn_address_print(&c->studio).text : NULL, "workers", workers);
    char *text = answer ? json_dumps(answer, JSON_INDENT(1)) : NULL;
    bool ok = text && kn_buf_printf(out, "%s\n", text);
    free(text);
    json_decref(answer);
    return ok;
}

static int run(const void *given) {
    const check_options *o = given;
    kn_config c;
    const char *from = NULL;
    kn_error err = { 0 };
    KN_AUTO_BUF out;
    kn_buf_init(&out, TEXT_LIMIT);
    if (!kn_service_config(o->config, &c, &from, &err))
        return kn_report("config", &err);
    bool ok = (o->json ? tell_json(&c, from, &out) : tell(&c, from, &out)) || kn_fail_nomem(&err, TEXT_LIMIT);
    kn_config_free(&c);
    return ok && kn_print(&out, &err) ? 0 : kn_report(NULL, &err);
}

const kn_command kn_command_check = {
    .name = "check",
    .help = "Check the configuration of the server",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(check_options),
    .run = run,
};
