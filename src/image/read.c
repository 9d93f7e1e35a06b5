#include "image/read.h"

#include "base/file.h"
#include "image/exif.h"
#include "image/jpeg.h"
#include "image/png.h"
#include "image/transform.h"
#include "image/webp.h"

bool kn_image_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, kn_error *err) {
    kn_image_kind kind = KN_IMAGE_UNKNOWN;
    if (!kn_image_check_file(data, len, limits, &kind, err))
        return false;
    kn_image image = { 0 };
    int orientation = KN_EXIF_UPRIGHT;
    bool ok = false;
    if (kind == KN_IMAGE_PNG)
        ok = kn_png_read(data, len, limits, &image, err);
    else if (kind == KN_IMAGE_JPEG)
        ok = kn_jpeg_read(data, len, limits, &image, &orientation, err);
    else if (kind == KN_IMAGE_WEBP)
        ok = kn_webp_read(data, len, limits, &image, &orientation, err);
    else
        kn_fail(err, KN_E_UNSUPPORTED, "is a %s file; PNG, JPEG and still WebP files are supported",
                kn_image_kind_name(kind));
    if (!ok || !kn_image_orient(&image, orientation, err)) {
        kn_image_free(&image);
        return false;
    }
    *ret = image;
    ret->was_turned = orientation != KN_EXIF_UPRIGHT;
    return true;
}

bool kn_image_read_file(const char *path, const kn_image_limits *limits, kn_image *ret, kn_error *err) {
    KN_AUTO_BUF file;
    kn_buf_init(&file, limits->bytes);
    return kn_file_read(path, limits->bytes, &file, err) && kn_image_read(file.data, file.len, limits, ret, err);
}
