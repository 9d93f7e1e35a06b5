/* Any bytes as a request body, in pieces that the first byte chooses: how they are cut changes nothing, and of what is
 * JSON the observer tells the same as a reader of JSON. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json_reader.h"
#include "gateway/observer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_like(kn_json_text key, const char *word) {
    return key.len == strlen(word) && strncasecmp(key.data, word, key.len) == 0;
}

/* The same question to the reader; false if it does not take the text. */
static bool ask_reader(kn_json_text text, kn_observed *ret, char name[KN_MODEL_NAME_MAX + 1]) {
    kn_json_reader j;
    kn_json_text key, value;
    kn_error err = { 0 };
    bool has_input = false, refused = false;
    size_t models = 0;
    kn_json_begin(&j, text, text, &err);
    kn_json_object(&j);
    while (!j.failed && kn_json_key(&j, &key)) {
        bool is_model = is_like(key, "model"), is_input = is_like(key, "prompt");
        char kind = kn_json_peek(&j);
        models += is_model;
        if (is_model && kind == '"' && kn_json_string(&j, &value)) {
            memset(name, 0, KN_MODEL_NAME_MAX + 1);
            if (value.len <= KN_MODEL_NAME_MAX)
                memcpy(name, value.data, value.len);
            continue;
        }
        refused |= is_model && kind != 'n';
        if (!kn_json_skip(&j, &value) || !is_input || kind == 'n')
            continue;
        has_input = kind == '"' ? value.len > 2 : kind != '[';
        for (size_t i = 1; kind == '[' && i + 1 < value.len; i++)
            has_input |= !strchr(" \t\r\n", value.data[i]);
    }
    bool read = !j.failed;
    kn_json_close(&j);
    bool clear = models == 1 && kn_name_is_possible(name);
    *ret = refused      ? KN_OBSERVED_UNCLEAR
           : !has_input ? KN_OBSERVED_NOTHING
           : clear      ? KN_OBSERVED_MODEL
                        : KN_OBSERVED_UNCLEAR;
    return read;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    size_t piece = 1 + data[0] % 16;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    kn_observer whole, cut;
    kn_observer_begin(&whole, KN_INPUT_PROMPT);
    kn_observer_begin(&cut, KN_INPUT_PROMPT);
    kn_observer_feed(&whole, text, len);
    for (size_t i = 0; i < len; i += piece)
        kn_observer_feed(&cut, text + i, KN_MIN(piece, len - i));
    kn_observed told = kn_observer_result(&whole), expected;
    if (told != kn_observer_result(&cut) || kn_observer_naming(&whole) != kn_observer_naming(&cut) ||
        strcmp(whole.name, cut.name) != 0)
        abort();
    char name[KN_MODEL_NAME_MAX + 1] = "";
    if (ask_reader((kn_json_text){ text, len }, &expected, name) &&
        (told != expected || (told == KN_OBSERVED_MODEL && strcmp(name, whole.name) != 0)))
        abort();
    return 0;
}
