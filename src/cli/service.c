#include "cli/service.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    char state[PATH_MAX];
    *ret_from = given ? given : access(KN_CONFIG_PATH, F_OK) == 0 ? KN_CONFIG_PATH : NULL;
    if (*ret_from)
        return kn_config_load(*ret_from, ret, err);
    return state_in_home(state, sizeof state, err) && kn_config_default(state, ret, err);
}
