#include "pipelines/model_tree.h"

#include <dirent.h>
#include <errno.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/clock.h"
#include "weights/weights.h"

struct place {
    dev_t device;
    ino_t number;
};

enum { SYSTEMS = 3 };
static const char *const system_places[SYSTEMS] = { "/proc", "/sys", "/dev" };

struct walk {
    kn_model_tree tree;
    const char *root;
    void *seen; /* a tree of struct place, for tsearch */
    size_t entries;
    double end; /* 0: none */
    struct place root_place, systems[SYSTEMS];
    kn_error *err;
};

static bool add(kn_paths *paths, char *path, kn_error *err) {
    char **all = path ? kn_array_grow(paths->at, paths->count, &paths->room, sizeof *all, err) : NULL;
    if (!all) {
        free(path);
        return kn_fail_nomem(err, sizeof *all);
    }
    paths->at = all;
    all[paths->count++] = path;
    return true;
}

static void free_paths(kn_paths *paths) {
    for (size_t i = 0; i < paths->count; i++)
        free(paths->at[i]);
    free(paths->at);
    *paths = (kn_paths){ 0 };
}

void kn_model_tree_free(kn_model_tree *t) {
    free_paths(&t->files);
    free_paths(&t->tokenizers);
    free_paths(&t->unreadable);
}

static char *join(const char *folder, const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name) < 0 ? NULL : path;
}

static int by_place(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    return x->device != y->device ? (x->device < y->device ? -1 : 1)
                                  : (x->number > y->number) - (x->number < y->number);
}

/* Whether a place is met for the first time. */
static bool is_new(struct walk *w, const struct stat *st) {
    struct place *place = malloc(sizeof *place);
    if (!place)
        return kn_fail_nomem(w->err, sizeof *place);
    *place = (struct place){ st->st_dev, st->st_ino };
    struct place *const *found = tsearch(place, &w->seen, by_place);
    if (found && *found == place)
        return true;
    free(place);
    return found ? false : kn_fail_nomem(w->err, sizeof *place);
}

static bool is_late(struct walk *w) {
    bool late = w->end > 0 && kn_now() >= w->end;
    w->tree.cut |= late;
    return late;
}

/* The length of its header and "{", or GGUF's magic. An index is told by its name. */
static bool begins_like_model(const char *path) {
    enum { MAX_HEADER = 100000000 };
    uint8_t start[9];
    if (kn_is_shard_index(path))
        return true;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t n = fread(start, 1, sizeof start, f);
    fclose(f);
    uint64_t header = 0;
    for (size_t i = 0; i < 8 && n == sizeof start; i++)
        header |= (uint64_t)start[i] << 8 * i;
    return n == sizeof start && (memcmp(start, "GGUF", 4) == 0 || (header <= MAX_HEADER && start[8] == '{'));
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, in their order. */
static bool list(struct walk *w, const char *folder, kn_paths *names) {
    DIR *d = opendir(folder);
    if (!d)
        return add(&w->tree.unreadable, strdup(folder), w->err);
    bool ok = true;
    for (struct dirent *e = NULL; ok && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        if (w->entries == KN_TREE_MAX_ENTRIES) {
            w->tree.cut = true;
            break;
        }
        w->entries++;
        ok = add(names, strdup(e->d_name), w->err);
    }
    closedir(d);
    if (names->count)
        qsort(names->at, names->count, sizeof *names->at, by_name);
    return ok;
}

static bool has(const kn_paths *names, const char *name) {
    return names->count && bsearch(&name, names->at, names->count, sizeof *names->at, by_name);
}

/* Whether an index beside it speaks for a shard. Both begin alike up to the first dot, behind which may stand which
 * variant of the model it is. */
static bool is_shard_with_index(const kn_paths *names, const char *name) {
    size_t same = KN_MIN(kn_shard_stem(name), strcspn(name, "."));
    bool found = false;
    for (size_t i = 0; same > 0 && i < names->count && !found; i++)
        found = kn_is_shard_index(names->at[i]) && strncmp(names->at[i], name, same) == 0;
    return found;
}

/* The cache of Hugging Face keeps the files themselves in "blobs", under no names, and links to them in "snapshots". */
static bool is_left_out(const kn_paths *names, const char *name) {
    return (strcmp(name, "blobs") == 0 && has(names, "snapshots")) || is_shard_with_index(names, name);
}

static bool walk_folder(struct walk *w, const char *folder, int depth);

/* Whether it lies in what the kernel shows as files: reading there may wait for ever, or do something. */
static bool is_of_system(const struct walk *w, const struct stat *st) {
    bool is = false;
    for (size_t i = 0; i < SYSTEMS; i++)
        if (w->systems[i].number && w->systems[i].device == st->st_dev)
            is |= w->systems[i].device != w->root_place.device || w->systems[i].number == st->st_ino;
    return is;
}

/* Number 0: there is none. */
static struct place place_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (struct place){ st.st_dev, st.st_ino } : (struct place){ 0 };
}

static void find_systems(struct walk *w) {
    w->root_place = place_of("/");
    for (size_t i = 0; i < SYSTEMS; i++)
        w->systems[i] = place_of(system_places[i]);
}

/* Whether a link leads to a folder that the whole tree lies in. */
static bool leads_above(const struct walk *w, const char *path) {
    struct stat st;
    char *real = lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? realpath(path, NULL) : NULL;
    size_t len = !real || strcmp(real, "/") == 0 ? 0 : strlen(real);
    bool above = real && strncmp(w->root, real, len) == 0 && w->root[len] == '/';
    free(real);
    return above;
}

/* Takes path. */
static bool look_at(struct walk *w, char *path, int depth) {
    struct stat st;
    bool ok = true;
    if (!path)
        return kn_fail_nomem(w->err, sizeof path);
    bool there = stat(path, &st) == 0, folder = there && S_ISDIR(st.st_mode), file = there && S_ISREG(st.st_mode);
    if ((folder || file) && (is_of_system(w, &st) || (folder && leads_above(w, path))))
        w->tree.cut = true;
    else if (folder && is_new(w, &st))
        ok = walk_folder(w, path, depth + 1);
    else if (file && begins_like_model(path) && is_new(w, &st))
        return add(&w->tree.files, path, w->err);
    free(path);
    return ok && w->err->code == KN_OK;
}

static bool walk_folder(struct walk *w, const char *folder, int depth) {
    kn_paths names = { 0 };
    if (depth > KN_TREE_MAX_DEPTH) {
        w->tree.cut = true;
        return true;
    }
    bool ok = list(w, folder, &names);
    if (ok && (has(&names, "tokenizer.json") || (has(&names, "vocab.json") && has(&names, "merges.txt"))))
        ok = add(&w->tree.tokenizers, strdup(folder), w->err);
    for (size_t i = 0; ok && i < names.count && !is_late(w); i++)
        ok = is_left_out(&names, names.at[i]) || look_at(w, join(folder, names.at[i]), depth);
    free_paths(&names);
    return ok;
}

bool kn_model_tree_read(const char *folder, double within_s, kn_model_tree *ret, kn_error *err) {
    kn_error own = { 0 };
    struct walk w = { .err = &own, .end = within_s > 0 ? kn_now() + within_s : 0 };
    char *root = realpath(folder, NULL);
    struct stat st;
    bool ok = (root && stat(root, &st) == 0) || kn_fail(&own, KN_E_NOT_FOUND, "%s", strerror(errno));
    w.root = root;
    find_systems(&w);
    ok = ok && is_new(&w, &st) && walk_folder(&w, root, 0);
    if (ok && w.tree.unreadable.count && strcmp(w.tree.unreadable.at[0], root) == 0)
        ok = kn_fail(&own, KN_E_IO, "the folder cannot be read");
    tdestroy(w.seen, free);
    free(root);
    if (ok) {
        *ret = w.tree;
        return true;
    }
    kn_model_tree_free(&w.tree);
    return kn_fail(err, own.code, "%s", own.text);
}
