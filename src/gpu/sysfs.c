#include "gpu/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

bool kn_sysfs_text(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    size_t len = 0;
    for (ssize_t n; len < room - 1;) {
        n = read(fd, text + len, room - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            len = n < 0 ? 0 : len;
            break;
        }
        len += (size_t)n;
    }
    close(fd);
    text[len] = 0;
    return len > 0;
}

bool kn_sysfs_number(const char *path, uint64_t *ret) {
    char text[32];
    if (!kn_sysfs_text(path, text, sizeof text))
        return false;
    size_t len = strlen(text);
    if (text[len - 1] == '\n')
        text[len - 1] = 0;
    return kn_parse_u64(text, ret);
}

bool kn_sysfs_link(const char *path, char *name, size_t room) {
    char target[PATH_MAX];
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len <= 0)
        return false;
    target[len] = 0;
    const char *slash = strrchr(target, '/'), *last = slash ? slash + 1 : target;
    return *last && snprintf(name, room, "%s", last) < (int)room;
}

bool kn_sysfs_path(char *path, size_t room, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(path, room, fmt, args);
    va_end(args);
    return len >= 0 && (size_t)len < room;
}
