#include "cli/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/text.h"
#include "gateway/state.h"
#include "studio/store.h"

/* Whoever collects core dumps through a pipe gets them whatever the limit is, unless the process is not dumpable. That
 * ends with the next program that it runs; what is never in a dump stays so, but can only be said before. */
void kn_service_keep_private(void) {
    FILE *filter = fopen("/proc/self/coredump_filter", "we");
    if (filter) {
        fputs("0", filter);
        fclose(filter);
    }
    prctl(PR_SET_DUMPABLE, 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

/* $XDG_STATE_HOME/kuno, or ~/.local/state/kuno. */
static bool state_in_home(char *path, size_t room, kn_error *err) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int len = state && *state == '/' ? snprintf(path, room, "%s/kuno", state)
              : home && *home == '/' ? snprintf(path, room, "%s/.local/state/kuno", home)
                                     : -1;
    return (len >= 0 && (size_t)len < room) ||
           kn_fail(err, KN_E_USAGE, "there is no home to keep state in; write a config.json with a state_dir");
}

bool kn_service_config(const char *given, kn_config *ret, const char **ret_from, kn_error *err) {
    char state[PATH_MAX / 2]; /* what lies in there has longer names */
    *ret_from = given ? given : access(KN_CONFIG_PATH, F_OK) == 0 ? KN_CONFIG_PATH : NULL;
    if (*ret_from)
        return kn_config_load(*ret_from, ret, err);
    return state_in_home(state, sizeof state, err) && kn_config_default(state, ret, err);
}

/* Of what the studio has in its folder the gateway knows nothing. */
void kn_service_look(const kn_config *c, kn_needs *ret) {
    char folder[PATH_MAX];
    kn_error why = { 0 };
    kn_needs_look(c, ret);
    snprintf(folder, sizeof folder, "%s/studio", c->state_dir);
    if (c->studio.len && !kn_store_look(folder, &why))
        kn_needs_note(ret, "studio", folder, &why);
}

void kn_service_warn(const kn_config *c, kn_needs *ret) {
    char folder[PATH_MAX];
    kn_error why = { 0 };
    kn_needs_warn(c, ret);
    snprintf(folder, sizeof folder, "%s/studio", c->state_dir);
    if (c->studio.len && !kn_store_look_to_write(folder, &why))
        kn_needs_note(ret, "studio", folder, &why);
}

bool kn_service_key_find(const char *given, const kn_config *c, kn_service_key *ret, kn_error *err) {
    const char *from = NULL;
    *ret = (kn_service_key){ 0 };
    if (!given && !kn_token_take(&ret->token, &from, err))
        return false;
    int len = given ? snprintf(ret->file, sizeof ret->file, "%s", given)
                    : snprintf(ret->file, sizeof ret->file, "%s/control-token", c->state_dir);
    return len < (int)sizeof ret->file || kn_fail(err, KN_E_USAGE, "the path of the token's file is too long");
}

bool kn_service_key_read(const kn_service_key *k, kn_token *ret, kn_error *err) {
    if (k->token.len) {
        *ret = k->token;
        return true;
    }
    if (kn_token_read_file(k->file, ret, err))
        return true;
    return err && err->code == KN_E_NOT_FOUND
               ? kn_fail_within(err, "the Kuno service has not run yet: its token's file '%s'",
                                kn_quote_path(k->file).text)
               : kn_fail_within(err, "the token's file '%s'", kn_quote_path(k->file).text);
}

bool kn_service_find_token(const kn_config *c, bool configured, bool makes, kn_service_token *ret, kn_error *err) {
    const char *from = NULL;
    if (!kn_token_take(&ret->token, &from, err))
        return kn_fail_within(err, "control token");
    if (from) {
        snprintf(ret->from, sizeof ret->from, "%s", from);
        return true;
    }
    if (configured)
        return kn_fail(err, KN_E_USAGE,
                       "control token: there is none; set KUNO_CONTROL_TOKEN or KUNO_CONTROL_TOKEN_FILE (32 to 256 "
                       "characters)");
    snprintf(ret->from, sizeof ret->from, "%s/control-token", c->state_dir);
    bool ok = makes ? kn_state_make_folder(c->state_dir, err) && kn_token_make_file(ret->from, &ret->token, err)
                    : !kn_token_has_file(ret->from) || kn_token_read_file(ret->from, &ret->token, err);
    return ok || kn_fail_within(err, "control token: '%s'", kn_quote_path(ret->from).text);
}
