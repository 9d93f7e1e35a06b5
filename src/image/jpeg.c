#include "image/jpeg.h"

#include <stdio.h> /* before jpeglib.h, which uses FILE without asking for it */

#include <jpeglib.h>

#include <jerror.h>
#include <setjmp.h>
#include <string.h>

#include "image/exif.h"

/* Each scan of a progressive file goes over the whole picture, and can be a few bytes long. Encoders write about ten.
 */
enum { SCANS_MAX = 100 };

/* A part of the file. */
struct span {
    const uint8_t *data;
    size_t len;
};

enum { PIECES_MAX = 255 };

/* A colour profile in pieces, which say their number, from 1, and how many there are. */
struct pieces {
    bool any, broken;
    unsigned count;
    struct span piece[PIECES_MAX + 1];
};

/* One file being read. What is made on the way hangs here, so that a jump out of libjpeg loses nothing. */
struct session {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    kn_error failure;
    const uint8_t *data;
    size_t len;
    const kn_image_limits *limits;
    struct span notes; /* EXIF */
    struct pieces profile;
    kn_image image;
    int orientation;
    kn_buf *into; /* what is wanted, if not the pixels */
    bool has_it;
};

static KN_NORETURN void leave(struct session *s) {
    longjmp(s->leave, 1);
}

static KN_NORETURN void on_error(j_common_ptr jpeg) {
    struct session *s = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    switch (jpeg->err->msg_code) {
    case JERR_OUT_OF_MEMORY: kn_fail(&s->failure, KN_E_NOMEM, "out of memory for reading a JPEG file"); break;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
        kn_fail(&s->failure, KN_E_UNSUPPORTED, "is a JPEG file of a rare kind that is not supported: %s", text);
        break;
    case JWRN_JPEG_EOF: kn_fail(&s->failure, KN_E_TRUNCATED, "ends too early"); break;
    default: kn_fail(&s->failure, KN_E_FORMAT, "is a damaged JPEG file: %s", text);
    }
    leave(s);
}

/* libjpeg goes on with grey or guessed pixels where data is missing or wrong; such a picture is refused. What does not
 * touch the pixels is passed over. */
static void on_message(j_common_ptr jpeg, int level) {
    if (level >= 0)
        return;
    switch (jpeg->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA: return;
    default: on_error(jpeg);
    }
}

static void on_progress(j_common_ptr jpeg) {
    struct session *s = jpeg->client_data;
    if (s->jpeg.input_scan_number <= SCANS_MAX)
        return;
    kn_fail(&s->failure, KN_E_RANGE, "goes over its pixels more than the allowed %d times", SCANS_MAX);
    leave(s);
}

static void keep_piece(struct pieces *p, struct span piece) {
    unsigned number = piece.len >= 2 ? piece.data[0] : 0, count = number ? piece.data[1] : 0;
    bool fits = number && number <= count && (!p->any || count == p->count) && !p->piece[number].data;
    p->any = true;
    p->count = count;
    p->broken = p->broken || !fits;
    if (fits)
        p->piece[number] = (struct span){ piece.data + 2, piece.len - 2 };
}

static bool begins_with(struct span s, const char *mark, size_t len) {
    return s.len >= len && memcmp(s.data, mark, len) == 0;
}

/* The same kinds of segment carry other things, too: XMP, a list of pictures. */
static void keep_segment(struct session *s, int marker, struct span what) {
    static const char exif[] = "Exif", profile[] = "ICC_PROFILE";
    if (marker == JPEG_APP0 + 1 && !s->notes.data && begins_with(what, exif, sizeof exif))
        s->notes = what;
    else if (marker == JPEG_APP0 + 2 && begins_with(what, profile, sizeof profile))
        keep_piece(&s->profile, (struct span){ what.data + sizeof profile, what.len - sizeof profile });
}

/* libjpeg would copy each segment and put it at the end of a list that it goes through from its beginning: of a file
 * of nothing but segments that takes hours. What is cut short the skipping finds out. */
static boolean on_segment(j_decompress_ptr jpeg) {
    enum { LENGTH = 2 };
    struct jpeg_source_mgr *from = jpeg->src;
    const uint8_t *at = from->next_input_byte;
    size_t left = from->bytes_in_buffer, len = left >= LENGTH ? (size_t)at[0] << 8 | at[1] : LENGTH;
    if (len >= LENGTH && len <= left)
        keep_segment(jpeg->client_data, jpeg->unread_marker, (struct span){ at + LENGTH, len - LENGTH });
    from->skip_input_data(jpeg, (long)KN_MAX(len, (size_t)LENGTH));
    return TRUE;
}

static void read_head(struct session *s) {
    j_decompress_ptr jpeg = &s->jpeg;
    jpeg_create_decompress(jpeg);
    s->progress.progress_monitor = on_progress;
    jpeg->progress = &s->progress;
    jpeg_mem_src(jpeg, s->data, s->len);
    jpeg_set_marker_processor(jpeg, JPEG_APP0 + 1, on_segment);
    jpeg_set_marker_processor(jpeg, JPEG_APP0 + 2, on_segment);
    jpeg_read_header(jpeg, TRUE);
}

static void read_comment(struct session *s) {
    read_head(s);
    s->has_it = s->notes.data && kn_exif_comment(s->notes.data, s->notes.len, s->into);
}

static void read_profile(struct session *s) {
    read_head(s);
    const struct pieces *p = &s->profile;
    bool whole = !p->broken;
    for (unsigned i = 1; whole && i <= p->count; i++)
        whole = p->piece[i].data && kn_buf_add(s->into, p->piece[i].data, p->piece[i].len);
    if (!whole)
        kn_buf_clear(s->into);
    s->has_it = p->any;
}

static void read_file(struct session *s) {
    j_decompress_ptr jpeg = &s->jpeg;
    read_head(s);
    s->orientation = s->notes.data ? kn_exif_orientation(s->notes.data, s->notes.len) : KN_EXIF_UPRIGHT;
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK) {
        kn_fail(&s->failure, KN_E_UNSUPPORTED, "is a JPEG file in printing colours (CMYK); save it as RGB");
        leave(s);
    }
    if (!kn_image_check_size(jpeg->image_width, jpeg->image_height, s->limits, &s->failure) ||
        !kn_image_new(jpeg->image_width, jpeg->image_height, 4, &s->image, &s->failure))
        leave(s);
    jpeg->out_color_space = JCS_EXT_RGBA;
    jpeg_start_decompress(jpeg);
    size_t row_bytes = (size_t)s->image.width * 4;
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = s->image.pixels + jpeg->output_scanline * row_bytes;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
}

/* libjpeg leaves by longjmp; this is where it lands. */
static bool guarded(struct session *s, void (*work)(struct session *s)) {
    if (setjmp(s->leave))
        return false;
    work(s);
    return true;
}

static bool run(struct session *s, void (*work)(struct session *s)) {
    s->jpeg.err = jpeg_std_error(&s->errors);
    s->errors.error_exit = on_error;
    s->errors.emit_message = on_message;
    s->jpeg.client_data = s;
    bool ok = guarded(s, work);
    jpeg_destroy_decompress(&s->jpeg);
    return ok;
}

bool kn_jpeg_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, int *ret_orientation,
                  kn_error *err) {
    struct session s = { .data = data, .len = len, .limits = limits };
    if (!run(&s, read_file)) {
        kn_image_free(&s.image);
        return kn_fail(err, s.failure.code, "%s", s.failure.text);
    }
    *ret = s.image;
    *ret_orientation = s.orientation;
    return true;
}

bool kn_jpeg_comment(const void *data, size_t len, kn_buf *into) {
    struct session s = { .data = data, .len = len, .into = into };
    return run(&s, read_comment) && s.has_it;
}

bool kn_jpeg_profile(const void *data, size_t len, kn_buf *into) {
    struct session s = { .data = data, .len = len, .into = into };
    return run(&s, read_profile) && s.has_it;
}
