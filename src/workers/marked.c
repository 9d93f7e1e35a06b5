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
#include "base/cgroup.h"
#include "base/text.h"

enum {
    ENVIRONMENT_MAX = 2 << 20,
    PAUSE_MS = 20,
    BEGIN_MS = 100, /* that a program may take from losing one environment to having the next */
    LOOKS = 3,
};

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

/* In the middle of exec a process has memory and no environment yet: nobody can tell which it will have. Without memory
 * it is dead, or the kernel's own. */
typedef enum state { NO_MEMORY, BEGINS, RUNS } state;

static state state_of(const char *pid) {
    enum { NAME = 2, MEMORY = 23, ENVIRONMENT_END = 51 }; /* words of the line, as proc(5) counts them */
    char path[64], text[1024];
    uint64_t memory = 0, end = 1;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    char *at = kn_system_read(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    for (int i = NAME; at && i <= ENVIRONMENT_END; i++) {
        const char *word = strsep(&at, " ");
        if (i == MEMORY)
            kn_parse_u64(word, &memory);
        if (i == ENVIRONMENT_END)
            kn_parse_u64(word, &end);
    }
    return !memory ? NO_MEMORY : end ? RUNS : BEGINS;
}

typedef enum answer { NO, YES, UNCLEAR } answer;

/* One that is beginning is looked at until it runs; what has come to run since it was read is read again. */
static answer is_marked(const char *pid, const char *start, kn_buf *environment) {
    for (unsigned waited = 0, looks = 0; read_environment(pid, environment);) {
        if (environment->len)
            return has_mark(environment, start) ? YES : NO;
        state now = state_of(pid);
        if (now == NO_MEMORY || (now == RUNS && ++looks == LOOKS))
            return NO;
        if (now == BEGINS && ++waited > BEGIN_MS)
            return UNCLEAR;
        if (now == BEGINS)
            nanosleep(&(struct timespec){ .tv_nsec = 1000000L }, NULL);
    }
    return NO;
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
        if (!kn_parse_u64(e->d_name, &pid) || pid <= 1 || pid > INT32_MAX || (pid_t)pid == getpid())
            continue;
        answer marked = is_marked(e->d_name, start, &environment);
        count += marked != NO;
        if (marked == YES && signal)
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
