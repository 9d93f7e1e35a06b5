#include "pipelines/config_json.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/text.h"

static int read_int(kn_json_reader *j) {
    uint64_t v = 0;
    if (kn_json_u64(j, &v) && v > INT_MAX)
        kn_fail(j->err, KN_E_RANGE, "%llu is too large", (unsigned long long)v);
    return v > INT_MAX ? 0 : (int)v;
}

/* A list of at most `room` numbers; returns how many. */
static int read_ints(kn_json_reader *j, int *list, int room) {
    int count = 0;
    if (!kn_json_array(j))
        return 0;
    while (kn_json_item(j)) {
        if (count == room) {
            kn_fail(j->err, KN_E_RANGE, "a list of more than %d numbers", room);
            return 0;
        }
        list[count++] = read_int(j);
    }
    return count;
}

/* Enters an object and goes on within one, as long as all is well. Anything else, such as null, tells nothing. */
static bool enter(kn_json_reader *j) {
    return kn_json_peek(j) == '{' ? kn_json_object(j) : kn_json_skip(j, NULL) && false;
}

static bool next(kn_json_reader *j, kn_json_text *key) {
    return j->err->code == KN_OK && kn_json_key(j, key);
}

static void read_vision(kn_json_reader *j, kn_vl_config *c) {
    kn_vision_layout *l = &c->vision;
    kn_json_text key;
    for (bool in = enter(j); in && next(j, &key);) {
        if (kn_json_is(key, "depth"))
            l->depth = read_int(j);
        else if (kn_json_is(key, "hidden_size"))
            l->width = read_int(j);
        else if (kn_json_is(key, "num_heads"))
            l->heads = read_int(j);
        else if (kn_json_is(key, "deepstack_visual_indexes"))
            l->deepstack_count = read_ints(j, l->deepstack, KN_VISION_MAX_DEEPSTACK);
        else if (kn_json_is(key, "window_size"))
            c->window_pixels = read_int(j);
        else if (kn_json_is(key, "fullatt_block_indexes"))
            c->whole_count = read_ints(j, c->whole, KN_VISION_MAX_BLOCKS);
        else
            kn_json_skip(j, NULL);
    }
}

/* "rope_parameters", or "rope_scaling" before transformers 5. */
static void read_rope(kn_json_reader *j, int sections[3]) {
    kn_json_text key;
    for (bool in = enter(j); in && next(j, &key);) {
        if (kn_json_is(key, "mrope_section"))
            read_ints(j, sections, 3);
        else
            kn_json_skip(j, NULL);
    }
}

static void read_text(kn_json_reader *j, int sections[3]) {
    kn_json_text key;
    for (bool in = enter(j); in && next(j, &key);) {
        if (kn_json_is(key, "rope_parameters") || kn_json_is(key, "rope_scaling"))
            read_rope(j, sections);
        else
            kn_json_skip(j, NULL);
    }
}

bool kn_vl_config_read(const char *text, size_t len, kn_vl_config *ret, kn_error *err) {
    kn_error failure = { 0 };
    kn_vl_config found = { 0 };
    const kn_json_text file = { text, len };
    kn_json_reader j;
    kn_json_text key;
    kn_json_begin(&j, file, file, &failure);
    kn_json_object(&j);
    while (next(&j, &key)) {
        if (kn_json_is(key, "vision_config"))
            read_vision(&j, &found);
        else if (kn_json_is(key, "text_config"))
            read_text(&j, found.sections);
        else
            kn_json_skip(&j, NULL);
    }
    bool ok = failure.code == KN_OK && kn_json_finish(&j);
    kn_json_close(&j);
    if (!ok)
        return kn_fail(err, failure.code, "%s", failure.text);
    *ret = found;
    return true;
}

bool kn_vl_config_read_beside(const char *model_path, kn_vl_config *ret, kn_error *err) {
    const char *slash = strrchr(model_path, '/');
    size_t folder = slash ? (size_t)(slash - model_path) + 1 : 0;
    struct stat st;
    KN_AUTO_BUF path;
    KN_AUTO_BUF text;
    kn_buf_init(&path, PATH_MAX);
    kn_buf_init(&text, KN_CONFIG_BYTES_MAX);
    *ret = (kn_vl_config){ 0 };
    bool inside = stat(model_path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!kn_buf_add(&path, model_path, inside ? strlen(model_path) : folder) ||
        !kn_buf_add_text(&path, inside ? "/config.json" : "config.json"))
        return kn_fail_nomem(err, PATH_MAX);
    if (access(path.data, F_OK) != 0)
        return true;
    return (kn_file_read(path.data, KN_CONFIG_BYTES_MAX, &text, err) &&
            kn_vl_config_read(text.data, text.len, ret, err)) ||
           kn_fail_within(err, "'%s'", kn_quote_z(path.data).text);
}
