/* A client's picture made harmless: any supported file, upright, within limits, as a PNG file without anything beside
 * the pixels; smaller if that is asked for. */
#ifndef KN_WORKERS_PICTURE_JOB_H
#define KN_WORKERS_PICTURE_JOB_H

#include <stdint.h>

#include "base/buf.h"
#include "image/gain_map.h"
#include "image/icc.h"
#include "image/image.h"
#include "workers/codes.h"

/* What there is to say about it. */
typedef struct kn_picture_facts {
    uint32_t width, height;     /* as it came, upright */
    bool was_turned;            /* by an orientation in the file */
    bool is_transparent;        /* somewhere; else the file has no alpha */
    kn_gain_map_state gain_map; /* of one that is HDR */
    kn_icc_name icc_profile;    /* empty: none */
    unsigned mask_lacks;        /* kn_mask_lacks: as a mask, at the size at which a model would work with it */
} kn_picture_facts;

/* largest: of the longer side, 0: as it is. png: adds to it. */
kn_job_code kn_picture_job(const void *file, size_t len, uint32_t largest, kn_picture_facts *ret, kn_buf *png,
                           kn_error *err);

/* One of our own pictures in another format, with the recipe text and, as JPEG, the gain map that it has. file: adds to
 * it. */
kn_job_code kn_convert_job(const void *from, size_t len, kn_image_kind kind, unsigned quality, kn_buf *file,
                           kn_error *err);

#endif
