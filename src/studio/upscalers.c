#include "studio/upscalers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool kn_upscaler_id_of(const char *name, size_t len, char ret[KN_NAME_BYTES]) {
    if (!len || len >= KN_NAME_BYTES)
        return false;
    for (size_t i = 0; i < len; i++)
        ret[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 32 : name[i] == ' ' ? '-' : name[i]);
    ret[len] = 0;
    return kn_name_is_valid(ret, len);
}

/* False: it has no such ending, or a name that makes no id. */
static bool make_id(const char *file, char id[KN_NAME_BYTES]) {
    static const char ending[] = ".safetensors";
    size_t len = strlen(file), n = len > sizeof ending - 1 ? len - (sizeof ending - 1) : 0;
    return n && strcmp(file + n, ending) == 0 && kn_upscaler_id_of(file, n, id);
}

/* A file, or a link to one; nothing that one could wait for. */
static bool is_readable(int folder, const char *name, struct stat *ret) {
    return fstatat(folder, name, ret, 0) == 0 && S_ISREG(ret->st_mode) &&
           faccessat(folder, name, R_OK, AT_EACCESS) == 0;
}

static int by_id(const void *a, const void *b) {
    return strcmp(((const kn_upscale_choice *)a)->id, ((const kn_upscale_choice *)b)->id);
}

void kn_upscalers_find(const char *model_directory, kn_upscaler_list *ret) {
    *ret = (kn_upscaler_list){ .count = 1, .items[0].id = KN_UPSCALER_FILTER };
    char *folder;
    if (asprintf(&folder, "%s/upscalers", model_directory) < 0)
        return;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && ret->count < KN_UPSCALERS_MAX && (e = readdir(d));) {
        kn_upscale_choice u = { .file = NULL };
        struct stat st;
        if (!make_id(e->d_name, u.id) || kn_upscaler_named(ret, u.id) || !is_readable(dirfd(d), e->d_name, &st))
            continue;
        u.bytes = st.st_size;
        u.changed_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        if ((u.file = strdup(e->d_name)))
            ret->items[ret->count++] = u;
    }
    if (d)
        closedir(d);
    free(folder);
    qsort(ret->items + 1, ret->count - 1, sizeof ret->items[0], by_id);
}

bool kn_upscalers_recall(kn_store *s, kn_upscaler_list *l, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT file, bytes, changed_ns, factor FROM upscalers", "");
    while (kn_query_next(&r)) {
        for (size_t i = 0; i < l->count; i++) {
            kn_upscale_choice *u = &l->items[i];
            if (!u->file || strcmp(u->file, kn_query_text(&r, 0)) != 0 || u->bytes != kn_query_int(&r, 1) ||
                u->changed_ns != kn_query_int(&r, 2))
                continue;
            u->measured = true;
            u->factor = (uint32_t)kn_query_int(&r, 3);
        }
    }
    return kn_query_close(&r);
}

bool kn_upscalers_learn(kn_store *s, const kn_upscale_choice *u, kn_error *err) {
    return kn_store_do(s, err, NULL, "INSERT OR REPLACE INTO upscalers VALUES (?, ?, ?, ?)", "tiii", u->file, u->bytes,
                       u->changed_ns, (int64_t)u->factor);
}

void kn_upscalers_free(kn_upscaler_list *l) {
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].file);
    *l = (kn_upscaler_list){ 0 };
}

bool kn_upscaler_is_usable(const kn_upscale_choice *u) {
    return !u->file || !u->measured || u->factor;
}

const kn_upscale_choice *kn_upscaler_named(const kn_upscaler_list *l, const char *id) {
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->items[i].id, id) && kn_upscaler_is_usable(&l->items[i]))
            return &l->items[i];
    return NULL;
}

json_t *kn_upscalers_json(const kn_upscaler_list *l) {
    json_t *list = json_array();
    for (size_t i = 0; i < l->count; i++) {
        const kn_upscale_choice *u = &l->items[i];
        json_t *factor = u->factor ? json_integer(u->factor) : json_null();
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:o, s:b, s:n, s:b}", "id", u->id, "title",
                                        u->file ? u->id : "Lanczos", "kind", u->file ? "model" : "filter", "factor",
                                        factor, "installed", kn_upscaler_is_usable(u), "license", "experimental", 0));
    }
    return list;
}
