#include "image/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

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

/* What is in its EXIF notes: which way up it is, and the comment, if `comment` is not NULL. */
static bool read_notes(const void *data, size_t len, int *ret_orientation, kn_buf *comment) {
    const WebPData file = { .bytes = data, .size = len };
    WebPDemuxer *d = WebPDemux(&file);
    WebPChunkIterator exif;
    bool has_comment = false;
    *ret_orientation = KN_EXIF_UPRIGHT;
    if (d && WebPDemuxGetChunk(d, "EXIF", 1, &exif)) {
        *ret_orientation = kn_exif_orientation(exif.chunk.bytes, exif.chunk.size);
        has_comment = comment && kn_exif_comment(exif.chunk.bytes, exif.chunk.size, comment);
        WebPDemuxReleaseChunkIterator(&exif);
    }
    WebPDemuxDelete(d);
    return has_comment;
}

bool kn_webp_comment(const void *data, size_t len, kn_buf *into) {
    int orientation;
    return read_notes(data, len, &orientation, into);
}

bool kn_webp_profile(const void *data, size_t len, kn_buf *into) {
    const WebPData file = { .bytes = data, .size = len };
    WebPDemuxer *d = WebPDemux(&file);
    WebPChunkIterator profile;
    bool has_one = d && WebPDemuxGetChunk(d, "ICCP", 1, &profile);
    if (has_one) {
        if (!kn_buf_add(into, profile.chunk.bytes, profile.chunk.size))
            kn_buf_clear(into);
        WebPDemuxReleaseChunkIterator(&profile);
    }
    WebPDemuxDelete(d);
    return has_one;
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
    read_notes(data, len, ret_orientation, NULL);
    return true;
}

/* ---- writing ---- */

static bool import_pixels(const kn_image *image, WebPPicture *picture) {
    int row_bytes = (int)(image->width * image->channels);
    return image->channels == 4 ? WebPPictureImportRGBA(picture, image->pixels, row_bytes)
                                : WebPPictureImportRGB(picture, image->pixels, row_bytes);
}

static bool encode(const kn_image *image, unsigned quality, WebPMemoryWriter *to, kn_error *err) {
    WebPConfig config;
    WebPPicture picture;
    if (!WebPConfigPreset(&config, WEBP_PRESET_DEFAULT, (float)quality) || !WebPPictureInit(&picture))
        return kn_fail(err, KN_E_UNSUPPORTED, "libwebp cannot be used: it has another version than its headers");
    if (image->width > WEBP_MAX_DIMENSION || image->height > WEBP_MAX_DIMENSION)
        return kn_fail(err, KN_E_RANGE, "%ux%u pixels are too many for a WebP file, %d are possible on a side",
                       image->width, image->height, WEBP_MAX_DIMENSION);
    config.use_sharp_yuv = 1; /* colours have half the pixels in every lossy WebP file: this keeps their edges */
    picture.width = (int)image->width;
    picture.height = (int)image->height;
    picture.use_argb = 1;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = to;
    bool ok = import_pixels(image, &picture) && WebPEncode(&config, &picture);
    WebPPictureFree(&picture);
    return ok || kn_fail(err, KN_E_NOMEM, "out of memory for writing a WebP file");
}

/* The file that is there already, with notes behind its pixels. */
static bool add_notes(const WebPMemoryWriter *file, const kn_buf *exif, WebPData *ret) {
    static const char kind[] = "EXIF";
    const WebPData pixels = { file->mem, file->size }, notes = { (const uint8_t *)exif->data, exif->len };
    WebPMux *mux = WebPMuxCreate(&pixels, 0);
    bool ok = mux && WebPMuxSetChunk(mux, kind, &notes, 0) == WEBP_MUX_OK && WebPMuxAssemble(mux, ret) == WEBP_MUX_OK;
    WebPMuxDelete(mux);
    return ok;
}

static bool add_file(const void *data, size_t len, kn_buf *into, kn_error *err) {
    if (len > into->limit - into->len)
        return kn_fail(err, KN_E_RANGE, "becomes larger than %zu bytes as a WebP file", into->limit);
    return kn_buf_add(into, data, len) || kn_fail_nomem(err, len);
}

bool kn_webp_write(const kn_image *image, unsigned quality, const kn_buf *exif, kn_buf *into, kn_error *err) {
    WebPMemoryWriter file;
    WebPData whole = { NULL, 0 };
    WebPMemoryWriterInit(&file);
    bool ok = encode(image, quality, &file, err);
    if (ok && exif)
        ok = (add_notes(&file, exif, &whole) || kn_fail(err, KN_E_NOMEM, "out of memory for writing a WebP file")) &&
             add_file(whole.bytes, whole.size, into, err);
    else if (ok)
        ok = add_file(file.mem, file.size, into, err);
    WebPDataClear(&whole);
    WebPMemoryWriterClear(&file);
    return ok;
}
