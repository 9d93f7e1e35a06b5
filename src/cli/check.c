/* kuno check: whether `kuno serve` could begin here, with this configuration, as this user and in this environment, and
 * what it would serve. All that is in the way is told, and nothing is changed. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/report.h"
#include "cli/service.h"
#include "workers/recipe.h"
#include "workers/sandbox.h"

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

typedef struct findings {
    const kn_config *config;
    const char *from; /* NULL: the built-in configuration */
    kn_service_token token;
    kn_needs problems, busy, warnings;
    kn_cage_gaps gaps; /* of an image worker that began here */
} findings;

/* What an image worker would do without is a warning where it must not. */
static void look_at_cage(findings *f) {
    const kn_config *c = f->config;
    const struct {
        const char *where;
        bool is_required;
    } rows[] = { { "studio.isolation", c->studio.len && c->studio_isolated },
                 { "image.isolation", c->image.enabled && c->image.isolated } };
    kn_error why = { 0 };
    if (!c->studio.len && !c->image.enabled)
        return;
    f->gaps.known = kn_sandbox_try(&f->gaps.parts, &why);
    if (f->gaps.parts)
        kn_fail(&why, KN_E_UNSUPPORTED, "no picture will be drawn: the image worker would do without %s. %s",
                kn_cage_list_of(f->gaps.parts).text, kn_cage_remedy(f->gaps.parts));
    for (size_t i = 0; i < KN_COUNT(rows) && why.code; i++)
        if (rows[i].is_required)
            kn_needs_add(&f->warnings, rows[i].where, &why);
}

static void look(findings *f) {
    kn_error err = { 0 };
    kn_needs *n = &f->problems;
    kn_service_look(f->config, n);
    kn_service_warn(f->config, &f->warnings);
    look_at_cage(f);
    kn_needs_try(f->config, n, &f->busy);
    if (!kn_service_find_token(f->config, f->from, false, &f->token, &err) && n->count < KN_NEEDS_MAX)
        n->items[n->count++] = err;
    explicit_bzero(&f->token.token, sizeof f->token.token);
}

/* ---- in words ---- */

static const char *place_of(const kn_image_config *c) {
    return c->pci.text[0] ? c->pci.text : "the processor";
}

static bool tell(const findings *f, kn_buf *out) {
    const kn_config *c = f->config;
    bool ok = kn_buf_printf(out, "%s can be served\n", f->from ? f->from : "the built-in configuration") &&
              kn_buf_printf(out, "listen    %s\n", kn_address_print(&c->listen).text) &&
              kn_buf_printf(out, "upstream  %s\n", kn_address_print(&c->upstream).text) &&
              kn_buf_printf(out, "control   %s\n", kn_address_print(&c->control).text) &&
              kn_buf_printf(out, "token     %s\n", f->token.from) &&
              kn_buf_printf(out, "state     %s\n", c->state_dir) &&
              (!c->studio.len || kn_buf_printf(out, "studio    %s\n", kn_address_print(&c->studio).text)) &&
              (!c->image.enabled || kn_buf_printf(out, "pictures  %s\n", place_of(&c->image)));
    for (size_t i = 0; ok && i < c->worker_count; i++)
        ok =
            kn_buf_printf(out, "worker    %s on %s\n", c->workers[i].id, kn_address_print(&c->workers[i].address).text);
    if (ok && f->gaps.parts)
        ok = kn_buf_printf(out, "isolation without %s. %s\n", kn_cage_list_of(f->gaps.parts).text,
                           kn_cage_remedy(f->gaps.parts));
    for (size_t i = 0; ok && i < f->busy.count; i++)
        ok = kn_buf_printf(out, "now       %s\n", f->busy.items[i].text);
    for (size_t i = 0; ok && i < f->warnings.count; i++)
        ok = kn_buf_printf(out, "warning   %s\n", f->warnings.items[i].text);
    return ok;
}

/* ---- as JSON ---- */

static json_t *workers_json(const kn_config *c) {
    json_t *workers = json_array();
    for (size_t i = 0; i < c->worker_count; i++)
        json_array_append_new(workers, json_pack("{s:s, s:s, s:s}", "id", c->workers[i].id, "backend",
                                                 kn_backend_names[c->workers[i].backend], "address",
                                                 kn_address_print(&c->workers[i].address).text));
    return workers;
}

static json_t *image_json(const kn_image_config *c) {
    json_t *workflows = json_array();
    if (!c->enabled) {
        json_decref(workflows);
        return json_null();
    }
    for (size_t i = 0; i < KN_WORKFLOWS; i++)
        if (c->workflows >> i & 1)
            json_array_append_new(workflows, json_string(kn_workflows[i].id));
    return json_pack("{s:s?, s:s?, s:I, s:I, s:s, s:o}", "models", c->models, "pci_address",
                     c->pci.text[0] ? c->pci.text : NULL, "timeout_seconds", (json_int_t)c->timeout_s,
                     "keep_warm_seconds", (json_int_t)c->keep_warm_s, "isolation",
                     c->isolated ? "required" : "best-effort", "workflows", workflows);
}

static json_t *texts_json(const kn_needs *n) {
    json_t *texts = json_array();
    for (size_t i = 0; i < n->count; i++)
        json_array_append_new(texts, json_string(n->items[i].text));
    return texts;
}

static bool tell_json(const findings *f, kn_buf *out) {
    const kn_config *c = f->config;
    json_t *answer =
        json_pack("{s:s?, s:b, s:o, s:o, s:o, s:s, s:s, s:s, s:s*, s:s, s:s*, s:o, s:o, s:o}", "config", f->from,
                  "servable", !f->problems.count, "problems", texts_json(&f->problems), "in_use", texts_json(&f->busy),
                  "warnings", texts_json(&f->warnings), "listen", kn_address_print(&c->listen).text, "upstream",
                  kn_address_print(&c->upstream).text, "control", kn_address_print(&c->control).text, "token",
                  f->token.from[0] ? f->token.from : NULL, "state_dir", c->state_dir, "studio",
                  c->studio.len ? kn_address_print(&c->studio).text : NULL, "image", image_json(&c->image), "workers",
                  workers_json(c), "isolation_missing", kn_cage_json(f->gaps));
    char *text = answer ? json_dumps(answer, JSON_INDENT(1)) : NULL;
    bool ok = text && kn_buf_printf(out, "%s\n", text);
    free(text);
    json_decref(answer);
    return ok;
}

/* ---- */

/* Problems are told where errors are; the first one decides about the exit status. */
static int report(const findings *f, bool json) {
    kn_error err = { 0 };
    KN_AUTO_BUF out;
    kn_buf_init(&out, TEXT_LIMIT);
    int status = f->problems.count ? kn_exit_code(f->problems.items[0].code) : 0;
    for (size_t i = 0; i < f->problems.count; i++)
        kn_report("check", &f->problems.items[i]);
    if (status && !json)
        return status;
    bool ok = (json ? tell_json(f, &out) : tell(f, &out)) || kn_fail_nomem(&err, TEXT_LIMIT);
    return ok && kn_print(&out, &err) ? status : kn_report(NULL, &err);
}

static int run(const void *given) {
    const check_options *o = given;
    kn_config c;
    kn_error err = { 0 };
    findings *f = calloc(1, sizeof *f);
    if (!f) {
        kn_fail_nomem(&err, sizeof *f);
        return kn_report(NULL, &err);
    }
    int status = 0;
    if (kn_service_config(o->config, &c, &f->from, &err)) {
        f->config = &c;
        look(f);
        status = report(f, o->json);
        kn_config_free(&c);
    } else {
        status = kn_report("config", &err);
    }
    free(f);
    return status;
}

const kn_command kn_command_check = {
    .name = "check",
    .help = "Check whether the server can be started with a configuration",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(check_options),
    .run = run,
};
