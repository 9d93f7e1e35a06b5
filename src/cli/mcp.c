/* kuno mcp: the MCP server for one client that has started it and speaks to it over standard input and output. All work
 * is done by the service, which may be started later. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/service.h"
#include "mcp/pipes.h"

typedef struct mcp_options {
    const char *config, *token_file;
    kn_given_paths allowed;
} mcp_options;

#define AT(member) offsetof(mcp_options, member)

static const kn_option options[] = {
    KN_OPT_GROUP("Which service"),
    KN_OPT(PATH, 0, "config", "FILE", AT(config), "of this config.json (default: " KN_CONFIG_PATH ", if it is there)"),
    KN_OPT(PATH, 0, "token-file", "FILE", AT(token_file),
           "its token is in this file (default: control-token in its state directory)"),

    KN_OPT_GROUP("What clients may do"),
    KN_OPT(PATHS, 0, "allow", "DIR", AT(allowed), "name pictures below this folder by their paths (may be repeated)"),

    KN_OPT_GROUP("Other"),
    KN_OPT_HELP,
};

typedef struct server {
    kn_loop *loop;
    kn_http *http;
    kn_mcp_pipes *pipes;
    kn_service_key key;
    size_t folder_count;
    char *folders[KN_GIVEN_PATHS_MAX];
} server;

static bool give_token(void *ctx, char ret[KN_TOKEN_MAX + 1], kn_error *err) {
    const server *s = ctx;
    kn_token token;
    if (!kn_service_key_read(&s->key, &token, err))
        return false;
    memcpy(ret, token.text, token.len + 1);
    explicit_bzero(&token, sizeof token);
    return true;
}

static void ended(void *ctx) {
    const server *s = ctx;
    kn_loop_stop(s->loop);
}

static void signal_came(void *ctx, int number) {
    (void)number;
    const server *s = ctx;
    if (s->pipes)
        kn_mcp_pipes_stop(s->pipes);
}

static bool watch_signals(server *s, kn_error *err) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    return kn_loop_signals(s->loop, &set, signal_came, s, err);
}

static bool find_folders(server *s, const kn_given_paths *given, kn_error *err) {
    for (size_t i = 0; i < given->count; i++) {
        char *path = realpath(given->paths[i], NULL);
        if (!path)
            return kn_fail(err, KN_E_USAGE, "--allow: there is no folder '%s'", kn_quote_path(given->paths[i]).text);
        s->folders[s->folder_count++] = path;
    }
    return true;
}

/* The standard streams stay as they are; what is used are descriptors of our own. */
static bool speak(server *s, const kn_config *c, kn_error *err) {
    const kn_acquaint_user owner = kn_acquaint_user_of(c->state_dir);
    const kn_mcp_setup setup = { .http = s->http,
                                 .studio = &c->studio,
                                 .acquaint = &owner,
                                 .token = give_token,
                                 .ctx = s,
                                 .folders = (const char *const *)s->folders,
                                 .folder_count = s->folder_count };
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (in >= 0 && out >= 0 && kn_mcp_pipes_new(&setup, in, out, ended, s, &s->pipes, err))
        return true;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return kn_fail(err, KN_E_IO, "standard input and output cannot be used");
}

static int run(const void *given) {
    const mcp_options *o = given;
    server s = { 0 };
    kn_config c = { 0 };
    const char *from = NULL;
    kn_error err = { 0 };
    kn_service_keep_private();
    if (!kn_service_config(o->config, &c, &from, &err))
        return kn_report("config", &err);
    bool ok = c.studio.len || kn_fail(&err, KN_E_USAGE, "the configuration has no 'studio'");
    ok = ok && kn_service_key_find(o->token_file, &c, &s.key, &err) && find_folders(&s, &o->allowed, &err) &&
         kn_loop_new(NULL, NULL, &s.loop, &err) && watch_signals(&s, &err) && kn_http_new(s.loop, &s.http, &err) &&
         speak(&s, &c, &err) && kn_loop_run(s.loop, &err);
    kn_mcp_pipes_free(s.pipes);
    if (s.http)
        kn_http_free(s.http);
    if (s.loop)
        kn_loop_free(s.loop);
    for (size_t i = 0; i < s.folder_count; i++)
        free(s.folders[i]);
    explicit_bzero(&s.key, sizeof s.key);
    kn_config_free(&c);
    return ok ? 0 : kn_report("mcp", &err);
}

const kn_command kn_command_mcp = {
    .name = "mcp",
    .help = "Let a program that speaks MCP draw with the running service",
    .options = options,
    .option_count = KN_COUNT(options),
    .given_bytes = sizeof(mcp_options),
    .run = run,
};
