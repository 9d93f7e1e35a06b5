#include "studio/files.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

bool kn_sha256_of(const void *data, size_t len, kn_sha256 *ret, kn_error *err) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!EVP_Digest(data, len, digest, &n, EVP_sha256(), NULL) || n != 32)
        return kn_fail(err, KN_E_IO, "a SHA-256 cannot be computed");
    kn_hex(digest, n, ret->text);
    return true;
}

bool kn_store_write(const kn_store *s, const char *room, const char *name, const void *data, size_t len,
                    kn_error *err) {
    char *path;
    kn_output o;
    if (!kn_store_path(s, room, name, &path, err))
        return false;
    bool ok = kn_output_open(path, true, &o, err);
    free(path);
    if (!ok)
        return false;
    ok = kn_output_write(&o, data, len, err) && kn_output_commit(&o, true, err);
    kn_output_drop(&o);
    return ok;
}

bool kn_store_read(const kn_store *s, const char *room, const char *name, size_t limit, kn_buf *into, kn_error *err) {
    char *path;
    if (!kn_store_path(s, room, name, &path, err))
        return false;
    bool ok = kn_file_read_no_link(path, limit, into, err);
    free(path);
    return ok;
}

bool kn_store_has_trash(const kn_store *s) {
    char *path;
    struct stat st;
    if (!kn_store_path(s, ".", KN_STORE_TRASH, &path, NULL))
        return false;
    bool has = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
    free(path);
    return has;
}

bool kn_store_make_trash(const kn_store *s, kn_error *err) {
    char *path;
    if (kn_store_has_trash(s))
        return true;
    if (!kn_store_path(s, ".", KN_STORE_TRASH, &path, err))
        return false;
    bool made = mkdir(path, 0700) == 0;
    free(path);
    return made || kn_fail(err, kn_code_of_write(errno, KN_E_IO), "the folder '%s' cannot be made: %s", KN_STORE_TRASH,
                           errno == EEXIST ? "something else has its name" : strerror(errno));
}

bool kn_store_move(const kn_store *s, const char *room, const char *name, const char *to, kn_error *err) {
    char *from = NULL, *into = NULL;
    bool ok = kn_store_path(s, room, name, &from, err) && kn_store_path(s, to, name, &into, err);
    if (ok && rename(from, into) != 0 && errno != ENOENT)
        ok = kn_fail(err, kn_code_of_write(errno, KN_E_IO), "a file of the %s cannot be moved: %s", room,
                     strerror(errno));
    free(from);
    free(into);
    return ok;
}

bool kn_store_size(const kn_store *s, const char *room, const char *name, uint64_t *ret) {
    char *path;
    if (!kn_store_path(s, room, name, &path, NULL))
        return false;
    struct stat st;
    bool has = lstat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
    free(path);
    if (has)
        *ret = (uint64_t)st.st_size;
    return has;
}

bool kn_store_has(const kn_store *s, const char *room, const char *name) {
    uint64_t size;
    return kn_store_size(s, room, name, &size);
}

void kn_store_remove(const kn_store *s, const char *room, const char *name) {
    char *path;
    if (!kn_store_path(s, room, name, &path, NULL))
        return;
    unlink(path);
    free(path);
}

bool kn_store_each(kn_store *s, const char *room, kn_store_visit *visit, void *ctx, kn_error *err) {
    char *path;
    if (!kn_store_path(s, ".", room, &path, err))
        return false;
    DIR *d = opendir(path);
    free(path);
    if (!d)
        return kn_fail(err, KN_E_IO, "a folder of the studio cannot be read: %s", strerror(errno));
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(d));)
        ok = e->d_name[0] == '.' || visit(ctx, s, e->d_name, err);
    closedir(d);
    return ok;
}
