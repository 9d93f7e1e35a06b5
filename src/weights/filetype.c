/* What a file is that should be a model and is not: web pages, pointers and pickles get saved under a model's name. */
#include <string.h>

#include "weights/container.h"

static const char pickle[] =
    "is a Python pickle (.pt, .pth, .ckpt); pickle formats can run code and are refused; use a safetensors file";

static const struct magic {
    const char *bytes;
    size_t len;
    kn_code code;
    const char *what;
} magics[] = {
#define MAGIC(bytes) bytes, sizeof(bytes) - 1
    { MAGIC("version https://git-lfs.github.com/spec/"), KN_E_FORMAT,
      "is a Git LFS pointer, not the model itself; fetch the real file, for example with 'git lfs pull'" },
    { MAGIC("PK\x03\x04"), KN_E_UNSUPPORTED,
      "is a zip archive, as .pt, .pth and .ckpt files are; these pickle formats can run code and are refused; use a "
      "safetensors file" },
    { MAGIC("\x80\x02"), KN_E_UNSUPPORTED, pickle },
    { MAGIC("\x80\x04"), KN_E_UNSUPPORTED, pickle },
    { MAGIC("\x1f\x8b"), KN_E_FORMAT, "is a gzip archive; unpack it first" },
    { MAGIC("\x89PNG\r\n"), KN_E_FORMAT, "is a PNG picture, not a model" },
    { MAGIC("\xff\xd8\xff"), KN_E_FORMAT, "is a JPEG picture, not a model" },
    { MAGIC("\0\0\0\0\0\0\0\0"), KN_E_FORMAT, "begins with zeros, as a file whose download was not finished does" },
#undef MAGIC
};

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Is all of it text? A character cut at the end of the piece does not count against it. */
static bool is_text(const char *p, size_t len) {
    size_t good = kn_utf8_check(p, len);
    if (good + 4 <= len)
        return false;
    for (size_t i = 0; i < good; i++) {
        if (((unsigned char)p[i] < 0x20 && !is_space(p[i])) || p[i] == 0x7F)
            return false;
    }
    return true;
}

bool kn_refuse_known_file(const uint8_t *data, size_t len, kn_error *err) {
    if (len == 0)
        return kn_fail(err, KN_E_TRUNCATED, "is empty (0 bytes)");
    for (size_t i = 0; i < KN_COUNT(magics); i++) {
        if (len >= magics[i].len && memcmp(data, magics[i].bytes, magics[i].len) == 0)
            return kn_fail(err, magics[i].code, "%s", magics[i].what);
    }
    size_t piece = KN_MIN(len, 256);
    const char *at = (const char *)data, *end = at + piece;
    if (len < 8 || !is_text(at, piece))
        return false;
    if (piece >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0)
        at += 3;
    while (at < end && is_space(*at))
        at++;
    size_t left = (size_t)(end - at);
    if (left >= 5 && memcmp(at, "<?xml", 5) == 0)
        return kn_fail(err, KN_E_FORMAT, "is an XML page, not a model; the server answered something else");
    if (left >= 2 && at[0] == '<' && (at[1] == '!' || is_letter(at[1])))
        return kn_fail(err, KN_E_FORMAT,
                       "is an HTML page, not a model; the server answered something else, perhaps a sign-in page");
    if (left >= 1 && (at[0] == '{' || at[0] == '['))
        return kn_fail(err, KN_E_FORMAT, "is a JSON text, not a model");
    return kn_fail(err, KN_E_FORMAT, "is a text file, not a model");
}
