#include "gateway/presence.h"

#include <stdio.h>
#include <string.h>

#include "base/date.h"
#include "base/json_reader.h"

enum { WITHIN_MS = 2000, AGAIN_MS = 5000, LINE_BYTES = 400 };

const kn_call_request kn_presence_question = {
    .method = "GET", .target = "/api/version", .answer_limit = 4096, .within_ms = WITHIN_MS
};

/* {"version":"0.17.4"} */
static void read_version(kn_presence *p, kn_span body) {
    const kn_json_text all = { body.data, body.len };
    kn_json_reader j;
    kn_json_text key, text;
    kn_error err = { 0 };
    kn_json_begin(&j, all, all, &err);
    p->version[0] = 0;
    kn_json_object(&j);
    while (!j.failed && kn_json_key(&j, &key)) {
        if (kn_json_is(key, "version") && kn_json_peek(&j) == '"') {
            if (kn_json_string(&j, &text) && text.len < sizeof p->version) {
                memcpy(p->version, text.data, text.len);
                p->version[text.len] = 0;
            }
        } else {
            kn_json_skip(&j, NULL);
        }
    }
    kn_json_close(&j);
}

/* In front of the address, and behind it: what is the case, and what to do. */
static const char *const words[KN_PRESENCE_COUNT][2] = {
    [KN_PRESENCE_THERE] = { "the Ollama at ", " answers" },
    [KN_PRESENCE_ABSENT] = { "no Ollama answers at ",
                             ", so what needs one gets 502; start it (ollama serve), or name its "
                             "address as 'upstream' in config.json" },
    [KN_PRESENCE_SILENT] = { "what listens at ", " does not answer; if it is an Ollama, restart it" },
    [KN_PRESENCE_OTHER] = { "what answers at ", " is no Ollama; name the address of one as 'upstream' in config.json" },
};

static void tell(kn_presence *p, kn_presence_kind kind) {
    char line[LINE_BYTES];
    if (p->kind == kind)
        return;
    p->kind = kind;
    snprintf(line, sizeof line, "%s%s%s", words[kind][0], kn_address_print(p->address).text, words[kind][1]);
    p->log(p->ctx, line);
}

void kn_presence_take(kn_presence *p, const kn_call_result *r) {
    p->checked_s = kn_date_now();
    p->reachable = r && r->end == KN_CALL_ANSWERED && r->status == 200;
    if (p->reachable)
        read_version(p, r->body);
    if (p->reachable && p->version[0])
        tell(p, KN_PRESENCE_THERE);
    else
        tell(p, !r || r->end == KN_CALL_UNREACHABLE ? KN_PRESENCE_ABSENT
                : r->end == KN_CALL_LATE            ? KN_PRESENCE_SILENT
                                                    : KN_PRESENCE_OTHER);
    if (p->kind != KN_PRESENCE_THERE)
        kn_loop_timer_after(p->loop, &p->again, AGAIN_MS);
}

static void answered(void *ctx, const kn_call_result *r) {
    kn_presence *p = ctx;
    p->call = NULL;
    kn_presence_take(p, r);
    kn_upstream_forget_idle(p->upstream); /* nobody may want it for long */
}

static void ask(kn_presence *p) {
    if (!p->call && !kn_call_start(p->upstream, &kn_presence_question, answered, p, &p->call, NULL))
        kn_presence_take(p, NULL);
}

static void ask_again(kn_timer *t) {
    ask(KN_HOLDER(t, kn_presence, again));
}

void kn_presence_begin(kn_presence *p) {
    p->again.fired = ask_again;
    ask(p);
}

void kn_presence_end(kn_presence *p) {
    if (p->call)
        kn_call_cancel(p->call);
    p->call = NULL;
    if (p->loop)
        kn_loop_timer_close(p->loop, &p->again);
}
