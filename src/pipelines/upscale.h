/* Pictures enlarged: by a network (RRDBNet, SRVGG, MoSR) and Lanczos, or by Lanczos alone.
 *
 * A network enlarges by a whole number; what is larger than wanted then is reduced, to the pixel. What is still smaller
 * goes through the network again. Below a factor of 1.1 a network has nothing to add, and Lanczos does it alone.
 * Transparency is always Lanczos's, as networks know colours only.
 *
 * Memory has bounds: the result and what a network makes on the way to it have at most so many pixels on a side, and
 * networks see a picture in tiles that fit (upscale_tiles.h). */
#ifndef KN_PIPELINES_UPSCALE_H
#define KN_PIPELINES_UPSCALE_H

#include "image/image.h"
#include "pipelines/detect.h"
#include "pipelines/pipeline.h"

enum {
    KN_UPSCALE_SIDE = 8192,          /* of a result, at most */
    KN_UPSCALE_NETWORK_SIDE = 12288, /* of what a network makes: what would be larger is shrunk before */
    KN_UPSCALE_TILE_MIN = 16,
    KN_UPSCALE_TILE_MAX = 2048,
    KN_UPSCALE_TILE_STEP = 4, /* tiles are multiples of it */
};

typedef struct kn_upscaler kn_upscaler;

/* Opens a safetensors file, checks every name and shape, and reads no tensor data. Errors begin with "upscaler". The
 * device must live longer. */
bool kn_upscaler_open(const char *path, kn_device *device, kn_precision precision, kn_upscaler **ret, kn_error *err);
void kn_upscaler_close(kn_upscaler *u); /* NULL is fine */
/* Whether its file is still the one that it was opened with. */
bool kn_upscaler_is_current(const kn_upscaler *u);

typedef struct kn_upscaler_facts {
    const kn_kind *kind;
    uint32_t scale;
    uint64_t weight_bytes; /* as stored */
} kn_upscaler_facts;
kn_upscaler_facts kn_upscaler_about(const kn_upscaler *u);

/* What a square tile of so many pixels takes beside the weights, margins included; UINT64_MAX: more than can be. */
uint64_t kn_upscaler_tile_bytes(const kn_upscaler *u, uint32_t side);

typedef struct kn_upscale_wish {
    uint32_t width, height; /* of the result */
    double blend;           /* share of Lanczos's result in it, 0 … 1 */
    bool prescale; /* shrink a large picture first, so that the network makes about 1.41 times what is wanted */
    uint32_t tile; /* pixels of a tile's side, without margins; 0: as memory allows */
    kn_progress_fn *progress; /* may be NULL; told "load", then "tile" before the first and after each */
    void *progress_ctx;
    const atomic_bool *stop; /* may be NULL */
} kn_upscale_wish;

typedef struct kn_upscale_report {
    int passes, tiles;                    /* through the network; 0: Lanczos did it alone */
    uint32_t tile_width, tile_height;     /* of the last pass */
    uint32_t shrunk_width, shrunk_height; /* to which the picture was shrunk before the last pass; 0: it was not */
    double load_seconds, seconds;         /* the latter: of all */
    uint64_t weight_bytes, peak_bytes;    /* the latter: beside weights and pictures */
    double products;                      /* as in a kn_run */
} kn_upscale_report;

/* u: NULL for Lanczos alone. from: RGB or RGBA; the result has alpha if any of its pixels is not opaque. One call at a
 * time on an upscaler; its weights stay loaded. */
bool kn_upscale(kn_upscaler *u, const kn_image *from, const kn_upscale_wish *wish, kn_image *ret,
                kn_upscale_report *report, kn_error *err);

#endif
