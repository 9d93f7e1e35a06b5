/* Which upscalers there are: the filter that is part of the program, and the model files in a folder of the machine's.
 * Files are told by their names only; what is in them is for the image worker. What it has said of one is kept for as
 * long as the file has the same size and date. */
#ifndef KN_STUDIO_UPSCALERS_H
#define KN_STUDIO_UPSCALERS_H

#include <jansson.h>

#include "studio/request.h"
#include "studio/store.h"

enum { KN_UPSCALERS_MAX = 64 };
#define KN_UPSCALER_FILTER "lanczos"

typedef struct kn_upscale_choice {
    char id[KN_NAME_BYTES];
    char *file; /* its name in the folder; NULL: the filter */
    int64_t bytes, changed_ns;
    bool measured;
    uint32_t factor; /* by which it enlarges; 0: unknown, or the file is none that can be used */
} kn_upscale_choice;

typedef struct kn_upscaler_list {
    size_t count;
    kn_upscale_choice items[KN_UPSCALERS_MAX];
} kn_upscaler_list;

/* What a name is called here: "4x-UltraSharp" is 4x-ultrasharp. False: it makes no id. */
bool kn_upscaler_id_of(const char *name, size_t len, char ret[KN_NAME_BYTES]);

/* Those in `upscalers` below the folder of models; a folder that is not there has none. */
void kn_upscalers_find(const char *model_directory, kn_upscaler_list *ret);
/* What is known of them already, and one more to know. */
bool kn_upscalers_recall(kn_store *s, kn_upscaler_list *list, kn_error *err);
bool kn_upscalers_learn(kn_store *s, const kn_upscale_choice *u, kn_error *err);

void kn_upscalers_free(kn_upscaler_list *list);
bool kn_upscaler_is_usable(const kn_upscale_choice *u); /* false: the image worker cannot use its file */
const kn_upscale_choice *kn_upscaler_named(const kn_upscaler_list *list,
                                           const char *id); /* NULL: none that is usable */
json_t *kn_upscalers_json(const kn_upscaler_list *list);

#endif
