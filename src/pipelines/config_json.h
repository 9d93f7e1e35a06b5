/* What a config.json beside a model file tells and shapes do not, in the form of transformers: of the vision encoders
 * of Qwen-VL. Only these fields are read; whoever loads the network holds them against the shapes. */
#ifndef KN_PIPELINES_CONFIG_JSON_H
#define KN_PIPELINES_CONFIG_JSON_H

#include "models/qwen_vision.h"

enum { KN_CONFIG_BYTES_MAX = 1 << 20 };

typedef struct kn_vl_config {
    kn_vision_layout vision; /* depth 0: not told */
    int window_pixels;       /* of Qwen2.5-VL: a window's side, and the blocks that see the whole picture */
    int whole_count, whole[KN_VISION_MAX_BLOCKS];
    int sections[3]; /* of rotary pairs to time, row and column; all 0: not told */
} kn_vl_config;

/* The config.json beside model_path, or in it if it is a folder. None, or one about something else, tells nothing and
 * is no error. */
bool kn_vl_config_read_beside(const char *model_path, kn_vl_config *ret, kn_error *err);

bool kn_vl_config_read(const char *text, size_t len, kn_vl_config *ret, kn_error *err);

#endif
