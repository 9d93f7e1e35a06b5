#include "gateway/refusal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"

/* Long enough that whoever obeys does not hammer, short enough that nobody waits in vain. */
enum { RETRY_SOON_S = 5, RETRY_LATE_S = 60 };

enum { BODY_BYTES = 6 * KN_MODEL_NAME_MAX + 512 }; /* a name may be written in escapes */

static const char *openai_type(unsigned status) {
    return status == 404 ? "not_found_error" : status < 500 ? "invalid_request_error" : "api_error";
}

static const char *anthropic_type(unsigned status) {
    return status == 404   ? "not_found_error"
           : status < 500  ? "invalid_request_error"
           : status == 503 ? "overloaded_error"
                           : "api_error";
}

/* Names an error for whoever reports it; nothing else knows it. */
static const char *print_request_id(char text[32]) {
    static const char start[] = "req_";
    unsigned char random[12];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random)
        memset(random, 0, sizeof random);
    memcpy(text, start, sizeof start - 1);
    kn_hex(random, sizeof random, text + sizeof start - 1);
    return text;
}

/* text: as JSON has it between quotation marks. */
static void reply(kn_exchange *x, kn_dialect dialect, unsigned status, const char *text, const char *fields) {
    char body[BODY_BYTES], id[32];
    int len = 0;
    switch (dialect) {
    case KN_DIALECT_OLLAMA: len = snprintf(body, sizeof body, "{\"error\":\"%s\"}", text); break;
    case KN_DIALECT_OPENAI:
        len =
            snprintf(body, sizeof body, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":null}}",
                     text, openai_type(status));
        break;
    case KN_DIALECT_ANTHROPIC:
        len = snprintf(body, sizeof body,
                       "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"%s\"},\"request_id\":\"%s\"}",
                       anthropic_type(status), text, print_request_id(id));
        break;
    }
    kn_exchange_reply(x, &(kn_reply){ .status = status,
                                      .type = "application/json; charset=utf-8",
                                      .fields = fields,
                                      .body = body,
                                      .len = (size_t)len });
}

void kn_refuse_work(kn_exchange *x, kn_dialect dialect, kn_refusal why, size_t queued) {
    static const struct {
        const char *text;
        unsigned retry_s;
        bool in_vain; /* trying again does not help; the official clients look at this */
    } rows[KN_REFUSED_COUNT] = {
        [KN_REFUSED_PAUSED] = { "kuno: admission is paused", RETRY_SOON_S, false },
        [KN_REFUSED_STOPPING] = { "kuno: the server is stopping", RETRY_SOON_S, false },
        [KN_REFUSED_RECOVERY] = { "kuno: recovery is required: earlier work may still be running", RETRY_LATE_S, true },
        [KN_REFUSED_QUEUE_FULL] = { "kuno: the queue is full", RETRY_SOON_S, false },
        [KN_REFUSED_QUEUE_TIMEOUT] = { "kuno: the request has waited too long for its turn", RETRY_SOON_S, false },
        [KN_REFUSED_STATE] = { "kuno: the state directory cannot be written", RETRY_LATE_S, false },
    };
    char text[128], fields[128];
    int len = snprintf(text, sizeof text, "%s", rows[why].text);
    if (why == KN_REFUSED_QUEUE_FULL && queued)
        snprintf(text + len, sizeof text - (size_t)len, ": %s %s", kn_counted(queued, "request").text,
                 queued == 1 ? "waits" : "wait");
    else if (why == KN_REFUSED_QUEUE_FULL)
        snprintf(text, sizeof text, "kuno: another request is at work, and none may wait for it");
    snprintf(fields, sizeof fields, "Retry-After: %u\r\n%s", rows[why].retry_s,
             rows[why].in_vain ? "X-Should-Retry: false\r\n" : "");
    reply(x, dialect, 503, text, fields);
}

void kn_refuse_place(kn_exchange *x, kn_dialect dialect, kn_job_refusal why) {
    static const struct {
        const char *text;
        bool in_vain;
    } rows[KN_JOB_REFUSAL_COUNT] = {
        [KN_JOB_NO_WORKER] = { "kuno: no worker is ready", false },
        [KN_JOB_UNKNOWN_MEMORY] = { "kuno: the free memory of no device is known", false },
        [KN_JOB_TOO_LARGE] = { "kuno: the model is larger than any device", true },
        [KN_JOB_MEMORY_TAKEN] = { "kuno: the memory that the model needs is taken", false },
        [KN_JOB_LOAD_FAILED] = { "kuno: the model could not be loaded", false },
        [KN_JOB_STATE] = { "kuno: the state directory cannot be written", false },
    };
    char fields[80];
    snprintf(fields, sizeof fields, "Retry-After: %u\r\n%s", rows[why].in_vain ? RETRY_LATE_S : RETRY_SOON_S,
             rows[why].in_vain ? "x-should-retry: false\r\n" : "");
    reply(x, dialect, 503, rows[why].text, fields);
}

void kn_refuse_model(kn_exchange *x, kn_dialect dialect, const char *name, bool embeds) {
    char words[KN_MODEL_NAME_MAX + 64];
    snprintf(words, sizeof words, embeds ? "model \"%s\" not found, try pulling it first" : "model '%s' not found",
             name);
    json_t *text = json_string(words);
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    json_decref(text);
    if (quoted) {
        quoted[strlen(quoted) - 1] = 0; /* without its quotation marks */
        reply(x, dialect, 404, quoted + 1, NULL);
    } else {
        kn_refuse_status(x, dialect, 404);
    }
    free(quoted);
}

void kn_refuse_option(kn_exchange *x, kn_dialect dialect) {
    reply(x, dialect, 400, "kuno: of the options that change how a model is loaded only num_ctx can be given here",
          NULL);
}

void kn_refuse_status(kn_exchange *x, kn_dialect dialect, unsigned status) {
    static const struct {
        unsigned status;
        const char *text;
    } rows[] = {
        { 400, "kuno: the request is not well-formed" },
        { 404, "kuno: there is no such route here" },
        { 408, "kuno: the request did not arrive in time" },
        { 413, "kuno: the request is too large" },
        { 414, "kuno: the target is too long" },
        { 431, "kuno: the header has too many or too long fields" },
        { 501, "kuno: this way to talk is not supported" },
        { 502, "kuno: the upstream cannot be reached, or broke off its answer" },
        { 503, "kuno: memory is short" },
        { 504, "kuno: the upstream did not answer in time" },
        { 505, "kuno: only HTTP/1.0 and HTTP/1.1 are spoken here" },
    };
    const char *text = "kuno: the request failed";
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (rows[i].status == status)
            text = rows[i].text;
    reply(x, dialect, status, text, status == 503 ? "Retry-After: 5\r\n" : NULL);
}
