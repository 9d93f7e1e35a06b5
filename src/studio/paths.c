#include "studio/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

static bool has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return true;
    return false;
}

/* Whether one of the parts between slashes is this one. */
static bool has_part(const char *path, const char *part) {
    size_t len = strlen(part);
    for (const char *at = path; (at = strchr(at, '/')); at++)
        if (!strncmp(at + 1, part, len) && (at[1 + len] == '/' || !at[1 + len]))
            return true;
    return false;
}

static bool is_below(const char *path, const char *folder) {
    size_t len = strlen(folder);
    return !strncmp(path, folder, len) && (!path[len] || path[len] == '/');
}

bool kn_path_check(const char *path, kn_error *err) {
    static const char *const systems[] = { "/proc", "/sys", "/dev" };
    if (path[0] != '/')
        return kn_fail(err, KN_E_FORMAT, "an absolute path is expected");
    if (strlen(path) > KN_PATH_BYTES)
        return kn_fail(err, KN_E_RANGE, "the path is longer than %d bytes", KN_PATH_BYTES);
    if (has_control(path) || kn_utf8_check(path, strlen(path)) != strlen(path))
        return kn_fail(err, KN_E_FORMAT, "the path holds control characters or is not UTF-8");
    if (strstr(path, "//") || has_part(path, "..") || has_part(path, "."))
        return kn_fail(err, KN_E_FORMAT, "the path is not in its plain form");
    for (size_t i = 0; i < KN_COUNT(systems); i++)
        if (is_below(path, systems[i]))
            return kn_fail(err, KN_E_FORMAT, "the path lies in the system's own folders");
    return true;
}

bool kn_path_check_folder(const char *path, kn_error *err) {
    struct stat st;
    if (!kn_path_check(path, err))
        return false;
    if (stat(path, &st) != 0)
        return kn_fail(err, KN_E_NOT_FOUND, "the folder cannot be reached: %s", strerror(errno));
    return S_ISDIR(st.st_mode) || kn_fail(err, KN_E_FORMAT, "the path is not that of a folder");
}

/* Whether a folder is the outer one or lies in it, told by what they are and not by how they are called. */
static bool is_inside(const char *folder, const char *outer) {
    struct stat wanted, st;
    char *path = outer && stat(outer, &wanted) == 0 ? realpath(folder, NULL) : NULL;
    bool found = false;
    for (char *end = path ? path + strlen(path) : NULL; end && !found; end = strrchr(path, '/')) {
        *end = 0;
        found = stat(path[0] ? path : "/", &st) == 0 && st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino;
    }
    free(path);
    return found;
}

bool kn_path_check_target(const char *path, const kn_own_folders *own, kn_error *err) {
    if (!kn_path_check_folder(path, err))
        return false;
    bool kept = own && (is_inside(path, own->state) || is_inside(path, own->studio)) && !is_inside(path, own->models);
    return !kept || kn_fail(err, KN_E_FORMAT, "the folder lies in the service's own; take another one");
}

bool kn_path_check_name(const char *name, kn_error *err) {
    size_t len = strlen(name);
    if (!len || !strcmp(name, ".") || !strcmp(name, "..") || strchr(name, '/') || strchr(name, '\\') ||
        has_control(name) || kn_utf8_check(name, len) != len)
        return kn_fail(err, KN_E_FORMAT, "a file name without separators and control characters is expected");
    return len <= NAME_MAX ||
           kn_fail(err, KN_E_RANGE, "the file name is too long: %zu bytes, at most %d are allowed", len, NAME_MAX);
}

/* Letters and digits of ASCII, and whatever is beyond it but for spaces, signs of direction and the like. */
static bool is_word_character(uint32_t c) {
    if (c < 0x80)
        return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    return c >= 0xC0 && !(c >= 0x2000 && c <= 0x2BFF) && !(c >= 0x3000 && c <= 0x3004) && c < 0xE000;
}

kn_slug kn_slug_of(const char *text) {
    kn_slug slug = { "" };
    size_t n = 0;
    const char *end = text + strlen(text);
    bool gap = false;
    for (const char *at = text; at < end;) {
        uint32_t c;
        char bytes[4];
        if (!kn_utf8_next(&at, end, &c))
            break;
        if (!is_word_character(c)) {
            gap = n > 0;
            continue;
        }
        size_t len = kn_utf8_put(c < 0x80 && c >= 'A' && c <= 'Z' ? c | 32 : c, bytes);
        if (n + gap + len > KN_SLUG_BYTES)
            break;
        if (gap)
            slug.text[n++] = '-';
        memcpy(slug.text + n, bytes, len);
        n += len;
        gap = false;
    }
    slug.text[n] = 0;
    return slug;
}
