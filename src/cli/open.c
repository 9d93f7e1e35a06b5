/* kuno open: the studio's page in the browser. The service is found, or else started and left running; the page begins
 * its session with a code that is good once, so that the token is on no command line. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/open_browser.h"
#include "cli/open_process.h"
#include "cli/report.h"
#include "cli/service.h"
#include "gateway/state.h"
#include "http/acquaint.h"

enum { ASK_MS = 20 * 1000, BEGIN_S = 30, LOOK_MS = 100, ANSWER_BYTES = 64 << 10, LOG_BYTES = 1 << 20 };

typedef struct open_options {
    const char *config, *token_file;
    bool print;
} open_options;

#define AT(member) offsetof(open_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("Which service"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "of this config.json (default: " KN_CONFIG_PATH ", if it is there)"),
    KN_OPT(PATH, 0, "token-file", "FILE", AT(token_file),
           "its token is in this file (default: control-token in its state directory)"),

    KN_OPT_GROUP("How to open it"),
    KN_OPT(FLAG, 0, "print", NULL, AT(print), "print the link instead of opening it"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

typedef struct opening {
    const open_options *options;
    kn_config config;
    bool configured; /* by a file */
    kn_service_key key;
    kn_loop *loop;
    kn_http *http;
    kn_upstream *service;
    kn_call_end end; /* of the last question */
    unsigned status;
    json_t *answer;
} opening;

/* ---- questions ---- */

static void answered(void *ctx, const kn_call_result *r) {
    opening *o = ctx;
    o->end = r->end;
    o->status = r->status;
    o->answer = r->body.data ? json_loadb(r->body.data, r->body.len, 0, NULL) : NULL;
    kn_loop_stop(o->loop);
}

/* False: it cannot be asked at all. What became of it is in o->end, o->status and o->answer. */
static bool ask(opening *o, const char *method, const char *target, const char *fields, kn_error *err) {
    const kn_call_request r = {
        .method = method, .target = target, .fields = fields, .answer_limit = ANSWER_BYTES, .within_ms = ASK_MS
    };
    json_decref(o->answer);
    o->answer = NULL;
    o->end = KN_CALL_UNREACHABLE;
    return !kn_call_start(o->service, &r, answered, o, NULL, NULL) || kn_loop_run(o->loop, err);
}

/* ---- the service ---- */

typedef struct looking {
    const opening *opening;
    bool runs;
    kn_error err; /* why not */
} looking;

static void looked(void *ctx, const kn_call_result *r) {
    looking *l = ctx;
    const opening *o = l->opening;
    const kn_acquaint_user owner = kn_acquaint_user_of(o->config.state_dir);
    l->runs = kn_acquaint_check(&o->config.studio, &owner, r, &l->err);
    kn_loop_stop(o->loop);
}

/* *ret: whether it runs. False: somebody else is there. */
static bool look(opening *o, bool *ret, kn_error *err) {
    const kn_call_request r = kn_acquaint_request();
    looking l = { .opening = o };
    bool asked = kn_call_start(o->service, &r, looked, &l, NULL, NULL);
    if (asked && !kn_loop_run(o->loop, err))
        return false;
    *ret = l.runs;
    return !asked || l.runs || l.err.code == KN_E_NOT_FOUND || kn_fail(err, l.err.code, "%s", l.err.text);
}

/* Where services write that we have started, one behind the other; one older log is kept beside it. */
typedef struct service_log {
    char path[PATH_MAX];
    int fd;
    size_t from; /* where this one's begins */
} service_log;

/* The last line that it wrote. */
static bool fail_as_it_says(const service_log *log, kn_error *err) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 2 * LOG_BYTES);
    if (!kn_file_read(log->path, 2 * LOG_BYTES, &text, NULL))
        kn_buf_clear(&text);
    while (text.len && text.data[text.len - 1] == '\n')
        text.data[--text.len] = 0;
    const char *own = text.data + KN_MIN(log->from, text.len), *line = strrchr(own, '\n');
    line = line ? line + 1 : own;
    if (!strncmp(line, "kuno: ", 6))
        line += 6;
    return kn_fail(err, KN_E_IO, "the service ends at once: %.400s", *line ? line : "it does not say why");
}

/* The service takes its token from where we did; a variable is not handed on otherwise (token.h). */
static bool hand_on_token(const opening *o) {
    if (o->key.token.len)
        return !unsetenv("KUNO_CONTROL_TOKEN_FILE") && !setenv("KUNO_CONTROL_TOKEN", o->key.token.text, 1);
    return (!o->configured && !o->options->token_file) || !setenv("KUNO_CONTROL_TOKEN_FILE", o->key.file, 1);
}

/* One that ends at once may have met another that somebody started meanwhile. */
static bool wait_for(opening *o, kn_started *service, const service_log *log, kn_error *err) {
    bool runs = false;
    for (double end = kn_now() + BEGIN_S; !runs;) {
        bool ended = kn_started_has_ended(service, LOOK_MS);
        if (!look(o, &runs, err))
            return false;
        if (!runs && ended)
            return fail_as_it_says(log, err);
        if (!runs && kn_now() > end)
            return kn_fail(err, KN_E_IO, "the service has not begun within %d seconds; see '%s'", BEGIN_S,
                           kn_quote_path(log->path).text);
    }
    return true;
}

static bool open_log(const char *state_dir, service_log *log, kn_error *err) {
    char old[PATH_MAX];
    struct stat st;
    int len = snprintf(log->path, sizeof log->path, "%s/serve.log", state_dir);
    if (len >= (int)sizeof log->path || snprintf(old, sizeof old, "%s.1", log->path) >= (int)sizeof old)
        return kn_fail(err, KN_E_USAGE, "the path of the state directory is too long");
    if (lstat(log->path, &st) == 0 && st.st_size > LOG_BYTES && rename(log->path, old) != 0)
        return kn_fail(err, KN_E_OUTPUT, "cannot rename '%s': %s", kn_quote_path(log->path).text, strerror(errno));
    log->fd = open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log->fd < 0 || fstat(log->fd, &st) != 0)
        return kn_fail(err, KN_E_OUTPUT, "cannot write '%s': %s", kn_quote_path(log->path).text, strerror(errno));
    log->from = (size_t)st.st_size;
    return true;
}

static bool start(opening *o, kn_error *err) {
    char self[PATH_MAX] = "";
    service_log log = { .fd = -1 };
    const char *config = o->options->config;
    const char *const command[] = { self, "serve", config ? "--config" : NULL, config, NULL };
    kn_started service;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return kn_fail(err, KN_E_IO, "the program does not find itself: %s", strerror(errno));
    bool ok = open_log(o->config.state_dir, &log, err) && (hand_on_token(o) || kn_fail_nomem(err, sizeof o->key)) &&
              kn_start(command, log.fd, &service, err);
    unsetenv("KUNO_CONTROL_TOKEN");
    if (log.fd >= 0)
        close(log.fd);
    ok = ok && wait_for(o, &service, &log, err);
    if (ok)
        kn_started_leave(&service);
    return ok;
}

/* Of several at a time one starts it, who holds the folder; the others wait for that service. */
static bool find_or_start(opening *o, kn_error *err) {
    const char *path = o->config.state_dir;
    bool runs = false, held = false;
    if (!look(o, &runs, err) || runs)
        return runs;
    if (!kn_state_make_folder(path, err))
        return false;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return kn_fail(err, KN_E_OUTPUT, "cannot open '%s': %s", kn_quote_path(path).text, strerror(errno));
    bool ok = true;
    for (double end = kn_now() + BEGIN_S; ok && !runs && !held;) {
        held = flock(folder, LOCK_EX | LOCK_NB) == 0;
        ok = look(o, &runs, err);
        if (ok && !runs && !held && kn_now() > end)
            ok = kn_fail(err, KN_E_IO, "another 'kuno open' has not started the service within %d seconds", BEGIN_S);
        if (ok && !runs && !held)
            poll(NULL, 0, LOOK_MS);
    }
    ok = ok && (runs || start(o, err));
    close(folder);
    return ok;
}

/* ---- the link ---- */

static bool get_code(opening *o, char code[KN_TOKEN_MAX + 1], kn_error *err) {
    kn_token token;
    char fields[KN_TOKEN_MAX + 100];
    if (!kn_service_key_read(&o->key, &token, err))
        return false;
    snprintf(fields, sizeof fields, "Authorization: Bearer %s\r\n", token.text);
    bool ok = ask(o, "POST", "/api/v1/session/link", fields, err);
    explicit_bzero(&token, sizeof token);
    explicit_bzero(fields, sizeof fields);
    if (!ok)
        return false;
    const char *given = json_string_value(json_object_get(o->answer, "code"));
    if (o->end == KN_CALL_ANSWERED && o->status == 401)
        return kn_fail(err, KN_E_USAGE, "the token is not that of the service; give its own by --token-file");
    if (o->end != KN_CALL_ANSWERED || o->status != 201 || !given || !kn_token_is_valid(given, strlen(given)))
        return kn_fail(err, KN_E_USAGE, "the Kuno service at %s is of another version than this program",
                       kn_address_print(&o->config.studio).text);
    memcpy(code, given, strlen(given) + 1);
    return true;
}

static bool show(const opening *o, const char *code, kn_error *err) {
    KN_AUTO_BUF link;
    kn_buf_init(&link, 1000);
    if (!kn_buf_printf(&link, "http://%s/#link=%s", kn_address_print(&o->config.studio).text, code))
        return kn_fail_nomem(err, link.limit);
    if (!o->options->print && kn_browser_open(link.data))
        return true;
    if (!o->options->print)
        kn_warn("there is no browser to be had here; open this link within two minutes");
    return (kn_buf_add_text(&link, "\n") || kn_fail_nomem(err, link.limit)) && kn_print(&link, err);
}

static bool open_page(opening *o, kn_error *err) {
    const kn_upstream_limits limits = kn_upstream_limits_default();
    char code[KN_TOKEN_MAX + 1] = "";
    if (!o->config.studio.len)
        return kn_fail(err, KN_E_USAGE, "the configuration has no 'studio'");
    bool ok = kn_service_key_find(o->options->token_file, &o->config, &o->key, err) &&
              kn_loop_new(NULL, NULL, &o->loop, err) && kn_http_new(o->loop, &o->http, err) &&
              kn_upstream_new(o->http, &o->config.studio, &limits, &o->service, err) && find_or_start(o, err) &&
              get_code(o, code, err) && show(o, code, err);
    explicit_bzero(code, sizeof code);
    return ok;
}

static int run(const void *given) {
    opening o = { .options = given };
    const char *from = NULL;
    kn_error err = { 0 };
    signal(SIGPIPE, SIG_IGN);
    if (!kn_service_config(o.options->config, &o.config, &from, &err))
        return kn_report("config", &err);
    o.configured = from;
    bool ok = open_page(&o, &err);
    json_decref(o.answer);
    kn_upstream_free(o.service);
    if (o.http)
        kn_http_free(o.http);
    if (o.loop)
        kn_loop_free(o.loop);
    explicit_bzero(&o.key, sizeof o.key);
    kn_config_free(&o.config);
    return ok ? 0 : kn_report("open", &err);
}

const kn_command kn_command_open = {
    .name = "open",
    .help = "Open the studio's page in the browser, and start the service if it does not run",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(open_options),
    .run = run,
};
