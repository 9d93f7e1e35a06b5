/* Settings of the studio: one document, changed as a whole, with a version for those who change it at the same time. */
#ifndef KN_STUDIO_SETTINGS_H
#define KN_STUDIO_SETTINGS_H

#include <jansson.h>

#include "studio/paths.h"
#include "studio/request.h"
#include "studio/store.h"

enum { KN_SETTINGS_UI_BYTES = 64 << 10 };

typedef enum kn_hardware_preset {
    KN_HARDWARE_AUTO,
    KN_HARDWARE_12,
    KN_HARDWARE_16,
    KN_HARDWARE_24,
    KN_HARDWARE_32,
    KN_HARDWARE_PRESETS
} kn_hardware_preset;

typedef struct kn_studio_settings {
    kn_hardware_preset hardware;
    uint64_t memory_override_mib; /* 0: detected */
    kn_preset_id preset;
    char profile[KN_NAME_BYTES]; /* empty: none was chosen */
    char upscaler[KN_NAME_BYTES];
    double upscale_blend;
    bool upscale_prescale;
    uint64_t upscale_tile_size;
    size_t prefix_cache; /* f16, q8_0, off */
    bool eager_load, fast_attention;
    char *output_directory; /* NULL: none */
    char *model_directory;
    uint64_t keep_inputs_days; /* 0: for ever */
    uint64_t engine_port;
    char *ui; /* a JSON object */
    int64_t version;
    uint64_t unusable; /* bit n: what is stored of the n-th setting is of no use at the moment; it stays stored */
    const kn_own_folders *own; /* in which folders may not lie */
} kn_studio_settings;

/* Whether a folder for copies was chosen that cannot be used at the moment: output_directory is then NULL. */
bool kn_studio_settings_lack_output(const kn_studio_settings *s);

/* own: names the folder for models where there are no settings yet; must stay. */
bool kn_studio_settings_load(kn_store *store, const kn_own_folders *own, kn_studio_settings *ret, kn_error *err);
void kn_studio_settings_free(kn_studio_settings *s);
json_t *kn_studio_settings_json(const kn_studio_settings *s);

/* Reads a change over them; what is null or invalid is told by pointer. KN_E_USAGE: nothing is to be changed. */
bool kn_studio_settings_patch(kn_studio_settings *s, const char *text, size_t len, kn_buf *pointer, kn_error *err);

/* KN_E_USAGE: somebody changed them since that version was read. Sets the new version. */
bool kn_studio_settings_save(kn_store *store, kn_studio_settings *s, kn_error *err);

#endif
