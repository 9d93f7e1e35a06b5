#include "cli/save.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/signals.h"

static bool is_stdout(const char *path) {
    return strcmp(path, "-") == 0;
}

/* /dev/null and its like are written to as they are. */
static bool is_device(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISCHR(st.st_mode);
}

static bool write_device(const char *path, const void *data, size_t len, kn_error *err) {
    kn_output device = { .dir_fd = -1, .fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC) };
    if (device.fd < 0)
        return kn_fail(err, KN_E_OUTPUT, "cannot be opened: %s", strerror(errno));
    bool ok = kn_output_write(&device, data, len, err);
    close(device.fd);
    return ok;
}

static bool ends_in(const char *path, const char *const *endings, size_t count) {
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending && i < count; i++)
        if (strcasecmp(ending, endings[i]) == 0)
            return true;
    return false;
}

kn_image_kind kn_save_kind(const char *path) {
    static const char *const jpeg[] = { ".jpg", ".jpeg" }, *const webp[] = { ".webp" };
    return ends_in(path, jpeg, KN_COUNT(jpeg))   ? KN_IMAGE_JPEG
           : ends_in(path, webp, KN_COUNT(webp)) ? KN_IMAGE_WEBP
                                                 : KN_IMAGE_PNG;
}

/* PNG under another format's name would be opened wrongly, or not at all. */
static bool check_ending(const char *path, kn_error *err) {
    static const char *const others[] = { ".gif", ".bmp", ".tif", ".tiff", ".avif" };
    return !ends_in(path, others, KN_COUNT(others)) ||
           kn_fail(err, KN_E_OUTPUT,
                   "'%s': pictures are written as PNG, JPEG and WebP; let the name end in .png, "
                   ".jpg or .webp",
                   kn_quote_path(path).text);
}

bool kn_save_check(const char *path, bool clobber, kn_error *err) {
    if (!check_ending(path, err))
        return false;
    if (is_stdout(path)) {
        if (isatty(STDOUT_FILENO))
            return kn_fail(err, KN_E_USAGE, "a picture is not shown on a terminal; send it to a file or a pipe");
        return true;
    }
    if (is_device(path))
        return true;
    kn_signals_hold();
    kn_output o;
    bool ok = kn_output_open(path, clobber, &o, err);
    if (ok)
        kn_output_drop(&o);
    kn_signals_release();
    return ok || kn_fail_within(err, "'%s'", kn_quote_path(path).text);
}

static bool write_file(const char *path, bool clobber, const void *data, size_t len, kn_error *err) {
    kn_output o;
    if (!kn_output_open(path, clobber, &o, err))
        return false;
    if (kn_output_write(&o, data, len, err))
        return kn_output_commit(&o, clobber, err);
    kn_output_drop(&o);
    return false;
}

bool kn_save(const char *path, bool clobber, const void *data, size_t len, kn_error *err) {
    if (is_stdout(path)) {
        kn_output to_stdout = { .dir_fd = -1, .fd = STDOUT_FILENO };
        return kn_output_write(&to_stdout, data, len, err) || kn_fail_within(err, "standard output");
    }
    if (is_device(path))
        return write_device(path, data, len, err) || kn_fail_within(err, "'%s'", kn_quote_path(path).text);
    kn_signals_hold();
    bool ok = write_file(path, clobber, data, len, err);
    kn_signals_release();
    return ok || kn_fail_within(err, "'%s'", kn_quote_path(path).text);
}

bool kn_save_name(const char *path, uint64_t index, uint64_t count, kn_buf *ret, kn_error *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *ending = strrchr(name, '.');
    if (!ending || ending == name) /* none, or a hidden file's first letter */
        ending = name + strlen(name);
    bool ok = kn_buf_add(ret, path, (size_t)(ending - path));
    if (count > 1)
        ok = ok && kn_buf_printf(ret, "-%llu", (unsigned long long)index);
    return (ok && kn_buf_add_text(ret, ending)) || kn_fail(err, KN_E_RANGE, "the name of the file is too long");
}
