/* Which upscalers there are: the filter that is part of the program, and the model files in a folder of the machine's.
 * Files are told by their names only; what is in them is for the image worker. */
#ifndef KN_STUDIO_UPSCALERS_H
#define KN_STUDIO_UPSCALERS_H

#include <jansson.h>

#include "studio/request.h"

enum { KN_UPSCALERS_MAX = 64 };
#define KN_UPSCALER_FILTER "lanczos"

typedef struct kn_upscale_choice {
    char id[KN_NAME_BYTES];
    char *file; /* its name in the folder; NULL: the filter */
} kn_upscale_choice;

typedef struct kn_upscaler_list {
    size_t count;
    kn_upscale_choice items[KN_UPSCALERS_MAX];
} kn_upscaler_list;

/* Those in `upscalers` below the folder of models; a folder that is not there has none. */
void kn_upscalers_find(const char *model_directory, kn_upscaler_list *ret);
void kn_upscalers_free(kn_upscaler_list *list);
const kn_upscale_choice *kn_upscaler_named(const kn_upscaler_list *list, const char *id); /* NULL: there is none */
json_t *kn_upscalers_json(const kn_upscaler_list *list);

#endif
