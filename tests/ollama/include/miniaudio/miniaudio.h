/* Stands in for a decoder of audio that no Debian package has: every call says that it is not implemented, so that the
 * server refuses audio. The tests never send any. */
#ifndef KN_TESTS_MINIAUDIO_H
#define KN_TESTS_MINIAUDIO_H

typedef int ma_result;
typedef unsigned long long ma_uint64;
enum { MA_SUCCESS = 0, MA_NOT_IMPLEMENTED = -29 };
enum { ma_format_f32 = 5 };

typedef struct {
    int format, channels, rate;
} ma_decoder_config;

typedef struct {
    int unused;
} ma_decoder;

static inline ma_decoder_config ma_decoder_config_init(int format, int channels, int rate) {
    ma_decoder_config c = { format, channels, rate };
    return c;
}

static inline ma_result ma_decoder_init_memory(const void *data, unsigned long len, const ma_decoder_config *c,
                                               ma_decoder *d) {
    (void)data;
    (void)len;
    (void)c;
    (void)d;
    return MA_NOT_IMPLEMENTED;
}

static inline ma_result ma_decoder_get_length_in_pcm_frames(ma_decoder *d, ma_uint64 *frames) {
    (void)d;
    *frames = 0;
    return MA_NOT_IMPLEMENTED;
}

static inline ma_result ma_decoder_read_pcm_frames(ma_decoder *d, void *out, ma_uint64 frames, ma_uint64 *read) {
    (void)d;
    (void)out;
    (void)frames;
    *read = 0;
    return MA_NOT_IMPLEMENTED;
}

static inline void ma_decoder_uninit(ma_decoder *d) {
    (void)d;
}

#endif
