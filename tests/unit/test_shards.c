/* Models that are split over several files, and folders that hold a model. */
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

#include "golden.h"
#include "safetensors_maker.h"
#include "weights/container.h"

/* ---- folders of small files ---- */

typedef struct folder {
    char path[64];
} folder;

static folder make_folder(void) {
    folder f = { "/tmp/kuno-test-shards-XXXXXX" };
    assert_non_null(mkdtemp(f.path));
    return f;
}

static golden_file in(const folder *f, const char *name) {
    golden_file file;
    snprintf(file.path, sizeof file.path, "%s/%s", f->path, name);
    return file;
}

static void put(const folder *f, const char *name, const void *data, size_t len) {
    FILE *file = fopen(in(f, name).path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void empty_folder(const folder *f) {
    DIR *d = opendir(f->path);
    assert_non_null(d);
    for (struct dirent *e = NULL; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
}

static void remove_folder(const folder *f) {
    empty_folder(f);
    assert_int_equal(rmdir(f->path), 0);
}

/* ---- the model of these tests: three tensors in two shards ---- */

static const float a[] = { 1, 2, 3 }, b[] = { 4 }, c[] = { 5, 6 };
static const char index_text[] = "{\"metadata\":{\"total_size\":24},\"weight_map\":{\"net.c\":\"model-00002-of-00002."
                                 "safetensors\",\"net.a\":\"model-00001-of-00002.safetensors\",\"net.b\":"
                                 "\"model-00002-of-00002.safetensors\"}}";
static const char *const shard_names[] = { "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors" };
static const char index_name[] = "model.safetensors.index.json";

static void make_shard(int number, kn_buf *file) {
    maker m;
    make_begin(&m);
    make_metadata(&m, number == 0 ? "{\"format\":\"pt\",\"part\":\"1\",\"only\":\"here\"}"
                                  : "{\"format\":\"pt\",\"part\":\"2\"}");
    if (number == 0) {
        make_tensor(&m, "net.a", "F32", "3", a, sizeof a);
    } else {
        make_tensor(&m, "net.b", "F32", "1", b, sizeof b);
        make_tensor(&m, "net.c", "F32", "2", c, sizeof c);
    }
    make_end(&m, file);
}

static void put_model(const folder *f) {
    for (int i = 0; i < 2; i++) {
        KN_AUTO_BUF file;
        make_shard(i, &file);
        put(f, shard_names[i], file.data, file.len);
    }
    put(f, index_name, index_text, strlen(index_text));
}

static void expect_model(const char *path) {
    kn_weights *w = NULL;
    kn_error err = { 0 };
    if (!kn_weights_open(path, &w, &err))
        fail_msg("%s: %s", path, err.text);
    assert_int_equal(kn_weights_count(w), 3);
    assert_int_equal(kn_weights_bytes(w), 24);
    static const struct {
        const char *name;
        const float *values;
        size_t count;
    } rows[] = { { "net.a", a, 3 }, { "net.b", b, 1 }, { "net.c", c, 2 } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const kn_entry *e = kn_weights_at(w, i);
        assert_string_equal(e->name, rows[i].name);
        assert_int_equal(e->elements, rows[i].count);
        assert_memory_equal(e->data, rows[i].values, rows[i].count * sizeof(float));
    }
    kn_weights_forget_pages(w);
    assert_memory_equal(kn_weights_find(w, "net.c")->data, c, sizeof c);
    kn_binder *binder = NULL;
    assert_true(kn_binder_new(w, "net.", false, &binder, &err));
    kn_take_vector(binder, 3, 0, "a");
    kn_take_vector(binder, 1, 0, "b");
    kn_take_vector(binder, 2, 0, "c");
    assert_true(kn_binder_finish(binder, &err));
    kn_binder_free(binder);
    kn_weights_close(w);
}

static void a_split_model_is_one_by_its_index_and_by_its_folder(void **state) {
    (void)state;
    folder f = make_folder();
    put_model(&f);
    put(&f, "config.json", "{}", 2);
    expect_model(in(&f, index_name).path);
    expect_model(f.path);
    expect_model(in(&f, "").path);
    char back[PATH_MAX];
    assert_non_null(getcwd(back, sizeof back));
    assert_int_equal(chdir(f.path), 0);
    expect_model(index_name);
    expect_model(".");
    assert_int_equal(chdir(back), 0);
    remove_folder(&f);
}

/* The cache of Hugging Face: the files lie elsewhere, under other names. */
static void links_to_shards_are_followed(void **state) {
    (void)state;
    folder blobs = make_folder(), snapshot = make_folder();
    put_model(&blobs);
    const char *const names[] = { shard_names[0], shard_names[1], index_name };
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        char blob[32];
        snprintf(blob, sizeof blob, "%zu", i);
        assert_int_equal(rename(in(&blobs, names[i]).path, in(&blobs, blob).path), 0);
        assert_int_equal(symlink(in(&blobs, blob).path, in(&snapshot, names[i]).path), 0);
    }
    expect_model(snapshot.path);
    expect_model(in(&snapshot, index_name).path);
    remove_folder(&blobs); /* links that lead nowhere are shards that are missing */
    put(&snapshot, "other.safetensors.index.json", index_text, strlen(index_text));
    kn_weights *w = NULL;
    kn_error err = { 0 };
    assert_false(kn_weights_open(in(&snapshot, "other.safetensors.index.json").path, &w, &err));
    assert_string_equal(err.text,
                        "2 of 2 shards are missing: model-00001-of-00002.safetensors, 00002; has the download "
                        "come to its end?");
    remove_folder(&snapshot);
}

static void tells_when_a_file_of_it_is_not_there_any_more_or_another_one(void **state) {
    (void)state;
    const char *const names[] = { shard_names[0], shard_names[1], index_name };
    folder f = make_folder();
    for (int i = 0; i < 3; i++) {
        kn_weights *w = NULL;
        kn_error err = { 0 };
        put_model(&f);
        assert_true(kn_weights_open(f.path, &w, &err));
        assert_true(kn_weights_are_current(w));
        const golden_file old = in(&f, names[i]), aside = in(&f, "aside");
        assert_int_equal(rename(old.path, aside.path), 0);
        assert_false(kn_weights_are_current(w));
        put(&f, names[i], "another", 7);
        assert_false(kn_weights_are_current(w));
        kn_weights_close(w);
        empty_folder(&f);
    }
    remove_folder(&f);

    kn_weights *w = NULL;
    kn_error err = { 0 };
    KN_AUTO_BUF file;
    make_shard(0, &file);
    assert_true(kn_weights_open_bytes((const uint8_t *)file.data, file.len, &w, &err));
    assert_true(kn_weights_are_current(w)); /* of a file that nobody can replace */
    kn_weights_close(w);
}

static void only_metadata_that_no_shard_contradicts_is_kept(void **state) {
    (void)state;
    folder f = make_folder();
    put_model(&f);
    kn_weights *w = NULL;
    kn_error err = { 0 };
    assert_true(kn_weights_open(f.path, &w, &err));
    assert_string_equal(kn_weights_metadata(w, "format"), "pt");
    assert_string_equal(kn_weights_metadata(w, "only"), "here");
    assert_null(kn_weights_metadata(w, "part"));
    kn_weights_close(w);
    remove_folder(&f);
}

/* ---- what is refused ---- */

/* Shards in memory. "same" has net.a like the first one, "quantised" says how its layers are, "cut" has lost its end.
 */
static bool open_made_shard(void *ctx, const char *name, kn_weights **ret, kn_error *err) {
    kn_buf *files = ctx;
    static const char *const names[] = { "1", "2", "same", "quantised", "cut" };
    for (size_t i = 0; i < KN_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return kn_weights_open_bytes((const uint8_t *)files[i].data, files[i].len, ret, err);
    *ret = NULL;
    return true;
}

static void make_shards(kn_buf files[5]) {
    maker m;
    make_shard(0, &files[0]);
    make_shard(1, &files[1]);
    make_begin(&m);
    make_tensor(&m, "net.a", "F32", "3", a, sizeof a);
    make_tensor(&m, "net.d", "F32", "1", b, sizeof b);
    make_end(&m, &files[2]);
    make_begin(&m);
    make_metadata(&m, "{\"_quantization_metadata\":\"{}\"}");
    make_tensor(&m, "net.q", "F32", "1", b, sizeof b);
    make_end(&m, &files[3]);
    make_shard(1, &files[4]);
    files[4].len--;
}

static bool read_index(kn_buf files[5], const char *text, size_t len, kn_weights **ret, kn_error *err) {
    return kn_shards_read(text, len, open_made_shard, files, ret, err);
}

static void refuses_an_index_that_is_not_as_its_shards(void **state) {
    (void)state;
#define MAP(x) "{\"weight_map\":{" x "}}"
#define TWO    "\"net.b\":\"2\",\"net.c\":\"2\""
#define FIRST  "\"net.a\":\"1\","
    static const struct {
        const char *index;
        kn_code code;
        const char *says;
    } rows[] = {
        { "", KN_E_FORMAT, "the index is broken at byte 0" },
        { "[]", KN_E_FORMAT, "the index is broken at byte 0: an object is expected" },
        { "{}", KN_E_FORMAT, "is not the index of a model: it has no weight_map" },
        { "{\"weight_map\":{}}", KN_E_FORMAT, "the index names no tensors" },
        { "{\"weight_map\":[]}", KN_E_FORMAT, "an object is expected" },
        { MAP(FIRST TWO) "x", KN_E_FORMAT, "nothing more is expected" },
        { "{\"weight_map\":{" FIRST TWO "},\"weight_map\":{}}", KN_E_FORMAT, "has 'weight_map' twice" },
        { MAP("\"net.a\":1"), KN_E_FORMAT, "a string is expected" },
        { MAP("\"net.a\":null"), KN_E_FORMAT, "a string is expected" },
        { MAP("\"net.a\":\"\""), KN_E_FORMAT, "tensor 'net.a': the shard '' is no plain file name" },
        { MAP("\"net.a\":\".\""), KN_E_FORMAT, "the shard '.' is no plain file name" },
        { MAP("\"net.a\":\"..\""), KN_E_FORMAT, "the shard '..' is no plain file name" },
        { MAP("\"net.a\":\"../1\""), KN_E_FORMAT, "the shard '../1' is no plain file name" },
        { MAP("\"net.a\":\"/etc/passwd\""), KN_E_FORMAT, "the shard '/etc/passwd' is no plain file name" },
        { MAP("\"net.a\":\"parts/1\""), KN_E_FORMAT, "the shard 'parts/1' is no plain file name" },
        { MAP("\"net.a\":\"\\u001b[2J/1\""), KN_E_FORMAT, "the shard '\\x1b[2J/1' is no plain file name" },
        { MAP(FIRST TWO ",\"net.a\":\"1\""), KN_E_FORMAT, "tensor 'net.a' is in the index twice" },
        { MAP(FIRST "\"net.b\":\"2\",\"net.c\":\"1\""), KN_E_FORMAT,
          "tensor 'net.c' is in the shard '2', in the index at '1'" },
        { MAP(FIRST "\"net.b\":\"2\""), KN_E_FORMAT, "tensor 'net.c' of the shard '2' is not in the index" },
        { MAP(FIRST TWO ",\"net.x\":\"2\""), KN_E_FORMAT,
          "tensor 'net.x' is not in the shard '2', where the index has it" },
        { MAP(FIRST TWO ",\"net.d\":\"same\""), KN_E_FORMAT,
          "tensor 'net.a' is in the shard 'same', in the index at '1'" },
        { MAP(FIRST "\"net.q\":\"quantised\""), KN_E_UNSUPPORTED,
          "shard 'quantised' has other _quantization_metadata than shard '1'" },
        { MAP(FIRST "\"net.b\":\"cut\",\"net.c\":\"cut\""), KN_E_TRUNCATED, "shard 'cut': is truncated: " },
        { MAP(FIRST "\"net.b\":\"3\",\"net.c\":\"3\""), KN_E_NOT_FOUND,
          "1 of 2 shards is missing: 3; has the download come to its end?" },
        /* What is missing goes first. */
        { MAP("\"a\":\"cut\",\"b\":\"m-00009-of-00012.st\",\"c\":\"m-00010-of-00012.st\",\"d\":\"n.st\""),
          KN_E_NOT_FOUND, "3 of 4 shards are missing: m-00009-of-00012.st, 00010, n; has the download" },
    };
#undef MAP
#undef TWO
#undef FIRST
    kn_buf files[5];
    make_shards(files);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_weights *w = NULL;
        kn_error err = { 0 };
        if (read_index(files, rows[i].index, strlen(rows[i].index), &w, &err) || w || err.code != rows[i].code ||
            !strstr(err.text, rows[i].says))
            fail_msg("%s: code %d, '%s'; expected code %d, '%s'", rows[i].index, (int)err.code, err.text,
                     (int)rows[i].code, rows[i].says);
    }
    for (size_t i = 0; i < KN_COUNT(files); i++)
        kn_buf_free(&files[i]);
}

/* So many shards, one tensor in each, none of them there. */
static void expect_missing(size_t count, kn_code code, const char *start, const char *end) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1 << 20);
    for (size_t i = 1; i <= count; i++)
        assert_true(kn_buf_printf(&text, "%s\"%zu\":\"model-%05zu-of-%05zu.safetensors\"",
                                  i > 1 ? "," : "{\"weight_map\":{", i, i, count));
    assert_true(kn_buf_add_text(&text, "}}"));
    kn_weights *w = NULL;
    kn_error err = { 0 };
    kn_buf files[5] = { 0 };
    assert_false(read_index(files, text.data, text.len, &w, &err));
    assert_int_equal(err.code, code);
    size_t len = strlen(err.text), end_len = strlen(end);
    if (strncmp(err.text, start, strlen(start)) != 0 || len < end_len || strcmp(err.text + len - end_len, end) != 0)
        fail_msg("'%s'; expected '%s … %s'", err.text, start, end);
}

static void names_every_missing_shard_as_long_as_there_is_room(void **state) {
    (void)state;
    static const char question[] = "; has the download come to its end?";
    expect_missing(9, KN_E_NOT_FOUND, "9 of 9 shards are missing: model-00001-of-00009.safetensors, 00002, 00003,",
                   ", 00009; has the download come to its end?");
    expect_missing(24, KN_E_NOT_FOUND, "24 of 24 shards are missing: ", ", 00024; has the download come to its end?");
    expect_missing(1024, KN_E_NOT_FOUND, "1024 of 1024 shards are missing: ", question);
    expect_missing(1025, KN_E_RANGE, "the index names more than 1024 shards", "1024 shards");
}

static void refuses_an_index_beyond_its_limits(void **state) {
    (void)state;
    kn_weights *w = NULL;
    kn_error err = { 0 };
    kn_buf files[5] = { 0 };
    assert_false(read_index(files, "{", (16 << 20) + 1, &w, &err));
    assert_string_equal(err.text, "the index has 16777217 bytes, at most 16777216 are allowed");
    char name[300];
    snprintf(name, sizeof name, "{\"weight_map\":{\"a\":\"%0256d\"}}", 0);
    err = (kn_error){ 0 };
    assert_false(read_index(files, name, strlen(name), &w, &err));
    assert_non_null(strstr(err.text, "is no plain file name"));
}

static void says_what_else_a_file_called_json_is(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer" },
        { "<!doctype html><html>", "is an HTML page" },
        { "", "is empty" },
        { "{\"model_type\": \"qwen3\"}", "is not the index of a model: it has no weight_map" },
    };
    folder f = make_folder();
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        put(&f, "config.json", rows[i].text, strlen(rows[i].text));
        kn_weights *w = NULL;
        kn_error err = { 0 };
        assert_false(kn_weights_open(in(&f, "config.json").path, &w, &err));
        if (!strstr(err.text, rows[i].says))
            fail_msg("'%s'; expected '%s'", err.text, rows[i].says);
    }
    remove_folder(&f);
}

/* ---- folders ---- */

static void a_folder_with_one_model_is_that_model(void **state) {
    (void)state;
    static const struct {
        const char *names[5], *says; /* says NULL: the first one is opened */
    } rows[] = {
        { { "model.safetensors", "config.json" }, NULL },
        { { "any name.safetensors", "config.json", ".hidden.safetensors", "pytorch_model.bin" }, NULL },
        { { "diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.safetensors", "a.safetensors" },
          NULL },
        { { "whole-00001-of-00001.safetensors" }, NULL },
        { { "a.safetensors", "c.safetensors", "b.gguf" },
          "the folder holds 3 models, 'a.safetensors' and 'b.gguf' among them; name one of them" },
        { { "c.safetensors", "b.gguf" }, "the folder holds 2 models, 'b.gguf' and 'c.safetensors'; name one of them" },
        { { "b.gguf", "a.safetensors", "model.safetensors.index.json", "model.safetensors" },
          "the folder holds 2 models, 'model.safetensors' and 'model.safetensors.index.json'; name one of them" },
        { { "model-00001-of-00002.safetensors" },
          "the folder holds the shards of a split model without their index (….safetensors.index.json)" },
        { { "model_index.json", "README.md" },
          "the folder holds a whole pipeline; name one of its parts, such as its folder transformer" },
        { { "pytorch_model.bin", "config.json" },
          "the folder holds its model as a Python pickle (.bin, .pt, .pth, .ckpt); pickle formats can run code and are "
          "refused; use a safetensors version" },
        { { "config.json", "README.md" }, "the folder holds no safetensors or GGUF file" },
    };
    KN_AUTO_BUF good;
    make_shard(0, &good);
    folder f = make_folder();
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        for (size_t k = 0; rows[i].names[k]; k++) {
            bool opened = k == 0 && !rows[i].says;
            put(&f, rows[i].names[k], opened ? good.data : "{}", opened ? good.len : 2);
        }
        kn_weights *w = NULL;
        kn_error err = { 0 };
        bool ok = kn_weights_open(f.path, &w, &err);
        if (ok == (rows[i].says != NULL) || (rows[i].says && strcmp(err.text, rows[i].says) != 0))
            fail_msg("row %zu: '%s'", i, err.text);
        kn_weights_close(w);
        empty_folder(&f);
    }
    put(&f, "model.safetensors", "{}", 2);
    kn_weights *w = NULL;
    kn_error err = { 0 };
    assert_false(kn_weights_open(f.path, &w, &err));
    assert_non_null(strstr(err.text, "'model.safetensors': is truncated"));
    remove_folder(&f);
}

static void names_of_shards_and_indices_are_known(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool index;
        size_t stem;
    } rows[] = {
        { "model.safetensors.index.json", true, 0 },
        { "a folder/diffusion_pytorch_model.safetensors.index.fp16.json", true, 0 },
        { "config.json", false, 0 },
        { "x.safetensors.index.d/config.json", false, 0 },
        { "model.safetensors.index", false, 0 },
        { "model-00001-of-00002.safetensors", false, 5 },
        { "diffusion_pytorch_model.fp16-00002-of-00002.safetensors", false, 28 },
        { "model-00001-of-00001.safetensors", false, 0 },
        { "model-00001-of-00002.gguf", false, 0 },
        { "model-0001-of-00002.safetensors", false, 0 },
        { "model-000001-of-00002.safetensors", false, 0 },
        { "model-00001-of-000020.safetensors", false, 0 },
        { "-00001-of-00002.safetensors", false, 0 },
        { "model.safetensors", false, 0 },
        { "", false, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (kn_is_shard_index(rows[i].name) != rows[i].index || kn_shard_stem(rows[i].name) != rows[i].stem)
            fail_msg("%s", rows[i].name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_model_is_one_by_its_index_and_by_its_folder),
        cmocka_unit_test(links_to_shards_are_followed),
        cmocka_unit_test(tells_when_a_file_of_it_is_not_there_any_more_or_another_one),
        cmocka_unit_test(only_metadata_that_no_shard_contradicts_is_kept),
        cmocka_unit_test(refuses_an_index_that_is_not_as_its_shards),
        cmocka_unit_test(names_every_missing_shard_as_long_as_there_is_room),
        cmocka_unit_test(refuses_an_index_beyond_its_limits),
        cmocka_unit_test(says_what_else_a_file_called_json_is),
        cmocka_unit_test(a_folder_with_one_model_is_that_model),
        cmocka_unit_test(names_of_shards_and_indices_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
