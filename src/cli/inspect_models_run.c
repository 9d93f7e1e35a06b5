/* What `kuno inspect-models` does: looks at the headers of a profile's parts, or of single files, and tells what they
 * are and whether they can be used. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/memory.h"
#include "base/text.h"
#include "cli/inspect_folder.h"
#include "cli/inspect_models.h"
#include "cli/report.h"
#include "pipelines/inspect.h"
#include "pipelines/plan.h"
#include "pipelines/qwen_tokenizer.h"
#include "pipelines/settings.h"
#include "pipelines/upscale.h"

enum { TEXT_LIMIT = 16 << 20 };

/* The answer is built as JSON first; people's text is written from it, so that both always say the same. */

static json_t *place_of(const kn_source *source) {
    if (!source->path)
        return json_string("(built in)");
    json_t *text = json_string(source->path);
    return text ? text : json_string(kn_quote_path(source->path).text);
}

static json_t *dtypes_of(const kn_inspection *found) {
    json_t *all = json_object();
    for (int t = 0; t < KN_DTYPE_COUNT; t++)
        if (found->of_dtype[t])
            json_object_set_new(all, kn_dtype_of((kn_dtype)t)->name, json_integer((json_int_t)found->of_dtype[t]));
    return all;
}

static json_t *others_of(const kn_inspection *found) {
    json_t *all = json_array();
    for (size_t i = 0; i < KN_COUNT(found->others) && found->others[i]; i++)
        json_array_append_new(
            all, json_pack("{s:s, s:s}", "architecture", found->others[i]->id, "title", found->others[i]->title));
    return all;
}

static const char *role_name(const kn_kind *kind) {
    static const char *const names[] = {
        "diffusion model", "text encoder", "vision encoder", "VAE", "upscaler", "other"
    };
    return kind ? names[kind->role] : "unknown";
}

/* How much an upscaler enlarges, and what memory a tile takes; every name and shape is checked on the way. */
static json_t *enlarging_of(const char *path, kn_error *err) {
    enum { USUAL_TILE = 256 };
    kn_device *device = NULL;
    kn_upscaler *u = NULL;
    json_t *enlarging = NULL;
    if (kn_device_open_cpu(1, &device, err) && kn_upscaler_open(path, device, KN_FAST, &u, err))
        enlarging = json_pack("{s:i, s:i, s:I}", "scale", (int)kn_upscaler_about(u).scale, "tile", USUAL_TILE,
                              "tile_bytes", (json_int_t)kn_upscaler_tile_bytes(u, USUAL_TILE));
    kn_upscaler_close(u);
    kn_device_close(device);
    return enlarging;
}

/* One file; slot NULL: it need not fit anything. */
static json_t *look_at(const kn_source *source, const kn_slot *slot, bool *all_well) {
    kn_inspection found;
    kn_error err = { 0 };
    json_t *part = json_pack("{s:o}", "path", place_of(source));
    if (slot)
        json_object_set_new(part, "slot", json_string(slot->name));
    if (!kn_inspect_file(source, slot, &found, &err)) {
        json_object_set_new(part, "error", json_string(err.text));
        *all_well = false;
        return part;
    }
    json_object_update_new(
        part,
        json_pack("{s:s, s:s*, s:s*, s:s, s:I, s:I, s:o, s:I, s:I, s:b, s:o}", "role", role_name(found.kind),
                  "architecture", found.kind ? found.kind->id : NULL, "title", found.kind ? found.kind->title : NULL,
                  "prefix", found.prefix, "tensors", (json_int_t)found.tensors, "bytes", (json_int_t)found.tensor_bytes,
                  "dtypes", dtypes_of(&found), "quantised_layers", (json_int_t)found.quantised_layers, "missing_scales",
                  (json_int_t)found.missing_scales, "vision", (int)found.has_vision, "also_holds", others_of(&found)));
    if (slot) {
        bool fits = kn_inspect_fit(slot, source, &err);
        json_object_set_new(part, "fits", json_boolean(fits));
        if (!fits)
            json_object_set_new(part, "error", json_string(err.text));
        *all_well &= fits;
    } else {
        if (found.kind && found.kind->role == KN_ROLE_UPSCALER && found.problem.code == KN_OK) {
            json_t *enlarging = enlarging_of(source->path, &found.problem);
            if (enlarging)
                json_object_set_new(part, "enlarging", enlarging);
        }
        bool usable = found.problem.code == KN_OK;
        if (!usable)
            json_object_set_new(part, "error", json_string(found.problem.text));
        *all_well &= usable;
    }
    return part;
}

static json_t *look_at_tokenizer(const kn_source *source, bool *all_well) {
    kn_tokenizer *t = NULL;
    kn_error err = { 0 };
    bool ok = kn_qwen_tokenizer_read(source, &t, &err);
    json_t *part = json_pack("{s:o, s:s, s:b}", "path", place_of(source), "slot", "tokenizer", "fits", (int)ok);
    if (ok)
        json_object_set_new(part, "tokens", json_integer(kn_tokenizer_size(t)));
    else
        json_object_set_new(part, "error", json_string(err.text));
    kn_tokenizer_close(t);
    *all_well &= ok;
    return part;
}

/* What a picture of the profile's default size takes. A prompt of a dozen words stands for all. */
static json_t *memory_of(const kn_model_wish *wish, kn_error *err) {
    static const kn_wish usual = { .prompt = "a lighthouse on a rock in the evening, its light on the water",
                                   .seed_given = true };
    kn_model *m = NULL;
    kn_settings s;
    kn_draw_report plan;
    json_t *stages = NULL;
    if (!kn_model_open(wish, &m, err))
        return NULL;
    const kn_model_choice *c = &m->choice;
    if (kn_settings_make(&usual, &c->defaults, c->architecture, c->variant, &s, err) &&
        kn_plan_make(m, &s.recipe, NULL, &plan, err)) {
        stages = json_array();
        for (kn_stage i = 0; i < KN_STAGE_COUNT; i++)
            if (plan.stage[i].name)
                json_array_append_new(stages,
                                      json_pack("{s:s, s:I, s:I, s:I}", "name", plan.stage[i].name, "weight_bytes",
                                                (json_int_t)plan.stage[i].weight_bytes, "peak_bytes",
                                                (json_int_t)plan.stage[i].peak_bytes, "needed_bytes",
                                                (json_int_t)kn_plan_bytes(&plan, i, m->residency)));
    }
    kn_model_close(m);
    uint64_t available = kn_memory_available();
    return stages ? json_pack("{s:i, s:i, s:o, s:o}", "width", s.recipe.width, "height", s.recipe.height, "stages",
                              stages, "available_bytes",
                              available == UINT64_MAX ? json_null() : json_integer((json_int_t)available))
                  : NULL;
}

static json_t *look_at_profile(const kn_inspect_models_options *o, const char *name, bool *all_well, kn_error *err) {
    const kn_model_wish wish = { .config = o->config, .profile = name };
    kn_model_choice c;
    if (!kn_model_choose(&wish, &c, err))
        return NULL;
    json_t *parts = json_array();
    const kn_architecture *a = c.architecture;
    json_array_append_new(parts, look_at(&c.files.diffusion_model, a->diffusion_model, all_well));
    json_array_append_new(parts, look_at(&c.files.text_encoder, a->text_encoder, all_well));
    if (c.files.vision.path)
        json_array_append_new(parts, look_at(&c.files.vision, a->vision, all_well));
    json_array_append_new(parts, look_at(&c.files.vae, a->vae, all_well));
    json_array_append_new(parts, look_at_tokenizer(&c.files.tokenizer, all_well));
    bool fits = true;
    size_t i = 0;
    json_t *part = NULL, *memory = NULL;
    json_array_foreach(parts, i, part) fits &= json_is_true(json_object_get(part, "fits"));
    kn_error why = { 0 };
    if (fits && !(memory = memory_of(&wish, &why)))
        *all_well = false;
    json_t *profile = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o*, s:s*}", "profile", c.profile->name, "architecture",
                                a->name, "title", a->title, "variant", c.variant->name, "components", parts, "memory",
                                memory, "error", why.code == KN_OK ? NULL : why.text);
    kn_model_choice_free(&c);
    return profile;
}

static const char *text_at(json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

static json_int_t number_at(json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

static kn_counted_text amount_at(json_t *o, const char *key, const char *one) {
    return kn_counted((uint64_t)number_at(o, key), one);
}

static bool tell_part(json_t *part, kn_buf *out) {
    const char *slot = text_at(part, "slot"), *error = text_at(part, "error"), *prefix = text_at(part, "prefix");
    bool ok =
        kn_buf_printf(out, "%s%s%s\n", slot ? slot : "", slot ? ": " : "", kn_quote_path(text_at(part, "path")).text);
    if (json_object_get(part, "tensors")) {
        const char *title = text_at(part, "title"), *name = NULL;
        json_t *count = NULL, *other = NULL;
        size_t i;
        json_t *dtypes = json_object_get(part, "dtypes");
        ok = ok && kn_buf_printf(out, "    %s, %s, %s\n", title ? title : "nothing known",
                                 amount_at(part, "tensors", "tensor").text,
                                 kn_bytes((uint64_t)number_at(part, "bytes")).text);
        if (json_object_size(dtypes) > 0)
            ok = ok && kn_buf_add_text(out, "    stored as");
        json_object_foreach(dtypes, name, count) ok =
            ok && kn_buf_printf(out, " %s x %lld", name, (long long)json_integer_value(count));
        if (number_at(part, "quantised_layers"))
            ok = ok &&
                 kn_buf_printf(out, "; %s, %s missing", amount_at(part, "quantised_layers", "quantised layer").text,
                               amount_at(part, "missing_scales", "scale").text);
        if (json_object_size(dtypes) > 0)
            ok = ok && kn_buf_add_text(out, "\n");
        if (*prefix)
            ok = ok && kn_buf_printf(out, "    names begin with %s\n", prefix);
        json_array_foreach(json_object_get(part, "also_holds"), i, other) ok =
            ok && kn_buf_printf(out, "    also holds %s\n", text_at(other, "title"));
        if (json_is_true(json_object_get(part, "vision")))
            ok = ok && kn_buf_add_text(out, "    has a vision tower\n");
    }
    json_t *enlarging = json_object_get(part, "enlarging");
    if (enlarging)
        ok = ok && kn_buf_printf(out, "    enlarges by %lld; a tile of %s takes %s\n",
                                 (long long)number_at(enlarging, "scale"), amount_at(enlarging, "tile", "pixel").text,
                                 kn_bytes((uint64_t)number_at(enlarging, "tile_bytes")).text);
    if (json_object_get(part, "tokens"))
        ok = ok && kn_buf_printf(out, "    %s\n", amount_at(part, "tokens", "token").text);
    if (error)
        return ok && kn_buf_printf(out, "    cannot be used: %s\n", error);
    return ok && (!json_object_get(part, "fits") || kn_buf_add_text(out, "    fits\n"));
}

/* "memory for 1024x1024: encode 8.30 GB, diffuse 9.10 GB, decode 1.20 GB; 11.60 GB are free" */
static bool tell_memory(json_t *memory, kn_buf *out) {
    json_t *stage = NULL, *available = json_object_get(memory, "available_bytes");
    size_t i = 0;
    bool ok = kn_buf_printf(out, "memory for %lldx%lld:", (long long)number_at(memory, "width"),
                            (long long)number_at(memory, "height"));
    json_array_foreach(json_object_get(memory, "stages"), i, stage) ok =
        ok && kn_buf_printf(out, "%s %s %s", i ? "," : "", text_at(stage, "name"),
                            kn_bytes((uint64_t)number_at(stage, "needed_bytes")).text);
    if (json_is_integer(available))
        return ok && kn_buf_printf(out, "; %s are free\n", kn_bytes((uint64_t)json_integer_value(available)).text);
    return ok && kn_buf_add_text(out, "; how much is free is unknown\n");
}

static bool tell(json_t *answer, kn_buf *out) {
    json_t *profile = NULL, *part = NULL;
    size_t i, k;
    bool ok = true;
    json_array_foreach(json_object_get(answer, "profiles"), i, profile) {
        ok = ok && kn_buf_printf(out, "%sprofile %s: %s, %s\n", i ? "\n" : "", text_at(profile, "profile"),
                                 text_at(profile, "title"), text_at(profile, "variant"));
        json_array_foreach(json_object_get(profile, "components"), k, part) ok = ok && tell_part(part, out);
        const char *error = text_at(profile, "error");
        json_t *memory = json_object_get(profile, "memory");
        if (error)
            ok = ok && kn_buf_printf(out, "cannot be used: %s\n", error);
        else if (memory)
            ok = ok && tell_memory(memory, out);
    }
    json_array_foreach(json_object_get(answer, "files"), k, part) ok = ok && tell_part(part, out);
    json_array_foreach(json_object_get(answer, "folders"), k, part) ok = ok && kn_inspect_tell_folder(part, out);
    return ok;
}

/* All profiles that there are, or the one that is named. */
static json_t *look_at_profiles(const kn_inspect_models_options *o, bool *all_well, kn_error *err) {
    json_t *profiles = json_array();
    kn_profiles known;
    if (!kn_model_profiles(o->config, &known, err)) {
        json_decref(profiles);
        return NULL;
    }
    size_t count = o->model_profile ? 1 : known.n + 1; /* the built-in one is always there */
    for (size_t i = 0; i < count; i++) {
        const char *name = o->model_profile ? o->model_profile : i < known.n ? known.profiles[i].name : "demo";
        json_t *one = look_at_profile(o, name, all_well, err);
        if (!one) {
            json_decref(profiles);
            profiles = NULL;
            break;
        }
        json_array_append_new(profiles, one);
    }
    kn_profiles_free(&known);
    return profiles;
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Files and folders, each kind in a list of its own if there is any. */
static json_t *look_at_paths(const kn_inspect_models_options *o, bool *all_well) {
    json_t *files = json_array(), *folders = json_array();
    for (size_t i = 0; i < o->files.count; i++) {
        const kn_source source = { .path = o->files.paths[i] };
        if (is_folder(source.path))
            json_array_append_new(folders, kn_inspect_folder(source.path, all_well));
        else
            json_array_append_new(files, look_at(&source, NULL, all_well));
    }
    json_t *answer = json_object();
    if (json_array_size(files))
        json_object_set(answer, "files", files);
    if (json_array_size(folders))
        json_object_set(answer, "folders", folders);
    json_decref(files);
    json_decref(folders);
    return answer;
}

int kn_inspect_models_run(const kn_inspect_models_options *o) {
    bool all_well = true;
    kn_error err = { 0 };
    json_t *answer = NULL, *profiles = NULL;
    if (o->files.count)
        answer = look_at_paths(o, &all_well);
    else if ((profiles = look_at_profiles(o, &all_well, &err)))
        answer = json_pack("{s:o}", "profiles", profiles);
    if (!answer)
        return kn_report(NULL, &err);
    KN_AUTO_BUF out;
    kn_buf_init(&out, TEXT_LIMIT);
    char *json = o->json ? json_dumps(answer, JSON_INDENT(1)) : NULL;
    bool ok = o->json ? json && kn_buf_printf(&out, "%s\n", json) : tell(answer, &out);
    free(json);
    json_decref(answer);
    if (!(ok || kn_fail_nomem(&err, TEXT_LIMIT)) || !kn_print(&out, &err))
        return kn_report(NULL, &err);
    return all_well ? 0 : 2;
}
