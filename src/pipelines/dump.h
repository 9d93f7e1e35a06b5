/* Collects what a pipeline shows of its intermediate results and writes it as one file, dump.safetensors. */
#ifndef KN_PIPELINES_DUMP_H
#define KN_PIPELINES_DUMP_H

#include "pipelines/pipeline.h"

typedef struct kn_dump kn_dump;

kn_dump *kn_dump_new(void); /* NULL: out of memory */
void kn_dump_free(kn_dump *d);
kn_dump_fn kn_dump_add; /* as hooks.dump with the kn_dump as its context */

/* Writes <folder>/dump.safetensors; the folder must exist. */
bool kn_dump_write(const kn_dump *d, const char *folder, kn_error *err);

#endif
