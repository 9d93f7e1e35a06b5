#include "mcp/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

bool kn_mcp_word_is_same(const kn_mcp_word *a, const kn_mcp_word *b) {
    return a->given && b->given && a->is_text == b->is_text && !strcmp(a->text, b->text);
}

/* ---- members ---- */

/* A text; false, after stepping over it, if it is anything else. One that has no room is cut: it is longer than all
 * that is known, and so unknown either way. */
static bool take_text(kn_json_reader *j, char *ret, size_t room) {
    kn_json_text text;
    if (kn_json_peek(j) != '"') {
        kn_json_skip(j, NULL);
        return false;
    }
    if (!kn_json_string(j, &text) || j->replaced)
        return false;
    size_t len = kn_utf8_cut(text.data, text.len, room - 1);
    memcpy(ret, text.data, len);
    ret[len] = 0;
    return true;
}

/* False: neither an integer of 64 bits nor a text of at most KN_MCP_WORD_BYTES - 1 bytes. */
static bool take_word(kn_json_reader *j, kn_mcp_word *ret) {
    kn_json_text text;
    int64_t number;
    char digits[24] = "";
    kn_mcp_word w = { .given = true, .is_text = kn_json_peek(j) == '"' };
    if (w.is_text) {
        if (!kn_json_string(j, &text) || j->replaced || text.len >= sizeof w.text)
            return false;
        memcpy(w.text, text.data, text.len);
    } else {
        if (!kn_json_skip(j, &text) || text.len >= sizeof digits)
            return false;
        memcpy(digits, text.data, text.len);
        if (!kn_parse_i64(digits, &number))
            return false;
        snprintf(w.text, sizeof w.text, "%" PRId64, number);
    }
    *ret = w;
    return true;
}

static bool take_object(kn_json_reader *j, kn_json_text *ret) {
    bool is_object = kn_json_peek(j) == '{';
    return kn_json_skip(j, ret) && is_object;
}

static void read_meta(kn_json_reader *j, kn_mcp_message *m) {
    kn_json_text key, object;
    if (kn_json_peek(j) != '{') {
        m->params_are_wrong = true;
        kn_json_skip(j, NULL);
        return;
    }
    kn_json_object(j);
    while (kn_json_key(j, &key)) {
        if (kn_json_is(key, "progressToken")) {
            m->params_are_wrong |= !take_word(j, &m->progress_token);
        } else if (kn_json_is(key, "io.modelcontextprotocol/protocolVersion")) {
            m->has_version = true;
            m->version_is_text = take_text(j, m->version, sizeof m->version);
        } else if (kn_json_is(key, "io.modelcontextprotocol/clientCapabilities")) {
            m->has_capabilities = true;
            m->params_are_wrong |= !take_object(j, &object);
        } else {
            kn_json_skip(j, NULL);
        }
    }
}

static bool take_member(kn_json_reader *j, kn_json_text key, kn_mcp_message *m) {
    if (kn_json_is(key, "name"))
        return m->has_name = take_text(j, m->name, sizeof m->name);
    if (kn_json_is(key, "uri"))
        return m->has_uri = take_text(j, m->uri, sizeof m->uri);
    if (kn_json_is(key, "cursor"))
        return m->has_cursor = take_text(j, m->cursor, sizeof m->cursor);
    if (kn_json_is(key, "arguments"))
        return take_object(j, &m->arguments);
    if (kn_json_is(key, "protocolVersion"))
        return take_text(j, m->initialize, sizeof m->initialize);
    if (kn_json_is(key, "requestId"))
        return take_word(j, &m->cancels);
    return kn_json_skip(j, NULL);
}

static void read_params(kn_json_reader *j, kn_mcp_message *m) {
    kn_json_text key;
    if (kn_json_peek(j) != '{') {
        m->params_are_wrong = true;
        kn_json_skip(j, NULL);
        return;
    }
    kn_json_object(j);
    while (kn_json_key(j, &key)) {
        if (kn_json_is(key, "_meta"))
            read_meta(j, m);
        else if (!take_member(j, key, m))
            m->params_are_wrong = true;
    }
}

/* ---- the message ---- */

enum { VERSION, ID, METHOD, PARAMS, RESULT, ERROR, MEMBERS };
static const char *const members[MEMBERS] = {
    [VERSION] = "jsonrpc", [ID] = "id",         [METHOD] = "method",
    [PARAMS] = "params",   [RESULT] = "result", [ERROR] = "error",
};

static int member_of(kn_json_text key) {
    int i = 0;
    while (i < MEMBERS && !kn_json_is(key, members[i]))
        i++;
    return i;
}

/* What is wrong with the message as such; the reader goes on, since the id may still come. */
static const char *read_member(kn_json_reader *j, int member, kn_mcp_message *m) {
    char version[8] = "";
    switch (member) {
    case VERSION:
        return take_text(j, version, sizeof version) && !strcmp(version, "2.0") ? NULL : "jsonrpc is not \"2.0\"";
    case ID:
        return take_word(j, &m->id)
                   ? NULL
                   : "the id is neither an integer nor a text of less than 256 bytes without NUL and lone surrogates";
    case METHOD: return take_text(j, m->method, sizeof m->method) ? NULL : "the method is no text";
    case PARAMS: read_params(j, m); return NULL;
    default: kn_json_skip(j, NULL); return NULL;
    }
}

static const char *read_members(kn_json_reader *j, kn_mcp_message *m) {
    const char *wrong = NULL;
    bool seen[MEMBERS + 1] = { false }; /* the last one: any that is not known */
    kn_json_text key;
    kn_json_object(j);
    while (kn_json_key(j, &key)) {
        int member = member_of(key);
        const char *why = member < MEMBERS && seen[member] ? "a member comes twice" : NULL;
        seen[member] = true;
        if (why)
            kn_json_skip(j, NULL);
        else
            why = read_member(j, member, m);
        wrong = wrong ? wrong : why;
    }
    m->kind = !seen[METHOD] ? KN_MCP_RESPONSE : seen[ID] ? KN_MCP_REQUEST : KN_MCP_NOTIFICATION;
    if (!wrong && !seen[VERSION])
        wrong = "jsonrpc is missing";
    if (!wrong && !seen[METHOD] && !seen[RESULT] && !seen[ERROR])
        wrong = "the method is missing";
    return wrong;
}

int kn_mcp_message_read(const char *text, size_t len, kn_mcp_message *ret, kn_error *err) {
    const kn_json_text document = { text, len };
    const char *wrong = NULL;
    kn_json_reader j;
    memset(ret, 0, sizeof *ret);
    kn_json_begin_inside(&j, document, "the message", err);
    j.loose = true;
    char first = kn_json_peek(&j);
    if (first == '{') {
        wrong = read_members(&j, ret);
    } else {
        kn_json_skip(&j, NULL);
        wrong = first == '[' ? "batches are not taken" : "the message is no object";
    }
    bool is_json = kn_json_finish(&j);
    kn_json_close(&j);
    if (!is_json) {
        ret->id = (kn_mcp_word){ 0 };
        return KN_MCP_PARSE_ERROR;
    }
    if (wrong)
        kn_fail(err, KN_E_FORMAT, "%s", wrong);
    return wrong ? KN_MCP_INVALID_REQUEST : 0;
}
