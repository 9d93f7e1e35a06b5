#include "pipelines/dump.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "weights/safetensors_writer.h"

struct kn_dump {
    kn_named_array *arrays;
    size_t count;
    bool failed; /* memory ran out: the file would be incomplete */
};

kn_dump *kn_dump_new(void) {
    return calloc(1, sizeof(kn_dump));
}

void kn_dump_free(kn_dump *d) {
    if (!d)
        return;
    for (size_t i = 0; i < d->count; i++) {
        free((void *)(uintptr_t)d->arrays[i].name);
        free((void *)(uintptr_t)d->arrays[i].values);
    }
    free(d->arrays);
    free(d);
}

void kn_dump_add(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    kn_dump *d = ctx;
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    kn_named_array *arrays = realloc(d->arrays, (d->count + 1) * sizeof *arrays);
    if (arrays)
        d->arrays = arrays;
    char *own_name = strdup(name);
    float *own_values = malloc(KN_MAX(n, 1) * sizeof *own_values);
    if (!arrays || !own_name || !own_values) {
        free(own_name);
        free(own_values);
        d->failed = true;
        return;
    }
    memcpy(own_values, values, n * sizeof *values);
    kn_named_array *a = &d->arrays[d->count++];
    *a = (kn_named_array){ .name = own_name, .rank = rank, .values = own_values };
    memcpy(a->dim, dim, (size_t)rank * sizeof *dim);
}

bool kn_dump_write(const kn_dump *d, const char *folder, kn_error *err) {
    char path[PATH_MAX];
    if (d->failed)
        return kn_fail(err, KN_E_NOMEM, "out of memory while collecting intermediate results");
    if (snprintf(path, sizeof path, "%s/dump.safetensors", folder) >= (int)sizeof path)
        return kn_fail(err, KN_E_OUTPUT, "the folder's path is too long");
    kn_output out;
    if (!kn_output_open(path, true, &out, err))
        return kn_fail_within(err, "'%s'", kn_quote_path(path).text);
    if (kn_safetensors_write(&out, d->arrays, d->count, err) && kn_output_commit(&out, true, err))
        return true;
    kn_output_drop(&out);
    return kn_fail_within(err, "'%s'", kn_quote_path(path).text);
}
