#include "mcp/local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

/* The path as seen from the folder; NULL: it is not below it. */
static const char *below(const char *folder, const char *path) {
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    if (len == 1) /* the root */
        return path[1] ? path + 1 : NULL;
    return !strncmp(path, folder, len) && path[len] == '/' && path[len + 1] ? path + len + 1 : NULL;
}

/* The kernel sees to it that no link and no ".." leads out of the folder. */
static int open_below(const char *folder, const char *path) {
    const struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    int base = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base < 0)
        return -1;
    long fd = syscall(SYS_openat2, base, path, &how, sizeof how);
    int why = errno;
    close(base);
    errno = why;
    return (int)fd;
}

bool kn_mcp_read_local(const char *const *folders, size_t count, const char *path, kn_buf *into, kn_error *err) {
    char name[40];
    for (size_t i = 0; i < count; i++) {
        const char *rest = below(folders[i], path);
        if (!rest)
            continue;
        int fd = open_below(folders[i], rest);
        if (fd < 0 && errno == EXDEV)
            return kn_fail(err, KN_E_USAGE, "a file named by its path leads out of the folder that was allowed");
        if (fd < 0)
            return kn_fail(err, KN_E_IO, "a file named by its path cannot be opened: %s", strerror(errno));
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        bool ok = kn_file_read(name, into->limit, into, err) || kn_fail_within(err, "a file named by its path");
        close(fd);
        return ok;
    }
    return kn_fail(err, KN_E_USAGE, "paths are taken below folders that were allowed only (kuno mcp --allow DIR)");
}
