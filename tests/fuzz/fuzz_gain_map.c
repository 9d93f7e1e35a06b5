/* Any bytes as a JPEG file with a gain map, or as what is said of one (the first byte tells). Whatever is taken can be
 * laid under another picture and written, and is then read again as it was. */
#include <stdlib.h>
#include <string.h>

#include "image/gain_map_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT = 4 << 20 };

static void check_facts(const kn_gain_facts *f) {
    KN_AUTO_BUF iso;
    KN_AUTO_BUF xmp;
    kn_gain_facts again;
    kn_buf_init(&iso, LIMIT);
    kn_buf_init(&xmp, LIMIT);
    if (!kn_gain_facts_to_iso(f, &iso) || !kn_gain_facts_to_xmp(f, &xmp))
        abort();
    const size_t mark = sizeof KN_MARK_ISO;
    const kn_span_of_file numbers = { (const uint8_t *)iso.data + mark, iso.len - mark };
    if (!kn_gain_facts_from_iso(numbers, &again, NULL) || again.channels != f->channels)
        abort();
}

static void read_file(const uint8_t *data, size_t size) {
    static const kn_image_limits limits = { .bytes = 1 << 20, .side = 512, .pixels = 1 << 16 };
    uint8_t pixels[2][8 * 8 * 3];
    const kn_image before = { .width = 8, .height = 8, .channels = 3, .pixels = pixels[0] },
                   picture = { .width = 8, .height = 8, .channels = 3, .pixels = pixels[1] };
    kn_gain_map m, again;
    kn_error err = { 0 };
    memset(pixels, 100, sizeof pixels);
    memset(pixels[1], 125, sizeof pixels[1] / 2); /* one half is brighter than it was, and loses some of its gain */
    if (!kn_gain_map_read(data, size, &limits, &m, &err)) {
        if (err.code == KN_OK)
            abort();
        return;
    }
    check_facts(&m.facts);
    KN_AUTO_BUF file;
    kn_buf_init(&file, LIMIT);
    if (!kn_gain_map_fit(&m, &before, &picture, NULL) || !kn_gain_map_write(&picture, 90, NULL, &m, &file, NULL) ||
        !kn_gain_map_read(file.data, file.len, &limits, &again, NULL))
        abort();
    if (again.picture.width != m.picture.width || again.picture.height != m.picture.height ||
        again.profile.len != m.profile.len)
        abort();
    kn_gain_map_free(&again);
    kn_gain_map_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kn_gain_facts f;
    if (!size)
        return 0;
    const kn_span_of_file rest = { data + 1, size - 1 };
    if (data[0] == 'i' && kn_gain_facts_from_iso(rest, &f, NULL))
        check_facts(&f);
    if (data[0] == 'x' && kn_gain_facts_from_xmp(rest, &f, NULL))
        check_facts(&f);
    if (data[0] != 'i' && data[0] != 'x')
        read_file(data, size);
    return 0;
}
