#include "mcp/tools.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/suggest.h"
#include "base/text.h"

enum { ARGUMENTS_MAX = 32, WAIT_USUAL_S = 45, WAIT_MAX_S = 3600, SIDE_MIN = 32 };

/* tools.S */
extern const char kn_mcp_tools_json[], kn_mcp_tools_json_end[];

struct kn_mcp_toolbox {
    json_t *document, *list;
};

static const char *const tool_names[KN_MCP_TOOLS] = {
    [KN_MCP_GET_STATUS] = "get_status", [KN_MCP_LIST_MODELS] = "list_models",
    [KN_MCP_PLAN_IMAGE] = "plan_image", [KN_MCP_GENERATE_IMAGE] = "generate_image",
    [KN_MCP_EDIT_IMAGE] = "edit_image", [KN_MCP_UPSCALE_IMAGE] = "upscale_image",
    [KN_MCP_GET_JOB] = "get_job",       [KN_MCP_WAIT_FOR_JOB] = "wait_for_job",
    [KN_MCP_CANCEL_JOB] = "cancel_job", [KN_MCP_LIST_GALLERY] = "list_gallery",
    [KN_MCP_GET_IMAGE] = "get_image",
};

/* ---- what clients are told ---- */

/* {"type": "object", "properties": {…}, "required": […], "additionalProperties": false} of the arguments named. */
static json_t *input_schema(const kn_mcp_toolbox *b, const json_t *tool) {
    const json_t *schemas = json_object_get(b->document, "arguments"), *name;
    json_t *properties = json_object();
    size_t i;
    json_array_foreach(json_object_get(tool, "arguments"), i, name) {
        const char *text = json_string_value(name);
        json_object_set(properties, text, json_object_get(schemas, text));
    }
    return json_pack("{s:s, s:o, s:O, s:b}", "type", "object", "properties", properties, "required",
                     json_object_get(tool, "required"), "additionalProperties", 0);
}

static json_t *tool_as_told(const kn_mcp_toolbox *b, const json_t *tool) {
    const char *result = json_string_value(json_object_get(tool, "result"));
    bool changes = json_is_true(json_object_get(tool, "changes"));
    return json_pack("{s:O, s:O, s:O, s:o, s:O, s:{s:b, s:b, s:b, s:b}}", "name", json_object_get(tool, "name"),
                     "title", json_object_get(tool, "title"), "description", json_object_get(tool, "description"),
                     "inputSchema", input_schema(b, tool), "outputSchema",
                     json_object_get(json_object_get(b->document, "results"), result), "annotations", "readOnlyHint",
                     !changes, "destructiveHint", 0, "idempotentHint", !changes, "openWorldHint", 0);
}

static bool make_list(kn_mcp_toolbox *b) {
    const json_t *tool;
    size_t i;
    b->list = json_array();
    json_array_foreach(json_object_get(b->document, "tools"), i, tool) {
        if (json_array_append_new(b->list, tool_as_told(b, tool)))
            return false;
    }
    return json_array_size(b->list) == KN_MCP_TOOLS;
}

static size_t length(const char *from, const char *to) {
    return (size_t)(to - from);
}

bool kn_mcp_toolbox_new(kn_mcp_toolbox **ret, kn_error *err) {
    kn_mcp_toolbox *b = calloc(1, sizeof *b);
    size_t len = length(kn_mcp_tools_json, kn_mcp_tools_json_end);
    if (b)
        b->document = json_loadb(kn_mcp_tools_json, len, 0, NULL);
    if (!b || !b->document || !make_list(b)) {
        kn_mcp_toolbox_free(b);
        return kn_fail_nomem(err, len);
    }
    *ret = b;
    return true;
}

void kn_mcp_toolbox_free(kn_mcp_toolbox *b) {
    if (!b)
        return;
    json_decref(b->document);
    json_decref(b->list);
    free(b);
}

json_t *kn_mcp_toolbox_list(const kn_mcp_toolbox *b) {
    return b->list;
}

kn_mcp_tool kn_mcp_tool_find(const char *name) {
    int i = 0;
    while (i < KN_MCP_TOOLS && strcmp(tool_names[i], name) != 0)
        i++;
    return (kn_mcp_tool)i;
}

/* ---- pictures ---- */

bool kn_mcp_is_id(const char *text, const char *prefix) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    size_t start = strlen(prefix), len = strlen(text);
    return len > start && len < KN_MCP_SUBJECT_BYTES && !strncmp(text, prefix, start) &&
           strspn(text + start, digits) == len - start;
}

static bool take_data_url(kn_json_text text, kn_mcp_picture *p, kn_error *err) {
    const char *comma = memchr(text.data, ',', text.len), *end = text.data + text.len;
    static const char base64[] = ";base64";
    size_t head = comma ? (size_t)(comma - text.data) : 0;
    if (head < sizeof base64 - 1 || memcmp(comma - (sizeof base64 - 1), base64, sizeof base64 - 1) != 0)
        return kn_fail(err, KN_E_FORMAT, "a data URL with base64 is expected");
    if (!kn_base64_decode(comma + 1, (size_t)(end - comma - 1), &p->bytes, err))
        return false;
    return p->bytes.len || kn_fail(err, KN_E_FORMAT, "the picture is empty");
}

static bool take_place(const char *place, kn_mcp_picture *p, kn_error *err) {
    static const char gallery[] = "kuno://gallery/";
    const char *item = strncmp(place, gallery, sizeof gallery - 1) ? place : place + sizeof gallery - 1;
    if (kn_mcp_is_id(item, "img_")) {
        memcpy(p->item, item, strlen(item) + 1);
        return true;
    }
    if (place[0] != '/')
        return kn_fail(err, KN_E_FORMAT,
                       "it is neither kuno://gallery/ID nor a data URL nor the absolute path of a file");
    p->path = strdup(place);
    return p->path || kn_fail_nomem(err, strlen(place));
}

static bool take_picture(kn_json_reader *j, kn_mcp_order *o, const char *role, kn_error *err) {
    kn_json_text text;
    char place[KN_MCP_PLACE_BYTES];
    if (o->picture_count == KN_MCP_PICTURES)
        return kn_fail(err, KN_E_RANGE, "more than %d pictures", KN_MCP_PICTURES - 1);
    if (kn_json_peek(j) != '"')
        return kn_fail(err, KN_E_FORMAT, "a text is expected");
    if (!kn_json_string(j, &text))
        return false;
    kn_mcp_picture *p = &o->pictures[o->picture_count++];
    *p = (kn_mcp_picture){ .role = role };
    kn_buf_init(&p->bytes, KN_MCP_PICTURE_BYTES);
    if (kn_json_starts(text, "data:"))
        return take_data_url(text, p, err);
    if (text.len >= sizeof place)
        return kn_fail(err, KN_E_RANGE, "a path or URI of %zu bytes is too long", text.len);
    memcpy(place, text.data, text.len);
    place[text.len] = 0;
    return take_place(place, p, err);
}

/* The first one is edited, the others are referred to. */
static bool take_pictures(kn_json_reader *j, kn_mcp_order *o, kn_error *err) {
    size_t n = 0;
    if (kn_json_peek(j) != '[')
        return kn_fail(err, KN_E_FORMAT, "an array of texts is expected");
    kn_json_array(j);
    while (kn_json_item(j)) {
        n++;
        if (!take_picture(j, o, n == 1 ? "source" : "reference", err))
            return kn_fail_within(err, "picture %zu", n);
    }
    return n || kn_fail(err, KN_E_RANGE, "at least one picture is needed");
}

/* ---- values ---- */

static bool add_member(kn_buf *into, const char *name, kn_json_text value, kn_error *err) {
    return kn_buf_printf(into, "\"%s\":", name) && kn_buf_add(into, value.data, value.len) && kn_buf_add_text(into, ",")
               ? true
               : kn_fail(err, KN_E_RANGE, "the arguments are longer than %d bytes", KN_MCP_REQUEST_BYTES);
}

static bool add_escaped(kn_buf *into, kn_json_text text) {
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-';
        if (!(plain ? kn_buf_add(into, &c, 1) : kn_buf_printf(into, "%%%02X", c)))
            return false;
    }
    return true;
}

static bool add_parameter(kn_json_reader *j, kn_buf *into, const char *name, kn_error *err) {
    kn_json_text value;
    bool is_text = kn_json_peek(j) == '"';
    if (!(is_text ? kn_json_string(j, &value) : kn_json_skip(j, &value)))
        return false;
    return (kn_buf_printf(into, "%s=", name) && add_escaped(into, value) && kn_buf_add_text(into, "&")) ||
           kn_fail(err, KN_E_RANGE, "it is too long");
}

static bool take_number(kn_json_reader *j, uint64_t min, uint64_t max, uint64_t *ret, kn_error *err) {
    char c = kn_json_peek(j);
    if (c < '0' || c > '9')
        return kn_fail(err, KN_E_FORMAT, "a number is expected");
    if (!kn_json_u64(j, ret))
        return false;
    return (*ret >= min && *ret <= max) || kn_fail(err, KN_E_RANGE, "a whole number from %llu to %llu is expected",
                                                   (unsigned long long)min, (unsigned long long)max);
}

static bool take_id(kn_json_reader *j, const char *prefix, char ret[KN_MCP_SUBJECT_BYTES], kn_error *err) {
    kn_json_text text;
    if (kn_json_peek(j) != '"')
        return kn_fail(err, KN_E_FORMAT, "a text is expected");
    if (!kn_json_string(j, &text))
        return false;
    if (text.len >= KN_MCP_SUBJECT_BYTES)
        return kn_fail(err, KN_E_NOT_FOUND, "there is no such id");
    memcpy(ret, text.data, text.len);
    ret[text.len] = 0;
    return kn_mcp_is_id(ret, prefix) || kn_fail(err, KN_E_NOT_FOUND, "there is no such id");
}

static bool take_favorites(kn_json_reader *j, kn_buf *into, kn_error *err) {
    bool only;
    char c = kn_json_peek(j);
    if (c != 't' && c != 'f')
        return kn_fail(err, KN_E_FORMAT, "true or false is expected");
    if (!kn_json_bool(j, &only))
        return false;
    return !only || kn_buf_add_text(into, "favorite=true&") || kn_fail_nomem(err, into->len);
}

/* ---- where each argument goes ---- */

typedef enum place {
    TO_REQUEST,
    TO_SIZE,
    TO_UPSCALE,
    TO_OUTPUT,
    TO_QUERY,
    TO_PICTURES,
    TO_MASK,
    TO_SOURCE,
    TO_WAIT,
    TO_SIDE,
    TO_JOB,
    TO_ITEM,
    TO_FAVORITES,
} place;

typedef struct target {
    const char *name, *member; /* member: as the studio calls it */
    place place;
} target;

static const target targets[] = {
    { "prompt", "prompt", TO_REQUEST },
    { "negative_prompt", "negative_prompt", TO_REQUEST },
    { "model", "profile", TO_REQUEST },
    { "preset", "preset", TO_REQUEST },
    { "size", "mode", TO_SIZE },
    { "aspect_ratio", "aspect_ratio", TO_SIZE },
    { "width", "width", TO_SIZE },
    { "height", "height", TO_SIZE },
    { "seed", "seed", TO_REQUEST },
    { "count", "batch", TO_REQUEST },
    { "sampler", "sampler", TO_REQUEST },
    { "transparent", "transparent", TO_OUTPUT },
    { "format", "format", TO_OUTPUT },
    { "quality", "quality", TO_OUTPUT },
    { "title", "title", TO_REQUEST },
    { "tags", "tags", TO_REQUEST },
    { "outpaint", "outpaint", TO_REQUEST },
    { "feather", "feather", TO_REQUEST },
    { "images", NULL, TO_PICTURES },
    { "mask", "mask", TO_MASK },
    { "image", "source", TO_SOURCE },
    { "factor", "factor", TO_UPSCALE },
    { "upscaler", "upscaler", TO_UPSCALE },
    { "blend", "blend", TO_UPSCALE },
    { "wait_seconds", NULL, TO_WAIT },
    { "job_id", "job_", TO_JOB },
    { "image_id", "img_", TO_ITEM },
    { "max_side", NULL, TO_SIDE },
    { "query", "q", TO_QUERY },
    { "tag", "tag", TO_QUERY },
    { "limit", "limit", TO_QUERY },
    { "cursor", "cursor", TO_QUERY },
    { "favorites", NULL, TO_FAVORITES },
};

static const json_t *entry_of(const kn_mcp_toolbox *b, kn_mcp_tool tool) {
    return json_array_get(json_object_get(b->document, "tools"), tool);
}

/* NULL: it is none of the tool's. */
static const target *target_of(const kn_mcp_toolbox *b, kn_mcp_tool tool, kn_json_text key, kn_error *err) {
    const json_t *arguments = json_object_get(entry_of(b, tool), "arguments"), *one;
    const char *names[ARGUMENTS_MAX];
    size_t i, count = 0;
    json_array_foreach(arguments, i, one) {
        names[count++] = json_string_value(one);
        if (!kn_json_is(key, json_string_value(one)))
            continue;
        for (size_t k = 0; k < KN_COUNT(targets); k++)
            if (kn_json_is(key, targets[k].name))
                return &targets[k];
    }
    kn_quoted word = kn_quote(key.data, key.len);
    kn_fail(err, KN_E_USAGE, "there is no argument '%s'%s", word.text, kn_suggest_choice(word.text, names, count).text);
    return NULL;
}

/* Where the schema has a list of words, one of them; the studio's list may be longer. */
static bool is_among_words(const kn_mcp_toolbox *b, const char *argument, kn_json_text value, kn_error *err) {
    const json_t *schema = json_object_get(json_object_get(b->document, "arguments"), argument), *one;
    const json_t *words = json_object_get(schema, "enum");
    KN_AUTO_BUF known;
    size_t i;
    kn_buf_init(&known, 300);
    json_array_foreach(words, i, one) {
        const char *word = json_string_value(one);
        if (value.len == strlen(word) + 2 && value.data[0] == '"' && !memcmp(value.data + 1, word, value.len - 2))
            return true;
        if (!kn_buf_printf(&known, "%s%s", i ? ", " : "", word))
            return kn_fail_nomem(err, known.limit);
    }
    return !words || kn_fail(err, KN_E_USAGE, "one of these is expected: %s", known.data);
}

static bool take_value(const kn_mcp_toolbox *b, kn_json_reader *j, kn_mcp_order *o, const target *t, kn_error *err) {
    kn_buf *const bufs[] = {
        [TO_REQUEST] = &o->request,
        [TO_SIZE] = o->tool == KN_MCP_UPSCALE_IMAGE ? &o->upscale : &o->size,
        [TO_UPSCALE] = &o->upscale,
        [TO_OUTPUT] = &o->output,
    };
    kn_json_text value;
    switch (t->place) {
    case TO_REQUEST:
    case TO_SIZE:
    case TO_UPSCALE:
    case TO_OUTPUT:
        return kn_json_skip(j, &value) && is_among_words(b, t->name, value, err) &&
               add_member(bufs[t->place], t->member, value, err);
    case TO_QUERY: return add_parameter(j, &o->query, t->member, err);
    case TO_PICTURES: return take_pictures(j, o, err);
    case TO_MASK:
    case TO_SOURCE: return take_picture(j, o, t->member, err);
    case TO_WAIT: return take_number(j, 0, WAIT_MAX_S, &o->wait_s, err);
    case TO_SIDE: return take_number(j, SIDE_MIN, KN_MCP_SIDE_MAX, &o->max_side, err);
    case TO_JOB:
    case TO_ITEM: return take_id(j, t->member, o->subject, err);
    case TO_FAVORITES: return take_favorites(j, &o->query, err);
    }
    return false;
}

/* ---- the whole ---- */

static void init(kn_mcp_order *o, kn_mcp_tool tool) {
    *o = (kn_mcp_order){ .tool = tool, .wait_s = WAIT_USUAL_S, .max_side = KN_MCP_SIDE_MAX };
    kn_buf *const bufs[] = { &o->request, &o->size, &o->upscale, &o->output, &o->query };
    for (size_t i = 0; i < KN_COUNT(bufs); i++)
        kn_buf_init(bufs[i], KN_MCP_REQUEST_BYTES);
    o->query.limit = KN_MCP_PLACE_BYTES;
}

void kn_mcp_order_free(kn_mcp_order *o) {
    kn_buf *const bufs[] = { &o->request, &o->size, &o->upscale, &o->output, &o->query };
    for (size_t i = 0; i < KN_COUNT(bufs); i++)
        kn_buf_free(bufs[i]);
    for (size_t i = 0; i < o->picture_count; i++) {
        kn_buf_free(&o->pictures[i].bytes);
        free(o->pictures[i].path);
    }
    o->picture_count = 0;
}

static bool has_required(const kn_mcp_toolbox *b, kn_mcp_tool tool, const bool *seen, kn_error *err) {
    const json_t *name;
    size_t i;
    json_array_foreach(json_object_get(entry_of(b, tool), "required"), i, name) {
        for (size_t k = 0; k < KN_COUNT(targets); k++)
            if (!strcmp(json_string_value(name), targets[k].name) && !seen[k])
                return kn_fail(err, KN_E_USAGE, "the argument '%s' is missing", targets[k].name);
    }
    return true;
}

static bool read_arguments(const kn_mcp_toolbox *b, kn_json_reader *j, kn_mcp_order *o, kn_error *err) {
    bool seen[KN_COUNT(targets)] = { false };
    kn_json_text key;
    kn_json_object(j);
    while (kn_json_key(j, &key)) {
        const target *t = target_of(b, o->tool, key, err);
        if (!t)
            return false;
        if (seen[t - targets])
            return kn_fail(err, KN_E_USAGE, "the argument '%s' comes twice", t->name);
        seen[t - targets] = true;
        if (!take_value(b, j, o, t, err))
            return kn_fail_within(err, "%s", t->name);
    }
    return !j->failed && has_required(b, o->tool, seen, err);
}

bool kn_mcp_order_read(const kn_mcp_toolbox *b, kn_mcp_tool tool, kn_json_text arguments, kn_mcp_order *ret,
                       kn_error *err) {
    kn_json_reader j;
    init(ret, tool);
    kn_json_begin_inside(&j, arguments, "the arguments", err);
    bool ok = read_arguments(b, &j, ret, err);
    kn_json_close(&j);
    if (!ok)
        kn_mcp_order_free(ret);
    return ok;
}

static bool has_member(const kn_buf *members, const char *name) {
    return strstr(members->data, name);
}

/* {"size":{"width":64,"mode":"custom"}}, from members that have a comma behind them. */
static bool add_object(kn_buf *into, const char *name, const kn_buf *members, const char *more) {
    return !members->len ||
           (kn_buf_printf(into, "\"%s\":{", name) && kn_buf_add(into, members->data, members->len - !*more) &&
            kn_buf_add_text(into, more) && kn_buf_add_text(into, "},"));
}

static bool add_inputs(const kn_mcp_order *o, kn_buf *into) {
    bool ok = kn_buf_add_text(into, "\"inputs\":[");
    for (size_t i = 0; ok && i < o->picture_count; i++)
        ok = kn_buf_printf(into, "%s{\"input_id\":\"%s\",\"role\":\"%s\"}", i ? "," : "", o->pictures[i].input,
                           o->pictures[i].role);
    return ok && kn_buf_add_text(into, "]}");
}

bool kn_mcp_order_body(const kn_mcp_order *o, kn_buf *into) {
    const char *mode = has_member(&o->size, "\"mode\":") ? ""
                       : has_member(&o->size, "\"width\":") || has_member(&o->size, "\"height\":")
                           ? "\"mode\":\"custom\""
                           : "\"mode\":\"auto\"";
    if (!kn_buf_add_text(into, "{"))
        return false;
    if (o->tool == KN_MCP_UPSCALE_IMAGE) {
        const kn_mcp_picture *p = &o->pictures[0];
        return kn_buf_add_text(into, "\"upscale\":{") &&
               kn_buf_add(into, o->upscale.data, o->upscale.len - (o->upscale.len > 0)) &&
               kn_buf_add_text(into, "},") && add_object(into, "output", &o->output, "") &&
               kn_buf_printf(into, "\"%s\":\"%s\"}", p->item[0] ? "gallery_item" : "input_id",
                             p->item[0] ? p->item : p->input);
    }
    return kn_buf_add(into, o->request.data, o->request.len) && add_object(into, "size", &o->size, mode) &&
           add_object(into, "output", &o->output, "") && add_inputs(o, into);
}
