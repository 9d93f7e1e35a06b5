#include "workers/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/swap.h"

const kn_name kn_isolation_names[KN_ISOLATION_COUNT] = {
    { "required", { NULL }, "all of it, or no work" },
    { "best-effort", { NULL }, "what this machine offers" },
};
const char *const kn_cage_words[KN_CAGE_PARTS] = { "files", "system-calls", "swap" };
const char *const kn_cage_remedies[KN_CAGE_PARTS] = {
    "Use Linux 6.2 or later with Landlock",
    "Use a kernel with seccomp",
    "Turn swap off, or set MemorySwapMax=0 for the service",
};

bool kn_cage_gaps_read(const char *words, size_t len, kn_cage_gaps *ret) {
    unsigned parts = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(words + at, ' ', len - at);
        size_t n = end ? (size_t)(end - words) - at : len - at, i = 0;
        while (i < KN_CAGE_PARTS && (strlen(kn_cage_words[i]) != n || memcmp(words + at, kn_cage_words[i], n) != 0))
            i++;
        if (i == KN_CAGE_PARTS)
            return false;
        parts |= 1U << i;
        at += n + 1;
    }
    *ret = (kn_cage_gaps){ .known = true, .parts = parts };
    return true;
}

kn_cage_list kn_cage_list_of(unsigned parts) {
    kn_cage_list list = { "" };
    size_t len = 0;
    for (size_t i = 0; i < KN_CAGE_PARTS; i++)
        if (parts >> i & 1)
            len += (size_t)snprintf(list.text + len, sizeof list.text - len, "%s%s", len ? ", " : "", kn_cage_words[i]);
    return list;
}

const char *kn_cage_remedy(unsigned parts) {
    for (size_t i = 0; i < KN_CAGE_PARTS; i++)
        if (parts >> i & 1)
            return kn_cage_remedies[i];
    return NULL;
}

json_t *kn_cage_json(kn_cage_gaps gaps) {
    json_t *list = gaps.known ? json_array() : json_null();
    for (size_t i = 0; i < KN_CAGE_PARTS; i++)
        if (gaps.parts >> i & 1)
            json_array_append_new(list, json_string(kn_cage_words[i]));
    return list;
}

enum { OPEN_FILES = 256, UNPREPARED = 1 << KN_CAGE_PARTS };

static bool limit(int what, rlim_t most, kn_error *err) {
    struct rlimit l;
    if (getrlimit(what, &l))
        return kn_fail(err, KN_E_IO, "cannot read a limit of this process: %s", strerror(errno));
    l.rlim_cur = KN_MIN(l.rlim_cur, most);
    l.rlim_max = KN_MIN(l.rlim_max, most);
    return setrlimit(what, &l) == 0 || kn_fail(err, KN_E_IO, "cannot limit this process: %s", strerror(errno));
}

/* Neither of the first two is enough: a collector of core dumps gets them whatever the limit is, and the flag is set
 * again by the next program that is run. */
static bool prepare(kn_error *err) {
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return kn_fail(err, KN_E_IO, "cannot give up privileges: %s", strerror(errno));
    if (close_range(STDERR_FILENO + 1, ~0U, 0))
        return kn_fail(err, KN_E_IO, "cannot close what was open: %s", strerror(errno));
    return limit(RLIMIT_CORE, 0, err) && limit(RLIMIT_NOFILE, OPEN_FILES, err);
}

bool kn_sandbox_swap(kn_error *err) {
    switch (kn_swap_state()) {
    case KN_SWAP_OFF: return true;
    case KN_SWAP_ON:
        return kn_fail(err, KN_E_UNSUPPORTED,
                       "swap is on for this process; set MemorySwapMax=0 for its service, or turn swap off");
    default:
        return kn_fail(err, KN_E_UNSUPPORTED,
                       "this machine has swap, and does not tell whether this process may use it; turn swap off");
    }
}

bool kn_sandbox_enter(kn_isolation isolation, unsigned *ret_missing, kn_error *err) {
    /* What is read from files comes before files are closed off. */
    static bool (*const parts[KN_CAGE_PARTS])(kn_error *) = {
        [KN_CAGE_FILES] = kn_sandbox_files, [KN_CAGE_CALLS] = kn_sandbox_calls, [KN_CAGE_SWAP] = kn_sandbox_swap
    };
    static const int order[KN_CAGE_PARTS] = { KN_CAGE_SWAP, KN_CAGE_FILES, KN_CAGE_CALLS };
    unsigned missing = 0;
    if (!prepare(err))
        return false;
    for (size_t i = 0; i < KN_CAGE_PARTS; i++) {
        kn_error why = { 0 };
        if (parts[order[i]](&why))
            continue;
        missing |= 1U << order[i];
        if (isolation == KN_ISOLATION_REQUIRED)
            return kn_fail(err, why.code, "the image worker cannot be locked in: %s", why.text);
    }
    *ret_missing = missing;
    return true;
}

bool kn_sandbox_try(unsigned *ret_missing, kn_error *err) {
    int status = 0;
    pid_t pid = fork();
    if (pid < 0)
        return kn_fail(err, KN_E_IO, "cannot begin a process: %s", strerror(errno));
    if (pid == 0) {
        unsigned missing = 0;
        _exit(kn_sandbox_enter(KN_ISOLATION_BEST_EFFORT, &missing, NULL) ? (int)missing : UNPREPARED);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return kn_fail(err, KN_E_IO, "cannot wait for a process: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) >= UNPREPARED)
        return kn_fail(err, KN_E_UNSUPPORTED, "a process cannot be locked in here at all");
    *ret_missing = (unsigned)WEXITSTATUS(status);
    return true;
}
