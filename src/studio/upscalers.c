#include "studio/upscalers.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "4x-UltraSharp.safetensors" is called 4x-ultrasharp. False: it has no such ending, or a name that makes no id. */
static bool make_id(const char *name, char id[KN_NAME_BYTES]) {
    static const char ending[] = ".safetensors";
    size_t len = strlen(name), n = len > sizeof ending - 1 ? len - (sizeof ending - 1) : 0;
    if (!n || n >= KN_NAME_BYTES || strcmp(name + n, ending) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        id[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 32 : name[i] == ' ' ? '-' : name[i]);
    id[n] = 0;
    return kn_name_is_valid(id, n);
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
        if (make_id(e->d_name, u.id) && !kn_upscaler_named(ret, u.id) && (u.file = strdup(e->d_name)))
            ret->items[ret->count++] = u;
    }
    if (d)
        closedir(d);
    free(folder);
    qsort(ret->items + 1, ret->count - 1, sizeof ret->items[0], by_id);
}

void kn_upscalers_free(kn_upscaler_list *l) {
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].file);
    *l = (kn_upscaler_list){ 0 };
}

const kn_upscale_choice *kn_upscaler_named(const kn_upscaler_list *l, const char *id) {
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->items[i].id, id))
            return &l->items[i];
    return NULL;
}

json_t *kn_upscalers_json(const kn_upscaler_list *l) {
    json_t *list = json_array();
    for (size_t i = 0; i < l->count; i++) {
        const kn_upscale_choice *u = &l->items[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:n, s:b, s:n, s:b}", "id", u->id, "title",
                                              u->file ? u->id : "Lanczos", "kind", u->file ? "model" : "filter",
                                              "factor", "installed", 1, "license", "experimental", 0));
    }
    return list;
}
