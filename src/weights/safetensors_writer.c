#include "weights/safetensors_writer.h"

#include "base/buf.h"

static size_t elements(const kn_named_array *a) {
    size_t n = 1;
    for (int i = 0; i < a->rank; i++)
        n *= (size_t)a->dim[i];
    return n;
}

static bool describe(const kn_named_array *a, size_t *at, kn_buf *header) {
    size_t bytes = elements(a) * sizeof(float);
    bool ok = kn_buf_printf(header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", header->len > 1 ? "," : "", a->name);
    for (int i = 0; i < a->rank; i++)
        ok = ok && kn_buf_printf(header, "%s%lld", i ? "," : "", (long long)a->dim[i]);
    ok = ok && kn_buf_printf(header, "],\"data_offsets\":[%zu,%zu]}", *at, *at + bytes);
    *at += bytes;
    return ok;
}

bool kn_safetensors_write(kn_output *to, const kn_named_array *arrays, size_t count, kn_error *err) {
    KN_AUTO_BUF header;
    kn_buf_init(&header, 16 << 20);
    size_t at = 0;
    bool ok = kn_buf_add_text(&header, "{");
    for (size_t i = 0; i < count; i++)
        ok = ok && describe(&arrays[i], &at, &header);
    ok = ok && kn_buf_add_text(&header, "}");
    while (ok && header.len % 8)
        ok = kn_buf_add_text(&header, " ");
    if (!ok)
        return kn_fail_nomem(err, header.len);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(header.len >> 8 * i);
    ok = kn_output_write(to, length, sizeof length, err) && kn_output_write(to, header.data, header.len, err);
    for (size_t i = 0; ok && i < count; i++)
        ok = kn_output_write(to, arrays[i].values, elements(&arrays[i]) * sizeof(float), err);
    return ok;
}
