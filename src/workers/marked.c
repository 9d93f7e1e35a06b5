#include "workers/marked.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"

enum { ENVIRONMENT_MAX = 2 << 20, PAUSE_MS = 20 };

/* Not by kn_file_read, since files in /proc have no size. */
static bool read_environment(const char *pid, kn_buf *into) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char piece[4096];
    ssize_t n;
    kn_buf_clear(into);
    while ((n = read(fd, piece, sizeof piece)) > 0 && kn_buf_add(into, piece, (size_t)n)) {
    }
    close(fd);
    return n == 0;
}

static bool has_mark(const kn_buf *environment, const char *start) {
    size_t len = strlen(start);
    const char *end = environment->data + environment->len;
    for (const char *at = environment->data; at < end; at += strnlen(at, (size_t)(end - at)) + 1) {
        if ((size_t)(end - at) >= len && memcmp(at, start, len) == 0)
            return true;
    }
    return false;
}

size_t kn_marked_signal(const char *start, int signal) {
    KN_AUTO_BUF environment;
    kn_buf_init(&environment, ENVIRONMENT_MAX);
    size_t count = 0;
    DIR *folder = opendir("/proc");
    if (!folder)
        return 0;
    for (const struct dirent *e; (e = readdir(folder));) {
        uint64_t pid = 0;
        if (!kn_parse_u64(e->d_name, &pid) || pid <= 1 || pid > INT32_MAX || (pid_t)pid == getpid() ||
            !read_environment(e->d_name, &environment) || !has_mark(&environment, start))
            continue;
        count++;
        if (signal)
            kill((pid_t)pid, signal);
    }
    closedir(folder);
    return count;
}

bool kn_marked_end(const char *start, unsigned ms) {
    for (unsigned waited = 0; kn_marked_signal(start, SIGKILL); waited += PAUSE_MS) {
        if (waited >= ms)
            return false;
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000L }, NULL);
    }
    return true;
}
