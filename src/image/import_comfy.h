/* From a graph of ComfyUI to what it draws. Internal to the import (import.h). */
#ifndef KN_IMAGE_IMPORT_COMFY_H
#define KN_IMAGE_IMPORT_COMFY_H

#include "image/import.h"
#include "image/import_graph.h"

/* Fills in everything but source and key; what it has filled in stays the caller's after an error, too. */
bool kn_import_follow(const kn_graph *g, kn_import *ret, kn_error *err);

/* A copy in *ret, which takes the place of what is there. */
bool kn_import_keep(kn_json_text text, size_t most, const char *what, char **ret, kn_error *err);

#endif
