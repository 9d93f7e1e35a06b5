/* What becomes of complete downloads: profiles, once, over nobody's. */
#include "studio_test.h"

#include <sys/stat.h>

#include "pipelines/registry.h"
#include "studio/arrivals.h"
#include "studio/profiles.h"

#define HASH     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define REVISION "0123456789abcdef0123456789abcdef01234567"
#define ARTIFACT_IN(folder, id, role)                                                                                  \
    "{\"id\":\"" id "\",\"title\":\"The " id "\",\"role\":\"" role "\",\"licence\":\"l\",\"repository\":\"r/s\","      \
    "\"revision\":\"" REVISION "\",\"path\":\"" id ".gguf\",\"folder\":\"" folder "\",\"bytes\":3,\"sha256\":\"" HASH  \
    "\"}"
#define ARTIFACT(id, role) ARTIFACT_IN(role, id, role)
#define COLLECTION(id, parts)                                                                                          \
    "{\"id\":\"" id "\",\"title\":\"The " id " model\",\"model\":\"qwen-image\",\"variant\":\"rescaled\","             \
    "\"artifacts\":[" parts "]}"

#define PEN     ARTIFACT("pen", "diffusion")
#define BRUSH   ARTIFACT("brush", "diffusion")
#define READER  ARTIFACT("reader", "text_encoder")
#define EYE     ARTIFACT("eye", "vae")
#define LENS    ARTIFACT_IN("upscalers", "lens", "upscaler")
#define LENSES  "{\"id\":\"lenses\",\"title\":\"Lenses\",\"artifacts\":[\"lens\"]}"
#define PENS    COLLECTION("pens", "\"pen\",\"reader\",\"eye\"")
#define BRUSHES COLLECTION("brushes", "\"brush\",\"reader\",\"eye\"")

static const char catalogue[] = "{\"domains\":[\"a.b\"],\"base\":\"https://a.b\","
                                "\"licences\":[{\"id\":\"l\",\"title\":\"L\",\"page\":\"https://l\"}],"
                                "\"artifacts\":[" PEN "," BRUSH "," READER "," EYE "," LENS "],"
                                "\"collections\":[" PENS "," BRUSHES "," LENSES "]}";

static kn_collections *all;
static char models[100]; /* a directory for them */
static char models_toml[100];

static int begin(void **state) {
    if (make_folder(state) != 0 || !kn_collections_read(catalogue, strlen(catalogue), &all, NULL))
        return -1;
    snprintf(models, sizeof models, "%s/models", folder);
    snprintf(models_toml, sizeof models_toml, "%s/own.toml", folder);
    FILE *file = fopen(models_toml, "we");
    return file && fclose(file) == 0 && mkdir(models, 0700) == 0 ? 0 : -1;
}

static int end(void **state) {
    kn_collections_free(all);
    return remove_folder(state);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *place_of(const char *directory, const char *artifact) {
    static char path[300];
    const kn_artifact *a = kn_artifact_named(all, artifact);
    snprintf(path, sizeof path, "%s/%s/%s", directory, a->folder, a->name);
    return path;
}

static void put_file(const char *directory, const char *artifact, const char *content) {
    char path[200];
    mkdir(directory, 0700);
    snprintf(path, sizeof path, "%s/%s", directory, kn_artifact_named(all, artifact)->folder);
    mkdir(path, 0700);
    write_text(place_of(directory, artifact), content);
}

/* A download that has come to its end. */
static kn_id fetched(kn_store *s, const char *directory, const char *artifact) {
    const kn_new_download d = { .artifact = kn_artifact_named(all, artifact), .directory = directory };
    kn_download_work w;
    kn_id id;
    bool wanted = false;
    put_file(directory, artifact, "abc");
    GOOD(kn_downloads_add(s, &d, &id, &err));
    GOOD(kn_downloads_take(s, &w, &err));
    assert_string_equal(w.id, id.text);
    kn_download_work_free(&w);
    GOOD(kn_downloads_end(s, id.text, true, 3, NULL, &wanted, &err));
    assert_true(wanted);
    return id;
}

static const char *text_of(json_t *json) {
    static char text[200];
    char *dumped = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_non_null(dumped);
    snprintf(text, sizeof text, "%s", dumped);
    free(dumped);
    return text;
}

/* The names of the profiles that are new. */
static const char *settled(kn_store *s) {
    json_t *made = json_array();
    GOOD(kn_arrivals_settle(s, all, models_toml, made, &err));
    const char *text = text_of(made);
    json_decref(made);
    return text;
}

static const char *member(kn_store *s, const kn_id *id, const char *name) {
    json_t *row = NULL;
    GOOD(kn_downloads_get(s, all, id->text, &row, &err));
    const char *text = text_of(json_object_get(row, name));
    json_decref(row);
    return text;
}

static kn_model_list list_profiles(kn_store *s) {
    kn_model_list list;
    kn_error problem = { 0 };
    GOOD(kn_profiles_list(s, models_toml, &list, &problem, &err));
    assert_int_equal(problem.code, KN_OK);
    return list;
}

static bool has_profile(kn_store *s, const char *name) {
    kn_model_list list = list_profiles(s);
    bool there = kn_profiles_named(&list, name);
    kn_profiles_list_free(&list);
    return there;
}

static void fetch_pens(kn_store *s) {
    fetched(s, models, "pen");
    fetched(s, models, "reader");
    fetched(s, models, "eye");
}

static void put_profile(kn_store *s, const char *name, const char *path) {
    char body[300];
    kn_model_profile p;
    kn_buf pointer;
    bool is_new;
    snprintf(body, sizeof body, "{\"model\":\"krea2\",\"files\":[{\"role\":\"diffusion\",\"path\":\"%s\"}]}", path);
    kn_buf_init(&pointer, 100);
    GOOD(kn_profile_read(name, body, strlen(body), &p, &pointer, &err));
    GOOD(kn_profile_put(s, &p, &is_new, &err));
    kn_profile_free_model(&p);
    kn_buf_free(&pointer);
}

static void the_last_file_of_a_collection_makes_a_profile(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id first = fetched(s, models, "eye");
    assert_string_equal(settled(s), "[]");
    fetched(s, models, "pen");
    assert_string_equal(settled(s), "[]");
    kn_id last = fetched(s, models, "reader");
    assert_string_equal(settled(s), "[\"pens\"]");
    assert_string_equal(member(s, &first, "profiles"), "[]");
    assert_string_equal(member(s, &last, "profiles"), "[\"pens\"]");

    kn_model_list list = list_profiles(s);
    const kn_model_profile *p = kn_profiles_named(&list, "pens");
    assert_non_null(p);
    assert_string_equal(p->title, "The pens model");
    assert_string_equal(p->architecture->name, "qwen-image");
    assert_string_equal(p->variant->name, "rescaled");
    assert_int_equal(p->file_count, 3);
    static const char *const parts[] = { "pen", "reader", "eye" };
    static const kn_model_role roles[] = { KN_MODEL_DIFFUSION, KN_MODEL_TEXT_ENCODER, KN_MODEL_VAE };
    for (size_t i = 0; i < KN_COUNT(parts); i++) {
        assert_string_equal(p->files[i].path, place_of(models, parts[i]));
        assert_int_equal(p->files[i].role, roles[i]);
    }
    assert_true(kn_model_is_ready(p));
    assert_false(p->fixed);
    kn_profiles_list_free(&list);
    kn_store_close(s);
}

static void what_is_not_whole_or_in_two_directories_makes_none(void **state) {
    (void)state;
    char elsewhere[120];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    kn_store *s = open_store();
    fetched(s, models, "pen");
    put_file(models, "reader", "ab"); /* by hand, not all of it */
    fetched(s, models, "eye");
    fetched(s, elsewhere, "reader");
    assert_string_equal(settled(s), "[]");
    put_file(models, "reader", "abc");
    fetched(s, models, "eye"); /* and now looked at once more */
    assert_string_equal(settled(s), "[\"pens\"]");
    kn_store_close(s);
}

static void one_file_can_complete_two_models(void **state) {
    (void)state;
    kn_store *s = open_store();
    fetched(s, models, "pen");
    fetched(s, models, "brush");
    fetched(s, models, "reader");
    assert_string_equal(settled(s), "[]");
    kn_id last = fetched(s, models, "eye");
    assert_string_equal(settled(s), "[\"pens\",\"brushes\"]");
    assert_string_equal(member(s, &last, "profiles"), "[\"pens\",\"brushes\"]");
    assert_string_equal(member(s, &last, "title"), "\"The eye\"");
    assert_string_equal(member(s, &last, "collections"), "[{\"id\":\"pens\",\"title\":\"The pens model\"},"
                                                         "{\"id\":\"brushes\",\"title\":\"The brushes model\"}]");
    kn_store_close(s);
}

static void a_name_that_is_taken_stays_with_its_owner(void **state) {
    (void)state;
    kn_store *s = open_store();
    put_profile(s, "pens", "/nowhere/mine.gguf");
    write_text(models_toml, "[model_profiles.pens-2]\narchitecture = \"krea2\"\nvariant = \"raw\"\n"
                            "diffusion_model = \"/nowhere/other.gguf\"\n");
    fetch_pens(s);
    assert_string_equal(settled(s), "[\"pens-3\"]");
    kn_model_list list = list_profiles(s);
    assert_string_equal(kn_profiles_named(&list, "pens")->files[0].path, "/nowhere/mine.gguf");
    assert_string_equal(kn_profiles_named(&list, "pens-2")->files[0].path, "/nowhere/other.gguf");
    assert_string_equal(kn_profiles_named(&list, "pens-3")->files[0].path, place_of(models, "pen"));
    kn_profiles_list_free(&list);
    kn_store_close(s);
}

/* Of a model that a later version knew, for example. */
static void a_profile_that_cannot_be_read_is_not_replaced(void **state) {
    (void)state;
    kn_store *s = open_store();
    GOOD(kn_store_do(s, &err, NULL, "INSERT INTO profiles VALUES ('pens', '{\"model\":\"later\",\"files\":[]}')", ""));
    fetch_pens(s);
    assert_string_equal(settled(s), "[\"pens-2\"]");
    kn_query r = kn_query_open(s, NULL, "SELECT value FROM profiles WHERE name = 'pens'", "");
    assert_true(kn_query_next(&r));
    assert_string_equal(kn_query_text(&r, 0), "{\"model\":\"later\",\"files\":[]}");
    assert_true(kn_query_close(&r));
    kn_store_close(s);
}

static void a_profile_of_the_same_files_is_enough(void **state) {
    (void)state;
    char text[1000];
    kn_store *s = open_store();
    int len = snprintf(text, sizeof text,
                       "[model_profiles.mine]\narchitecture = \"qwen-image\"\nvariant = \"rescaled\"\n"
                       "diffusion_model = \"%s/diffusion/pen.gguf\"\ntext_encoder = \"%s/text_encoder/reader.gguf\"\n"
                       "vae = \"%s/vae/eye.gguf\"\n",
                       models, models, models);
    assert_true(len > 0 && len < (int)sizeof text);
    write_text(models_toml, text);
    fetched(s, models, "pen");
    fetched(s, models, "eye");
    kn_id last = fetched(s, models, "reader");
    assert_string_equal(settled(s), "[]");
    assert_string_equal(member(s, &last, "profiles"), "[\"mine\"]");
    assert_false(has_profile(s, "pens"));
    kn_store_close(s);
}

/* What the service of before left: the download has ended, nobody has looked. */
static void what_was_cut_off_is_made_up_for_once(void **state) {
    (void)state;
    kn_store *s = open_store();
    fetch_pens(s);
    kn_store_close(s);
    s = open_store();
    assert_false(has_profile(s, "pens"));
    assert_string_equal(settled(s), "[\"pens\"]");
    assert_string_equal(settled(s), "[]");
    GOOD(kn_profile_drop(s, "pens", &err)); /* by somebody: it does not come back */
    assert_string_equal(settled(s), "[]");
    fetched(s, models, "eye"); /* unless the model is fetched again */
    assert_string_equal(settled(s), "[\"pens\"]");
    kn_store_close(s);
}

/* The profile is there, the download does not know of it. */
static void a_profile_that_was_made_before_a_crash_is_not_made_twice(void **state) {
    (void)state;
    kn_store *s = open_store();
    fetched(s, models, "pen");
    fetched(s, models, "reader");
    kn_id last = fetched(s, models, "eye");
    assert_string_equal(settled(s), "[\"pens\"]");
    GOOD(kn_store_do(s, &err, NULL, "UPDATE downloads SET profiles = NULL", ""));
    assert_string_equal(settled(s), "[]");
    assert_string_equal(member(s, &last, "profiles"), "[\"pens\"]");
    assert_false(has_profile(s, "pens-2"));
    kn_store_close(s);
}

static void downloads_that_end_otherwise_make_none(void **state) {
    (void)state;
    kn_store *s = open_store();
    bool wanted;
    fetched(s, models, "pen");
    fetched(s, models, "reader");
    put_file(models, "eye", "abc");
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        const kn_new_download d = { .artifact = kn_artifact_named(all, "eye"), .directory = models };
        kn_download_work w;
        kn_id id;
        GOOD(kn_downloads_add(s, &d, &id, &err));
        GOOD(kn_store_do(s, &err, NULL, "UPDATE downloads SET profiles = '[]' WHERE state = 'completed'", ""));
        GOOD(kn_downloads_take(s, &w, &err));
        kn_download_work_free(&w);
        if (cancelled)
            GOOD(kn_downloads_change(s, id.text, KN_DOWNLOAD_CANCEL, &err));
        json_t *error = json_object();
        GOOD(kn_downloads_end(s, id.text, cancelled, 3, cancelled ? NULL : error, &wanted, &err));
        json_decref(error);
        assert_int_equal(wanted, !cancelled);
        assert_string_equal(settled(s), "[]");
    }
    kn_store_close(s);
}

/* One whose place no profile can name keeps no other from its profile. */
static void a_download_that_cannot_be_looked_at_is_in_nobodys_way(void **state) {
    (void)state;
    char strange[120], doubled[120];
    snprintf(strange, sizeof strange, "%s/a\tb", folder);
    snprintf(doubled, sizeof doubled, "%s//models", folder); /* as a state directory may be written */
    kn_store *s = open_store();
    static const char *const parts[] = { "pen", "reader", "eye" };
    for (size_t i = 0; i < KN_COUNT(parts); i++)
        fetched(s, strange, parts[i]);
    for (size_t i = 0; i < KN_COUNT(parts); i++)
        fetched(s, doubled, parts[i]);
    json_t *made = json_array();
    REFUSED(kn_arrivals_settle(s, all, models_toml, made, &err), KN_E_FORMAT);
    assert_string_equal(text_of(made), "[\"pens\"]");
    json_decref(made);
    kn_model_list list = list_profiles(s);
    char *real = realpath(place_of(models, "pen"), NULL);
    assert_non_null(real);
    assert_string_equal(kn_profiles_named(&list, "pens")->files[0].path, real);
    free(real);
    kn_profiles_list_free(&list);
    kn_store_close(s);
}

static void a_download_of_another_catalogue_is_told_by_what_is_known(void **state) {
    (void)state;
    kn_store *s = open_store();
    static char id[] = "gone", none[] = "";
    const kn_artifact gone = { .id = id, .folder = none, .name = none };
    const kn_new_download d = { .artifact = &gone, .directory = models };
    kn_download_work w;
    kn_id row;
    bool wanted;
    GOOD(kn_downloads_add(s, &d, &row, &err));
    GOOD(kn_downloads_take(s, &w, &err));
    kn_download_work_free(&w);
    GOOD(kn_downloads_end(s, row.text, true, 3, NULL, &wanted, &err));
    assert_string_equal(settled(s), "[]");
    assert_string_equal(member(s, &row, "title"), "\"gone\"");
    assert_string_equal(member(s, &row, "collections"), "[]");
    assert_string_equal(member(s, &row, "profiles"), "[]");
    kn_store_close(s);
}

/* The third version had downloads, and no profiles of theirs. */
static void what_an_earlier_version_has_fetched_gets_its_profile(void **state) {
    (void)state;
    kn_store *s = open_store();
    fetch_pens(s);
    GOOD(kn_store_do(s, &err, NULL, "ALTER TABLE downloads DROP COLUMN profiles", ""));
    GOOD(kn_store_do(s, &err, NULL, "DROP TABLE sessions", ""));
    GOOD(kn_store_do(s, &err, NULL, "PRAGMA user_version = 3", ""));
    kn_store_close(s);
    s = open_store();
    assert_false(s->was_broken);
    assert_string_equal(settled(s), "[\"pens\"]");
    kn_store_close(s);
}

static void an_upscaler_makes_no_profile(void **state) {
    (void)state;
    kn_store *s = open_store();
    kn_id lens = fetched(s, models, "lens");
    assert_string_equal(settled(s), "[]");
    assert_string_equal(member(s, &lens, "profiles"), "[]");
    assert_string_equal(member(s, &lens, "collections"), "[{\"id\":\"lenses\",\"title\":\"Lenses\"}]");
    assert_false(has_profile(s, "lenses"));
    kn_store_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_last_file_of_a_collection_makes_a_profile),
        TEST(what_is_not_whole_or_in_two_directories_makes_none),
        TEST(one_file_can_complete_two_models),
        TEST(a_name_that_is_taken_stays_with_its_owner),
        TEST(a_profile_that_cannot_be_read_is_not_replaced),
        TEST(a_profile_of_the_same_files_is_enough),
        TEST(what_was_cut_off_is_made_up_for_once),
        TEST(a_profile_that_was_made_before_a_crash_is_not_made_twice),
        TEST(downloads_that_end_otherwise_make_none),
        TEST(a_download_that_cannot_be_looked_at_is_in_nobodys_way),
        TEST(a_download_of_another_catalogue_is_told_by_what_is_known),
        TEST(what_an_earlier_version_has_fetched_gets_its_profile),
        TEST(an_upscaler_makes_no_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
