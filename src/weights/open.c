/* From a path to an opened component: a file, the index of a split one beside its shards, or a folder with one of
 * these. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights/container.h"

bool kn_is_shard_index(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strstr(name, ".safetensors.index.") && kn_ends_with(name, strlen(name), ".json");
}

/* Five digits, as those write it who made the form. */
static bool is_number(const char *text) {
    return strspn(text, "0123456789") == 5;
}

/* "<stem>-00002-of-00009.safetensors"; one that is the only one is a whole model. */
size_t kn_shard_stem(const char *name) {
    enum { TAIL = sizeof "-00002-of-00009.safetensors" - 1 };
    size_t len = strlen(name);
    const char *tail = name + len - KN_MIN(len, (size_t)TAIL);
    bool shard = len > TAIL && *tail == '-' && is_number(tail + 1) && kn_starts_with(tail + 6, "-of-") &&
                 is_number(tail + 10) && strcmp(tail + 15, ".safetensors") == 0;
    return shard && !kn_starts_with(tail + 10, "00001") ? len - TAIL : 0;
}

/* So that it can be told whether it still lies there. On failure *w is closed, and NULL. */
static bool know_place(kn_weights **w, const char *path, const kn_map *map, kn_error *err) {
    (*w)->path = strdup(path);
    (*w)->edition = map->edition;
    if ((*w)->path)
        return true;
    kn_weights_close(*w);
    *w = NULL;
    return kn_fail_nomem(err, strlen(path));
}

bool kn_weights_are_current(const kn_weights *w) {
    kn_edition now = kn_edition_of(w->path);
    bool current = !w->path || kn_edition_is(&w->edition, &now);
    for (size_t i = 0; i < w->part_count; i++)
        current = current && kn_weights_are_current(w->part[i]);
    return current;
}

static bool open_file(const char *path, kn_weights **ret, kn_error *err) {
    kn_map map;
    if (!kn_map_open(path, &map, err))
        return false;
    if (!kn_weights_open_bytes(map.data, map.len, ret, err)) {
        kn_map_close(&map);
        return false;
    }
    (*ret)->map = map;
    return know_place(ret, path, &map, err);
}

static bool join(const char *folder, size_t folder_len, const char *name, kn_buf *ret, kn_error *err) {
    kn_buf_clear(ret);
    return (kn_buf_add(ret, folder, folder_len) && kn_buf_add_text(ret, name)) ||
           kn_fail_nomem(err, folder_len + strlen(name));
}

/* ctx: the index's path; its shards lie beside it. */
static bool open_shard(void *ctx, const char *name, kn_weights **ret, kn_error *err) {
    const char *index = ctx, *slash = strrchr(index, '/');
    KN_AUTO_BUF path;
    kn_buf_init(&path, PATH_MAX + NAME_MAX);
    if (!join(index, slash ? (size_t)(slash - index) + 1 : 0, name, &path, err))
        return false;
    if (access(path.data, F_OK) != 0 && errno == ENOENT) {
        *ret = NULL;
        return true;
    }
    return open_file(path.data, ret, err);
}

static bool open_index(const char *path, kn_weights **ret, kn_error *err) {
    kn_map map;
    if (!kn_map_open(path, &map, err))
        return false;
    const char *text = map.data ? (const char *)map.data : "";
    if (map.len == 0 || !strchr("{ \t\r\n", *text))
        kn_refuse_known_file(map.data, map.len, err); /* says more than what JSON lacks */
    bool ok = err->code == KN_OK && kn_shards_read(text, map.len, open_shard, (void *)(uintptr_t)path, ret, err) &&
              know_place(ret, path, &map, err);
    kn_map_close(&map);
    return ok;
}

/* What a folder holds: how many files could be its model, and the first two of them by name. */
typedef struct choices {
    size_t count;
    bool published; /* they have the names under which diffusers and transformers write models */
    bool has_shards, is_pipeline, has_pickle;
    char name[2][NAME_MAX + 1];
} choices;

static bool is_published(const char *name) {
    static const char *const names[] = { "model.safetensors", "diffusion_pytorch_model.safetensors" };
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        size_t len = strlen(names[i]);
        if (kn_starts_with(name, names[i]) && (!name[len] || strcmp(name + len, ".index.json") == 0))
            return true;
    }
    return false;
}

static bool is_pickle(const char *name, size_t len) {
    static const char *const ends[] = { ".bin", ".pt", ".pth", ".ckpt" };
    bool is = false;
    for (size_t i = 0; i < KN_COUNT(ends); i++)
        is |= kn_ends_with(name, len, ends[i]);
    return is;
}

static void offer(choices *c, const char *name) {
    size_t len = strlen(name);
    bool whole = kn_ends_with(name, len, ".safetensors") || kn_ends_with(name, len, ".gguf");
    bool shard = kn_shard_stem(name) > 0, published = is_published(name);
    c->has_shards |= shard;
    c->is_pipeline |= strcmp(name, "model_index.json") == 0;
    c->has_pickle |= is_pickle(name, len);
    if (name[0] == '.' || shard || !(whole || kn_is_shard_index(name)) || (c->published && !published))
        return;
    if (published && !c->published)
        c->count = 0;
    c->published = published;
    size_t at = c->count > 0 && strcmp(name, c->name[0]) > 0;
    if (at == 0 && c->count > 0)
        memcpy(c->name[1], c->name[0], sizeof c->name[1]);
    if (at == 0 || c->count == 1 || strcmp(name, c->name[1]) < 0)
        memcpy(c->name[at], name, len + 1);
    c->count++;
}

static bool choose(const char *folder, choices *ret, kn_error *err) {
    DIR *d = opendir(folder);
    if (!d)
        return kn_fail(err, KN_E_IO, "the folder cannot be read: %s", strerror(errno));
    for (struct dirent *e = NULL; (e = readdir(d));)
        offer(ret, e->d_name);
    closedir(d);
    if (ret->count == 1)
        return true;
    if (ret->count > 1)
        return kn_fail(err, KN_E_USAGE, "the folder holds %zu models, '%s' and '%s'%s; name one of them", ret->count,
                       kn_quote_path(ret->name[0]).text, kn_quote_path(ret->name[1]).text,
                       ret->count > 2 ? " among them" : "");
    if (ret->has_shards)
        return kn_fail(err, KN_E_NOT_FOUND,
                       "the folder holds the shards of a split model without their index (….safetensors.index.json)");
    if (ret->is_pipeline)
        return kn_fail(err, KN_E_USAGE,
                       "the folder holds a whole pipeline; name one of its parts, such as its folder transformer");
    if (ret->has_pickle)
        return kn_fail(err, KN_E_UNSUPPORTED,
                       "the folder holds its model as a Python pickle (.bin, .pt, .pth, .ckpt); pickle formats can run "
                       "code and are refused; use a safetensors version");
    return kn_fail(err, KN_E_NOT_FOUND, "the folder holds no safetensors or GGUF file");
}

static bool open_named(const char *path, kn_weights **ret, kn_error *err) {
    return kn_ends_with(path, strlen(path), ".json") ? open_index(path, ret, err) : open_file(path, ret, err);
}

static bool open_folder(const char *folder, kn_weights **ret, kn_error *err) {
    choices c = { 0 };
    KN_AUTO_BUF path;
    kn_buf_init(&path, PATH_MAX + NAME_MAX);
    if (!choose(folder, &c, err))
        return false;
    if (!join(folder, strlen(folder), "/", &path, err) || !kn_buf_add_text(&path, c.name[0]))
        return kn_fail_nomem(err, path.limit);
    return open_named(path.data, ret, err) || kn_fail_within(err, "'%s'", kn_quote_path(c.name[0]).text);
}

bool kn_weights_open(const char *path, kn_weights **ret, kn_error *err) {
    kn_error why = { 0 };
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    return (folder ? open_folder(path, ret, &why) : open_named(path, ret, &why)) ||
           kn_fail(err, why.code, "%s", why.text);
}
