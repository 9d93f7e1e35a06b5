/* The demonstration model: a tiny Qwen-Image 2.1 that is part of the program, so that it draws without any file. */
#ifndef KN_PIPELINES_DEMO_H
#define KN_PIPELINES_DEMO_H

#include "pipelines/pipeline.h"
#include "pipelines/profile.h"

extern const kn_profile kn_demo_profile;

/* The bytes of its parts; valid for ever. */
kn_model_files kn_demo_files(void);

#endif
