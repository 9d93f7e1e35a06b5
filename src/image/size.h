/* How large a picture file says its picture is, read from its first bytes: nothing is decoded and nothing allocated, so
 * this may be asked where no decoder may run. It is the file's own word, of a PNG, JPEG or WebP as it is stored. */
#ifndef KN_IMAGE_SIZE_H
#define KN_IMAGE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool kn_image_size_of(const void *data, size_t len, uint32_t *ret_width, uint32_t *ret_height);

#endif
