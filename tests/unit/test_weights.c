#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "golden.h"
#include "safetensors_maker.h"
#include "weights/weights.h"

#define W "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static void refuse_bytes(const void *data, size_t len, kn_code code, const char *says) {
    kn_weights *w = NULL;
    kn_error err = { 0 };
    assert_false(kn_weights_open_bytes(data, len, &w, &err));
    assert_null(w);
    if (err.code != code || !strstr(err.text, says) || strpbrk(err.text, "\n\x1b"))
        fail_msg("code %d, '%s'; expected code %d, '%s'", (int)err.code, err.text, (int)code, says);
}

static void every_case_comes_out_as_its_table_says(void **state) {
    (void)state;
    json_t *rows = golden_json("weights/expected.json");
    assert_int_equal(json_array_size(rows), 22);
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach(rows, i, row) {
        const char *file = json_string_value(json_object_get(row, "file"));
        const char *result = json_string_value(json_object_get(row, "result"));
        const char *says = json_string_value(json_object_get(row, "says"));
        const json_t *values = json_object_get(row, "values");
        char path[64];
        snprintf(path, sizeof path, "weights/cases/%s", file);
        kn_weights *w = NULL;
        kn_binder *b = NULL;
        kn_error err = { 0 };
        bool opened = kn_weights_open(golden_path(path).path, &w, &err);
        bool binds = opened && kn_binder_new(w, "", false, &b, &err);
        if (strcmp(result, "refuse") == 0)
            assert_false(opened);
        else if (strcmp(result, "refuse to bind") == 0)
            assert_true(opened && !binds);
        else if (!binds)
            fail_msg("%s: %s", file, err.text);
        if (says && !strstr(err.text, says))
            fail_msg("%s: says '%s', expected '%s'", file, err.text, says);
        if (binds)
            assert_int_equal(kn_weights_count(w), json_integer_value(json_object_get(row, "tensors")));
        if (strcmp(result, "no tensors") == 0) {
            assert_false(kn_binder_finish(b, &err));
            assert_string_equal(err.text, "has no tensors");
            assert_string_equal(kn_weights_metadata(w, "note"), "only metadata");
        }
        if (values) {
            const kn_entry *entry = kn_weights_find(w, "w");
            kn_weight scaled = { .scale = 1 };
            if (!entry) {
                scaled = kn_take_matrix(b, -1, -1, "w");
                assert_true(kn_binder_finish(b, &err));
                entry = kn_weights_find(w, "w.weight");
            }
            float v[4] = { 0 };
            assert_int_equal(entry->elements, json_array_size(values));
            kn_decode(entry->dtype, entry->data, entry->elements, v);
            for (size_t k = 0; k < entry->elements; k++)
                assert_true(v[k] * scaled.scale == (float)json_number_value(json_array_get(values, k)));
        }
        kn_binder_free(b);
        kn_weights_close(w);
    }
    json_decref(rows);
}

/* All headers here are followed by eight bytes of data. */
static void refuses_every_header_that_is_not_exact(void **state) {
    (void)state;
#define FIELDS(x) "{\"w\":{" x "}}"
#define SHAPE(x)  FIELDS("\"dtype\":\"F32\",\"shape\":" x ",\"data_offsets\":[0,8]")
#define OFFSET(x) FIELDS("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" x)
    static const struct {
        const char *header;
        kn_code code;
        const char *says;
    } rows[] = {
        { "[1,2]", KN_E_FORMAT, "does not begin with '{'" },
        { " {" W "}", KN_E_FORMAT, "does not begin with '{'" },
        { "{not json}", KN_E_FORMAT, "broken at byte 1: a string is expected" },
        { "{" W, KN_E_FORMAT, "broken at byte 53: it ends where a comma or the end" },
        { "{" W ",}", KN_E_FORMAT, "a string is expected" },
        { "{" W "}x", KN_E_FORMAT, "nothing more is expected" },
        { "{" W "}{}", KN_E_FORMAT, "nothing more is expected" },
        { "{\"w\" 1}", KN_E_FORMAT, "a colon is expected" },
        { "{\"w\":1}", KN_E_FORMAT, "tensor 'w': its header is broken at byte 5: an object is expected" },
        { "{\"w\":{}}", KN_E_FORMAT, "tensor 'w': has no 'dtype'" },
        { "{\"w", KN_E_FORMAT, "it ends where the end of a string is expected" },
        { "{\"w\\", KN_E_FORMAT, "it ends where an escape sequence is expected" },
        { "{\"w\\u00", KN_E_FORMAT, "four hexadecimal digits" },
        { "{\"w\\u00gg\":", KN_E_FORMAT, "four hexadecimal digits" },
        { "{\"\\x\":", KN_E_FORMAT, "an escape sequence is expected" },
        { "{\"\\ud800\":", KN_E_FORMAT, "the other half of a surrogate pair" },
        { "{\"\\ud800\\u0041\":", KN_E_FORMAT, "the other half of a surrogate pair" },
        { "{\"\\udc00\":", KN_E_FORMAT, "the other half of a surrogate pair" },
        { "{\"a\tb\":", KN_E_FORMAT, "a control character must be written as an escape" },
        { "{\"a\xC0\x80\":", KN_E_FORMAT, "not UTF-8" },
        { "{\"__metadata__\":[]}", KN_E_FORMAT, "__metadata__: its header is broken at byte 16: an object" },
        { "{\"__metadata__\":{\"a\":1}}", KN_E_FORMAT, "a string is expected" },
        { "{\"__metadata__\":{\"a\":{}}}", KN_E_FORMAT, "a string is expected" },
        { "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}," W "}", KN_E_FORMAT, "metadata key 'a' is there twice" },
        { "{\"__metadata__\":{},\"__metadata__\":{}," W "}", KN_E_FORMAT, "'__metadata__' is there twice" },
        { FIELDS("\"shape\":[2],\"data_offsets\":[0,8]"), KN_E_FORMAT, "has no 'dtype'" },
        { FIELDS("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), KN_E_FORMAT, "has no 'shape'" },
        { FIELDS("\"dtype\":\"F32\",\"shape\":[2]"), KN_E_FORMAT, "has no 'data_offsets'" },
        { FIELDS("\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]"), KN_E_FORMAT,
          "tensor 'w': has 'shape' twice" },
        { FIELDS("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1"), KN_E_FORMAT,
          "tensor 'w': has the unknown field 'x'" },
        { FIELDS("\"dtype\":32"), KN_E_FORMAT, "a string is expected" },
        { FIELDS("\"dtype\":\"f32\""), KN_E_UNSUPPORTED, "unknown storage type 'f32'" },
        { FIELDS("\"dtype\":\"\\u001b[2J\""), KN_E_UNSUPPORTED, "unknown storage type '\\x1b[2J'" },
        { SHAPE("2"), KN_E_FORMAT, "an array is expected" },
        { SHAPE("[2,]"), KN_E_FORMAT, "an unsigned integer is expected" },
        { SHAPE("[-2]"), KN_E_FORMAT, "an unsigned integer is expected" },
        { SHAPE("[+2]"), KN_E_FORMAT, "an unsigned integer is expected" },
        { SHAPE("[02]"), KN_E_FORMAT, "a number without leading zeros is expected" },
        { SHAPE("[2e0]"), KN_E_FORMAT, "an unsigned integer is expected" },
        { SHAPE("[\"2\"]"), KN_E_FORMAT, "an unsigned integer is expected" },
        { SHAPE("[null]"), KN_E_FORMAT, "an unsigned integer is expected" },
        { SHAPE("[[2]]"), KN_E_FORMAT, "an unsigned integer is expected" },
        { SHAPE("[2 2]"), KN_E_FORMAT, "a comma or the end of the array or object is expected" },
        { SHAPE("[18446744073709551616]"), KN_E_FORMAT, "a number below 2^64 is expected" },
        { SHAPE("[4611686018427387904]"), KN_E_RANGE, "the size of its shape [4611686018427387904] overflows" },
        { SHAPE("[1,1,1,1,1,1,1,1,2]"), KN_E_RANGE, "tensor 'w': has more than 8 dimensions" },
        { SHAPE("[]"), KN_E_FORMAT, "its shape [] of F32 needs 4 bytes, its data_offsets hold 8" },
        { SHAPE("[0]"), KN_E_FORMAT, "needs 0 bytes" },
        { OFFSET("[0]"), KN_E_FORMAT, "tensor 'w': has 1 data_offsets, 2 are needed" },
        { OFFSET("[0,4,8]"), KN_E_RANGE, "has more than 2 data_offsets" },
        { OFFSET("[8,0]"), KN_E_RANGE, "its data_offsets [8, 0] are not a range" },
        { OFFSET("[18446744073709551608,18446744073709551615]"), KN_E_RANGE, "are not a range" },
        { OFFSET("[9223372036854775807,9223372036854775815]"), KN_E_RANGE, "are not a range" },
        { OFFSET("[8,16]"), KN_E_TRUNCATED, "is truncated" },
        { OFFSET("[9223372036854775000,9223372036854775008]"), KN_E_TRUNCATED, "is truncated" },
    };
#undef FIELDS
#undef SHAPE
#undef OFFSET
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF file;
        make_raw(&file, rows[i].header, strlen(rows[i].header), "\0\0\0\0\0\0\0\0", 8);
        refuse_bytes(file.data, file.len, rows[i].code, rows[i].says);
    }
}

static void refuses_a_thousand_dimensions(void **state) {
    (void)state;
    KN_AUTO_BUF header;
    kn_buf_init(&header, 1 << 20);
    assert_true(kn_buf_add_text(&header, "{\"w\":{\"dtype\":\"F32\",\"shape\":[1"));
    for (int i = 1; i < 1000; i++)
        assert_true(kn_buf_add_text(&header, ",1"));
    assert_true(kn_buf_add_text(&header, "],\"data_offsets\":[0,4]}}"));
    KN_AUTO_BUF file;
    make_raw(&file, header.data, header.len, "\0\0\0\0", 4);
    refuse_bytes(file.data, file.len, KN_E_RANGE, "has more than 8 dimensions");
}

static void refuses_a_header_beyond_the_limit_without_reading_it(void **state) {
    (void)state;
    static const uint64_t lengths[] = { 0, 1, 100000001, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX };
    for (size_t i = 0; i < KN_COUNT(lengths); i++) {
        uint8_t file[16] = "\1\2\3\4\5\6\7\1{}      ";
        for (int k = 0; k < 8; k++)
            file[k] = (uint8_t)(lengths[i] >> 8 * k);
        refuse_bytes(file, sizeof file, lengths[i] ? KN_E_RANGE : KN_E_FORMAT, lengths[i] ? "2 to 100000000" : "zeros");
    }
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    maker m;
    KN_AUTO_BUF file;
    make_begin(&m);
    make_metadata(&m, "{\"format\":\"pt\"}");
    make_tensor(&m, "a", "F32", "2, 1", "abcdefgh", 8);
    make_tensor(&m, "b.\\u00e9\\n", "U8", "3", "xyz", 3);
    make_end(&m, &file);
    kn_weights_close(open_made(&file));
    for (size_t len = 0; len < file.len; len++) {
        /* A copy of exactly this size lets the sanitizer see a read behind it. */
        uint8_t *cut = malloc(len + !len);
        memcpy(cut, file.data, len);
        refuse_bytes(cut, len, KN_E_TRUNCATED, len ? "is truncated" : "is empty");
        free(cut);
    }
}

static void says_how_much_of_a_large_file_is_there(void **state) {
    (void)state;
    static const char header[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[4049999918],\"data_offsets\":[0,4049999918]}}   ";
    KN_AUTO_BUF file;
    make_raw(&file, header, sizeof header - 1, NULL, 0);
    assert_int_equal(file.len + 4049999918, 4050000000);
    char path[TEMP_PATH];
    int fd = make_temp(&file, path);
    assert_int_equal(ftruncate(fd, 3200000000), 0);
    kn_weights *w = NULL;
    kn_error err = { 0 };
    assert_false(kn_weights_open(path, &w, &err));
    assert_int_equal(err.code, KN_E_TRUNCATED);
    assert_string_equal(err.text, "is truncated: 3.20 of 4.05 GB are there, 850000000 bytes are missing");
    err = (kn_error){ 0 };
    assert_int_equal(ftruncate(fd, 4049999999), 0);
    assert_false(kn_weights_open(path, &w, &err));
    assert_string_equal(err.text, "is truncated: 4.05 of 4.05 GB are there, 1 byte is missing");
    assert_int_equal(unlink(path), 0);
    close(fd);
}

static long resident_bytes(void) {
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &pages, &resident), 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

static void opening_twenty_gigabytes_touches_the_header_only(void **state) {
    (void)state;
    static const char header[] =
        "{\"w\":{\"dtype\":\"BF16\",\"shape\":[100000,100000],\"data_offsets\":[0,20000000000]}}";
    KN_AUTO_BUF file;
    make_raw(&file, header, sizeof header - 1, NULL, 0);
    char path[TEMP_PATH];
    int fd = make_temp(&file, path);
    if (ftruncate(fd, (off_t)file.len + 20000000000) != 0) {
        unlink(path);
        close(fd);
        print_message("the folder for temporary files cannot hold a sparse file of 20 GB\n");
        skip();
    }
    long before = resident_bytes();
    kn_weights *w = NULL;
    kn_error err = { 0 };
    assert_true(kn_weights_open(path, &w, &err));
    kn_binder *b = NULL;
    assert_true(kn_binder_new(w, "", false, &b, &err));
    assert_true(resident_bytes() - before < 8 << 20);
    assert_int_equal(kn_weights_bytes(w), 20000000000);
    assert_int_equal(kn_weights_at(w, 0)->elements, 10000000000);
    kn_binder_free(b);
    kn_weights_close(w);
    assert_int_equal(unlink(path), 0);
    close(fd);
}

static void fetches_tensors_by_their_prefix_and_not_into_this_process(void **state) {
    (void)state;
    static const char header[] =
        "{\"a.w\":{\"dtype\":\"U8\",\"shape\":[33554432],\"data_offsets\":[0,33554432]},"
        "\"b.w\":{\"dtype\":\"U8\",\"shape\":[33554432],\"data_offsets\":[33554432,67108864]}}";
    KN_AUTO_BUF file;
    make_raw(&file, header, sizeof header - 1, NULL, 0);
    char path[TEMP_PATH];
    int fd = make_temp(&file, path);
    struct statfs fs;
    assert_int_equal(ftruncate(fd, (off_t)file.len + 67108864), 0);
    assert_int_equal(fstatfs(fd, &fs), 0);
    assert_int_equal(unlink(path), 0);
    if (fs.f_type == TMPFS_MAGIC) {
        close(fd);
        print_message("files in the folder for temporary files are in memory already\n");
        skip();
    }
    kn_weights *w = NULL;
    kn_error err = { 0 };
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_true(kn_weights_open(path, &w, &err));
    atomic_bool stop = false;
    long before = resident_bytes();
    assert_false(kn_weights_are_near(w, "a.") || kn_weights_are_near(w, "b."));
    kn_weights_fetch_pages(w, "a.", &stop);
    assert_true(kn_weights_are_near(w, "a."));
    assert_false(kn_weights_are_near(w, "b.") || kn_weights_are_near(w, ""));
    assert_true(resident_bytes() - before < 8 << 20);
    stop = true;
    kn_weights_fetch_pages(w, "b.", &stop);
    assert_false(kn_weights_are_near(w, "b."));
    kn_weights_close(w);
    close(fd);
}

static void names_what_the_file_really_is(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        kn_code code;
        const char *says;
    } rows[] = {
#define ROW(bytes, code, says) { bytes, sizeof(bytes) - 1, code, says }
        ROW("PK\3\4\0\0\x08\x08\0\0\0\0archive/data.pkl", KN_E_UNSUPPORTED, "pickle formats can run code"),
        ROW("\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8", KN_E_UNSUPPORTED, "is a Python pickle"),
        ROW("\x80\4\x95\0\0\0\0\0\0\0\0\0", KN_E_UNSUPPORTED, "use a safetensors file"),
        ROW("version https://git-lfs.github.com/spec/v1\noid sha256:00", KN_E_FORMAT, "is a Git LFS pointer"),
        ROW("\xEF\xBB\xBF \r\n<!doctype html><html>", KN_E_FORMAT, "is an HTML page"),
        ROW("<html lang=\"en\">", KN_E_FORMAT, "is an HTML page"),
        ROW("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", KN_E_FORMAT, "is an XML page"),
        ROW("{\"error\":\"Repository not found\"}", KN_E_FORMAT, "is a JSON text"),
        ROW("Entry not found", KN_E_FORMAT, "is a text file"),
        ROW("\x1f\x8b\x08\0\0\0\0\0\0\3", KN_E_FORMAT, "is a gzip archive"),
        ROW("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", KN_E_FORMAT, "is a PNG picture"),
        ROW("\xff\xd8\xff\xe0\0\x10JFIF", KN_E_FORMAT, "is a JPEG picture"),
        ROW("\0\0\0\0\0\0\0\0\0\0\0\0", KN_E_FORMAT, "begins with zeros"),
        ROW("\x93\x01\xfe\x77\x10\x11\x12\x13\x14", KN_E_RANGE, "is no safetensors or GGUF file"),
        ROW("a", KN_E_TRUNCATED, "1 byte is no safetensors or GGUF file"),
        ROW("abc", KN_E_TRUNCATED, "3 bytes are no safetensors or GGUF file"),
#undef ROW
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        refuse_bytes(rows[i].bytes, rows[i].len, rows[i].code, rows[i].says);
    kn_weights *w = NULL;
    kn_error err = { 0 };
    assert_false(kn_weights_open("/nonexistent.safetensors", &w, &err));
    assert_int_equal(err.code, KN_E_NOT_FOUND);
    assert_null(strstr(err.text, "nonexistent")); /* who shows the path is the caller's decision */
}

static void keeps_names_shapes_and_metadata_exactly(void **state) {
    (void)state;
    maker m;
    KN_AUTO_BUF file;
    make_begin(&m);
    make_tensor(&m, "z.\\u00e9\\ud83d\\ude00\\n\\\"\\/\\\\", "I64", "1, 2, 1, 1, 1, 1, 1, 1", "0123456789abcdef", 16);
    make_tensor(&m, "", "F64", "", "01234567", 8);
    make_tensor(&m, "m", "BOOL", "0, 18446744073709551615", NULL, 0);
    make_metadata(&m, " { \"k\\u00e9y\" : \"v\\b\\f\\r\\t\" , \"empty\":\"\"} ");
    make_tensor(&m, "caf\xC3\xA9", "U8", "3", "xyz", 3);
    make_end(&m, &file);
    kn_weights *w = open_made(&file);
    assert_int_equal(kn_weights_count(w), 4);
    static const char *const sorted[] = { "", "caf\xC3\xA9", "m", "z.\xC3\xA9\xF0\x9F\x98\x80\n\"/\\" };
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(kn_weights_at(w, i)->name, sorted[i]);
        assert_ptr_equal(kn_weights_find(w, sorted[i]), kn_weights_at(w, i));
    }
    const kn_entry *z = kn_weights_at(w, 3), *none = kn_weights_at(w, 2), *scalar = kn_weights_at(w, 0);
    assert_int_equal(z->rank, 8);
    assert_int_equal(z->dim[1], 2);
    assert_memory_equal(z->data, "0123456789abcdef", 16);
    assert_int_equal(scalar->rank, 0);
    assert_int_equal(scalar->elements, 1);
    assert_int_equal(none->elements, 0);
    assert_true(none->dim[1] == UINT64_MAX); /* exactly: not by way of a double */
    assert_memory_equal(kn_weights_at(w, 1)->data, "xyz", 3);
    assert_string_equal(kn_weights_metadata(w, "k\xC3\xA9y"), "v\b\f\r\t");
    assert_string_equal(kn_weights_metadata(w, "empty"), "");
    assert_null(kn_weights_metadata(w, "format"));
    assert_null(kn_weights_find(w, "caf"));
    assert_null(kn_weights_find(w, "z"));
    assert_int_equal(kn_weights_bytes(w), 27);
    kn_weights_close(w);
}

static void takes_names_of_sixty_four_kilobytes_and_quotes_them_short(void **state) {
    (void)state;
    enum { LONG = 65536 };
    char *name = malloc(LONG + 1);
    memset(name, 'x', LONG);
    memcpy(name + LONG - 7, ".weight", 8);
    maker m;
    KN_AUTO_BUF file;
    make_begin(&m);
    make_zeros(&m, name, "U8", "3", 3);
    make_end(&m, &file);
    kn_weights *w = open_made(&file);
    assert_string_equal(kn_weights_at(w, 0)->name, name);
    kn_weights_close(w);

    KN_AUTO_BUF wrong;
    make_begin(&m);
    make_zeros(&m, name, "U8", "3", 4);
    make_end(&m, &wrong);
    refuse_bytes(wrong.data, wrong.len, KN_E_FORMAT,
                 "tensor '…xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.weight': its shape");
    free(name);
}

static void quotes_control_characters_of_names(void **state) {
    (void)state;
    static const char header[] = "{\"\\u001b[31m\\nx\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}";
    KN_AUTO_BUF file;
    make_raw(&file, header, sizeof header - 1, "\0\0\0\0", 4);
    refuse_bytes(file.data, file.len, KN_E_FORMAT, "tensor '\\x1b[31m\\x0ax': ");
}

static void refuses_more_metadata_than_anyone_writes(void **state) {
    (void)state;
    for (int keys = 4096; keys <= 4097; keys++) {
        KN_AUTO_BUF object;
        kn_buf_init(&object, 1 << 20);
        for (int i = 0; i < keys; i++)
            assert_true(kn_buf_printf(&object, "%s\"%d\":\"\"", i ? "," : "{", i));
        assert_true(kn_buf_add_text(&object, "}"));
        maker m;
        KN_AUTO_BUF file;
        make_begin(&m);
        make_metadata(&m, object.data);
        make_end(&m, &file);
        if (keys == 4096)
            kn_weights_close(open_made(&file));
        else
            refuse_bytes(file.data, file.len, KN_E_RANGE, "__metadata__: has more than 4096 keys");
    }
}

static void finds_what_stands_in_front_of_a_leaf(void **state) {
    (void)state;
    maker m;
    KN_AUTO_BUF file;
    make_begin(&m);
    make_zeros(&m, "model.diffusion_model.txt_in.text_norm.weight", "U8", "1", 1);
    make_zeros(&m, "norm.weight", "U8", "1", 1);
    make_zeros(&m, "model.norm.weight", "U8", "1", 1);
    make_zeros(&m, "bare", "U8", "1", 1);
    make_zeros(&m, "x.q_norm", "U8", "1", 1);
    make_end(&m, &file);
    kn_weights *w = open_made(&file);
    char prefix[64] = "untouched";
    assert_false(kn_weights_prefix_of(w, "absent", prefix, sizeof prefix));
    assert_false(kn_weights_prefix_of(w, "norm.weight", prefix, sizeof prefix)); /* two have it */
    assert_false(kn_weights_prefix_of(w, "norm", prefix, sizeof prefix));        /* part of a word is no leaf */
    assert_false(kn_weights_prefix_of(w, "txt_in.text_norm.weight", prefix, 22));
    assert_string_equal(prefix, "untouched");
    assert_true(kn_weights_prefix_of(w, "txt_in.text_norm.weight", prefix, 23));
    assert_string_equal(prefix, "model.diffusion_model.");
    assert_true(kn_weights_prefix_of(w, "bare", prefix, sizeof prefix));
    assert_string_equal(prefix, "");
    kn_weights_close(w);
}

static void finds_a_nan_anywhere_in_a_tensor(void **state) {
    (void)state;
    enum { N = 1000 };
    for (size_t at = 0; at < N; at += 37) {
        uint8_t codes[N] = { 0 };
        maker m;
        KN_AUTO_BUF file;
        make_begin(&m);
        make_tensor(&m, "good", "F8_E4M3", "1000", codes, N);
        codes[at] = 0xFF;
        make_tensor(&m, "bad", "F8_E4M3", "1000", codes, N);
        make_end(&m, &file);
        kn_weights *w = open_made(&file);
        assert_true(kn_entry_is_finite(kn_weights_find(w, "good")));
        assert_false(kn_entry_is_finite(kn_weights_find(w, "bad")));
        kn_weights_close(w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_comes_out_as_its_table_says),
        cmocka_unit_test(refuses_every_header_that_is_not_exact),
        cmocka_unit_test(refuses_a_thousand_dimensions),
        cmocka_unit_test(refuses_a_header_beyond_the_limit_without_reading_it),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(says_how_much_of_a_large_file_is_there),
        cmocka_unit_test(opening_twenty_gigabytes_touches_the_header_only),
        cmocka_unit_test(fetches_tensors_by_their_prefix_and_not_into_this_process),
        cmocka_unit_test(names_what_the_file_really_is),
        cmocka_unit_test(keeps_names_shapes_and_metadata_exactly),
        cmocka_unit_test(takes_names_of_sixty_four_kilobytes_and_quotes_them_short),
        cmocka_unit_test(quotes_control_characters_of_names),
        cmocka_unit_test(refuses_more_metadata_than_anyone_writes),
        cmocka_unit_test(finds_what_stands_in_front_of_a_leaf),
        cmocka_unit_test(finds_a_nan_anywhere_in_a_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
