/* Colour profiles (ICC) in picture files: what one is called, and whether it says anything else than what colours are
 * taken for anyway. Pixels stay what they are whatever a profile says, so its description is all that is read of it.
 *
 * PNG has a profile compressed in one chunk (iCCP), JPEG in up to 255 segments (APP2), WebP as it is (ICCP). One that
 * is damaged, or larger than any camera or screen has it, is never a reason to refuse the picture. */
#ifndef KN_IMAGE_ICC_H
#define KN_IMAGE_ICC_H

#include <stdbool.h>
#include <stddef.h>

enum {
    KN_ICC_NAME_BYTES = 100,    /* with the NUL; longer ones are cut between characters */
    KN_ICC_BYTES_MAX = 4 << 20, /* of a profile */
};

/* UTF-8 without control characters, whatever stands in the file; KN_ICC_UNKNOWN where no description can be read. */
typedef struct kn_icc_name {
    char text[KN_ICC_NAME_BYTES];
} kn_icc_name;

#define KN_ICC_UNKNOWN "unknown"

/* Of a profile itself. */
kn_icc_name kn_icc_name_of(const void *profile, size_t len);

/* Of the profile in a picture file; empty: it has none. file: one that kn_image_read takes. */
kn_icc_name kn_icc_name_in(const void *file, size_t len);

/* Whether a profile of that name is sRGB, by what those are called that programs and devices put into files. */
bool kn_icc_is_srgb(const char *name);

#endif
