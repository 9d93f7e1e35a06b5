/* Runs a fuzz target over stored inputs, without a fuzzer: replay-NAME FILE|FOLDER… One line per input, as a TAP test
 * case; a finding ends the program. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX_BYTES = 16 << 20 };

static unsigned inputs;

static bool replay(const char *path) {
    KN_AUTO_BUF bytes;
    kn_buf_init(&bytes, INPUT_MAX_BYTES);
    kn_error err = { 0 };
    if (!kn_file_read(path, INPUT_MAX_BYTES, &bytes, &err)) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        return false;
    }
    printf("# %s\n", path);
    fflush(stdout); /* a finding ends the program here; its input must be known */
    const char *name = strrchr(path, '/');
    /* An exact copy, so that a sanitizer sees the first byte read beyond the end. */
    uint8_t *copy = malloc(bytes.len ? bytes.len : 1);
    if (!copy)
        return false;
    memcpy(copy, bytes.data, bytes.len);
    LLVMFuzzerTestOneInput(copy, bytes.len);
    free(copy);
    printf("ok %u - %s\n", ++inputs, name ? name + 1 : path);
    return true;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static bool replay_folder(const char *path) {
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_visible, alphasort);
    bool ok = count > 0;
    if (!ok)
        fprintf(stderr, "%s: no inputs\n", path);
    for (int i = 0; i < count; i++) {
        KN_AUTO_BUF file;
        kn_buf_init(&file, 4096);
        ok = kn_buf_printf(&file, "%s/%s", path, entries[i]->d_name) && replay(file.data) && ok;
        free(entries[i]);
    }
    free(entries);
    return ok;
}

int main(int argc, char **argv) {
    bool ok = argc > 1;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool folder = !stat(argv[i], &st) && S_ISDIR(st.st_mode);
        ok = (folder ? replay_folder(argv[i]) : replay(argv[i])) && ok;
    }
    printf("1..%u\n", inputs);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
