/* KIP1: the pieces in which an image worker and its server talk over pipes.
 *
 *     "KIP1", kind: 1 byte, length: 4 bytes with the highest first, payload: so many bytes
 *
 * Kinds 1 and 2 are what a worker says that draws one picture; all others belong to sessions, in which one job follows
 * the other (image_worker.h). docs/image-worker.md is the description for people. Each kind has a limit, and nothing is
 * kept of a frame that goes beyond it, comes from the wrong side or does not begin with the mark. */
#ifndef KN_WORKERS_FRAMES_H
#define KN_WORKERS_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/icc.h"

typedef enum kn_frame_kind {
    /* The worker says: */
    KN_FRAME_PREVIEW = 1,  /* step, steps, width, height: 4 bytes each; then a PNG file */
    KN_FRAME_FINAL = 2,    /* a picture file; the job is done */
    KN_FRAME_READY = 3,    /* once, first: what protection is missing, as words with spaces between; mostly nothing */
    KN_FRAME_PROGRESS = 4, /* phase (kn_frame_phase), step, steps: 4 bytes each */
    KN_FRAME_REPORT = 5,   /* before the final: a JSON object about the picture */
    KN_FRAME_FAILED = 6,   /* a word of codes.h, a line end, a sentence; the job is done */
    KN_FRAME_PICTURE = 7, /* width, height, kn_frame_traits, length of a name: 4 bytes each; then the name of the colour
                             profile, and a PNG file; the job is done */
    KN_FRAME_LARGE = 8,   /* a file of a picture that was brought to a size or format of its own; the job is done */
    KN_FRAME_FACTOR = 9,  /* by how much an upscaler enlarges: 4 bytes; the job is done */
    KN_FRAME_FOUND = 10,  /* a JSON object about how a picture was made; the job is done */

    /* The server says: */
    KN_FRAME_DRAW = 16,         /* a recipe (recipe.h) */
    KN_FRAME_DRAW_PREVIEW = 17, /* the same, with previews */
    KN_FRAME_READ_PICTURE = 18, /* largest side or 0: 4 bytes; then a picture file of any kind */
    KN_FRAME_CANCEL = 19,       /* nothing; stops the job that came before it */
    KN_FRAME_CONVERT = 20,      /* format (kn_frame_format), quality: 4 bytes each; then one of our own picture files */
    KN_FRAME_MEASURE = 21,      /* the path of an upscaler's file */
    KN_FRAME_INSPECT = 22,      /* a picture file of any kind */
} kn_frame_kind;

typedef enum kn_frame_phase {
    KN_PHASE_LOAD,
    KN_PHASE_ENCODE,
    KN_PHASE_STEP,
    KN_PHASE_DECODE,
    KN_PHASE_ENLARGE, /* tile by tile */
    KN_PHASES,
} kn_frame_phase;

/* Bits. */
typedef enum kn_frame_traits {
    KN_TRAIT_TRANSPARENT = 1,
    KN_TRAIT_GAIN_MAP = 2,    /* that can be read */
    KN_TRAIT_DAMAGED_MAP = 4, /* or that cannot */
    KN_TRAIT_TURNED = 8,      /* an orientation was in the file */
    KN_TRAIT_MASK = 16,       /* times kn_mask_lacks: what it would lack as a mask */
} kn_frame_traits;

typedef enum kn_frame_format { KN_FORMAT_PNG, KN_FORMAT_JPEG, KN_FORMAT_WEBP, KN_FORMATS } kn_frame_format;

enum {
    KN_FRAME_HEADER = 9,
    KN_PREVIEW_SIDE = 512,
    KN_PREVIEW_BYTES = 1 << 20, /* of the payload */
    KN_FINAL_BYTES = 20 << 20,
    KN_LARGE_BYTES = 256 << 20,
    KN_RECIPE_BYTES = 64 << 20,
    KN_PICTURE_BYTES = 64 << 20, /* of a file, in both directions */
    KN_FOUND_BYTES = 4 << 20,
};

/* The largest payload; 0: there is no such kind, or it has none. */
size_t kn_frame_limit(unsigned kind);

void kn_frame_header(unsigned kind, size_t len, uint8_t ret[KN_FRAME_HEADER]);

/* Numbers at the beginning of payloads. */
void kn_frame_put(uint8_t *at, uint32_t value);
uint32_t kn_frame_get(const uint8_t *at);

/* Puts frames together from bytes as they come. */
typedef enum kn_frame_side { KN_FROM_WORKER, KN_FROM_SERVER } kn_frame_side;

typedef struct kn_frame_reader {
    kn_frame_side side;
    uint8_t header[KN_FRAME_HEADER];
    size_t header_len;
    unsigned kind;
    size_t len;     /* of the payload when it is complete */
    kn_buf payload; /* grows with what comes, not with what is announced */
} kn_frame_reader;

void kn_frame_reader_init(kn_frame_reader *r, kn_frame_side side);
void kn_frame_reader_free(kn_frame_reader *r);

/* Takes bytes from *at, at most to end, and moves *at. *ret: a frame is complete; it is there until the next call.
 * After an error the stream is of no more use. */
bool kn_frame_reader_take(kn_frame_reader *r, const uint8_t **at, const uint8_t *end, bool *ret, kn_error *err);

/* The payload of a preview, checked. png is a view. */
typedef struct kn_frame_preview {
    uint32_t step, steps, width, height;
    const uint8_t *png;
    size_t png_len;
} kn_frame_preview;
bool kn_frame_preview_read(const void *payload, size_t len, kn_frame_preview *ret, kn_error *err);

/* The same of a picture that was read. */
typedef struct kn_frame_picture {
    uint32_t width, height;
    uint32_t traits;     /* kn_frame_traits */
    kn_icc_name profile; /* empty: none */
    const uint8_t *png;
    size_t png_len;
} kn_frame_picture;
bool kn_frame_picture_read(const void *payload, size_t len, kn_frame_picture *ret, kn_error *err);

#endif
