/* The catalogue of what can be downloaded, and which addresses may be asked for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "catalog/origin.h"
#include "pipelines/registry.h"
#include "studio/profiles.h"

static kn_collections *load(void) {
    kn_collections *c = NULL;
    kn_error err = { 0 };
    if (!kn_collections_load(&c, &err))
        fail_msg("%s", err.text);
    return c;
}

static void has_the_collections_with_their_sizes(void **state) {
    (void)state;
    kn_collections *c = load();
    const kn_collection *newer = kn_collection_named(c, "qwen-image-2.1-int8");
    const kn_collection *older = kn_collection_named(c, "qwen-image-2512-fp8");
    assert_non_null(newer);
    assert_non_null(older);
    assert_int_equal(newer->count, 3);
    assert_int_equal(older->count, 3);
    assert_int_equal(kn_collection_bytes(newer) / 10000000, 1728); /* 17.28 GB */
    assert_int_equal((kn_collection_bytes(older) + 50000000) / 100000000, 301);
    assert_string_equal(newer->artifacts[0]->licence->title, "Qwen Research License");
    assert_string_equal(newer->artifacts[0]->name, "qwen_image_2.1_int8_convrot.safetensors");
    assert_int_equal(kn_collection_bytes(kn_collection_named(c, "krea-2-turbo-fp8")), 18638004998);
    assert_int_equal(kn_collection_bytes(kn_collection_named(c, "z-image-turbo-bf16")), 20690152836);
    assert_int_equal(kn_collection_bytes(kn_collection_named(c, "upscaler-real-esrgan")), 66857836);
    assert_null(kn_collection_named(c, "qwen-image"));
    assert_null(kn_artifact_named(c, ""));
    kn_collections_free(c);
}

static unsigned roles_of(const kn_collection *c) {
    unsigned seen = 0;
    for (size_t i = 0; i < c->count; i++) {
        int role = 0;
        while (role < KN_MODEL_ROLES && strcmp(kn_model_roles[role], c->artifacts[i]->role) != 0)
            role++;
        assert_true(role < KN_MODEL_ROLES && !(seen >> role & 1));
        seen |= 1u << role;
    }
    return seen;
}

/* So that a profile can be made of them. */
static void every_collection_has_the_files_of_a_model(void **state) {
    (void)state;
    static const unsigned needed = 1u << KN_MODEL_DIFFUSION | 1u << KN_MODEL_TEXT_ENCODER | 1u << KN_MODEL_VAE;
    kn_collections *c = load();
    for (size_t i = 0; i < c->collection_count; i++) {
        if (!c->collections[i].model)
            continue;
        assert_int_equal(roles_of(&c->collections[i]) & needed, needed);
        assert_ptr_equal(kn_variant_find(c->collections[i].model, c->collections[i].variant->name),
                         c->collections[i].variant);
    }
    assert_string_equal(kn_collection_named(c, "qwen-image-2.1-int8")->model->name, "qwen-image-2.1");
    assert_string_equal(kn_collection_named(c, "qwen-image-2512-fp8")->model->name, "qwen-image");
    assert_true(kn_collection_has(&c->collections[0], c->collections[0].artifacts[2]));
    assert_false(kn_collection_has(&c->collections[0], c->collections[1].artifacts[2]));
    kn_collections_free(c);
}

/* So that the studio finds them. */
static void upscalers_come_into_their_folder_and_are_of_no_model(void **state) {
    (void)state;
    kn_collections *c = load();
    const kn_collection *of = kn_collection_named(c, "upscaler-real-esrgan");
    assert_null(of->model);
    assert_null(of->variant);
    assert_int_equal(of->count, 1);
    assert_string_equal(of->artifacts[0]->role, "upscaler");
    assert_string_equal(of->artifacts[0]->folder, "upscalers");
    kn_collections_free(c);
}

/* Where two files have one name, the second could never be fetched into the same folder. */
static void every_file_has_a_place_of_its_own_and_its_hash(void **state) {
    (void)state;
    kn_collections *c = load();
    for (size_t i = 0; i < c->artifact_count; i++) {
        const kn_artifact *a = &c->artifacts[i];
        assert_int_equal(strlen(a->sha256), KN_SHA256_HEX - 1);
        for (size_t k = 0; k < i; k++) {
            const kn_artifact *b = &c->artifacts[k];
            assert_true(strcmp(a->name, b->name) || strcmp(a->folder, b->folder));
            assert_string_not_equal(a->sha256, b->sha256);
        }
    }
    kn_collections_free(c);
}

static void addresses_come_from_the_catalogue_alone(void **state) {
    (void)state;
    kn_collections *c = load();
    const kn_artifact *a = kn_artifact_named(c, "qwen-image-2.1-vae");
    static const struct {
        const char *mirror, *address;
    } cases[] = {
        { NULL, "https://huggingface.co/Comfy-Org/Qwen-Image-2.1/resolve/ace0edeb3791a594ddfa36ed5f41a178a394e921/vae/"
                "qwen_image_2.1_vae_bf16.safetensors" },
        { "http://127.0.0.1:8000/",
          "http://127.0.0.1:8000/Comfy-Org/Qwen-Image-2.1/resolve/ace0edeb3791a594ddfa36ed5f41a178a394e921/vae/"
          "qwen_image_2.1_vae_bf16.safetensors" },
    };
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        kn_error err = { 0 };
        kn_origin o;
        char *address = NULL;
        assert_true(kn_origin_open(c, cases[i].mirror, &o, &err));
        assert_true(kn_origin_address(&o, a, &address, &err));
        assert_string_equal(address, cases[i].address);
        free(address);
        kn_origin_close(&o);
    }
    kn_collections_free(c);
}

static void redirects_stay_on_https_and_among_known_hosts(void **state) {
    (void)state;
    kn_collections *c = load();
    static const struct {
        const char *mirror, *to;
        bool allowed;
    } cases[] = {
        { NULL, "https://huggingface.co/x", true },
        { NULL, "https://cdn-lfs.hf.co/x?signature=1", true },
        { NULL, "https://CDN.HF.CO/x", true },
        { NULL, "http://huggingface.co/x", false },
        { NULL, "https://nothf.co/x", false },
        { NULL, "https://hf.co.example.org/x", false },
        { NULL, "https://hf.co@example.org/x", false },
        { NULL, "https://user@hf.co/x", false },
        { NULL, "https://127.0.0.1/x", false },
        { NULL, "http://localhost/x", false },
        { NULL, "file:///etc/passwd", false },
        { NULL, "ftp://hf.co/x", false },
        { NULL, "", false },
        { "https://mirror.example.org/hf", "https://mirror.example.org/y", true },
        { "https://mirror.example.org/hf", "https://other.example.org/y", false },
        { "https://mirror.example.org/hf", "https://huggingface.co/y", true },
        { "https://mirror.example.org/hf", "http://127.0.0.1/y", false },
        { "http://[::1]:80", "http://127.0.0.1:9/y", true },
        { "http://localhost", "http://example.org/y", false },
        { "http://localhost", "https://hf.co/y", true },
    };
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        kn_error err = { 0 };
        kn_origin o;
        assert_true(kn_origin_open(c, cases[i].mirror, &o, &err));
        if (kn_origin_allows(&o, cases[i].to, &err) != cases[i].allowed)
            fail_msg("%s to %s", cases[i].mirror ? cases[i].mirror : "the usual", cases[i].to);
        assert_int_equal(err.code != KN_OK, !cases[i].allowed);
        kn_origin_close(&o);
    }
    kn_collections_free(c);
}

static void mirrors_are_https_or_on_this_machine(void **state) {
    (void)state;
    kn_collections *c = load();
    static const struct {
        const char *mirror;
        bool allowed;
    } cases[] = {
        { "https://mirror.example.org", true },
        { "https://mirror.example.org/a/b/", true },
        { "http://localhost:8080", true },
        { "http://127.0.0.53", true },
        { "http://mirror.example.org", false },
        { "http://127.0.0.1.example.org", false },
        { "http://127.evil.example", false },
        { "https://mirror.example.org/?a=b", false },
        { "https://mirror.example.org/#a", false },
        { "https://a:b@mirror.example.org", false },
        { "file:///tmp", false },
        { "mirror.example.org", false },
        { "https://", false },
        { "", false },
    };
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        kn_error err = { 0 };
        kn_origin o = { 0 };
        if (kn_origin_open(c, cases[i].mirror, &o, &err) != cases[i].allowed)
            fail_msg("%s", cases[i].mirror);
        kn_origin_close(&o);
    }
    kn_collections_free(c);
}

#define HASH     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define REVISION "0123456789abcdef0123456789abcdef01234567"
#define FRONT                                                                                                          \
    "{\"domains\":[\"a.b\"],\"base\":\"https://a.b\",\"licences\":[{\"id\":\"l\",\"title\":\"L\",\"page\":\"https://"  \
    "l\"}],"
#define ARTIFACT(path, folder, bytes)                                                                                  \
    "{\"id\":\"x\",\"title\":\"X\",\"role\":\"vae\",\"licence\":\"l\",\"repository\":\"r/s\",\"revision\":\"" REVISION \
    "\",\"path\":\"" path "\",\"folder\":\"" folder "\",\"bytes\":" bytes ",\"sha256\":\"" HASH "\"}"
#define COLLECTION(id, model, variant, part)                                                                           \
    ",\"collections\":[{\"id\":\"" id "\",\"title\":\"C\",\"variant\":\"" variant "\",\"model\":\"" model              \
    "\",\"artifacts\":[\"" part "\"]}]}"
#define BACK    COLLECTION("c", "krea2", "raw", "x")
#define NAME_60 "a23456789-a23456789-a23456789-a23456789-a23456789-a23456789-"
#define SOLE    FRONT "\"artifacts\":[" ARTIFACT("a/b.gguf", "vae", "7") "]"

#define UPSCALERS(role, folder)                                                                                        \
    FRONT "\"artifacts\":[{\"id\":\"x\",\"title\":\"X\",\"role\":\"" role                                              \
          "\",\"licence\":\"l\",\"repository\":\"r/s\",\"revision\":\"" REVISION                                       \
          "\",\"path\":\"b.safetensors\",\"folder\":\"" folder "\",\"bytes\":7,\"sha256\":\"" HASH                     \
          "\"}],\"collections\":[{\"id\":\"u\",\"title\":\"U\",\"artifacts\":[\"x\"]}]}"

static void refuses_a_catalogue_that_is_not_as_it_should_be(void **state) {
    (void)state;
    static const struct {
        const char *text, *says; /* NULL: it is good */
    } cases[] = {
        { FRONT "\"artifacts\":[" ARTIFACT("a/b.gguf", "vae", "7") "]" BACK, NULL },
        { FRONT "\"artifacts\":[" ARTIFACT("../b.gguf", "vae", "7") "]" BACK, "artifacts[0].path" },
        { FRONT "\"artifacts\":[" ARTIFACT("a//b.gguf", "vae", "7") "]" BACK, "no plain path" },
        { FRONT "\"artifacts\":[" ARTIFACT("a/.b", "vae", "7") "]" BACK, "no plain path" },
        { FRONT "\"artifacts\":[" ARTIFACT("/b.gguf", "vae", "7") "]" BACK, "no plain path" },
        { FRONT "\"artifacts\":[" ARTIFACT("a/", "vae", "7") "]" BACK, "parts" },
        { FRONT "\"artifacts\":[" ARTIFACT("a?b", "vae", "7") "]" BACK, "characters" },
        { FRONT "\"artifacts\":[" ARTIFACT("a/b.gguf", "../vae", "7") "]" BACK, "characters" },
        { FRONT "\"artifacts\":[" ARTIFACT("a/b.gguf", "", "7") "]" BACK, "folder" },
        { FRONT "\"artifacts\":[" ARTIFACT("a/b.gguf", "vae", "0") "]" BACK, "bytes" },
        { FRONT "\"artifacts\":[" ARTIFACT("a/b.gguf", "vae", "99999999999999") "]" BACK, "bytes" },
        { FRONT "\"artifacts\":[" ARTIFACT("a", "vae", "7") "," ARTIFACT("a", "vae", "7") "]" BACK, "twice" },
        { FRONT "\"artifacts\":[]" BACK, "no artifact 'x'" },
        { FRONT "\"artifacts\":[]" COLLECTION("c", "krea2", "raw", "x y"), "characters" },
        { SOLE COLLECTION("c", "krea3", "raw", "x"), "there is no model 'krea3'" },
        { SOLE COLLECTION("c", "krea2", "cooked", "x"), "krea2 has no variant 'cooked'" },
        { SOLE COLLECTION("-c", "krea2", "raw", "x"), "collections[0].id" },
        { SOLE COLLECTION(NAME_60, "krea2", "raw", "x"), NULL },
        { SOLE COLLECTION(NAME_60 "c", "krea2", "raw", "x"), "collections[0].id" },
        { SOLE ",\"collections\":[{\"id\":\"c\",\"title\":\"C\",\"variant\":\"raw\",\"artifacts\":[\"x\"]}]}",
          "missing" },
        { SOLE ",\"collections\":[{\"id\":\"c\",\"title\":\"C\",\"model\":\"krea2\",\"artifacts\":[\"x\"]}]}",
          "missing" },
        { FRONT "\"artifacts\":[]}", "missing" },
        { UPSCALERS("upscaler", "upscalers"), NULL },
        { UPSCALERS("vae", "upscalers"), "missing" },
        { UPSCALERS("upscaler", "vae"), "missing" },
        { "{\"base\":\"http://a.b\"}", "no plain https address" },
        { "{\"url\":\"https://a.b\"}", "unknown key" },
        { "[]", "object" },
        { "", "object" },
    };
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        kn_error err = { 0 };
        kn_collections *c = NULL;
        bool good = kn_collections_read(cases[i].text, strlen(cases[i].text), &c, &err);
        if (good != !cases[i].says || (!good && !strstr(err.text, cases[i].says)))
            fail_msg("%zu: %s", i, err.text);
        kn_collections_free(c);
    }
}

static void tells_where_people_find_a_file(void **state) {
    (void)state;
    kn_collections *c = load();
    char *page = NULL;
    kn_error err = { 0 };
    assert_true(kn_artifact_page(c, kn_artifact_named(c, "qwen-image-vae"), &page, &err));
    assert_string_equal(page, "https://huggingface.co/Comfy-Org/Qwen-Image_ComfyUI/tree/"
                              "46839d338df81ce625d5fae27d7e370314c0fbc9");
    free(page);
    kn_collections_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_collections_with_their_sizes),
        cmocka_unit_test(every_collection_has_the_files_of_a_model),
        cmocka_unit_test(upscalers_come_into_their_folder_and_are_of_no_model),
        cmocka_unit_test(every_file_has_a_place_of_its_own_and_its_hash),
        cmocka_unit_test(addresses_come_from_the_catalogue_alone),
        cmocka_unit_test(redirects_stay_on_https_and_among_known_hosts),
        cmocka_unit_test(mirrors_are_https_or_on_this_machine),
        cmocka_unit_test(refuses_a_catalogue_that_is_not_as_it_should_be),
        cmocka_unit_test(tells_where_people_find_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
