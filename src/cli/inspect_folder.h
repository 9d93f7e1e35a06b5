/* The part of `kuno inspect-models` that looks through a folder of models, such as ComfyUI's. */
#ifndef KN_CLI_INSPECT_FOLDER_H
#define KN_CLI_INSPECT_FOLDER_H

#include <jansson.h>

#include "base/buf.h"

/* What was found as JSON, with the profiles that can be made of it. *all_well becomes false when there is none. */
json_t *kn_inspect_folder(const char *folder, bool *all_well);

/* The same for people, in the form of a models.toml: what is no profile is a comment. */
bool kn_inspect_tell_folder(json_t *folder, kn_buf *out);

#endif
