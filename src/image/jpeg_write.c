#include <stdio.h> /* before jpeglib.h, which uses FILE without asking for it */

#include <jpeglib.h>

#include <jerror.h>
#include <setjmp.h>

#include "image/jpeg.h"
#include "image/transform.h"

enum { PIECE = 64 << 10, FULL_COLOUR_FROM = 90 };

/* One file being written. */
struct session {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr to;
    jmp_buf leave;
    kn_error failure;
    const kn_image *picture; /* RGB or grey */
    unsigned quality;
    const kn_jpeg_segment *segments;
    size_t segment_count;
    kn_buf *into;
    JOCTET piece[PIECE];
};

static KN_NORETURN void leave(struct session *s) {
    longjmp(s->leave, 1);
}

static KN_NORETURN void on_error(j_common_ptr jpeg) {
    struct session *s = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    kn_fail(&s->failure, jpeg->err->msg_code == JERR_OUT_OF_MEMORY ? KN_E_NOMEM : KN_E_RANGE,
            "cannot be written as a JPEG file: %s", text);
    leave(s);
}

static void begin_piece(j_compress_ptr jpeg) {
    struct session *s = jpeg->client_data;
    s->to.next_output_byte = s->piece;
    s->to.free_in_buffer = PIECE;
}

static void put(struct session *s, size_t len) {
    if (kn_buf_add(s->into, s->piece, len))
        return;
    if (len > s->into->limit - s->into->len)
        kn_fail(&s->failure, KN_E_RANGE, "becomes larger than %zu bytes as a JPEG file", s->into->limit);
    else
        kn_fail_nomem(&s->failure, len);
    leave(s);
}

/* libjpeg wants the whole piece to be taken, whatever next_output_byte says. */
static boolean put_piece(j_compress_ptr jpeg) {
    put(jpeg->client_data, PIECE);
    begin_piece(jpeg);
    return TRUE;
}

static void put_last(j_compress_ptr jpeg) {
    struct session *s = jpeg->client_data;
    put(s, PIECE - s->to.free_in_buffer);
}

static void write_file(struct session *s) {
    j_compress_ptr jpeg = &s->jpeg;
    jpeg_create_compress(jpeg);
    s->to.init_destination = begin_piece;
    s->to.empty_output_buffer = put_piece;
    s->to.term_destination = put_last;
    jpeg->dest = &s->to;
    jpeg->image_width = s->picture->width;
    jpeg->image_height = s->picture->height;
    jpeg->input_components = (int)s->picture->channels;
    jpeg->in_color_space = s->picture->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, (int)s->quality, TRUE);
    jpeg->optimize_coding = TRUE;
    if (s->quality >= FULL_COLOUR_FROM)
        jpeg->comp_info[0].h_samp_factor = jpeg->comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(jpeg, TRUE);
    for (size_t i = 0; i < s->segment_count; i++)
        jpeg_write_marker(jpeg, JPEG_APP0 + s->segments[i].app, s->segments[i].data, (unsigned)s->segments[i].len);
    size_t row_bytes = (size_t)s->picture->width * s->picture->channels;
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = s->picture->pixels + jpeg->next_scanline * row_bytes;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
}

/* libjpeg leaves by longjmp; this is where it lands. */
static bool guarded(struct session *s) {
    if (setjmp(s->leave))
        return false;
    write_file(s);
    return true;
}

bool kn_jpeg_write(const kn_image *image, unsigned quality, const kn_jpeg_segment *segments, size_t count, kn_buf *into,
                   kn_error *err) {
    kn_image on_white = { 0 };
    struct session s = {
        .picture = image, .quality = quality, .segments = segments, .segment_count = count, .into = into
    };
    if (image->channels == 4 && !kn_image_over_white(image, &on_white, err))
        return false;
    if (image->channels == 4)
        s.picture = &on_white;
    s.jpeg.err = jpeg_std_error(&s.errors);
    s.errors.error_exit = on_error;
    s.jpeg.client_data = &s;
    bool ok = guarded(&s);
    jpeg_destroy_compress(&s.jpeg);
    kn_image_free(&on_white);
    return ok || kn_fail(err, s.failure.code, "%s", s.failure.text);
}
