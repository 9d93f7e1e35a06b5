#include "http/acquaint.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/owner.h"

enum { ASK_MS = 20 * 1000, ANSWER_BYTES = 64 << 10 };

kn_call_request kn_acquaint_request(void) {
    return (kn_call_request){
        .method = "GET", .target = "/api/v1/health", .answer_limit = ANSWER_BYTES, .within_ms = ASK_MS
    };
}

kn_acquaint_user kn_acquaint_user_of(const char *state_dir) {
    struct stat st;
    if (stat(state_dir, &st) == 0)
        return (kn_acquaint_user){ .is_known = true, .user = st.st_uid };
    return (kn_acquaint_user){ .anyone = errno == EACCES };
}

static bool is_from_studio(const kn_call_result *answer) {
    json_t *json = answer->status == 200 ? json_loadb(answer->body.data, answer->body.len, 0, NULL) : NULL;
    const char *api = json_string_value(json_object_get(json, "api"));
    bool ok = api && !strcmp(api, "v1");
    json_decref(json);
    return ok;
}

static bool is_of_friend(const kn_address *a, const kn_acquaint_user *other) {
    uid_t user;
    return other->anyone || !kn_address_user(a, &user) || user == 0 || user == geteuid() ||
           (other->is_known && user == other->user);
}

bool kn_acquaint_check(const kn_address *a, const kn_acquaint_user *other, const kn_call_result *answer,
                       kn_error *err) {
    const kn_address_text at = kn_address_print(a);
    if (answer->end == KN_CALL_UNREACHABLE)
        return kn_fail(err, KN_E_NOT_FOUND,
                       "the Kuno service at %s does not run; start it with 'kuno serve' or 'kuno open'", at.text);
    if (answer->end == KN_CALL_NO_MEMORY)
        return kn_fail(err, KN_E_NOMEM, "the Kuno service at %s could not be heard: memory is short", at.text);
    if (answer->end == KN_CALL_BROKEN)
        return kn_fail(err, KN_E_IO,
                       "the Kuno service at %s broke off its answer: it may have been stopped, or be another program",
                       at.text);
    if (answer->end == KN_CALL_LATE)
        return kn_fail(err, KN_E_IO, "what listens on %s did not answer in time", at.text);
    if (answer->end != KN_CALL_ANSWERED || !is_from_studio(answer))
        return kn_fail(err, KN_E_USAGE,
                       "what listens on %s is not Kuno's studio, or another version of it; it was not sent the token",
                       at.text);
    return is_of_friend(a, other) ||
           kn_fail(
               err, KN_E_USAGE,
               "what listens on %s belongs to another user, who is not that of the state directory; it was not sent "
               "the token",
               at.text);
}
