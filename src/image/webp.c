#include "image/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include "image/exif.h"

static bool fail(VP8StatusCode status, kn_error *err) {
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return kn_fail(err, KN_E_NOMEM, "out of memory for reading a WebP file");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return kn_fail(err, KN_E_TRUNCATED, "ends too early");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return kn_fail(err, KN_E_UNSUPPORTED, "is a WebP file of a kind that is not supported");
    default: return kn_fail(err, KN_E_FORMAT, "is a damaged WebP file");
    }
}

static bool decode(const void *data, size_t len, kn_image *image, kn_error *err) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return kn_fail(err, KN_E_UNSUPPORTED, "libwebp cannot be used: it has another version than its headers");
    size_t row_bytes = (size_t)image->width * 4;
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA =
        (WebPRGBABuffer){ .rgba = image->pixels, .stride = (int)row_bytes, .size = row_bytes * image->height };
    VP8StatusCode status = WebPDecode(data, len, &config);
    WebPFreeDecBuffer(&config.output);
    return status == VP8_STATUS_OK || fail(status, err);
}

static int orientation(const void *data, size_t len) {
    const WebPData file = { .bytes = data, .size = len };
    WebPDemuxer *d = WebPDemux(&file);
    WebPChunkIterator exif;
    int found = KN_EXIF_UPRIGHT;
    if (d && WebPDemuxGetChunk(d, "EXIF", 1, &exif)) {
        found = kn_exif_orientation(exif.chunk.bytes, exif.chunk.size);
        WebPDemuxReleaseChunkIterator(&exif);
    }
    WebPDemuxDelete(d);
    return found;
}

bool kn_webp_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, int *ret_orientation,
                  kn_error *err) {
    WebPBitstreamFeatures is;
    VP8StatusCode status = WebPGetFeatures(data, len, &is);
    if (status != VP8_STATUS_OK)
        return fail(status, err);
    if (is.has_animation)
        return kn_fail(err, KN_E_UNSUPPORTED, "is an animated WebP file; only still pictures are supported");
    kn_image image = { 0 };
    if (!kn_image_check_size((uint32_t)is.width, (uint32_t)is.height, limits, err) ||
        !kn_image_new((uint32_t)is.width, (uint32_t)is.height, 4, &image, err))
        return false;
    if (!decode(data, len, &image, err)) {
        kn_image_free(&image);
        return false;
    }
    *ret = image;
    *ret_orientation = orientation(data, len);
    return true;
}
