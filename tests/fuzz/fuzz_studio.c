/* What clients send to the studio and what lies in its gallery: the first byte chooses the reader. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/router.h"
#include "studio/events.h"
#include "studio/paths.h"
#include "studio/profiles.h"
#include "studio/record.h"
#include "studio/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_request(const char *text, size_t len, bool upscale, kn_buf *pointer) {
    kn_studio_request r;
    if (!kn_request_read(text, len, upscale, &r, pointer, NULL))
        return;
    assert(upscale || r.prompt[0]);
    assert(r.batch >= 1 && r.batch <= KN_REQUEST_BATCH && r.input_count <= KN_REQUEST_INPUTS);
    kn_request_free(&r);
}

/* What was read is written so that it is read again, unless its recipe has numbers that are too large to be written. */
static void read_record(const char *text, size_t len) {
    kn_record r, again;
    if (!kn_record_read(text, len, &r, NULL))
        return;
    json_t *j = kn_record_write(&r);
    char *written = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (written) {
        bool is_read = kn_record_read(written, strlen(written), &again, NULL);
        assert(is_read && !strcmp(r.id.text, again.id.text) && r.seed == again.seed && r.created_s == again.created_s &&
               r.tag_count == again.tag_count);
        kn_record_free(&again);
    }
    free(written);
    kn_record_free(&r);
}

static void read_patch(const char *text, size_t len, kn_buf *pointer) {
    kn_record_patch p;
    if (kn_record_patch_read(text, len, &p, pointer, NULL))
        kn_record_patch_free(&p);
}

static void read_settings(const char *text, size_t len, kn_buf *pointer) {
    kn_studio_settings s = { .model_directory = strdup("/"), .ui = strdup("{}"), .upscaler = "lanczos" };
    kn_studio_settings_patch(&s, text, len, pointer, NULL);
    json_decref(kn_studio_settings_json(&s));
    kn_studio_settings_free(&s);
}

static void read_profile(const char *text, size_t len, kn_buf *pointer) {
    kn_model_profile p;
    if (!kn_profile_read("name", text, len, &p, pointer, NULL))
        return;
    json_decref(kn_model_json(&p, true));
    kn_profile_free_model(&p);
}

static void read_words(const char *text, size_t len) {
    char *copy = strndup(text, len);
    unsigned topics;
    uint64_t seed;
    if (!copy)
        return;
    kn_slug slug = kn_slug_of(copy);
    assert(strlen(slug.text) <= KN_SLUG_BYTES && !strpbrk(slug.text, "/\\\n \"'"));
    assert(kn_utf8_check(slug.text, strlen(slug.text)) == strlen(slug.text));
    kn_path_check(copy, NULL);
    kn_path_check_name(copy, NULL);
    kn_topics_parse(text, len, &topics);
    kn_seed_parse(text, len, &seed);
    kn_event_id_is_valid(text, len);
    free(copy);
}

/* The target of a request: its parts and its query. */
static void read_target(const char *text, size_t len) {
    const kn_head head = { .target = { text, len } };
    kn_parameter_list list;
    char part[32];
    if (kn_route_query(&head, &list))
        for (size_t i = 0; i < list.count; i++)
            assert(strlen(list.at[i].name) + strlen(list.at[i].value) < sizeof list.text);
    for (unsigned i = 0; i < 4; i++)
        if (kn_route_part(&head, i, part, sizeof part))
            assert(part[0] && !strchr(part, '/'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, 600);
    if (!size)
        return 0;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    switch (data[0]) {
    case 'j': read_request(text, len, false, &pointer); break;
    case 'u': read_request(text, len, true, &pointer); break;
    case 'r': read_record(text, len); break;
    case 'p': read_patch(text, len, &pointer); break;
    case 's': read_settings(text, len, &pointer); break;
    case 't': read_target(text, len); break;
    case 'm': read_profile(text, len, &pointer); break;
    default: read_words(text, len); break;
    }
    return 0;
}
