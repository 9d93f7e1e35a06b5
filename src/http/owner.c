#include "http/owner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/text.h"
#include "http/head.h"

enum {
    TABLE_BYTES = 64 << 10, /* of the kernel's table; those who listen come first */
    ADDRESS_BYTES = 48,
    LINK_BYTES = 64,
    COMMAND_BYTES = 32,
    /* Columns of the table. */
    LOCAL = 1,
    STATE = 3,
    USER = 7,
    INODE = 9,
};

/* As the kernel writes it: words of 32 bits as they lie in memory, and the port. */
static void write_address(const void *bytes, size_t len, uint16_t port, char ret[ADDRESS_BYTES]) {
    size_t at = 0;
    for (size_t i = 0; i < len; i += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, (const char *)bytes + i, sizeof word);
        at += (size_t)snprintf(ret + at, ADDRESS_BYTES - at, "%08" PRIX32, word);
    }
    snprintf(ret + at, ADDRESS_BYTES - at, ":%04X", port);
}

static kn_span column(const char *line, unsigned n) {
    for (line += strspn(line, " "); n; n--) {
        line += strcspn(line, " \n");
        line += strspn(line, " ");
    }
    return (kn_span){ line, strcspn(line, " \n") };
}

/* Of the socket that listens there: what a descriptor of it is a link to, and whose it is. */
typedef struct listener {
    char link[LINK_BYTES];
    uint64_t user;
} listener;

static bool read_number(kn_span s, uint64_t *ret) {
    char text[LINK_BYTES];
    if (s.len >= sizeof text)
        return false;
    memcpy(text, s.data, s.len);
    text[s.len] = 0;
    return kn_parse_u64(text, ret);
}

static bool find_listener(const char *table, const char *address, listener *ret) {
    char text[TABLE_BYTES];
    if (!kn_system_read(table, text, sizeof text))
        return false;
    for (const char *line = text; (line = strchr(line, '\n'));) {
        line++;
        kn_span inode = column(line, INODE);
        if (kn_span_is(column(line, LOCAL), address) && kn_span_is(column(line, STATE), "0A"))
            return snprintf(ret->link, LINK_BYTES, "socket:[%.*s]", (int)inode.len, inode.data) < LINK_BYTES &&
                   read_number(column(line, USER), &ret->user);
    }
    return false;
}

/* Who listens there and nowhere else is preferred, as the system does. */
static bool find_socket(const kn_address *a, listener *ret) {
    const struct sockaddr_in *v4 = (const void *)&a->storage;
    const struct sockaddr_in6 *v6 = (const void *)&a->storage;
    char own[ADDRESS_BYTES], any4[ADDRESS_BYTES], any6[ADDRESS_BYTES];
    uint16_t port = kn_address_port(a);
    write_address(&(struct in_addr){ INADDR_ANY }, sizeof(struct in_addr), port, any4);
    write_address(&in6addr_any, sizeof in6addr_any, port, any6);
    if (a->storage.ss_family == AF_INET) {
        write_address(&v4->sin_addr, sizeof v4->sin_addr, port, own);
        return find_listener("/proc/net/tcp", own, ret) || find_listener("/proc/net/tcp", any4, ret) ||
               find_listener("/proc/net/tcp6", any6, ret);
    }
    if (a->storage.ss_family != AF_INET6)
        return false;
    write_address(&v6->sin6_addr, sizeof v6->sin6_addr, port, own);
    return find_listener("/proc/net/tcp6", own, ret) || find_listener("/proc/net/tcp6", any6, ret);
}

static bool has_descriptor(const char *pid, const char *wanted) {
    char path[64], link[LINK_BYTES];
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *folder = opendir(path);
    if (!folder)
        return false;
    bool found = false;
    for (const struct dirent *e; !found && (e = readdir(folder));) {
        ssize_t len = readlinkat(dirfd(folder), e->d_name, link, sizeof link - 1);
        if (len > 0)
            link[len] = 0;
        found = len > 0 && !strcmp(link, wanted);
    }
    closedir(folder);
    return found;
}

kn_owner_text kn_address_owner(const kn_address *a) {
    kn_owner_text ret = { "another program" };
    listener found;
    char path[64], command[COMMAND_BYTES];
    DIR *folder = find_socket(a, &found) ? opendir("/proc") : NULL;
    if (!folder)
        return ret;
    for (const struct dirent *e; (e = readdir(folder));) {
        uint64_t pid;
        if (!kn_parse_u64(e->d_name, &pid) || !has_descriptor(e->d_name, found.link))
            continue;
        snprintf(path, sizeof path, "/proc/%" PRIu64 "/comm", pid);
        if (kn_system_read(path, command, sizeof command))
            snprintf(ret.text, sizeof ret.text, "'%s' (process %" PRIu64 ")",
                     kn_quote(command, strcspn(command, "\n")).text, pid);
        break;
    }
    closedir(folder);
    return ret;
}

bool kn_address_user(const kn_address *a, uid_t *ret) {
    listener found;
    if (!find_socket(a, &found))
        return false;
    *ret = (uid_t)found.user;
    return true;
}
