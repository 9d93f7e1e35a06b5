#include "gateway/token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

static const char variable[] = "KUNO_CONTROL_TOKEN", file_variable[] = "KUNO_CONTROL_TOKEN_FILE";

/* The text itself is never shown. */
static bool set(const char *text, size_t len, kn_token *ret, kn_error *err) {
    if (len < KN_TOKEN_MIN || len > KN_TOKEN_MAX)
        return kn_fail(err, KN_E_FORMAT, "has %s, %d to %d are needed", kn_counted(len, "character").text, KN_TOKEN_MIN,
                       KN_TOKEN_MAX);
    if (!kn_token_is_valid(text, len))
        return kn_fail(err, KN_E_FORMAT, "has other characters than letters, digits, '-', '_' and '.'");
    *ret = (kn_token){ .len = len };
    memcpy(ret->text, text, len);
    return true;
}

/* Group may read, since a service manager's access list shows as that; nobody else may do anything. */
static bool is_private(const struct stat *st, kn_error *err) {
    if (!S_ISREG(st->st_mode))
        return kn_fail(err, KN_E_FORMAT, "is not a regular file");
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return kn_fail(err, KN_E_USAGE, "belongs to another user");
    if (st->st_mode & (S_IWGRP | S_IRWXO))
        return kn_fail(err, KN_E_USAGE, "its mode %04o lets others in; set it to 0600", st->st_mode & 07777);
    return true;
}

bool kn_token_read_file(const char *path, kn_token *ret, kn_error *err) {
    char text[KN_TOKEN_MAX + 2] = { 0 }; /* one byte more than any token with its newline */
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return kn_fail(err, errno == ENOENT ? KN_E_NOT_FOUND : KN_E_IO, "cannot be opened: %s", strerror(errno));
    ssize_t len = 0;
    bool ok = fstat(fd, &st) == 0 || kn_fail(err, KN_E_IO, "%s", strerror(errno));
    ok = ok && is_private(&st, err) &&
         ((len = read(fd, text, sizeof text)) >= 0 || kn_fail(err, KN_E_IO, "cannot be read: %s", strerror(errno)));
    close(fd);
    if (ok && len > 0 && text[len - 1] == '\n')
        len--;
    ok = ok && set(text, (size_t)len, ret, err);
    explicit_bzero(text, sizeof text);
    return ok;
}

bool kn_token_has_file(const char *path) {
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool kn_token_make_file(const char *path, kn_token *ret, kn_error *err) {
    if (kn_token_has_file(path))
        return kn_token_read_file(path, ret, err);
    uint8_t random[32];
    char text[2 * sizeof random + 2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return kn_fail(err, KN_E_IO, "the system has no random numbers: %s", strerror(errno));
    kn_hex(random, sizeof random, text);
    text[2 * sizeof random] = '\n';
    kn_output o;
    bool ok = kn_output_open(path, false, &o, err);
    if (ok) {
        ok = fchmod(o.fd, 0600) == 0 || kn_fail(err, KN_E_OUTPUT, "its mode cannot be set: %s", strerror(errno));
        ok = ok && kn_output_write(&o, text, sizeof text - 1, err) && kn_output_commit(&o, false, err) &&
             set(text, sizeof text - 2, ret, err);
        kn_output_drop(&o);
    }
    explicit_bzero(text, sizeof text);
    explicit_bzero(random, sizeof random);
    return ok;
}

static bool take_variable(char *value, kn_token *ret, kn_error *err) {
    bool ok = set(value, strlen(value), ret, err) || kn_fail_within(err, "%s", variable);
    explicit_bzero(value, strlen(value)); /* /proc shows the environment the program began with */
    unsetenv(variable);
    return ok;
}

bool kn_token_take(kn_token *ret, const char **ret_from, kn_error *err) {
    static const char credential[] = "the credential control-token";
    char *value = getenv(variable);
    const char *path = getenv(file_variable), *folder = getenv("CREDENTIALS_DIRECTORY");
    *ret = (kn_token){ 0 };
    *ret_from = NULL;
    if (value && path)
        return kn_fail(err, KN_E_USAGE, "%s and %s are both set; keep one", variable, file_variable);
    if (value) {
        *ret_from = variable;
        return take_variable(value, ret, err);
    }
    if (path) {
        *ret_from = file_variable;
        return kn_token_read_file(path, ret, err) || kn_fail_within(err, "the file of %s", file_variable);
    }
    char name[PATH_MAX];
    if (!folder || snprintf(name, sizeof name, "%s/control-token", folder) >= (int)sizeof name ||
        access(name, F_OK) != 0)
        return true;
    *ret_from = credential;
    return kn_token_read_file(name, ret, err) || kn_fail_within(err, "%s", credential);
}
