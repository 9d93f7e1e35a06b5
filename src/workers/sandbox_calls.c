/* The part of the cage that is about system calls: seccomp. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workers/sandbox.h"

/* What computing, reading files, threads and drivers of graphics cards need. Drivers try more than this, and go on when
 * they may not: to pin their threads, or to have them yield to others, is what they could do to any process of the
 * user, too. */
static const char *const allowed[] = {
    /* files that are open or can be read; Landlock decides which */
    "access",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fstat",
    "fstatfs",
    "ftruncate",
    "getcwd",
    "getdents64",
    "lseek",
    "lstat",
    "memfd_create",
    "newfstatat",
    "open",
    "openat",
    "pipe2",
    "pread64",
    "preadv",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "stat",
    "statfs",
    "statx",
    "write",
    "writev",
    /* memory */
    "brk",
    "get_mempolicy",
    "madvise",
    "mbind",
    "membarrier",
    "mincore",
    "mlock",
    "mlock2",
    "mmap",
    "mprotect",
    "mremap",
    "msync",
    "munlock",
    "munmap",
    "set_mempolicy",
    /* threads and waiting */
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "eventfd2",
    "futex",
    "futex_waitv",
    "getrandom",
    "gettimeofday",
    "nanosleep",
    "poll",
    "ppoll",
    "pselect6",
    "restart_syscall",
    "rseq",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_yield",
    "select",
    "set_robust_list",
    "set_tid_address",
    "time",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    /* this process */
    "arch_prctl",
    "exit",
    "exit_group",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "getrusage",
    "gettid",
    "getuid",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "signalfd4",
    "socketpair",
    "sysinfo",
    "times",
    "uname",
    "wait4",
};

/* What no driver calls: whoever does has taken over the process. */
static const char *const deadly[] = {
    "add_key",
    "bpf",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "process_vm_readv",
    "ptrace",
    "reboot",
    "request_key",
    "process_vm_writev",
    "setns",
    "swapoff",
    "swapon",
    "umount2",
    "unshare",
    "userfaultfd",
};

/* Names that this kind of processor does not have are passed over: its programs cannot call them. */
static int add_each(scmp_filter_ctx filter, uint32_t action, const char *const *names, size_t count) {
    int code = 0;
    for (size_t i = 0; !code && i < count; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        if (number >= 0)
            code = seccomp_rule_add(filter, action, number, 0);
    }
    return code;
}

/* Of calls that do many things, which: the kernel looks at the lower half of such an argument only, and so does the
 * filter. Nobody may be named to whom signals are sent (F_SETOWN and its like), keys are not pressed for the user at a
 * terminal (TIOCSTI), and the process stays closed to debuggers. */
static const uint32_t file_commands[] = {
    F_DUPFD,  F_DUPFD_CLOEXEC, F_GETFD,     F_SETFD,      F_GETFL,     F_SETFL,     F_GETLK,      F_SETLK,
    F_SETLKW, F_OFD_GETLK,     F_OFD_SETLK, F_OFD_SETLKW, F_ADD_SEALS, F_GET_SEALS, F_GETPIPE_SZ, F_SETPIPE_SZ,
};
static const uint32_t process_commands[] = {
    PR_SET_NAME,       PR_GET_NAME,        PR_GET_DUMPABLE,    PR_CAPBSET_READ,     PR_GET_SECCOMP, PR_SET_TIMERSLACK,
    PR_GET_TIMERSLACK, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_GET_NO_NEW_PRIVS, PR_SET_VMA,
};
/* By the letter that a driver's commands have in common: nvidia-uvm none, fences '>', nvidia 'F', amdkfd 'K', shared
 * buffers 'b', all others of graphics cards 'd', nvidia-modeset 'm'. */
static const uint32_t driver_letters[] = {
    0, '>' << 8, 'F' << 8, 'K' << 8, 'b' << 8, 'd' << 8, 'm' << 8,
};
enum { LETTER = 0xFF00 };

static int allow_values(scmp_filter_ctx f, int call, unsigned argument, uint32_t mask, const uint32_t *values,
                        size_t count) {
    int code = 0;
    for (size_t i = 0; !code && i < count; i++) {
        const struct scmp_arg_cmp is_value = { argument, SCMP_CMP_MASKED_EQ, mask, values[i] };
        code = seccomp_rule_add_array(f, SCMP_ACT_ALLOW, call, 1, &is_value);
    }
    return code;
}

static int add_commands(scmp_filter_ctx f) {
    int code = allow_values(f, SCMP_SYS(fcntl), 1, UINT32_MAX, file_commands, KN_COUNT(file_commands));
    if (!code)
        code = allow_values(f, SCMP_SYS(prctl), 0, UINT32_MAX, process_commands, KN_COUNT(process_commands));
    if (!code)
        code = allow_values(f, SCMP_SYS(ioctl), 1, LETTER, driver_letters, KN_COUNT(driver_letters));
    return code;
}

/* Calls that are good or bad depending on what they are given first. */
static int add_conditions(scmp_filter_ctx f) {
    const struct {
        uint32_t action;
        int call;
        struct scmp_arg_cmp first;
    } rules[] = {
        /* Threads, not processes. */
        { SCMP_ACT_ALLOW, SCMP_SYS(clone), { 0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD } },
        /* Its own limits, its own threads. */
        { SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), { 0, SCMP_CMP_EQ, 0, 0 } },
        { SCMP_ACT_ALLOW, SCMP_SYS(tgkill), { 0, SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0 } },
        /* Sockets that can never be connected, which drivers make to ask for a display. */
        { SCMP_ACT_ALLOW, SCMP_SYS(socket), { 0, SCMP_CMP_EQ, AF_UNIX, 0 } },
        { SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), { 0, SCMP_CMP_NE, AF_UNIX, 0 } },
    };
    /* This one hides what it is asked for, so that libraries must do without it. */
    int code = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    for (size_t i = 0; !code && i < KN_COUNT(rules); i++)
        code = seccomp_rule_add_array(f, rules[i].action, rules[i].call, 1, &rules[i].first);
    return code;
}

static int fill_and_load(scmp_filter_ctx f) {
    int code = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (!code)
        code = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
    if (!code)
        code = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree: every call asks it */
    if (!code)
        code = add_each(f, SCMP_ACT_ALLOW, allowed, KN_COUNT(allowed));
    if (!code)
        code = add_each(f, SCMP_ACT_KILL_PROCESS, deadly, KN_COUNT(deadly));
    if (!code)
        code = add_commands(f);
    if (!code)
        code = add_conditions(f);
    return code ? code : seccomp_load(f);
}

bool kn_sandbox_calls(kn_error *err) {
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!f)
        return kn_fail(err, KN_E_NOMEM, "out of memory for a filter of system calls");
    int code = fill_and_load(f);
    seccomp_release(f);
    return code == 0 || kn_fail(err, KN_E_UNSUPPORTED, "this kernel takes no filter of system calls: %s",
                                strerror(code < 0 ? -code : code));
}
