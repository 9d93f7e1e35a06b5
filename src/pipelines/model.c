#include "pipelines/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "pipelines/demo.h"

/* The registry in the form that profiles are checked with. Filled in once per reading; small. */
struct rules {
    kn_profile_rules rules;
    kn_profile_architecture architectures[16];
    const char *variants[16][8];
};

static void make_rules(struct rules *r) {
    *r = (struct rules){ .rules = { .n = kn_architecture_count, .builtin = &kn_demo_profile } };
    for (size_t i = 0; i < kn_architecture_count; i++) {
        const kn_architecture *a = &kn_architectures[i];
        for (size_t v = 0; v < a->variant_count; v++)
            r->variants[i][v] = a->variants[v].name;
        r->architectures[i] = (kn_profile_architecture){ a->name, r->variants[i], a->checkpoint_in_one };
    }
    r->rules.architectures = r->architectures;
}

/* One slot: the caller's file, else the profile's, else its all-in-one file, else (for the built-in profile) the
 * program's own. */
static bool choose_source(const char *key, const char *option, const char *asked, const char *written,
                          const char *checkpoint, const char *profile, kn_source *source, kn_error *err) {
    const char *path = asked ? asked : written ? written : checkpoint;
    if (path)
        *source = (kn_source){ .path = path };
    else if (!source->data)
        return kn_fail(err, KN_E_NOT_FOUND, "profile '%s' has no %s; add it to the profile or give %s",
                       kn_quote_z(profile).text, key, option);
    return true;
}

static bool choose_files(const kn_model_wish *w, kn_model_choice *c, kn_error *err) {
    const kn_profile *p = c->profile;
    if (p == &kn_demo_profile)
        c->files = kn_demo_files();
    c->files.vision.path = w->vision ? w->vision : p->vision; /* may be left out */
    const char *tokenizer = w->tokenizer ? w->tokenizer : p->tokenizer;
    if (tokenizer) /* else what the demo has, or what is built in */
        c->files.tokenizer = (kn_source){ .path = tokenizer };
    if (c->files.vision.path && !c->architecture->vision)
        return kn_fail(err, KN_E_UNSUPPORTED, "%s has no vision encoder; leave vision out", c->architecture->title);
    return choose_source("diffusion_model", "--diffusion-model", w->diffusion_model, p->diffusion_model, p->checkpoint,
                         p->name, &c->files.diffusion_model, err) &&
           choose_source("text_encoder", "--text-encoder", w->text_encoder, p->text_encoder, p->checkpoint, p->name,
                         &c->files.text_encoder, err) &&
           choose_source("vae", "--vae", w->vae, p->vae, p->checkpoint, p->name, &c->files.vae, err);
}

bool kn_model_profiles(const char *config, kn_profiles *ret, kn_error *err) {
    struct rules rules;
    make_rules(&rules);
    return kn_profiles_read(config, &rules.rules, ret, err);
}

bool kn_model_choose(const kn_model_wish *wish, kn_model_choice *ret, kn_error *err) {
    kn_model_choice c = { 0 };
    if (!kn_model_profiles(wish->config, &c.profiles, err))
        return false;
    if (kn_profiles_select(&c.profiles, wish->profile, &c.profile, err)) {
        /* The reader has checked both names against the registry. */
        c.architecture = kn_architecture_find(c.profile->architecture);
        c.variant =
            c.profile->variant ? kn_variant_find(c.architecture, c.profile->variant) : &c.architecture->variants[0];
        c.defaults = kn_profiles_defaults(&c.profiles, c.profile);
        if (choose_files(wish, &c, err)) {
            *ret = c;
            return true;
        }
    }
    kn_profiles_free(&c.profiles);
    return false;
}

void kn_model_choice_free(kn_model_choice *c) {
    kn_profiles_free(&c->profiles);
}

/* One of a few words, by its place in the list. */
static bool choose_word(const char *what, const char *asked, const kn_default *written, const char *const *words,
                        int *ret, kn_error *err) {
    const char *word = asked ? asked : written->given ? written->text : words[0];
    KN_AUTO_BUF known;
    kn_buf_init(&known, 200);
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], word) == 0) {
            *ret = i;
            return true;
        }
        if (!kn_buf_printf(&known, "%s%s", i ? ", " : "", words[i]))
            return kn_fail_nomem(err, 200);
    }
    return kn_fail(err, KN_E_USAGE, "unknown %s '%s'; known: %s", what, kn_quote_z(word).text, known.data);
}

static bool open_device(const kn_model_wish *wish, kn_model *m, kn_error *err) {
    const kn_default *of = m->choice.defaults.of;
    static const char *const devices[] = { "cpu", NULL };
    static const char *const precisions[] = { "fast", "exact", NULL };
    static const char *const residencies[] = { "staged", "cached", NULL };
    int device = 0, precision = 0, residency = 0;
    if (!choose_word("device", wish->device, &of[KN_SETTING_DEVICE], devices, &device, err) ||
        !choose_word("precision", wish->precision, &of[KN_SETTING_PRECISION], precisions, &precision, err) ||
        !choose_word("residency", wish->residency, &of[KN_SETTING_RESIDENCY], residencies, &residency, err))
        return false;
    m->precision = precision ? KN_EXACT : KN_FAST;
    m->residency = residency ? KN_CACHED : KN_STAGED;
    const kn_default *written = &of[KN_SETTING_THREADS];
    double threads = wish->threads.given ? wish->threads.value : written->given ? (double)written->integer : 0;
    return kn_device_open_cpu((unsigned)threads, &m->device, err);
}

bool kn_model_open(const kn_model_wish *wish, kn_model **ret, kn_error *err) {
    kn_model *m = calloc(1, sizeof *m);
    if (!m)
        return kn_fail_nomem(err, sizeof *m);
    if (kn_model_choose(wish, &m->choice, err) && open_device(wish, m, err) &&
        kn_pipeline_open(m->choice.architecture, &m->choice.files, m->device, m->precision, m->residency, &m->pipeline,
                         err)) {
        *ret = m;
        return true;
    }
    kn_model_close(m);
    return false;
}

void kn_model_close(kn_model *m) {
    if (!m)
        return;
    kn_pipeline_close(m->pipeline);
    if (m->device)
        kn_device_close(m->device);
    kn_model_choice_free(&m->choice);
    free(m);
}
