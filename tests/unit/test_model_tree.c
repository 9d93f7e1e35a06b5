/* What is found in a folder of models. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipelines/model_tree.h"

enum { FOLDERS = 30, FILES = 20 };

static char root[] = "/tmp/kuno-tree-XXXXXX";

static int make(void **state) {
    (void)state;
    char path[100];
    assert_non_null(mkdtemp(root));
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(path, sizeof path, "%s/%d", root, i);
        assert_int_equal(mkdir(path, 0700), 0);
        for (int k = 0; k < FILES; k++) {
            snprintf(path, sizeof path, "%s/%d/%d.gguf", root, i, k);
            int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            assert_int_equal(write(fd, "GGUF\0\0\0\0\0", 9), 9);
            close(fd);
        }
        snprintf(path, sizeof path, "%s/%d/again", root, i); /* to the folder of the others, met already */
        assert_int_equal(symlink("../0", path), 0);
    }
    return 0;
}

static int clean(void **state) {
    (void)state;
    char path[100];
    for (int i = 0; i < FOLDERS; i++) {
        for (int k = 0; k < FILES; k++) {
            snprintf(path, sizeof path, "%s/%d/%d.gguf", root, i, k);
            unlink(path);
        }
        snprintf(path, sizeof path, "%s/%d/again", root, i);
        unlink(path);
        snprintf(path, sizeof path, "%s/%d", root, i);
        rmdir(path);
    }
    return rmdir(root);
}

static void each_file_is_found_once(void **state) {
    (void)state;
    kn_model_tree tree;
    kn_error err = { 0 };
    assert_true(kn_model_tree_read(root, 0, &tree, &err));
    assert_int_equal(tree.files.count, FOLDERS * FILES);
    assert_false(tree.cut);
    kn_model_tree_free(&tree);
}

static void a_tree_that_takes_too_long_is_cut_and_says_so(void **state) {
    (void)state;
    kn_model_tree tree;
    kn_error err = { 0 };
    assert_true(kn_model_tree_read(root, 1e-9, &tree, &err));
    assert_true(tree.files.count < FOLDERS * FILES);
    assert_true(tree.cut);
    kn_model_tree_free(&tree);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_is_found_once),
        cmocka_unit_test(a_tree_that_takes_too_long_is_cut_and_says_so),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
